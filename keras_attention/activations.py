"""Activations of feed-forward networks that Keras does not provide by name."""

import functools
import math

import keras
from keras import ops

from keras_attention._backend import in_one_pass


@keras.saving.register_keras_serializable(package="keras_attention")
def squared_relu(x):
    """Returns `max(0, x)²`, elementwise.

    Paper: So et al. 2021, Primer: Searching for Efficient Transformers for Language Modeling
    (https://arxiv.org/abs/2109.08668).

    Example:

    >>> squared_relu(np.array([-1.0, 0.5, 2.0])).numpy().tolist()
    [0.0, 0.25, 4.0]
    """
    return ops.square(ops.relu(x))


@keras.saving.register_keras_serializable(package="keras_attention")
def quick_gelu(x):
    """Returns `x · σ(1.702 x)`, elementwise: the GELU approximated by a sigmoid, as in CLIP.

    Paper: Hendrycks and Gimpel 2016, Gaussian Error Linear Units, section 2
    (https://arxiv.org/abs/1606.08415).

    Example:

    >>> quick_gelu(np.array([-1.0, 0.0, 2.0])).numpy().astype(float).round(4).tolist()
    [-0.1542, 0.0, 1.9357]
    """
    return x * ops.sigmoid(1.702 * x)


@keras.saving.register_keras_serializable(package="keras_attention")
def tanh_gelu(x):
    """Returns `x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))`, elementwise: the GELU of GPT-2.

    Paper: as for `quick_gelu`.

    Example:

    >>> tanh_gelu(np.array([-1.0, 0.0, 2.0])).numpy().astype(float).round(4).tolist()
    [-0.1588, 0.0, 1.9546]
    """
    return keras.activations.gelu(x, approximate=True)


def _lean_gelu(x):
    """Keras' GELU with `erf`, which TensorFlow computes faster than `erfc`.

    This is also the form that LiteRT's converter recognizes.
    """
    return (0.5 * x) * (1.0 + ops.erf(math.sqrt(0.5) * x))


_NAMED = {each.__name__: each for each in (quick_gelu, squared_relu, tanh_gelu)}
# Activations that lose no accuracy in half precision.
_ROUNDED_ONCE = (keras.activations.linear, keras.activations.relu, squared_relu)
# Activations of several operations, which training compiles for layers of this size: compilation
# takes some tenths of a second.
_OF_SEVERAL = (keras.activations.gelu, keras.activations.silu, quick_gelu, tanh_gelu)
_WORTH_COMPILING = 512


def get(activation):
    """Returns the activation for a name or a config; returns a callable unchanged."""
    is_name = isinstance(activation, str)
    return keras.activations.get(_NAMED.get(activation, activation) if is_name else activation)


def serialize(activation):
    """Returns the identifier from which `get` restores the activation."""
    name = getattr(activation, "__name__", None)
    return name if _NAMED.get(name) is activation else keras.activations.serialize(activation)


def in_float32(activation, x, training=None):
    """Applies a smooth activation in float32 and rounds once, which is also faster."""
    if activation in _ROUNDED_ONCE:
        return activation(x)
    if training and activation in _OF_SEVERAL and x.shape[-1] >= _WORTH_COMPILING:
        return _in_one_pass(activation)(x)
    return _rounded(activation, x)


@functools.cache
def _in_one_pass(activation):
    return in_one_pass(functools.partial(_rounded, activation))


def _rounded(activation, x):
    if keras.backend.backend() == "tensorflow" and activation is keras.activations.gelu:
        activation = _lean_gelu
    return ops.cast(activation(ops.cast(x, keras.backend.result_type(x.dtype, "float32"))), x.dtype)
