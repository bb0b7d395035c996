"""Graphs that XLA does not compile write their caches in place, with the results of the others."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attention._backend import interpreted, overwritten

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
@pytest.mark.parametrize(
    ("front", "start", "count"),
    [((2, 3), 0, 1), ((2, 3), 4, 1), ((2, 3), 2, 3), ((4,), 1, 2), ((0, 3), 1, 1), ((2,), 5, 0)],
)
def test_written_is_what_slices_give(front, start, count, dtype):
    old = tf.cast(RNG.integers(0, 2, (*front, 5, 4)), dtype)
    new = tf.cast(RNG.integers(0, 2, (*front, count, 4)), dtype)
    expected = old.numpy().copy()
    expected[..., start : start + count, :] = new.numpy()
    for write in (overwritten, interpreted(overwritten)):
        graph = tf.function(lambda *inputs, write=write: write(*inputs), autograph=False)
        unknown = tf.TensorSpec([None] * old.shape.rank, old.dtype)
        in_graph = graph.get_concrete_function(unknown, new, tf.TensorSpec([], tf.int32))
        for found in (write(old, new, start), in_graph(old, new, tf.constant(start))):
            np.testing.assert_array_equal(found, expected)


def test_what_is_used_elsewhere_stays_as_it_was():
    old = tf.zeros((2, 3, 4))

    @interpreted
    def both(tensor):
        longer = tensor + 1.0
        return longer, overwritten(longer, tf.fill((2, 1, 4), 7.0), 1)

    for call in (both, tf.function(both, autograph=False)):
        before, after = call(old)
        np.testing.assert_array_equal(before, np.ones((2, 3, 4)))
        assert after.numpy()[:, :, 0].tolist() == [[1, 7, 1]] * 2
    interpreted(overwritten)(old, tf.ones((2, 1, 4)), 0)
    assert not old.numpy().any()


def test_a_loop_copies_no_cache():
    graph = tf.function(
        lambda old: tf.while_loop(
            lambda place, cache: place < 5,
            lambda place, cache: (place + 1, interpreted(overwritten)(cache, cache[:, :1], place)),
            (0, old),
        )[1],
        [tf.TensorSpec([None, None, 4])],
        autograph=False,
    ).get_concrete_function()
    kinds = {
        node.op
        for function in graph.graph.as_graph_def().library.function
        for node in function.node_def
    }
    assert kinds & {"SelectV2", "TensorStridedSliceUpdate"} == {"TensorStridedSliceUpdate"}
