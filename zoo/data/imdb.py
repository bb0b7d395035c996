"""IMDB's film reviews, whose builder is in TensorFlow Datasets."""

import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo.data.prepared import prepared

VALIDATION = 2500  # reviews at the end of the training part
_SPLITS = {"train": f"train[:-{VALIDATION}]", "validation": f"train[-{VALIDATION}:]"}


def load_imdb(split="train", data_dir=None):
    """Loads film reviews labeled as positive or negative.

    Args:
        split: `"validation"`, the last 2,500 reviews of the training part; `"train"`, the 22,484
            others, without duplicates of reviews in `"validation"`; or `"test"`, 25,000.
        data_dir: Folder where TensorFlow Datasets has prepared it. Defaults to its own folder,
            where the data set is downloaded to if it is missing.

    Returns:
        A `tf.data.Dataset` of (review, int64 0 for negative and 1 for positive).

    Raises:
        ValueError: If there is no such split.
        FileNotFoundError: If `data_dir` lacks the data set.

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
