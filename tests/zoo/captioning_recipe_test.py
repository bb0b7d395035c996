"""The captioning recipe: what it learns, keeps, chooses and measures."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import zoo
from tests.zoo.pictures import CAPTIONS, IMAGES, MeanColors
from zoo.readers.images import image_bytes
from zoo.training import captioning, recipes
from zoo.training.captioning import CaptioningRecipe

pytestmark = pytest.mark.full  # only with --full: recipes train in three stages

RECIPE = CaptioningRecipe(
    "show_attend_tell",
    overrides={"size": 16, "units": 16, "dropout": 0.0},
    views=2,
    vocabulary_size=280,
    epochs=2,
    batch_size=4,
    learning_rate=0.01,
    warmup_steps=1,
    average_momentum=0.5,
    dtype="float32",
    self_critical_epochs=1,
    rewards=[{"cider": 1.0}, {"cider": 1.0, "unigram_f": 2.0}],
    length_penalties=(0.0, 1.0),
)


@pytest.fixture(scope="module", autouse=True)
def no_java():
    """Without METEOR, which takes seconds to start and is tested with the metrics."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        yield


@pytest.fixture(scope="module")
def images():
    names = [f"{number}.png" for number in range(len(IMAGES))]
    encoded = [image_bytes(image) for image in IMAGES]
    captions = [[caption, caption] for caption in CAPTIONS]
    return tf.data.Dataset.from_tensor_slices(
        {"name": names, "image": encoded, "captions": captions}
    )


