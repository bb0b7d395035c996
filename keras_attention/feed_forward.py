"""A position-wise feed-forward network."""

from collections.abc import Collection
from typing import Any

import keras

from keras_attention import activations
from keras_attention._checks import (
    has_bias,
    parts_with_bias,
    plain,
    require_fractions,
    require_positive_integers,
)
from keras_attention._dense import Dense
from keras_attention._recompute import Recomputable

LAYERS = ("inner", "gate", "outer")


@keras.saving.register_keras_serializable(package="keras_attention")
class FeedForward(Recomputable):
    """Position-wise feed-forward network of two dense layers, the first one optionally gated.

    $$ FeedForward(x) = W_2 activation(W_1 x + b_1) + b_2 $$

    $$ gated: W_2 (activation(W_g x + b_g) \\odot (W_1 x + b_1)) + b_2 $$

    Paper: Vaswani et al. 2017, equation 2 (https://arxiv.org/abs/1706.03762); gated: Shazeer 2020,
    GLU Variants Improve Transformer, equation 6 (https://arxiv.org/abs/2002.05202), which calls it
    SwiGLU with `activation="silu"`, GEGLU with `"gelu"` and ReGLU with `"relu"`.

    The layers are `inner` (`W_1`), `gate` (`W_g`) and `outer` (`W_2`).

    Args:
        hidden: Size of the hidden layer.
        activation: Activation of the hidden layer: a name in `keras.activations`, `"quick_gelu"`
            (CLIP), `"tanh_gelu"` (GPT-2), `"squared_relu"` (Primer), or a callable.
        dropout: Fraction of the hidden units to drop during training.
        use_bias: Whether the layers add a bias: `True`, `False`, or a collection of the names of
            those that do.
        gated: Whether to apply the activation to a separate gate that multiplies the first layer.

    Input shape:
        `(…, size)`.

    Output shape:
        Same as the input shape.

    Raises:
        ValueError: If `hidden` is not a positive integer, `dropout` is out of range, or `use_bias`
            names another layer.

    Example:

    >>> layer = FeedForward(hidden=32, activation="silu", use_bias=False, gated=True)
    >>> tuple(layer(np.ones((2, 5, 8))).shape), layer.count_params() == 3 * 8 * 32
    ((2, 5, 8), True)
    """

    def __init__(
        self,
        hidden: int,
        activation: Any = "relu",
        dropout: float = 0.0,
        use_bias: bool | Collection[str] = True,
        gated: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive_integers("FeedForward", hidden=hidden)
        require_fractions("FeedForward", dropout=dropout)
        self.supports_masking = True
        self.hidden = plain(hidden)
        self.activation = activations.get(activation)
        self.dropout = dropout
        self.use_bias = parts_with_bias("FeedForward", use_bias, LAYERS)
        self.gated = gated

    def build(self, x_shape):
        def dense(name, units, x_shape):
            use_bias = has_bias(self.use_bias, name)
            layer = Dense(units, use_bias=use_bias, dtype=self.dtype_policy, name=name)
            layer.build(x_shape)
            return layer

        with keras.RematScope(mode=None):
            self.inner = dense("inner", self.hidden, x_shape)
            self.gate = dense("gate", self.hidden, x_shape) if self.gated else None
            self.drop = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)
            self.outer = dense("outer", x_shape[-1], (*x_shape[:-1], self.hidden))

    def call(self, x, training=None):
        activated = activations.in_float32(self.activation, (self.gate or self.inner)(x), training)
        hidden = activated * self.inner(x) if self.gated else activated
        return self.outer(self.drop(hidden, training=training))

    def compute_output_shape(self, x_shape):
        return tuple(x_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "hidden": self.hidden,
            "activation": activations.serialize(self.activation),
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "gated": self.gated,
        }
