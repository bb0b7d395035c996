"""The matching recipe: it resumes, selects nothing by what it measures, and leaves a preset."""

import csv
import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.pictures import CAPTIONS, IMAGES, MeanColors
from zoo.readers.images import image_bytes
from zoo.training import matching, recipes
from zoo.training.matching import MatchingRecipe

pytestmark = pytest.mark.full

TOWER = {"num_layers": 0, "size": 4, "num_heads": 2, "normalize": "post"}
RECIPE = MatchingRecipe(
    "clip",
    overrides={"embedding_size": 4, "text": {**TOWER, "scaled": False}, "image": TOWER},
    views=2,
    vocabulary_size=280,
    epochs=2,
    batch_size=4,
    warmup_steps=1,
    average_momentum=0.5,
    dtype="float32",
)


@pytest.fixture(scope="module")
def images():
    examples = {
        "name": [f"{number}.png" for number in range(len(IMAGES))],
        "image": [image_bytes(image) for image in IMAGES],
        "captions": [[caption, f"{caption}, too."] for caption in CAPTIONS],
    }
    return tf.data.Dataset.from_tensor_slices(examples)


@pytest.fixture(scope="module")
def preset(images, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "Backbone", MeanColors)
        patch.setattr(MatchingRecipe, "load", lambda self, split, data_dir: images)
        patch.setitem(recipes.RECIPES, "toy", RECIPE)
        yield recipes.run("toy", None, run_dir)


def test_a_run_leaves_a_preset_with_what_it_measures(preset, images):
    card = json.loads((preset / "card.json").read_text())
    assert [entry["metric"] for entry in card["quality"]] == [
        f"R@{k}, {way}, %" for way in ("image to text", "text to image") for k in (1, 5, 10)
    ]
    assert "Hodosh" in card["data"]["citation"]
    recipe = recipes.of_card(card)
    assert recipe.epochs == 2
    loaded = zoo.load(preset)
    again = recipe.quality(recipe.evaluate(loaded, images), "validation", loaded)
    assert card["quality"] == again


def test_the_last_epoch_is_kept(preset):
    with open(preset.parent / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["epochs"]) for row in rows] == [1, 2]
    assert all(0 <= float(row["val_recall"]) <= 100 for row in rows)


def test_every_pass_shows_one_view(preset):
    passes = RECIPE._epochs(preset.parent / "features" / "train")
    names = [[each["name"] for each in passes.as_numpy_iterator()] for _ in range(2)]
    assert names[0] == names[1] == [f"{number}.png".encode() for number in range(6)]
    firsts = {float(next(iter(passes))["annotations"][0, 0]) for _ in range(8)}
    assert len(firsts) == 2


def test_a_tail_learns_along(images, tmp_path, monkeypatch):
    below = {"name": "MobileNet", "layers": ["conv_pw_12_relu"], "image_size": 32, "weights": None}
    tail = {"network": "MobileNet", "image_size": 32, "after": "conv_pw_12_relu"}
    overrides = {**RECIPE.overrides, "tail": {**tail, "layers": ["conv_pw_13_relu"]}}
    recipe = dataclasses.replace(RECIPE, overrides=overrides, backbone=below, weight_decay=0.0)
    monkeypatch.setattr(matching, "Backbone", zoo.Backbone)
    before, start = [], matching.start_from_correlations

    def remember(model, views):
        start(model, views)
        before.extend(weight.numpy() for weight in model.core.image_tower.tail.weights)

    monkeypatch.setattr(matching, "start_from_correlations", remember)
    model = recipe.train(images, images, tmp_path)
    tail = model.core.image_tower.tail
    for weight, old in zip(tail.weights, before, strict=True):
        assert np.any(weight.numpy() != old) == ("moving" not in weight.name)
    kernels = [each.trainable_variables[0] for each in (tail, model.core.image_tower.inputs)]
    optimizer = RECIPE.make_optimizer(5, tail.trainable_variables)
    values = [kernel.numpy() for kernel in kernels]
    for _ in range(3):
        optimizer.apply([np.zeros_like(value) for value in values], kernels)
    decayed = [np.any(kernel.numpy() != old) for kernel, old in zip(kernels, values, strict=True)]
    assert decayed == [False, True]