@pytest.fixture(scope="module")
def preset(images, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(captioning, "Backbone", MeanColors)
        patch.setattr(CaptioningRecipe, "load", lambda self, split, data_dir: images)
        patch.setitem(recipes.RECIPES, "toy", RECIPE)
        yield recipes.run("toy", None, run_dir)


def test_run_leaves_a_preset_with_what_it_measures(preset, images):
    card = json.loads((preset / "card.json").read_text())
    metrics = [entry["metric"] for entry in card["quality"]]
    assert metrics[:5] == ["perplexity", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4"]
    assert {"ROUGE-L", "CIDEr-D"} < set(metrics)
    assert {entry["split"] for entry in card["quality"]} == {"validation"}
    assert card["fingerprint"] == [1.0]
    assert "Hodosh" in card["data"]["citation"]
    assert recipes.of_card(card).views == RECIPE.views
    loaded = zoo.load(preset)
    again = recipes.of_card(card).evaluate(loaded, images)
    assert card["quality"] == RECIPE.quality(again, "validation", loaded)
    assert zoo.load(preset).caption(IMAGES[0])


def test_history_tells_what_the_epoch_was_chosen_by(preset):
    with open(preset.parent / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == RECIPE.epochs
    assert all(float(row["val_cider"]) >= 0 and float(row["val_loss"]) > 0 for row in rows)
    assert all(0 <= float(row["val_bleu_4"]) <= 100 for row in rows)
    assert all(0 <= float(row["val_reward"]) <= 12 for row in rows)


def test_a_run_that_goes_on_does_not_look_at_the_images_again(preset, images, monkeypatch):
    def call(self, images):
        raise AssertionError("The features are on disk already.")

    monkeypatch.setattr(captioning, "Backbone", MeanColors)
    features = sorted((preset.parent / "features").rglob("*.tfrecord"))
    assert features
    monkeypatch.setattr(MeanColors, "call", call)
    trained = RECIPE.train(images, images, preset.parent)
    assert trained.default_sampler.length_penalty in RECIPE.length_penalties


def test_what_is_learned_from_each_mixture_of_rewards_is_averaged(preset, images, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(preset.parent, run_dir)
    for number in (1, 2):
        with open(run_dir / f"self_critical_{number}" / "history.csv", newline="") as file:
            (row,) = csv.DictReader(file)
        assert float(row["val_reward"]) >= 0
    model = zoo.load(preset)
    model.load_weights(run_dir / "self_critical_1" / "best.weights.h5")
    learned = [weight.numpy() for weight in model.core.weights]
    for weight in model.core.weights:
        weight.assign_add(ops.full_like(weight, 0.5))
    model.save_weights(run_dir / "self_critical_2" / "best.weights.h5")
    trained = RECIPE.train(images, images, run_dir)
    for weight, expected in zip(trained.core.weights, learned, strict=True):
        np.testing.assert_allclose(weight, expected + 0.25, atol=1e-6)


@pytest.mark.parametrize(("weight", "expected"), [(1.0, 0.0), (-1.0, 1.0)])
def test_the_length_penalty_is_the_one_that_earns_most(weight, expected):
    captions = [["a dog runs"], ["a cat sleeps"]]

    class Model:
        def caption_annotations(self, annotations, sampler):
            is_long = sampler.length_penalty > 0
            return ["zebra"] * 2 if is_long else [caption for (caption,) in captions]

    annotations = np.zeros((2, 4, 3), "float32")
    features = tf.data.Dataset.from_tensor_slices(
        {"annotations": annotations, "captions": captions}
    )
    # What counts is the sign of the mixtures' mean, not of either: 3 and -1, or 1 and -3.
    mixtures = [{"bleu_1": weight + 2.0}, {"bleu_1": weight - 2.0}]
    recipe = dataclasses.replace(RECIPE, rewards=mixtures)
    assert recipe._best_sampler(Model(), features).length_penalty == expected


def test_nothing_but_rewards_acts_in_self_critical_training(preset, images, monkeypatch):
    seen = []
    monkeypatch.setattr(captioning, "Backbone", MeanColors)
    monkeypatch.setattr(
        CaptioningRecipe, "_learn_from_rewards", lambda self, *given: seen.append(given[:2])
    )
    recipe = dataclasses.replace(RECIPE, overrides={**RECIPE.overrides, "dropout": 0.5})
    trained = recipe.train(images, images, preset.parent)
    assert trained.core.config.dropout == 0.5
    assert [rewards for _, rewards in seen] == RECIPE.rewards
    for model, _ in seen:
        assert model.core.config.dropout == model.core.config.doubly_stochastic == 0.0


def test_rewards_are_earned_in_any_view():
    views = [
        tf.data.Dataset.from_tensors(
            {"annotations": np.full((2, 3), view), "captions": ["a dog"]}
        ).repeat(60)
        for view in range(3)
    ]
    drawn = captioning._any_view(views, seed=1)
    epochs = [[np.unique(each["annotations"]).tolist() for each in drawn] for _ in range(2)]
    for epoch in epochs:
        assert len(epoch) == drawn.cardinality() == 60
        assert {tuple(view) for view in epoch} == {(0,), (1,), (2,)}
    assert epochs[0] != epochs[1]


def test_a_recipe_may_begin_with_a_trained_model(preset, images, tmp_path, monkeypatch):
    monkeypatch.setattr(captioning, "Backbone", MeanColors)
    overrides = {**RECIPE.overrides, "attention": "hard"}
    recipe = dataclasses.replace(
        RECIPE, overrides=overrides, begin_with=str(preset), self_critical_epochs=0
    )
    soft, hard = zoo.load(preset), recipe._begin(images, tmp_path)
    assert hard.core.is_hard
    assert hard.tokenizer.vocabulary_size == soft.tokenizer.vocabulary_size
    variables = hard.core.trainable_variables, soft.core.trainable_variables
    for mine, other in zip(*variables, strict=True):
        assert mine.path.split("/")[-1] == other.path.split("/")[-1]
        np.testing.assert_array_equal(mine, other)


def test_captions_are_learned_as_they_are_measured():
    captions = tf.constant(["A girl 's dog , running .", "Zwei HÜTE!", "T-shirt  ( red )"])
    told = captioning.plain(captions).numpy().tolist()
    assert [each.decode() for each in told] == ["a girl 's dog running", "zwei hüte", "t-shirt red"]


@pytest.mark.parametrize("name", ["show_attend_tell_flickr8k", "show_attend_tell_hard_flickr8k"])
def test_recipes_of_the_zoo_fit_their_architecture(name):
    recipe = recipes.RECIPES[name]
    assert recipe.overrides.get("attention", "soft") == ("hard" if "hard" in name else "soft")
    optimizer = recipe.make_optimizer(100)
    assert optimizer.use_ema


def test_hard_attention_learns_from_a_soft_model_not_from_rewards():
    with pytest.raises(ValueError, match=r"begin_with.*self_critical_epochs=1"):
        dataclasses.replace(RECIPE, overrides={"attention": "hard"})
