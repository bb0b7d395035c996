"""Which tiles a mask needs: never too few, and for simple masks not too many."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import masks
from tests.attention.compiled import compiled
from tests.attention.mask_cases import ALL, brute_force

TILES = [1, 2, 3, 5]
LENGTHS = [(13, 13), (4, 6), (6, 4)]
TIGHT = [
    "causal",
    "window",
    "window of one",
    "window to the left",
    "window to the right",
    "window in blocks",
    "dilated",
    "dilated by 1",
    "strided",
    "dilated to the left",
    "global count",
    "global positions",
    "random",
    "random blocks",
    "random outside",
    "random both ways",
    "random blocks both ways",
    "prefix",
    "prefixes",
    "lengths",
    "longformer",
    "longformer with gaps",
    "big bird",
    "big bird both ways",
    "windows of a grid",
    "shifted windows",
    "windows behind tokens",
    "neighborhood",
    "neighborhood of rows",
    "prefix LM",
    "not causal",
    "not window",
    "not prefix",
]
OF_A_CALL = ["keys", "queries", "pairs", "pairs of a batch", "pairs of heads", "documents"]
WITH_GAPS = ["dilated", "dilated by 1", "dilated to the left", "strided"]
AT_RANDOM = ["random", "random blocks", "random outside", "random both ways"]
AT_RANDOM += ["random blocks both ways"]
# For other masks, the defaults of `Mask` say that pairs may be visible and that not all are.
MAY_SEE = [name for name in ALL if name not in (*OF_A_CALL, "not random")]
BY_DEFAULT = (*OF_A_CALL, *WITH_GAPS, *AT_RANDOM, "longformer without global")
SEES_ALL = [name for name in ALL if name not in BY_DEFAULT]
# These may miss a full tile: each of their parts sees only part of it.
MODEST = [name for name in SEES_ALL if name.startswith(("longformer", "big bird"))]
MODEST += ["documents with padding", "causal, without its documents"]


def tiles_of(first, length, size):
    """The first and last positions of tiles."""
    firsts = np.arange(0, length, size, dtype="int32")
    return first + firsts, first + np.minimum(firsts + size, length).astype("int32") - 1


def grid(lengths, size):
    """All tiles in the layout of the computation: queries in rows, keys in columns."""
    query_length, key_length = lengths
    queries = tiles_of(key_length - query_length, query_length, size)
    keys = tiles_of(0, key_length, size)
    return [x[:, None] for x in queries], [x[None, :] for x in keys]


def pairs_in(rule, queries, keys, together):
    """For each tile, whether any (`np.any`) or all (`np.all`) of its pairs are visible."""
    answers = np.empty((len(queries[0]), keys[0].shape[1]), bool)
    for row, column in np.ndindex(*answers.shape):
        query_positions = range(queries[0][row, 0], queries[1][row, 0] + 1)
        key_positions = range(keys[0][0, column], keys[1][0, column] + 1)
        answers[row, column] = together(brute_force(rule, query_positions, key_positions))
    return answers


@pytest.mark.few(45)
@pytest.mark.parametrize("size", TILES)
@pytest.mark.parametrize("name", MAY_SEE)
def test_no_tile_that_is_needed_is_left_out(name, size):
    mask, rule = ALL[name]
    for lengths in LENGTHS:
        queries, keys = grid(lengths, size)
        needed = pairs_in(rule, queries, keys, np.any)
        answer = mask.may_see(queries, keys)
        assert answer is True or isinstance(answer, np.ndarray)
        if name in TIGHT:
            np.testing.assert_array_equal(np.broadcast_to(answer, needed.shape), needed)
        else:
            assert (needed <= answer).all()


@pytest.mark.few(35)
@pytest.mark.parametrize("size", TILES)
@pytest.mark.parametrize("name", SEES_ALL)
def test_no_tile_is_called_full_that_is_not(name, size):
    mask, rule = ALL[name]
    for lengths in LENGTHS:
        queries, keys = grid(lengths, size)
        answer = mask.sees_all(queries, keys)
        full = pairs_in(rule, queries, keys, np.all)
        assert (answer <= full).all()
        if size == 1 and name not in MODEST:
            np.testing.assert_array_equal(np.broadcast_to(answer, full.shape), full)


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("name", "question"),
    [*((name, "may_see") for name in MAY_SEE), *((name, "sees_all") for name in SEES_ALL)],
)
def test_tensors_numpy_and_integers_get_the_same_answer(name, question):
    ask = getattr(ALL[name][0], question)
    for size in (1, 3):
        queries, keys = grid((13, 13), size)
        tensors = [[ops.convert_to_tensor(x) for x in pair] for pair in (queries, keys)]
        expected = ask(queries, keys)
        found = ask(*tensors)
        assert isinstance(found, bool) or ops.is_tensor(found)
        assert (ops.convert_to_numpy(found) == expected).all()
        shape = len(queries[0]), keys[0].shape[1]
        for row, column in np.ndindex(*shape):
            one = ask([int(x[row, 0]) for x in queries], [int(x[0, column]) for x in keys])
            assert one == np.broadcast_to(expected, shape)[row, column]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", MAY_SEE)
def test_compiled_answer_is_the_same(name):
    mask, _ = ALL[name]
    queries, keys = grid((13, 13), 3)
    ask = compiled(lambda *bounds: ops.convert_to_tensor(mask.may_see(bounds[:2], bounds[2:])))
    found = ops.convert_to_numpy(ask(*queries, *keys))
    assert (found == mask.may_see(queries, keys)).all()


@pytest.mark.few(1)
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="is about tf.function")
@pytest.mark.parametrize("name", MAY_SEE)
def test_number_of_tiles_may_be_unknown(name):
    import tensorflow as tf

    mask, _ = ALL[name]
    column, row = tf.TensorSpec([None, 1], tf.int32), tf.TensorSpec([1, None], tf.int32)
    ask = tf.function(
        lambda *bounds: tf.convert_to_tensor(mask.may_see(bounds[:2], bounds[2:])),
        input_signature=[column, column, row, row],
    )
    for size in (1, 5):
        queries, keys = grid((13, 13), size)
        assert (ask(*queries, *keys).numpy() == mask.may_see(queries, keys)).all()


@pytest.mark.parametrize("make", [masks.Lengths, masks.Prefix])
def test_lengths_of_a_tensor_leave_out_tiles_where_positions_are_tensors(make):
    mask = make(ops.convert_to_tensor([1, 5], "int32"))
    queries, keys = grid((13, 13), 3)
    assert mask.may_see(queries, keys) is True  # NumPy arguments give a Python bool
    tensors = [[ops.convert_to_tensor(x) for x in pair] for pair in (queries, keys)]
    found = ops.convert_to_numpy(mask.may_see(*tensors))
    assert found.tolist() == [[True, True, False, False, False]]
    assert mask.sees_all(*tensors) is False


@pytest.mark.parametrize("make", [masks.Lengths, masks.Prefix])
def test_an_empty_batch_needs_nothing(make):
    queries, keys = grid((4, 6), 2)
    assert not np.any(make(np.zeros(0, int)).may_see(queries, keys))


def test_a_mask_of_ones_own_leaves_nothing_out():
    class Odd(masks.Mask):
        def tile(self, query_positions, key_positions):
            return (key_positions % 2 == 1)[None, None, None, :]

    queries, keys = grid((4, 6), 2)
    assert Odd().may_see(queries, keys) is True
    assert (~Odd()).may_see(queries, keys) is True
    assert (Odd() | masks.Causal()).may_see(queries, keys).all()
    expected = masks.Causal().may_see(queries, keys)
    np.testing.assert_array_equal((Odd() & masks.Causal()).may_see(queries, keys), expected)


@pytest.mark.parametrize(
    ("mask", "most"),
    [
        (masks.Causal() & masks.SlidingWindow(128, 0), 2),
        (masks.Longformer(256, 1), 4),
        (masks.BigBird(length=8192), 3 + 1 + 2 * 3),  # two blocks of queries draw three each
        (masks.Causal() & masks.BigBird(), 2 + 1 + 2 * 3),
        (masks.GridWindows((64, 128), 8, shift=4), 8),
        (masks.Neighborhood((64, 128), 7), 7),
    ],
    ids=repr,
)
def test_sparse_masks_cost_what_they_keep(mask, most):
    queries, keys = grid((8192, 8192), 128)
    tiles = mask.may_see(queries, keys).sum(axis=1)
    tiles = tiles[1:]  # the global tokens see everything
    assert tiles.max() <= most < 64
