"""The best continuations of beams, from the logits of a model, against a stable sort in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from zoo.decoding.largest import WIDTH
from zoo.decoding.next_tokens import NextTokens, NextTokensOfModel

BEAMS, COUNT, END = 3, 4, 2
KINDS = {
    "different": lambda rng, shape: rng.normal(size=shape) * 5,
    "equal": lambda rng, shape: rng.integers(0, 3, shape),
    "certain": lambda rng, shape: 200.0 * rng.integers(0, 2, shape) - 400,
    "hidden": lambda rng, shape: np.where(rng.random(shape) < 0.99, -np.inf, 1.0),
}


def expected(logits, totals, forbidden):
    """The best totals of each row with their beams and tokens, in float64."""
    logits = logits.astype("float64") - logits.max(-1, keepdims=True)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    log_probs[:, :, forbidden] = -np.inf
    sums = (totals[:, :, None] + log_probs).reshape(len(logits), -1)
    order = np.argsort(-sums, axis=-1, kind="stable")[:, :COUNT]
    vocabulary = logits.shape[-1]
    return np.take_along_axis(sums, order, -1), order % vocabulary, order // vocabulary


@pytest.mark.few(5)
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [7, 8 * WIDTH, 31 * WIDTH - 1])
def test_they_are_those_of_a_stable_sort(kind, size, jit_compile):
    rng = np.random.default_rng(size)
    logits = KINDS[kind](rng, (2, BEAMS, size)).astype("float32")
    logits[:, :, END] = 0.0
    totals = np.array([[-1.0, -np.inf, -0.5], [0.0, 0.0, -3.0]], "float32")
    likely = logits[0, 0].argmax()  # hidden in its part, which stays one of the best
    forbidden = sorted({0, 1, int(likely), size - 1} - {END})

    def best(logits, totals):
        outside = -1, 2 * size  # where a vocabulary has no such token
        following = NextTokensOfModel(logits, [END], [END, *outside, *forbidden])
        return following.best(totals, COUNT)

    found = tf.function(best, jit_compile=jit_compile)(logits, totals)
    sums, tokens, parents = expected(logits, totals, forbidden)
    np.testing.assert_allclose(found.log_probs, sums, atol=1e-5)
    alive = sums > -np.inf
    np.testing.assert_array_equal(found.tokens.numpy()[alive], tokens[alive])
    np.testing.assert_array_equal(found.parents.numpy()[alive], parents[alive])


@pytest.mark.parametrize("size", [7, 8 * WIDTH])
@pytest.mark.parametrize("damage", [np.nan, np.inf, -np.inf])
def test_a_beam_without_a_distribution_is_dead(size, damage):
    logits = np.random.default_rng(0).normal(size=(1, BEAMS, size)).astype("float32")
    logits[0, 1, slice(None) if damage == -np.inf else 3] = damage
    following = NextTokensOfModel(tf.constant(logits), [END], [0, 1])
    found = following.best(tf.zeros([1, BEAMS]), 2 * size)  # more than two beams have
    alive = found.log_probs > -np.inf
    assert tf.reduce_sum(tf.cast(alive, tf.int32)) == 2 * (size - 2)
    assert not tf.reduce_any(found.parents[alive] == 1)
    few = following.best(tf.zeros([1, BEAMS]), COUNT)
    np.testing.assert_allclose(few.log_probs, found.log_probs[:, :COUNT], atol=1e-6)
    np.testing.assert_array_equal(few.tokens, found.tokens[:, :COUNT])


def test_of_log_probabilities_of_an_unknown_vocabulary():
    log_probs = np.log(np.random.default_rng(0).dirichlet(np.ones(6), (2, BEAMS)))
    unknown = tf.TensorSpec([None, BEAMS, None])

    @tf.function(input_signature=[unknown])
    def best(log_probs):
        return NextTokens(log_probs).best(tf.zeros(tf.shape(log_probs)[:2]) - [0.0, 1, 2], COUNT)

    found = best(log_probs.astype("float32"))
    sums, tokens, parents = expected(log_probs, -np.arange(3.0)[None].repeat(2, 0), [])
    np.testing.assert_allclose(found.log_probs, sums, rtol=1e-6)
    np.testing.assert_array_equal(found.tokens, tokens)
    np.testing.assert_array_equal(found.parents, parents)
