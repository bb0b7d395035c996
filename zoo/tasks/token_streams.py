"""Texts as the tokens that a language model learns from."""

import numpy as np
import tensorflow as tf

from zoo.decoding.base import require
from zoo.readers.text.texts import as_texts, require_scalar_strings
from zoo.readers.text.words import chunks

CHARACTERS_AT_ONCE = 1_000_000  # characters tokenized at a time


class TokenStreams:
    """Turns texts into tokens, each text between its opening and its end.

    Args:
        tokenizer: The tokenizer of the model.
        opening: What precedes each text, as for `TextGenerator`. A text ends with an end token
            only if it is `None`.
    """

    def __init__(self, tokenizer, opening=None):
        self.tokenizer = tokenizer
        opening_ids = tokenizer.opening_ids if opening is None else self.ids(opening)
        self.opening_ids = np.array(opening_ids, "int32")
        self.end_ids = [tokenizer.end_id] if opening is None else []

    def of(self, texts):
        """Yields the tokens of each text, int32 `(length,)`, with opening and end.

        Args:
            texts: A `str`, a list of `str`, or a finite `tf.data.Dataset` of scalar strings.

        Raises:
            ValueError: If they are something else.
        """
        if isinstance(texts, tf.data.Dataset):
            require_scalar_strings(texts)
            is_finite = texts.cardinality() != tf.data.INFINITE_CARDINALITY
            expected = "a finite data set, since it is read at once: leave out repeat()"
            require(is_finite, expected, x=texts)
            texts = [text.decode("utf-8", "replace") for text in texts.as_numpy_iterator()]
        texts, _ = as_texts(texts)
        for ids in self.ids_of_each(texts):
            yield np.concatenate([self.opening_ids, ids, self.end_ids]).astype("int32")

    def ids_of_each(self, texts):
        """Yields the tokens of each text alone; many texts are tokenized together."""
        for group in _groups(texts, CHARACTERS_AT_ONCE):
            if len(group) == 1:
                yield self.ids(group[0])
                continue
            tokens = self.tokenizer.tokenize(group)
            yield from np.split(tokens.values.numpy(), tokens.row_splits.numpy()[1:-1])

    def ids(self, text):
        """Returns the tokens of a text alone, int32 `(length,)`."""
        parts = chunks(text, CHARACTERS_AT_ONCE)
        return np.concatenate([self.tokenizer.tokenize([part]).values.numpy() for part in parts])


def _groups(texts, characters):
    """Yields lists of consecutive texts, of at most so many characters or of one text."""
    group, length = [], 0
    for text in texts:
        if group and length + len(text) > characters:
            yield group
            group, length = [], 0
        group.append(text)
        length += len(text)
    if group:
        yield group
