"""The review recipes: what they learn from, what a classifier starts with, what runs leave."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.readers.text import Tokenizer
from zoo.training import recipes
from zoo.training.masked import MaskedRecipe, stream_of
from zoo.training.reviews import ReviewsRecipe, tokens_of

SIZES = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16, "max_length": 16}
MASKED = MaskedRecipe(
    "text_encoder_masked",
    overrides={**SIZES, "normalize": "pre", "dropout": 0.0, "attention_dropout": 0.0},
    vocabulary_size=60,
    epochs=1,
    batch_size=4,
    warmup_steps=1,
)
REVIEWS = ReviewsRecipe(
    "text_encoder",
    overrides={"pooling": "mean", "pooler": None},
    epochs=1,
    batch_size=4,
    warmup_steps=1,
    dtype="float32",
)
TEXTS = ["A good film.<br />I liked it.", "A bad film, a very bad one."] * 8


@pytest.fixture(scope="module")
def examples():
    return tf.data.Dataset.from_tensor_slices((TEXTS, [1, 0] * 8))


@pytest.fixture(scope="module")
def presets(examples, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("run")
    reviews = dataclasses.replace(REVIEWS, begin_with=str(run_dir / "masked" / "toy_masked"))
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


def test_few_reviews_are_measured_at_once():
    """A batch of 250 long reviews would take six gigabytes."""

    class Measured:
        def twin(self):
            return self

        def compile(self):
            pass

        def evaluate(self, examples, batch_size, **options):
            return {"batch_size": batch_size}

    assert REVIEWS.evaluate(Measured(), None) == {"batch_size": 32}


@pytest.mark.full
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


def test_a_tokenizer_learned_again_is_the_same_file(tmp_path):
    for name in "ab":
        Tokenizer.train(TEXTS, vocabulary_size=60, tokens=["<br />"]).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_stream_has_all_texts_with_ends(examples):
    tokenizer = Tokenizer.train(TEXTS, vocabulary_size=60, tokens=["<br />"])
    ids = tokenizer.tokenize(TEXTS).to_list()
    expected = [token for each in ids for token in (*each, tokenizer.end_id)]
    assert stream_of(tokenizer, examples).tolist() == expected


def test_tokens_of_texts_with_their_labels(examples):
    tokenizer = Tokenizer.train(TEXTS, vocabulary_size=60, tokens=["<br />"])
    ids = tokenizer.tokenize(TEXTS).to_list()
    arrays = tokens_of(tokenizer, examples)
    assert arrays["tokens"].tolist() == [token for each in ids for token in each]
    assert arrays["sizes"].tolist() == [len(each) for each in ids]
    assert arrays["labels"].tolist() == [1, 0] * 8


def test_what_was_learned_elsewhere_is_taken(trained, examples, tmp_path):
    recipe = dataclasses.replace(REVIEWS, begin_with=str(trained))
    model = zoo.load(trained, labels=["negative", "positive"], pooling="mean", pooler=None)
    folder = tmp_path / "learning"
    folder.mkdir()
    (folder / "job.json").write_text("{}")
    model.core.save_weights(folder / "learned.weights.h5")
    found = recipe.train(examples, examples, tmp_path)
    for mine, its in zip(found.core.weights, model.core.weights, strict=True):
        np.testing.assert_array_equal(mine, its)
