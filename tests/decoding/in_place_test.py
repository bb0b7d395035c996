"""Graphs that XLA does not compile have faster operations, with the results of the others."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attention._backend import has_onednn, interpreted, overwritten
from keras_attention._normalization import LayerNormalization

RNG = np.random.default_rng(0)


@pytest.mark.few(8)
@pytest.mark.pairwise
@pytest.mark.parametrize("size", [4, 5, 8])  # wide numbers hold 4 or 8 of them
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
@pytest.mark.parametrize(
    ("front", "start", "count"),
    [((2, 3), 0, 1), ((2, 3), 4, 1), ((2, 3), 2, 3), ((4,), 1, 2), ((0, 3), 1, 1), ((2,), 5, 0)],
)
def test_written_is_what_slices_give(front, start, count, dtype, size):
    old = tf.cast(RNG.integers(0, 2, (*front, 5, size)), dtype)
    new = tf.cast(RNG.integers(0, 2, (*front, count, size)), dtype)
    expected = old.numpy().copy()
    expected[..., start : start + count, :] = new.numpy()
    unknown = [None] * old.shape.rank
    for write in (overwritten, interpreted(overwritten)):
        np.testing.assert_array_equal(write(old, new, start), expected)
        for shape in (unknown, [*unknown[:-1], size]):
            signature = [tf.TensorSpec(shape, dtype), tf.TensorSpec(new.shape, dtype)]
            signature += [tf.TensorSpec([], tf.int32)]
            in_graph = tf.function(write, signature, autograph=False)
            np.testing.assert_array_equal(in_graph(old, new, tf.constant(start)), expected)


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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(4, 1, 6), (2, 3, 5, 6), (0, 1, 6), (7, 6)])
def test_vectors_are_normalized_in_one_operation(shape, dtype):
    layer = LayerNormalization(epsilon=1e-12, dtype=dtype)
    layer.build(shape)
    scale, offset = (RNG.normal(size=6).astype("float32") for _ in range(2))
    layer.set_weights([scale, offset])
    x = tf.cast(RNG.normal(3.0, 2.0, shape), dtype)
    exact = x.numpy().astype("float64")
    exact -= exact.mean(axis=-1, keepdims=True)
    exact /= np.sqrt(np.square(exact).mean(axis=-1, keepdims=True))
    exact = exact * scale + offset
    unknown = tf.TensorSpec([*[None] * (len(shape) - 1), 6], x.dtype)
    graph = tf.function(interpreted(layer), [unknown], autograph=False)
    for found in (graph(x), layer(x), interpreted(layer)(x)):
        assert (found.dtype, found.shape) == (x.dtype, x.shape)
        tolerance = 0.03 if dtype == "bfloat16" else 2e-6
        np.testing.assert_allclose(tf.cast(found, "float64"), exact, tolerance, tolerance)
    kinds = {node.type for node in graph.get_concrete_function().graph.get_operations()}
    assert ("FusedBatchNormV3" in kinds) == (dtype != "float64" and has_onednn())
