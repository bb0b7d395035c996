"""Lookup tables of core TensorFlow, which any function and any SavedModel can use."""

import numpy as np
import tensorflow as tf


def static_table(keys, values, default):
    """Returns a table of int64 values, which must not be empty.

    Args:
        keys: Strings or integers, without duplicates.
        values: Their values.
        default: The value of all other keys.
    """
    is_text = isinstance(keys[0], str | bytes)
    keys = tf.constant(keys, tf.string if is_text else tf.int64)
    initializer = tf.lookup.KeyValueTensorInitializer(keys, tf.constant(values, tf.int64))
    return tf.lookup.StaticHashTable(initializer, default)


def constant(values, dtype):
    """Returns a constant on the device of strings and tables, outside any graph."""
    with tf.init_scope(), tf.device("CPU"):
        return tf.constant(values, dtype)


class KnownWords(tf.Module):
    """Words whose pieces are known in advance: most words of a text.

    Args:
        words: List of `str` or `bytes`, each once.
        pieces: Their pieces, a `tf.RaggedTensor` of shape `[words, (pieces)]`.
    """

    def __init__(self, words, pieces):
        super().__init__()
        with tf.init_scope(), tf.device("CPU"):
            # A table must not be empty: this key is not a word, because it is not valid UTF-8.
            self._table = static_table([*words, b"\xff"], [*range(len(words)), -1], default=-1)
        self._pieces = pieces

    def __call__(self, words, split):
        """Returns the pieces of words: `[words]` -> `[words, (pieces)]`.

        Args:
            words: Strings.
            split: Function that returns the pieces of words that are not known.
        """
        places = self._table.lookup(words)
        is_new = places < 0
        new_pieces = split(tf.boolean_mask(words, is_new))
        new_places = self._pieces.nrows() - 1 + tf.cumsum(tf.cast(is_new, tf.int64))
        all_pieces = tf.concat([self._pieces, new_pieces], axis=0)
        return tf.gather(all_pieces, tf.where(is_new, new_places, places))


def row_ids(row_splits):
    """Returns the row of each value of a ragged tensor, by its row splits, as int64."""
    inner = row_splits[1:-1]
    steps = tf.math.unsorted_segment_sum(tf.ones_like(inner), inner, row_splits[-1] + 1)
    return tf.cumsum(steps)[:-1]


def array_of_objects(values):
    """Returns a vector that a `tf.Module` keeps as it is: it would track every entry of a list."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
