"""The same small network at every position."""

import math

import keras
from keras import ops

from keras_attention._checks import plain, require_fractions, require_positive_integers
from keras_attention._recompute import Recomputable


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


@ops.custom_gradient
def _lean_gelu(x):
    """The GELU of Keras, with half as many passes over memory where nothing fuses them.

    It is `(x / 2) (1 + erf(z))` with `z = x / √2`, in the form that LiteRT's converter knows; its
    slope is `(1 + erf(z) + z erf'(z)) / 2`.
    """
    z = math.sqrt(0.5) * x
    risen = 1.0 + ops.erf(z)

    def gradient(*arguments, upstream=None):
        upstream = arguments[0] if upstream is None else upstream
        slope_of_erf = ops.exp(math.log(2.0 / math.sqrt(math.pi)) - ops.square(z))
        return upstream * (0.5 * (risen + z * slope_of_erf))

    return (0.5 * x) * risen, gradient


# Activations that half precision loses nothing by.
ROUNDED_ONCE = (keras.activations.linear, keras.activations.relu, squared_relu)


def get_activation(activation):
    """Returns an activation by its name, a config, or as it is."""
    return keras.activations.get(squared_relu if activation == "squared_relu" else activation)


def serialize_activation(activation):
    """Returns what `get_activation` makes the same activation of."""
    if activation is squared_relu:
        return "squared_relu"
    return keras.activations.serialize(activation)


@keras.saving.register_keras_serializable(package="keras_attention")
class FeedForward(Recomputable):
    """The same two dense layers at every position.

    $$ FeedForward(x) = W_2 activation(W_1 x + b_1) + b_2 $$

    Paper: Vaswani et al. 2017, equation 2 (https://arxiv.org/abs/1706.03762).

    Args:
        hidden: Size between the two layers.
        activation: Activation between the two layers: a name of `keras.activations`,
            `"squared_relu"`, or a callable.
        dropout: Fraction of what is between the two layers that is dropped in training.
        use_bias: Whether the two layers add a bias.

    Input shape:
        `(…, size)`.

    Output shape:
        The same.

    Raises:
        ValueError: If `hidden` is no positive integer, or `dropout` is out of range.

    Example:

    >>> layer = FeedForward(hidden=32)
    >>> tuple(layer(np.ones((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def __init__(self, hidden, activation="relu", dropout=0.0, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        require_positive_integers("FeedForward", hidden=hidden)
        require_fractions("FeedForward", dropout=dropout)
        self.supports_masking = True
        self.hidden = plain(hidden)
        self.activation = get_activation(activation)
        self.dropout = dropout
        self.use_bias = use_bias

    def build(self, x_shape):
        def dense(units, **arguments):
            return keras.layers.Dense(
                units, use_bias=self.use_bias, dtype=self.dtype_policy, **arguments
            )

        with keras.RematScope(mode=None):
            self.inner = dense(self.hidden, name="inner")
            self.drop = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)
            self.outer = dense(x_shape[-1], name="outer")
        self.inner.build(x_shape)
        self.outer.build((*x_shape[:-1], self.hidden))

    def call(self, x, training=None):
        return self.outer(self.drop(self._activate(self.inner(x)), training=training))

    def compute_output_shape(self, x_shape):
        return tuple(x_shape)

    def _activate(self, x):
        """Smooth activations are float32 inside and rounded once, which is faster as well."""
        if self.activation in ROUNDED_ONCE:
            return self.activation(x)
        nothing_fuses = keras.backend.backend() == "tensorflow"
        is_slow = nothing_fuses and self.activation is keras.activations.gelu
        activation = _lean_gelu if is_slow else self.activation
        return ops.cast(activation(ops.cast(x, "float32")), x.dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "hidden": self.hidden,
            "activation": serialize_activation(self.activation),
            "dropout": self.dropout,
            "use_bias": self.use_bias,
        }
