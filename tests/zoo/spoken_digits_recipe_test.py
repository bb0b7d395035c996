"""The recipe of spoken digits: what a run leaves, and that its schedule lasts to the end."""

import json

import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.conformer_test import OPTIONS
from zoo.training import recipes
from zoo.training.spoken_digits import SpokenDigitsRecipe

RECIPE = SpokenDigitsRecipe(
    "conformer",
    overrides=OPTIONS,
    bands=12,
    epochs=2,
    batch_size=4,
    warmup_steps=1,
    average_momentum=0.5,
)


@pytest.fixture(scope="module")
def sounds():
    generator = np.random.default_rng(0)
    waves = [
        (9000 * np.sin(np.arange(length) * (0.3 + 0.1 * number))).astype("int16")
        for number, length in enumerate(generator.integers(1500, 3500, 8))
    ]
    signature = tf.TensorSpec([None], tf.int16), tf.TensorSpec([], tf.int64)
    return tf.data.Dataset.from_generator(
        lambda: ((wave, number) for number, wave in enumerate(waves)), output_signature=signature
    )


@pytest.fixture(scope="module")
def preset(sounds, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SpokenDigitsRecipe, "load", lambda self, split, data_dir: sounds)
        patch.setitem(recipes.RECIPES, "toy", RECIPE)
        yield recipes.run("toy", None, run_dir)


@pytest.mark.full
def test_a_run_leaves_a_preset_with_what_it_measures(preset, sounds):
    card = json.loads((preset / "card.json").read_text())
    assert [entry["split"] for entry in card["quality"]] == ["validation", "test"]
    assert card["data"]["terms"] == "CC BY-SA 4.0"
    recipe = recipes.of_card(card)
    assert type(recipe) is SpokenDigitsRecipe
    assert recipe.gaps == RECIPE.gaps
    loaded = zoo.load(preset)
    again = recipe.quality(recipe.evaluate(loaded, sounds), "validation", loaded)
    assert card["quality"][0] == again[0]


def test_lessons_differ_and_are_as_many_as_the_schedule_has(sounds):
    reader = zoo.SoundReader(rate=8000, bands=12)
    lessons = RECIPE.lessons(reader, sounds, seed=1)
    first, second = (list(lessons.as_numpy_iterator()) for _ in range(2))
    assert len(first) <= RECIPE.steps_of_epoch(sounds)
    for epoch in (first, second):
        assert sorted(label for _, labels, _ in epoch for label in labels) == list(range(8))
    frames = [
        {
            int(label): x
            for inputs, labels, _ in epoch
            for label, x in zip(labels, inputs["frames"], strict=True)
        }
        for epoch in (first, second)
    ]
    assert all(
        frames[0][digit].shape != frames[1][digit].shape
        or np.abs(frames[0][digit] - frames[1][digit]).max() > 0.1
        for digit in range(8)
    )
