"""Activations of feed-forward networks that Keras does not provide by name."""

import math

import keras
from keras import ops


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


@ops.custom_gradient
def _lean_gelu(x):
    """Keras' GELU, with half as many passes over memory where operations are not fused.

    It is `(x / 2) (1 + erf(z))` with `z = x / √2`, in the form that LiteRT's converter recognizes;
    its derivative is `(1 + erf(z) + z erf'(z)) / 2`.
    """
    z = math.sqrt(0.5) * x
    risen = 1.0 + ops.erf(z)

    def gradient(*arguments, upstream=None):
        upstream = arguments[0] if upstream is None else upstream
        slope_of_erf = ops.exp(math.log(2.0 / math.sqrt(math.pi)) - ops.square(z))
        return upstream * (0.5 * (risen + z * slope_of_erf))

    return (0.5 * x) * risen, gradient


_NAMED = {each.__name__: each for each in (quick_gelu, squared_relu, tanh_gelu)}
# Activations that lose no accuracy in half precision.
_ROUNDED_ONCE = (keras.activations.linear, keras.activations.relu, squared_relu)


def get(activation):
    """Returns the activation for a name or a config; returns a callable unchanged."""
    is_name = isinstance(activation, str)
    return keras.activations.get(_NAMED.get(activation, activation) if is_name else activation)


def serialize(activation):
    """Returns the identifier from which `get` restores the activation."""
    name = getattr(activation, "__name__", None)
    return name if _NAMED.get(name) is activation else keras.activations.serialize(activation)


def in_float32(activation, x):
    """Applies a smooth activation in float32 and rounds once, which is also faster."""
    if activation in _ROUNDED_ONCE:
        return activation(x)
    nothing_fuses = keras.backend.backend() == "tensorflow"
    if nothing_fuses and activation is keras.activations.gelu:
        activation = _lean_gelu
    return ops.cast(activation(ops.cast(x, "float32")), x.dtype)
