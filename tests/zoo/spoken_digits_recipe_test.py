"""The recipe of spoken digits: what a run leaves, and what its job is."""

import json

import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.conformer_test import OPTIONS
from zoo.learning import job
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
    assert [entry["split"] for entry in card["quality"]] == ["test"]
    assert card["data"]["terms"] == "CC BY-SA 4.0"
    recipe = recipes.of_card(card)
    assert type(recipe) is SpokenDigitsRecipe
    assert recipe.gaps == RECIPE.gaps
    loaded = zoo.load(preset)
    again = recipe.quality(recipe.evaluate(loaded, sounds), "test", loaded)
    assert card["quality"][0] == again[0]
    assert card["training"]["chosen_by"] == "the last epoch is kept"


def test_the_job_of_a_run_has_all_recordings_and_what_the_reader_hears(sounds):
    model = RECIPE.make_model("float32")
    made, arrays = RECIPE.make_job(model, sounds, None)
    waves = [wave for wave, _ in sounds.as_numpy_iterator()]
    np.testing.assert_array_equal(arrays["samples"], np.concatenate(waves))
    np.testing.assert_array_equal(arrays["labels"], np.arange(8))
    assert made.options["hearing"]["reader"] == model.reader.get_config()
    assert made.options["hearing"]["gaps"] == RECIPE.gaps
    assert len(job.DATA[made.data](arrays, **made.options)) == 10
    schedule = made.optimizer["config"]["learning_rate"]["config"]["schedule"]["config"]
    assert schedule["first_decay_steps"] == 10 * RECIPE.epochs
