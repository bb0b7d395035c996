"""WordPiece: splits a word into its longest known pieces, from left to right."""

import tensorflow as tf

from zoo.readers.text.tables import KnownWords
from zoo.readers.text.trie import Trie, visited, with_separators


class WordPiece(tf.Module):
    """Splits words into their longest known pieces, from left to right.

    A word that cannot be split, or has too many characters, is unknown.

    Reference: Wu et al. 2016, "Google's Neural Machine Translation System".

    Args:
        vocabulary: Dictionary of pieces to their ids.
        unknown_token: The piece of unknown words.
        prefix: Prefix of pieces inside a word.
        longest_word: Maximum number of characters of a word.
    """

    def __init__(self, vocabulary, unknown_token="[UNK]", prefix="##", longest_word=100):
        super().__init__()
        self._unknown_id, self._longest_word = vocabulary[unknown_token], longest_word
        words = [piece for piece in vocabulary if 0 < len(piece) <= longest_word]
        insides = [piece for piece in vocabulary if piece.startswith(prefix) and piece != prefix]
        with tf.init_scope(), tf.device("CPU"):
            ids = tf.constant([[vocabulary[word]] for word in words], tf.int32, [len(words), 1])
            self._known = KnownWords(words, tf.RaggedTensor.from_tensor(ids))
        self._begin = Trie(words, [vocabulary[piece] for piece in words])
        self._inside = Trie(
            [piece.removeprefix(prefix) for piece in insides],
            [vocabulary[piece] for piece in insides],
        )

    def __call__(self, words):
        """Returns the ids of words: strings `[words]` -> int32 `[words, (pieces)]`."""
        return self._known(words, self._split)

    def _split(self, words):
        fits = tf.strings.length(words, "UTF8_CHAR") <= self._longest_word
        # A word that is too long is emptied; its row remains.
        characters = tf.strings.unicode_decode(tf.where(fits, words, ""), "UTF-8")
        symbols, splits = with_separators(characters)
        places, starts, ends = tf.range(splits[-1]), splits[:-1], splits[1:] - 1
        sizes, ids = self._inside.longest(symbols, places)
        first_sizes, first_ids = self._begin.longest(symbols, starts)
        sizes = tf.tensor_scatter_nd_update(sizes, starts[:, None], first_sizes)
        ids = tf.tensor_scatter_nd_update(ids, starts[:, None], first_ids)
        # From a position where no piece begins, the path leads to the end of all texts.
        following = tf.where(sizes > 0, places + sizes, splits[-1])
        is_start = visited(following, starts)
        is_known = tf.gather(is_start, ends) & (ends > starts)
        pieces = tf.where(is_start & (sizes > 0))[:, 0]
        owners = tf.searchsorted(splits, pieces, side="right", out_type=tf.int64) - 1
        of_known = tf.where(tf.gather(is_known, owners))[:, 0]
        split = tf.RaggedTensor.from_value_rowids(
            tf.cast(tf.gather(ids, tf.gather(pieces, of_known)), tf.int32),
            tf.gather(owners, of_known),
            nrows=tf.size(words, tf.int64),
            validate=False,
        )
        unknown = tf.cast(~is_known & (words != ""), tf.int64)
        unknown = tf.RaggedTensor.from_row_lengths(
            tf.fill([tf.reduce_sum(unknown)], self._unknown_id), unknown, validate=False
        )
        return tf.concat([split, unknown], axis=1)
