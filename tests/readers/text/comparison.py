"""Comparisons of tokenizers with the libraries that define them."""

import json

import pytest
import tensorflow as tf

from tests.readers.text import small_tokenizers
from zoo.readers.text import Tokenizer


def full(names, ordinary):
    """Parameters of a test: all names, of which an ordinary run takes some."""
    return [
        name if name in ordinary else pytest.param(name, marks=pytest.mark.full) for name in names
    ]


def library_and_ours(name):
    """A tokenizer of the library, ours of the same definition, and the tokens added to both."""
    library = small_tokenizers.ALL[name]()
    definition = json.loads(library.to_str())
    return library, Tokenizer(definition), [t["content"] for t in definition["added_tokens"]]


def in_batches(function, texts, size=256):
    """The rows that a function of texts gives in a graph, batch after batch."""
    function = tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)])
    return [
        row
        for first in range(0, len(texts), size)
        for row in function(tf.constant(texts[first : first + size])).to_list()
    ]


def check_equal(found, expected, texts):
    wrong = [i for i in range(len(texts)) if found[i] != expected[i]]
    assert not wrong, f"{len(wrong)} of {len(texts)}, such as {texts[wrong[0]]!r}"


def decoded(texts):
    return [text.decode() for text in texts.numpy()]
