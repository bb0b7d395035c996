"""Splits texts into words, before words are split into pieces."""

import re

import tensorflow as tf

# Explicit classes, because `\s` is ASCII in RE2 (TensorFlow), Unicode in Oniguruma (`tokenizers`).
# Combining marks stay with what they modify: the letter of a decomposed "é", an emoji's symbol.
# The engines differ only for characters newer than Unicode 14, which one considers unassigned.
_SPACE = r"\t-\r \x{85}\p{Z}"
WORD_PATTERN = rf" ?\p{{L}}[\p{{L}}\p{{M}}]*| ?\p{{N}}+| ?[^{_SPACE}\p{{L}}\p{{N}}]+|[{_SPACE}]+"
_WORD_START = re.compile(r"(?<=\S) (?=\S)")  # in any context, a word begins with this space
_WORD_END = b"\xff"  # occurs in no valid UTF-8


def split_words(texts, prefix_space=True):
    """Splits texts [batch] at word boundaries -> [batch, (words)], the last word always empty."""
    texts = to_valid_utf8(texts)
    if prefix_space:
        texts = tf.where(texts == "", "", " " + texts)
    marked = tf.strings.regex_replace(texts, WORD_PATTERN, rb"\0" + _WORD_END)
    return tf.strings.split(marked, sep=_WORD_END)


def to_valid_utf8(texts):
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def chunks(text, size):
    """Yields parts of a `str` that split into the same words as the whole, without a space prefix.

    Args:
        text: A `str`.
        size: Number of characters in a part, before it is extended to the end of a word.

    Example:

    >>> list(chunks("to be or not", 4))
    ['to be', ' or not']
    """
    start = 0
    while (found := _WORD_START.search(text, start + size)) is not None:
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]
