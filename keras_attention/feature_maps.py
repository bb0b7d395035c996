"""Attention to the channels and to the places of feature maps, as in convolutional networks."""

from typing import Any

import keras
from keras import ops

from keras_attention._checks import (
    plain,
    require_one_of,
    require_positive_integers,
    require_positive_integers_or_none,
)
from keras_attention._dense import Dense
from keras_attention._layer import ChecksArguments, as_floats, padding_mask
from keras_attention._recompute import Recomputable
from keras_attention.normalizers.base import LOWEST, hidden_lowest

POOLINGS = "mean", "max", "both"
CONVOLUTIONS = {
    3: keras.layers.Conv1D,
    4: keras.layers.Conv2D,
    5: keras.layers.Conv3D,
}


class FeatureMapAttention(ChecksArguments, Recomputable):
    """Base class of layers that multiply feature maps by weights between 0 and 1.

    A subclass has `_weights(x, mask)`, which returns float32 weights that broadcast to `x`, whose
    channels are last.
    """

    def __init__(self, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.data_format = keras.config.image_data_format() if data_format is None else data_format
        known = "channels_last", "channels_first"
        require_one_of(type(self).__name__, known, data_format=self.data_format)

    @property
    def _is_first(self):
        return self.data_format == "channels_first"

    def _with_channels_last(self, shape):
        """Returns a shape with the channels at its end."""
        if len(shape) not in CONVOLUTIONS:
            raise ValueError(
                f"{type(self).__name__} needs feature maps of 1 to 3 axes between batch and "
                f"channels, such as (batch, height, width, channels). Received: shape "
                f"{tuple(shape)}."
            )
        shape = tuple(shape)
        return (shape[0], *shape[2:], shape[1]) if self._is_first else shape

    def call(self, x, mask=None, return_attention_scores=False):
        x, mask = self._visible("mask", mask, x)
        y, weights = self._weighted(x, self._weights(x, mask))
        return (y, weights) if return_attention_scores else y

    def _visible(self, name, mask, x):
        """Returns maps with channels last, 0 at hidden places, and the mask `(batch, …, 1)`."""
        self._with_channels_last(x.shape)
        x = as_floats(x, self.compute_dtype)
        x = ops.moveaxis(x, 1, -1) if self._is_first else x
        mask = padding_mask(type(self).__name__, name, mask, x)
        if mask is None:
            return x, None
        mask = mask[..., None]
        return ops.where(mask, x, ops.cast(0.0, x.dtype)), mask  # 0 · NaN would be NaN

    def _weighted(self, x, weights):
        """Returns maps, whose channels are last, times weights, and the weights to be told."""
        y = x * ops.cast(weights, x.dtype)
        return ops.moveaxis(y, -1, 1) if self._is_first else y, self._told(weights)

    def compute_output_shape(self, x_shape):
        """Returns the shape of the feature maps, without that of the weights."""
        self._with_channels_last(x_shape)
        return tuple(x_shape)

    def get_config(self):
        return {**super().get_config(), "data_format": self.data_format}


@keras.saving.register_keras_serializable(package="keras_attention")
class ChannelAttention(FeatureMapAttention):
    """Channel attention: weights the channels of feature maps by what is in all places together.

    With `kernel_size=None`, the layer is squeeze-and-excitation, with a small network of all
    channels:

    $$ w = σ(W_2 relu(W_1 \\bar{x} + b_1) + b_2), \\quad y_{p,c} = w_c x_{p,c} $$

    where `x̄` is the mean over all places `p`. `pooling="both"` adds the outputs of the same network
    for the maximum over the places before the sigmoid, as in CBAM. With a `kernel_size`, the layer
    is efficient channel attention (ECA): in place of the network, a convolution over the channels,
    so that each depends on its neighbors alone.

    Papers: Hu et al. 2018, Squeeze-and-Excitation Networks, equations 2 to 4
    (https://arxiv.org/abs/1709.01507); Woo et al. 2018, CBAM: Convolutional Block Attention Module,
    equation 2 (https://arxiv.org/abs/1807.06521); Wang et al. 2020, ECA-Net, section 3.2
    (https://arxiv.org/abs/1910.03151).

    Args:
        reduction: How many times as many channels as hidden units there are; at least one unit
            remains. For the network alone.
        pooling: What the weights depend on: `"mean"`, `"max"` or `"both"`.
        kernel_size: Number of channels that the weight of a channel depends on, or `None` for the
            network of all channels.
        data_format: `"channels_last"` or `"channels_first"`; defaults to
            `keras.config.image_data_format()`.

    Call arguments:
        x: Tensor `(batch, …, channels)` with 1 to 3 axes of places: sequences, images, volumes.
        mask: Boolean `(batch, …)`: `False` for places that do not count; combined with Keras'
            implicit mask.
        return_attention_scores: Whether to also return the weights.

    Output shape:
        That of `x`; with `return_attention_scores` also the weights, float32 `(batch, channels)`.

    Raises:
        ValueError: If an argument is none of those above, or `x` has other axes.

    Example:

    >>> layer = ChannelAttention(reduction=4)
    >>> y, weights = layer(np.ones((2, 7, 7, 16)), return_attention_scores=True)
    >>> tuple(y.shape), tuple(weights.shape)
    ((2, 7, 7, 16), (2, 16))

    A convolutional block attention module (CBAM) attends to channels first, then to places:

    >>> cbam = keras.Sequential([ChannelAttention(pooling="both"), SpatialAttention()])
    >>> tuple(cbam(np.ones((2, 7, 7, 16))).shape)
    (2, 7, 7, 16)
    """

    def __init__(
        self,
        reduction: int = 16,
        pooling: str = "mean",
        kernel_size: int | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format, **kwargs)
        require_positive_integers("ChannelAttention", reduction=reduction)
        require_one_of("ChannelAttention", POOLINGS, pooling=pooling)
        require_positive_integers_or_none("ChannelAttention", kernel_size=kernel_size)
        self.reduction = plain(reduction)
        self.pooling = pooling
        self.kernel_size = plain(kernel_size)

    def build(self, x_shape):
        batch, *_, channels = self._with_channels_last(x_shape)
        options = {"dtype": self.dtype_policy}
        with keras.RematScope(mode=None):
            if self.kernel_size is not None:
                self.convolution = keras.layers.Conv1D(
                    *(1, self.kernel_size),
                    padding="same",
                    data_format="channels_last",
                    use_bias=False,
                    name="convolution",
                    **options,
                )
                self.convolution.build((batch, channels, 1))
                return
            hidden = max(channels // self.reduction, 1)
            self.squeeze = Dense(hidden, activation="relu", name="squeeze", **options)
            self.squeeze.build((batch, channels))
            self.excite = Dense(channels, name="excite", **options)
            self.excite.build((batch, hidden))

    def _weights(self, x, mask):
        places = tuple(range(1, len(x.shape) - 1))
        pooled = []
        if self.pooling != "max":
            pooled.append(_mean(x, mask, places))
        if self.pooling != "mean":
            pooled.append(_highest(x, mask, places))
        logits = sum(self._logits(ops.cast(each, self.compute_dtype)) for each in pooled)
        return ops.expand_dims(ops.sigmoid(logits), places)

    def _logits(self, pooled):
        """Returns float32 `(batch, channels)` for what was pooled."""
        if self.kernel_size is None:
            logits = self.excite(self.squeeze(pooled))
        else:
            logits = self.convolution(pooled[:, :, None])[:, :, 0]
        return ops.cast(logits, "float32")

    def _told(self, weights):
        return ops.squeeze(weights, tuple(range(1, len(weights.shape) - 1)))

    def get_config(self):
        return {
            **super().get_config(),
            "reduction": self.reduction,
            "pooling": self.pooling,
            "kernel_size": self.kernel_size,
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class SpatialAttention(FeatureMapAttention):
    """Spatial attention: weights the places of feature maps by what is in their surroundings.

    $$ w = σ(conv([mean_c(x); \\max_c(x)]) + b), \\quad y_{p,c} = w_p x_{p,c} $$

    The mean and the maximum are over the channels `c` of each place `p`. After `ChannelAttention`,
    it makes up CBAM.

    Paper: Woo et al. 2018, CBAM: Convolutional Block Attention Module, equation 3
    (https://arxiv.org/abs/1807.06521).

    Args:
        kernel_size: Side of the surroundings, in places.
        data_format: As for `ChannelAttention`.

    Call arguments:
        x, mask: As for `ChannelAttention`. Hidden places have a weight of 0.
        return_attention_scores: Whether to also return the weights.

    Output shape:
        That of `x`; with `return_attention_scores` also the weights, float32 `(batch, …)`, a map
        for each image.

    Raises:
        ValueError: As for `ChannelAttention`.

    Example:

    >>> y, weights = SpatialAttention()(np.ones((2, 7, 7, 16)), return_attention_scores=True)
    >>> tuple(y.shape), tuple(weights.shape)
    ((2, 7, 7, 16), (2, 7, 7))
    """

    def __init__(self, kernel_size: int = 7, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(data_format, **kwargs)
        require_positive_integers("SpatialAttention", kernel_size=kernel_size)
        self.kernel_size = plain(kernel_size)

    def build(self, x_shape):
        shape = self._with_channels_last(x_shape)
        with keras.RematScope(mode=None):
            self.convolution = CONVOLUTIONS[len(shape)](
                *(1, self.kernel_size),
                padding="same",
                data_format="channels_last",
                dtype=self.dtype_policy,
                name="convolution",
            )
            self.convolution.build((*shape[:-1], 2))

    def _weights(self, x, mask):
        pooled = ops.stack([_mean(x, None, -1), _highest(x, None, -1)], axis=-1)
        logits = pooled[..., :1]
        if 0 not in pooled.shape:  # PyTorch cannot convolve an empty map
            logits = self.convolution(ops.cast(pooled, self.compute_dtype))
        weights = ops.sigmoid(ops.cast(logits, "float32"))
        return weights if mask is None else ops.where(mask, weights, 0.0)

    def _told(self, weights):
        return ops.squeeze(weights, -1)

    def get_config(self):
        return {**super().get_config(), "kernel_size": self.kernel_size}


def _mean(x, mask, axes):
    """Returns the float32 mean over axes; 0 where nothing is visible."""
    x = ops.cast(x, "float32")
    if 0 in x.shape:
        return ops.sum(x, axes)  # zeros: the mean of nothing would be NaN
    if mask is None:
        return ops.mean(x, axes)
    total = ops.sum(ops.where(mask, x, 0.0), axes)
    return total / ops.maximum(ops.sum(ops.cast(mask, "float32"), axes), 1.0)


def _highest(x, mask, axes):
    """Returns the float32 maximum over axes; 0 where nothing is visible."""
    x = ops.cast(x, "float32")
    if 0 in x.shape:
        return ops.sum(x, axes)  # zeros: on PyTorch, an empty maximum has no axes
    seen = x if mask is None else hidden_lowest(x, mask)
    found = ops.max(seen, axes, initial=LOWEST)
    return ops.where(found == LOWEST, 0.0, found)
