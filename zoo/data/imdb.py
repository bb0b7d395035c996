"""IMDB's reviews of films, of which TensorFlow Datasets has the builder."""

import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo.data.prepared import prepared

VALIDATION = 2500  # reviews at the end of the training part
_SPLITS = {"train": f"train[:-{VALIDATION}]", "validation": f"train[-{VALIDATION}:]"}


def load_imdb(split="train", data_dir=None):
    """Loads reviews of films, each with whether it is positive.

    Args:
        split: `"validation"`, the last 2,500 reviews of the training part, or `"train"`, the
            others, without those that are in `"validation"` as well: 22,484. `"test"`, 25,000.
        data_dir: Folder where TensorFlow Datasets has prepared it. By default its own one, where it
            is downloaded to unless it is there.

    Returns:
        A `tf.data.Dataset` of (review, int64 0 for negative and 1 for positive).

    Raises:
        ValueError: There is no such split.
        FileNotFoundError: `data_dir` lacks the data set.

    Example:

    >>> train = load_imdb("train")  # doctest: +SKIP
    """
    names = [*_SPLITS, "test"]
    if split not in names:
        raise ValueError(unknown_name("split of the reviews", split, names))
    builder = prepared("imdb_reviews/plain_text", "reviews of IMDB", data_dir)
    reviews = builder.as_dataset(split=_SPLITS.get(split, split), as_supervised=True)
    if split != "train":
        return reviews
    held_out = builder.as_dataset(split=_SPLITS["validation"], as_supervised=True)
    held_out = tf.stack([_hash(review) for review, _ in held_out])
    return reviews.filter(lambda review, _: tf.reduce_all(_hash(review) != held_out))


def _hash(review):
    return tf.strings.to_hash_bucket_fast(review, tf.int64.max)
