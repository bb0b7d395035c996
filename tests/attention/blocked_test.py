"""The computation in blocks of queries: outputs and gradients of the reference."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention, masks, scores
from keras_attention.compute import blocked
from tests.attention import oracle
from tests.attention.gradients import gradients, layer_gradients, of_layer

BATCH, QUERIES, KEYS, SIZE = 2, 11, 13, 6
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Blocks of 4 queries and even numbers of keys, the last of them partial."""
    monkeypatch.setattr(blocked, "SHORTEST_BLOCK", 4)
    monkeypatch.setattr(blocked, "KEYS_A_STEP", 2)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def both(**arguments):
    """Returns a layer for each of the two implementations, with the same weights."""
    layers = []
    for implementation in ("reference", "blocked"):
        keras.utils.set_random_seed(0)
        layer = MultiHeadAttention(2, 4, value_dim=3, implementation=implementation, **arguments)
        layer.build((BATCH, None, SIZE), (BATCH, None, SIZE))
        layers.append(layer)
    return layers


@pytest.mark.few(3)
@pytest.mark.parametrize("normalizer", ["softmax", "softmax_one"])
@pytest.mark.parametrize(
    "mask",
    [
        None,
        masks.SlidingWindow(left=2, right=1),
        masks.Causal() & masks.GlobalTokens(1),
        masks.SlidingWindow(1, 0) | masks.GlobalTokens(1),  # keys of a block lie apart
        masks.SlidingWindow(0, 0) & masks.Lengths([3, 0]),  # most queries see nothing
        ~masks.SlidingWindow(left=None, right=3),  # nor do the last blocks here
    ],
    ids=str,
)
def test_equals_the_reference(mask, normalizer):
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    direction = ops.convert_to_tensor(random(BATCH, QUERIES, SIZE))
    found = []
    for layer in both(mask=mask, normalizer=normalizer, position="shaw"):
        of_inputs, of_weights = layer_gradients(layer, query, value, direction=direction)
        found.append([layer(query, value), *of_inputs, *of_weights.values()])
    for expected, actual in zip(*found, strict=True):
        np.testing.assert_allclose(oracle.float64(actual), oracle.float64(expected), atol=2e-5)


def test_dropout_has_the_gradient_of_the_reference():
    x = random(BATCH, QUERIES, SIZE)
    found = []
    for layer in both(dropout=0.4, seed=3):  # a single block, so both draw the same numbers
        function, *tensors = of_layer(layer, x, x, training=True)
        found.append(gradients(function, *tensors, forms=["graph"]))  # XLA draws other numbers
    assert abs(oracle.float64(found[0][0])).max() > 0.01
    for expected, actual in zip(*found, strict=True):
        np.testing.assert_allclose(oracle.float64(actual), oracle.float64(expected), atol=2e-5)


def test_each_block_drops_other_places():
    keys = random(1, 16, SIZE)
    values = np.ones((1, 16, SIZE), "float32")  # a context is the sum of the kept weights, scaled
    layer = Attention(mask="causal", implementation="blocked", dropout=0.5)
    found = oracle.float64(layer(0 * keys, values, keys, training=True))[0, :, 0]
    assert len(np.unique(found[8:].round(4))) > 4, "blocks drop the same places"


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others derive it themselves")
@pytest.mark.parametrize("mask", [pytest.param(None, marks=pytest.mark.full), "causal"])
def test_gradient_of_a_gradient(mask):
    import tensorflow as tf

    x = tf.constant(random(BATCH, QUERIES, SIZE))

    def second_derivative(layer):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                total = tf.reduce_sum(tf.sin(layer(x, x)))
            squares = tf.reduce_sum(inner.gradient(total, x) ** 2)
        return outer.gradient(squares, x)

    expected, eager = (second_derivative(layer) for layer in both(mask=mask))
    graph = tf.function(second_derivative)(both(mask=mask)[1])
    for found in (eager, graph):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


WINDOW = masks.SlidingWindow(left=1, right=0)
EVERYTHING = [((None, None), (None, None))]


@pytest.mark.parametrize(
    ("mask", "query_length", "key_length", "expected"),
    [
        (None, 16, 16, EVERYTHING),
        (masks.Causal(), 8, 8, [((0, 4), (0, 4)), ((4, 8), (0, 8))]),
        (masks.Causal(), 4, 9, [((0, 4), (0, 9))]),
        (WINDOW, 10, 10, [((0, 4), (0, 4)), ((4, 8), (2, 8)), ((8, 10), (6, 10))]),
        (
            WINDOW | masks.GlobalTokens(1),  # the first query sees all, all see the first key
            12,
            12,
            [((0, 4), (0, 12)), ((4, 8), (0, 8)), ((8, 12), (0, 2), (6, 12))],
        ),
        (masks.Lengths([3, 2]), 6, 6, [((0, 6), (0, 4))]),
        (  # the last queries see nothing
            WINDOW & masks.Lengths([3]),
            12,
            12,
            [((0, 4), (0, 4)), ((4, 8), (2, 4)), ((8, 12), (0, 2))],
        ),
        (masks.Array(np.eye(6, dtype=bool)), 6, 6, EVERYTHING),  # not looked at in advance
        (masks.Causal(), 0, 6, EVERYTHING),
    ],
)
def test_blocks_leave_out_what_a_mask_hides(mask, query_length, key_length, expected):
    blocks = blocked.blocks_of(query_length, key_length, mask, None)
    found = [[(each.start, each.stop) for each in (rows, *runs)] for rows, runs in blocks]
    assert found == [list(block) for block in expected]


def test_pairs_outside_of_the_blocks_are_never_computed():
    sizes = []

    class Recorded(scores.Dot):
        def pairwise(self, query, key):
            sizes.append((query.shape[-2], key.shape[-2]))
            return super().pairwise(query, key)

    x = random(1, 12, SIZE)
    mask = WINDOW | masks.GlobalTokens(1)
    layer = Attention(Recorded(), mask=mask, implementation="blocked")
    layer.build(x.shape, x.shape)
    layer(x, x)
    assert sizes == [(4, 12), (4, 8), (4, 8)]
    assert blocked.pairs_in_blocks(12, 12, mask) == 4 * 12 + 4 * 8 + 4 * 8


def test_there_are_at_most_eight_blocks(monkeypatch):
    monkeypatch.setattr(blocked, "SHORTEST_BLOCK", 1)
    assert len(blocked.blocks_of(100, 100, masks.Causal(), None)) == 8


@pytest.mark.parametrize("seed", range(3))
def test_no_other_blocks_have_fewer_pairs(seed, monkeypatch):
    """Compared with all ways to cut nine rows into at most three blocks."""
    monkeypatch.setattr(blocked, "MOST_BLOCKS", 3)
    rng = np.random.default_rng(seed)
    may_see, heights, widths = rng.random((9, 7)) < 0.2, rng.integers(1, 5, 9), np.full(7, 2)

    def pairs(*cuts):
        blocks = itertools.pairwise([0, *cuts, 9])
        return sum(heights[a:b].sum() * widths[may_see[a:b].any(axis=0)].sum() for a, b in blocks)

    ways = [cuts for count in range(3) for cuts in itertools.combinations(range(1, 9), count)]
    first, *rest = blocked._fewest_pairs(may_see, heights, widths)
    found = [begin for begin, _ in rest]
    assert pairs(*found) == min(pairs(*cuts) for cuts in ways)
    assert first[0] == 0
    assert (rest or [first])[-1][1] == 9
