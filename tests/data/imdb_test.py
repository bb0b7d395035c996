"""The splits of the IMDB reviews: no validation text is in the training split."""

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from zoo.data.imdb import load_imdb

REVIEWS = [f"Review {number}." for number in range(2510)]
REVIEWS[3] = REVIEWS[-1]  # the same text twice


class Builder:
    """Stands in for the builder of TensorFlow Datasets."""

    data_path = "imdb_reviews"

    def is_prepared(self):
        return True

    def as_dataset(self, split, as_supervised):
        assert as_supervised
        numbers = list(range(len(REVIEWS)))
        chosen = {"train[:-2500]": numbers[:-2500], "train[-2500:]": numbers[-2500:]}[split]
        return tf.data.Dataset.from_tensor_slices(
            ([REVIEWS[number] for number in chosen], [number % 2 for number in chosen])
        )


def test_what_validates_is_not_learned_from(monkeypatch):
    monkeypatch.setattr(tfds, "builder", lambda name, data_dir: Builder())
    train = [text.decode() for text, _ in load_imdb("train", "somewhere").as_numpy_iterator()]
    held_out = load_imdb("validation", "somewhere").as_numpy_iterator()
    assert [text.decode() for text, _ in held_out] == REVIEWS[10:]
    assert train == [REVIEWS[number] for number in range(10) if number != 3]


def test_another_split_is_an_error():
    with pytest.raises(ValueError, match="'dev'"):
        load_imdb("dev")
