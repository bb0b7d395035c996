"""The recipes of reviews: what is hidden and told, what a classifier begins with, what is left."""

import json

import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.readers.text import Tokenizer
from zoo.training import recipes
from zoo.training.masked import MaskedRecipe, OfPlaces, hidden_windows, stream_of
from zoo.training.reviews import ReviewsRecipe

SIZES = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16, "max_length": 16}
MASKED = MaskedRecipe(
    "text_encoder_masked",
    overrides={**SIZES, "normalize": "pre", "dropout": 0.0, "attention_dropout": 0.0},
    vocabulary_size=60,
    epochs=1,
    batch_size=4,
    warmup_steps=1,
)
TEXTS = ["A good film.<br />I liked it.", "A bad film, a very bad one."] * 8


@pytest.fixture(scope="module")
def examples():
    return tf.data.Dataset.from_tensor_slices((TEXTS, [1, 0] * 8))


@pytest.fixture(scope="module")
def presets(examples, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("run")
    reviews = ReviewsRecipe(
        "text_encoder",
        overrides={"pooling": "mean", "pooler": None},
        begin_with=str(run_dir / "masked" / "toy_masked"),
        epochs=1,
        batch_size=4,
        warmup_steps=1,
        dtype="float32",
    )
    with pytest.MonkeyPatch.context() as patch:
        for kind in (MaskedRecipe, ReviewsRecipe):
            patch.setattr(kind, "load", lambda self, split, data_dir: examples)
        patch.setitem(recipes.RECIPES, "toy_masked", MASKED)
        patch.setitem(recipes.RECIPES, "toy", reviews)
        yield [
            recipes.run("toy_masked", None, run_dir / "masked"),
            recipes.run("toy", None, run_dir / "reviews"),
        ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A preset of a masked language model."""
    tokenizer = Tokenizer.train(TEXTS, MASKED.vocabulary_size, tokens=["<br />"])
    options = {**MASKED.overrides, "relative_buckets": 4}
    model = zoo.load(MASKED.architecture, weights=None, tokenizer=tokenizer, **options)
    return model.save_to_preset(tmp_path_factory.mktemp("presets") / "masked")


@pytest.mark.full
def test_runs_leave_presets_with_what_they_measure(presets, examples):
    for preset, kind in zip(presets, (MaskedRecipe, ReviewsRecipe), strict=True):
        card = json.loads((preset / "card.json").read_text())
        recipe, model = recipes.of_card(card), zoo.load(preset)
        assert type(recipe) is kind
        again = recipe.quality(recipe.evaluate(model, examples), "validation", model)
        assert card["quality"] == again
    assert model.classify("A good film.") in model.labels
    assert len(zoo.load(presets[0]).fill_mask("A [MASK] film.")) == 5


def test_a_classifier_begins_with_a_trained_encoder(trained):
    masked = zoo.load(trained)
    labels = ["a", "b", "c"]
    model = zoo.load(trained, labels=labels, pooling="mean", pooler=None, dropout=0.3)
    assert model.labels == labels
    assert model.core.config.dropout == 0.3
    ids = [[2, 7, 8, 3]]
    np.testing.assert_array_equal(model.core.encode(ids)[0], masked.core.encode(ids)[0])
    assert len(model.classify(["A film."])) == 1
    with pytest.raises(ValueError, match="num_layers must be 1"):
        zoo.load(trained, labels=labels, num_layers=2)


def test_logits_of_places_are_those_of_the_core(trained):
    core = zoo.load(trained).core
    ids, places = np.array([[2, 7, 8, 9], [2, 5, 6, 3]]), np.array([[1, 3], [2, 0]])
    found = OfPlaces(core)({"token_ids": ids, "places": places}).numpy()
    np.testing.assert_allclose(found, core(ids).numpy()[[[0], [1]], places], atol=1e-5)


def test_one_token_of_five_is_told_and_most_of_them_are_masks():
    tokenizer = Tokenizer.train(["".join(map(chr, range(33, 127)))], vocabulary_size=300)
    stream = np.random.default_rng(0).integers(5, tokenizer.vocabulary_size, 5000)
    stream[::7] = tokenizer.end_id
    windows = hidden_windows(stream, tokenizer, 51, 64, 0.2, seed=1).take(4)
    inputs, labels, weights = (np.concatenate(each) for each in zip(*_numpy(windows), strict=True))
    ids, places = inputs[:, :51], inputs[:, 51:]
    assert places.shape == (256, 10)
    assert (ids[:, 0] == tokenizer.start_id).all()
    assert (np.diff(np.sort(places)) > 0).all()
    assert (places > 0).all()
    assert (labels != tokenizer.end_id).all()
    assert (weights == 1).all()
    whole = ids.copy()
    np.put_along_axis(whole, places, labels, axis=1)
    views = np.lib.stride_tricks.sliding_window_view(stream, 50)
    assert all((views == row).all(axis=1).any() for row in whole[::16, 1:])
    shown = np.take_along_axis(ids, places, axis=1)
    is_mask, stays = shown == tokenizer.mask_id, shown == labels
    assert abs(is_mask.mean() - 0.8) < 0.03
    assert abs(stays.mean() - 0.1) < 0.03
    np.testing.assert_array_equal(np.delete(ids[0], places[0]), np.delete(whole[0], places[0]))


def test_the_stream_has_all_texts_with_ends(examples):
    tokenizer = Tokenizer.train(TEXTS, vocabulary_size=60, tokens=["<br />"])
    ids = tokenizer.tokenize(TEXTS).to_list()
    expected = [token for each in ids for token in (*each, tokenizer.end_id)]
    assert stream_of(tokenizer, examples).tolist() == expected


def _numpy(windows):
    for inputs, labels, weights in windows.as_numpy_iterator():
        yield np.concatenate([inputs["token_ids"], inputs["places"]], axis=1), labels, weights
