"""Edits of tokens are those of the textbook's algorithm, also compiled with XLA."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from zoo.metrics import Perplexity, TokenErrorRate


def distance(text, reference):
    """Returns the edit distance of two tuples, by its recursive definition."""

    @functools.cache
    def of(first, second):
        if not first or not second:
            return len(first) + len(second)
        replaced = of(first[1:], second[1:]) + (first[0] != second[0])
        return min(replaced, of(first[1:], second) + 1, of(first, second[1:]) + 1)

    return of(text, reference)


def collapsed(labels, blank):
    kept = [each for place, each in enumerate(labels) if not place or each != labels[place - 1]]
    return tuple(each for each in kept if each != blank)


CASES = [(12, 7, 0), (9, 5, 2), (1, 3, 0), (4, 0, 0)]


@pytest.mark.parametrize(("times", "length", "blank"), CASES)
def test_edits_are_those_of_the_definition(times, length, blank):
    rng = np.random.default_rng(times)
    labels, truth = rng.integers(0, 4, (20, times)), rng.integers(0, 4, (20, length))
    truth, weights = truth.astype("int32"), rng.integers(0, 3, 20).astype("float32")
    references = [tuple(each for each in row if each != blank) for row in truth.tolist()]
    texts = [collapsed(row, blank) for row in labels.tolist()]
    edits = [distance(*pair) for pair in zip(texts, references, strict=True)]
    tokens = weights @ [len(each) for each in references]
    metric = TokenErrorRate(blank)
    update = tf.function(metric.update_state, jit_compile=length > 0)
    update(tf.constant(truth), tf.one_hot(labels, 4), tf.constant(weights))
    np.testing.assert_allclose(metric.edits, weights @ edits)
    np.testing.assert_allclose(metric.tokens, tokens)
    np.testing.assert_allclose(metric.result(), weights @ edits / tokens if tokens else 0.0)


def test_weights_may_be_a_column():
    logits = tf.one_hot([[1, 2], [0, 0]], 3)
    metric = TokenErrorRate()
    metric.update_state([[1, 2], [1, 2]], logits, sample_weight=[[3.0], [1.0]])
    assert float(metric.result()) == 2 / 8


@pytest.fixture
def in_half_precision():
    keras.config.set_floatx("bfloat16")
    yield
    keras.config.set_floatx("float32")


def test_sums_are_in_float32_whatever_floatx_is(in_half_precision):
    tokens, logits = tf.constant([[1, 2] * 128], tf.int64), tf.one_hot([[0]], 3)
    metric = TokenErrorRate()
    for part in (tokens, tokens[:, :1]):
        metric.update_state(part, logits)
    assert float(metric.tokens) == 257
    metric = Perplexity()
    for part in (tokens, tokens[:, :1]):
        metric.update_state(part, np.zeros((*part.shape, 3)))
    assert float(metric.total_weight) == 257
