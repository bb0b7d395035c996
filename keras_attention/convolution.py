"""The convolution module of the Conformer, which mixes neighboring positions."""

from typing import Any

import keras
from keras import ops

from keras_attention import activations
from keras_attention._checks import plain, require_numbers, require_positive_integers
from keras_attention._dense import Dense
from keras_attention._depthwise import DepthwiseConv1D
from keras_attention._keras import BatchNormalization, is_recomputed
from keras_attention._layer import ChecksArguments, as_floats, padding_mask, require_sequence
from keras_attention._recompute import Recomputable
from keras_attention.errors import unknown_name

CONVOLUTION_NORMS = ("batch", "layer")


@keras.saving.register_keras_serializable(package="keras_attention")
class ConvolutionModule(ChecksArguments, Recomputable):
    """The Conformer's convolution module: a gate, a depthwise convolution, a norm, an activation.

    $$ [a; g] = W_1 x + b_1, \\quad y_t = \\sum_n k_n \\odot (a \\odot σ(g))_{t+n} + b_k $$

    $$ Convolution(x) = W_2 activation(Norm(y)) + b_2 $$

    Paper: Gulati et al. 2020, Conformer: Convolution-augmented Transformer for Speech Recognition,
    section 2.2 (https://arxiv.org/abs/2005.08100). The paper's first normalization is not part of
    this layer; it comes before it.

    The layers are `inner` (`W_1`), `depthwise` (`k`), `normalization` and `outer` (`W_2`).
    Positions hidden by the mask are ignored both by neighboring positions and by the batch
    normalization.

    Args:
        kernel_size: Number of positions that the convolution covers, centered on each position; an
            even number covers one more on the right. The ends are padded with zeros.
        activation: As for `FeedForward`.
        norm: `"batch"`, as in the paper, or `"layer"`.
        epsilon: Added to the variance by the normalization.
        use_bias: Whether the layers add a bias.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        mask: Boolean `(batch, length)`, `False` for padding; combined with Keras' implicit mask.
        training: Whether to normalize by the statistics of the batch and to update the moving
            statistics.

    Output shape:
        `(batch, length, size)`.

    Raises:
        ValueError: If an argument is unknown or out of range, or the mask has the wrong shape; if
            the layer is recomputed in the backward pass, which would lose the statistics of a batch
            normalization.

    Example:

    >>> layer = ConvolutionModule(kernel_size=3)
    >>> tuple(layer(np.ones((2, 5, 8)), mask=np.ones((2, 5), bool)).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        kernel_size: int = 31,
        activation: Any = "silu",
        norm: str = "batch",
        epsilon: float = 1e-5,
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive_integers("ConvolutionModule", kernel_size=kernel_size)
        require_numbers("ConvolutionModule", at_least=0, epsilon=epsilon)
        if norm not in CONVOLUTION_NORMS:
            raise ValueError(unknown_name("norm of ConvolutionModule", norm, CONVOLUTION_NORMS))
        self.supports_masking = True
        self.kernel_size = plain(kernel_size)
        self.activation = activations.get(activation)
        self.norm = norm
        self.epsilon = epsilon
        self.use_bias = use_bias

    def build(self, x_shape):
        size, options = x_shape[-1], {"use_bias": self.use_bias, "dtype": self.dtype_policy}
        with keras.RematScope(mode=None):
            self.inner = Dense(2 * size, name="inner", **options)
            self.depthwise = DepthwiseConv1D(
                self.kernel_size,
                padding="same",
                data_format="channels_last",
                name="depthwise",
                **options,
            )
            of_kind = {
                "batch": BatchNormalization,
                "layer": keras.layers.LayerNormalization,
            }[self.norm]
            self.normalization = of_kind(
                epsilon=self.epsilon, dtype=self.dtype_policy, name="normalization"
            )
            self.outer = Dense(size, name="outer", **options)
            for layer in (self.inner, self.depthwise, self.normalization, self.outer):
                layer.build((None, None, size))

    def call(self, x, mask=None, training=None):
        require_sequence(type(self).__name__, x.shape)
        value, gate = ops.split(self.inner(as_floats(x, self.compute_dtype)), 2, axis=-1)
        value = value * ops.sigmoid(gate)
        mask = padding_mask(type(self).__name__, "mask", mask, x)
        if mask is not None:
            value = ops.where(mask[:, :, None], value, ops.cast(0.0, value.dtype))
        if value.shape[1] != 0:  # PyTorch cannot convolve an empty sequence
            value = self.depthwise(value)
        if self.norm == "batch":
            value = self.normalization(value, training=training, mask=mask)
        else:
            value = self.normalization(value)
        return self.outer(activations.in_float32(self.activation, value, training))

    def rematerialized_call(self, layer_call, *args, **kwargs):
        require_no_statistics(self, self.norm)
        return super().rematerialized_call(layer_call, *args, **kwargs)

    def compute_output_shape(self, x_shape):
        return tuple(x_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "activation": activations.serialize(self.activation),
            "norm": self.norm,
            "epsilon": self.epsilon,
            "use_bias": self.use_bias,
        }


def require_no_statistics(layer, norm):
    """Raises a `ValueError` if a layer is recomputed, which would lose its batch statistics.

    Args:
        layer: The layer.
        norm: The normalization inside its convolution.
    """
    if norm == "batch" and is_recomputed(layer):
        raise ValueError(
            f"{type(layer).__name__} with batch normalization cannot be recomputed in the backward "
            "pass, because the batch statistics would be lost. Make it outside "
            "keras.RematScope, or with layer normalization."
        )
