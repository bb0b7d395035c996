"""Vectors of positions that are added to embeddings, or joined, by their equations."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import positions
from tests.attention import oracle
from tests.attention.gradients import weight_gradients

RNG = np.random.default_rng(0)
HALF = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # largest relative rounding error
BATCH, SIZE = 2, 8
needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="is about tf.function"
)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def sinusoids(length, size, start=0, max_wavelength=10000):
    """The equation of section 3.5 of Vaswani et al., number by number."""
    table = np.zeros((length, size))
    for row, column in np.ndindex(length, size):
        angle = (start + row) / max_wavelength ** (column // 2 * 2 / size)
        table[row, column] = np.cos(angle) if column % 2 else np.sin(angle)
    return table


def learned(**arguments):
    return positions.LearnedPosition(40, **arguments)


EMBEDDINGS = {"sinusoidal": positions.SinusoidalPosition, "learned": learned}


def vectors_of(layer, length, size, start=0):
    if isinstance(layer, positions.LearnedPosition):
        return oracle.weight(layer, "embeddings")[start : start + length]
    return sinusoids(length, size, start, layer.max_wavelength)


@pytest.mark.parametrize("kind", EMBEDDINGS)
@pytest.mark.parametrize("size", [1, 2, 7, 8])
@pytest.mark.parametrize("start", [0, 5])
def test_vectors_are_added_or_concatenated(kind, size, start):
    x = random(BATCH, 9, size)
    added = EMBEDDINGS[kind]()
    found = oracle.float64(added(x, start=start))
    np.testing.assert_allclose(found, x + vectors_of(added, 9, size, start), atol=1e-6)
    for other in (None, 5):
        joined = EMBEDDINGS[kind](mode="concatenate", size=other)
        found = oracle.float64(joined(x, start=start))
        np.testing.assert_array_equal(found[..., :size], x)
        expected = vectors_of(joined, 9, other or size, start)
        np.testing.assert_allclose(found[0, :, size:], expected, atol=1e-6)
        np.testing.assert_array_equal(found[0, :, size:], found[1, :, size:])


def test_wavelength_can_be_chosen():
    layer = positions.SinusoidalPosition(max_wavelength=50)
    found = oracle.float64(layer(np.zeros((1, 30, 6))))[0]
    np.testing.assert_allclose(found, sinusoids(30, 6, max_wavelength=50), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
def test_sinusoids_in_half_precision_are_the_true_ones_rounded_once(dtype):
    rounding = dtype.removeprefix("mixed_")
    length, size = 1024, 64
    found = positions.SinusoidalPosition(dtype=dtype)(np.zeros((1, length, size)))
    assert keras.backend.standardize_dtype(found.dtype) == rounding
    found, true = oracle.float64(found)[0], sinusoids(length, size)
    allowed = HALF[rounding] * np.abs(true) + 2e-4  # the angle is a float32
    assert (np.abs(found - true) <= allowed).all()
    rounded = oracle.float64(ops.cast(true, rounding))
    distinct = (rounded[1:] != rounded[:-1]).any(-1)
    assert distinct.all()
    np.testing.assert_array_equal((found[1:] != found[:-1]).any(-1), distinct)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_sum_is_rounded_once_in_half_precision(kind, dtype):
    x = oracle.float64(ops.cast(random(1, 30, SIZE), dtype))
    layer = EMBEDDINGS[kind](dtype=keras.DTypePolicy(f"mixed_{dtype}"))
    exact = x.astype("float32") + np.float32(vectors_of_built(layer, x))
    expected = oracle.float64(ops.cast(exact, dtype))
    difference = np.abs(oracle.float64(layer(x)) - expected)
    assert (difference > 0).mean() < 0.01  # a float32 sine may be at a rounding boundary
    assert (difference <= 2 * HALF[dtype] * np.abs(expected) + 1e-7).all()


def vectors_of_built(layer, x):
    layer.build(x.shape)
    for variable in layer.weights:
        variable.assign(random(*variable.shape))
    return vectors_of(layer, *x.shape[1:])


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_each_sequence_may_have_a_start_of_its_own(kind):
    layer, x = EMBEDDINGS[kind](), random(2, 4, SIZE)
    found = oracle.float64(layer(x, start=np.array([2, -3], "int32")))
    np.testing.assert_allclose(found[:1], oracle.float64(layer(x[:1], start=2)), atol=1e-6)
    np.testing.assert_allclose(found[1:, 3:], oracle.float64(layer(x[1:, 3:], start=0)), atol=1e-6)
    for place in range(3):  # padding in front
        of_padding = layer(x[1:, place : place + 1], start=0)
        np.testing.assert_allclose(found[1:, [place]], oracle.float64(of_padding), atol=1e-6)


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_steps_with_a_start_equal_the_whole_sequence(kind):
    layer, x = EMBEDDINGS[kind](), random(BATCH, 6, SIZE)
    whole = oracle.float64(layer(x))
    for now in range(6):
        for start in (now, ops.convert_to_tensor(now), ops.convert_to_tensor(now, "int64")):
            step = oracle.float64(layer(x[:, now : now + 1], start=start))
            np.testing.assert_allclose(step[:, 0], whole[:, now], atol=1e-6)


@needs_tensorflow
@pytest.mark.parametrize("kind", EMBEDDINGS)
@pytest.mark.parametrize("mode", ["add", "concatenate"])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_embeddings_compile_for_unknown_lengths_and_starts(kind, mode, jit_compile):
    import tensorflow as tf

    layer = EMBEDDINGS[kind](mode=mode)
    layer.build((None, None, SIZE))
    unknown = [tf.TensorSpec((None, None, SIZE)), tf.TensorSpec((), tf.int32)]
    compiled = tf.function(
        lambda x, start: layer(x, start=start),
        input_signature=None if jit_compile else unknown,
        jit_compile=jit_compile,
    )
    for length, start in [(1, 7), (5, 0), (0, 3)]:
        x = tf.constant(random(BATCH, length, SIZE))
        found = oracle.float64(compiled(x, tf.constant(start)))
        np.testing.assert_allclose(found, oracle.float64(layer(x, start=start)), atol=1e-5)


@pytest.mark.parametrize("kind", EMBEDDINGS)
@pytest.mark.parametrize("mode", ["add", "concatenate"])
def test_embeddings_in_a_functional_model_keep_mask_and_shape(kind, mode):
    tokens, start = keras.Input((None,), dtype="int32"), keras.Input(batch_shape=(), dtype="int32")
    embedded = keras.layers.Embedding(9, SIZE, mask_zero=True)(tokens)
    layer = EMBEDDINGS[kind](mode=mode)
    y = layer(embedded, start=start)
    assert y.shape == (None, None, SIZE * (1 if mode == "add" else 2))
    pooled = keras.layers.GlobalAveragePooling1D()(y)
    model = keras.Model([tokens, start], [y, pooled])
    y, pooled = model([np.array([[3, 4, 0], [5, 0, 0]]), np.array(2)])
    y, pooled = oracle.float64(y), oracle.float64(pooled)
    np.testing.assert_allclose(pooled, [y[0, :2].mean(0), y[1, 0]], atol=1e-5)
    np.testing.assert_allclose(
        y[0, :, -SIZE:] - y[1, :, -SIZE:], 0 if mode != "add" else y[0] - y[1]
    )


@pytest.mark.parametrize("kind", EMBEDDINGS)
@pytest.mark.parametrize(
    "arguments", [{}, {"mode": "concatenate"}, {"mode": "concatenate", "size": 3}]
)
def test_embeddings_tell_their_shape(kind, arguments):
    layer = EMBEDDINGS[kind](**arguments)
    each = keras.layers.TimeDistributed(layer)
    x = random(BATCH, 3, 5, SIZE)
    assert each(keras.Input(x.shape[1:])).shape == (None, *tuple(each(x).shape)[1:])


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_embeddings_may_be_empty(kind):
    for shape in [(0, 3, SIZE), (2, 0, SIZE)]:
        assert tuple(EMBEDDINGS[kind]()(np.zeros(shape)).shape) == shape


def test_learned_vectors_get_a_gradient_where_they_are_used():
    layer, x = learned(), random(BATCH, 3, SIZE)
    layer.build(x.shape)
    (gradient,) = weight_gradients(layer, x).values()
    expected = np.zeros((40, SIZE))
    expected[:3] = BATCH
    np.testing.assert_allclose(oracle.float64(ops.convert_to_tensor(gradient)), expected)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="is about IndexedSlices")
def test_a_learned_vector_moves_as_far_however_many_sequences_use_it():
    """The first step of Adam moves every weight with a gradient by the learning rate."""
    import tensorflow as tf

    layer, x = learned(), random(BATCH, 3, SIZE)
    layer.build(x.shape)
    before = oracle.float64(layer.embeddings)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(x, start=np.arange(BATCH)))
    gradients = tape.gradient(total, [layer.embeddings.value])
    keras.optimizers.Adam(0.5).apply(gradients, layer.trainable_variables)
    moved = (before - oracle.float64(layer.embeddings))[: BATCH + 2]
    np.testing.assert_allclose(moved, 0.5, rtol=1e-4)
