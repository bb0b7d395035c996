"""Activations of feed-forward networks, as they are and in the one pass of training."""

import math

import keras
import numpy as np
import pytest

from keras_attention import activations
from keras_attention._backend import _rows_to_a_usual_number
from keras_attention.feed_forward import FeedForward
from tests.attention import oracle

tf = pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("is about TensorFlow", allow_module_level=True)

SIZE = 512  # from which on training compiles
erf = np.vectorize(math.erf)
EQUATIONS = {
    "gelu": lambda x: x / 2 * (1 + erf(x / math.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "tanh_gelu": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


def slope(function):
    """Returns the derivative of a function in float64, by central differences."""
    return lambda x: (function(x + 1e-4) - function(x - 1e-4)) / 2e-4


def with_two_derivatives(function):
    def compute(x):
        with tf.GradientTape() as outer, tf.GradientTape() as inner:
            outer.watch(x), inner.watch(x)
            y = function(x)
            first = inner.gradient(y, x)
        return y, first, outer.gradient(first, x)

    return compute


FORMS = {
    "eager": lambda function, x: function(x),
    "graph": lambda function, x: tf.function(function)(x),
    "within XLA": lambda function, x: tf.function(function, jit_compile=True)(x),
    "graph of unknown sizes": lambda function, x: tf.function(
        function, input_signature=[tf.TensorSpec((None, None, SIZE))]
    )(x),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", EQUATIONS)
@pytest.mark.parametrize("training", [True, False])
def test_equals_the_equation_with_two_derivatives(training, name, form):
    x = np.append(np.linspace(-6, 6, 3 * SIZE - 2), [-50, 50]).reshape(1, 3, SIZE)
    function = EQUATIONS[name]
    expected = function(x), slope(function)(x), slope(slope(function))(x)
    activation = activations.get(name)
    found = FORMS[form](
        with_two_derivatives(lambda x: activations.in_float32(activation, x, training)),
        tf.constant(x, "float32"),
    )
    tolerance = 5e-5 if name == "tanh_gelu" else 5e-6  # float32 rounds its tanh to -1
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(ours), theirs, atol=tolerance, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "unit"), [("bfloat16", 2**-8), ("float16", 2**-11)])
def test_training_rounds_once(dtype, unit):
    x = tf.cast(tf.linspace([-6.0], [6.0], SIZE, axis=1), dtype)
    found = activations.in_float32(keras.activations.gelu, x, training=True)
    assert found.dtype == dtype
    expected = EQUATIONS["gelu"](oracle.float64(x))
    np.testing.assert_allclose(oracle.float64(found), expected, rtol=1.001 * unit, atol=1e-6)


def test_double_precision_stays():
    x = np.linspace(-6, 6, 7)[None]
    found = FeedForward(7, "gelu", dtype="float64")
    found.build((None, 7))
    found.set_weights([np.eye(7), np.zeros(7), np.eye(7), np.zeros(7)])
    np.testing.assert_allclose(found(x), EQUATIONS["gelu"](x), atol=1e-15)


def test_no_and_few_rows():
    for shape in ((0, SIZE), (2, 0, SIZE), (SIZE,)):
        found = activations.in_float32(keras.activations.silu, tf.ones(shape), training=True)
        np.testing.assert_allclose(found, np.full(shape, EQUATIONS["silu"](1.0)), atol=1e-6)


def test_only_training_needs_xla():
    layer = FeedForward(SIZE, "gelu")
    layer.build((None, 4))

    def calls_xla(training):
        call = tf.function(lambda x: layer(x, training=training))
        graph = call.get_concrete_function(tf.TensorSpec((None, 4))).graph.as_graph_def()
        return "_XlaMustCompile" in str(graph)

    assert calls_xla(training=True)
    assert not calls_xla(training=False)


def test_there_are_few_numbers_of_rows():
    counts = np.arange(10_000, dtype="int32")
    whole = counts + _rows_to_a_usual_number(tf.constant(counts)).numpy()
    large = counts > 1024
    assert np.all(whole >= counts)
    assert np.all(whole[large] <= 1.25 * counts[large] + 1)
    assert len(set(whole.tolist())) <= 20
