"""Attention gates: a coarse signal tells which places of finer feature maps count."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import (
    agree,
    is_positive_integer,
    plain,
    require_positive_integers_or_none,
)
from keras_attention._dense import Dense
from keras_attention._layer import both
from keras_attention.feature_maps import CONVOLUTIONS, FeatureMapAttention
from keras_attention.normalizers.base import ratio


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionGate(FeatureMapAttention):
    """Attention gate of an Attention U-Net: a coarse signal weights the places of feature maps.

    $$ α = σ(ψ^⊤ relu(W_x x + W_g g + b_g) + b_ψ), \\quad y_{p,c} = α_p x_{p,c} $$

    `x` are the feature maps of a skip connection, and `g`, the gating signal, those of a decoder on
    a coarser grid, which know more of the surroundings. `W_x` is a convolution whose stride takes
    the grid of `x` to that of `g`; the weights `α` are interpolated linearly back to the grid of
    `x`, between the centers of the places of `g`. Grids may be equal.

    Paper: Oktay et al. 2018, Attention U-Net: Learning Where to Look for the Pancreas, section 2.1
    (https://arxiv.org/abs/1804.03999).

    Args:
        units: Size of the space in which `x` and `g` are added; defaults to half the channels of
            `x`.
        strides: How many places of `x` there are for one of `g` along each axis: one integer or
            several. Defaults to what the sizes tell; for sizes that are unknown, it is needed.
        data_format: As for `ChannelAttention`.

    Call arguments:
        x: Tensor `(batch, …, channels)` with 1 to 3 axes of places: sequences, images, volumes.
        gate: Tensor `(batch, …, gate_channels)`: the gating signal. The sizes of `x` are those of
            `gate` times the strides.
        mask: Boolean `(batch, …)`: `False` for places of `x` that do not count, whose weights are
            0. A place of `gate` over nothing but such places does not count either.
        gate_mask: Boolean `(batch, …)`: `False` for places of `gate` that do not count. Both masks
            are combined with Keras' implicit masks.
        return_attention_scores: Whether to also return the weights.

    Output shape:
        That of `x`; with `return_attention_scores` also the weights, float32 `(batch, …)`, a map of
        the size of `x` for each image.

    Raises:
        ValueError: If an argument is none of those above, or the sizes of `x` are not those of
            `gate` times the strides.

    Example:

    >>> skipped, coarse = np.ones((2, 8, 8, 16)), np.ones((2, 4, 4, 32))
    >>> y, weights = AttentionGate()(skipped, coarse, return_attention_scores=True)
    >>> tuple(y.shape), tuple(weights.shape)
    ((2, 8, 8, 16), (2, 8, 8))

    In the decoder of a U-Net for images of any size:

    >>> skipped, coarse = keras.Input((None, None, 16)), keras.Input((None, None, 32))
    >>> gated = AttentionGate(strides=2)(skipped, coarse)
    >>> x = keras.layers.Concatenate()([gated, keras.layers.UpSampling2D()(coarse)])
    >>> x.shape
    (None, None, None, 48)
    """

    def __init__(
        self,
        units: int | None = None,
        strides: int | Sequence[int] | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format, **kwargs)
        require_positive_integers_or_none("AttentionGate", units=units)
        self.units = plain(units)
        several = list(strides) if isinstance(strides, list | tuple | np.ndarray) else [strides]
        if strides is not None and not (several and all(map(is_positive_integer, several))):
            raise ValueError(
                "`strides` of AttentionGate must be a positive integer, several of them, one for "
                f"each axis, or None for what the sizes tell. Received: strides={strides!r}."
            )
        is_single = isinstance(strides, int | np.integer | None)
        self.strides = plain(strides) if is_single else tuple(map(int, several))

    def build(self, x_shape, gate_shape):
        strides = self._strides_of(x_shape, gate_shape)
        (*_, channels), gate_shape = map(self._with_channels_last, (x_shape, gate_shape))
        units = self.units or max(channels // 2, 1)
        options = {"dtype": self.dtype_policy}
        with keras.RematScope(mode=None):
            self.convolution = CONVOLUTIONS[len(x_shape)](
                *(units, strides, strides),
                data_format="channels_last",
                use_bias=False,
                name="convolution",
                **options,
            )
            self.convolution.build((*[None] * (len(x_shape) - 1), channels))
            self.gate_projection = Dense(units, name="gate", **options)
            self.gate_projection.build(gate_shape)
            self.score = Dense(1, name="score", **options)
            self.score.build((*gate_shape[:-1], units))

    def call(self, x, gate, mask=None, gate_mask=None, return_attention_scores=False):
        self._strides_of(x.shape, gate.shape)
        x, mask = self._visible("mask", mask, x)
        gate, gate_mask = self._visible("gate_mask", gate_mask, gate)
        y, weights = self._weighted(x, self._weights(x, mask, gate, gate_mask))
        return (y, weights) if return_attention_scores else y

    def compute_output_spec(
        self, x, gate, mask=None, gate_mask=None, return_attention_scores=False
    ):
        # Stated here, because JAX cannot trace unknown sizes of which one is a multiple of another.
        y = keras.KerasTensor(self.compute_output_shape(x.shape, gate.shape), self.compute_dtype)
        weights = keras.KerasTensor(self._with_channels_last(x.shape)[:-1], "float32")
        return (y, weights) if return_attention_scores else y

    def compute_output_shape(self, x_shape, gate_shape):
        """Returns the shape of the feature maps, without that of the weights."""
        self._strides_of(x_shape, gate_shape)
        return tuple(x_shape)

    def _weights(self, x, mask, gate, gate_mask):
        strides = self.convolution.strides
        added = self.gate_projection(gate)
        if 0 not in x.shape:  # PyTorch cannot convolve an empty map
            # Of sizes that were unknown before, unequal ones must not be broadcast.
            of_x = self.convolution(x)
            of_gate = ops.broadcast_to(added, shape_of(of_x))
            added = of_gate + ops.broadcast_to(of_x, shape_of(added))
        weights = ops.sigmoid(ops.cast(self.score(ops.relu(added)), "float32"))
        seen = both(None if mask is None else _of_cells(mask, strides), gate_mask)
        if seen is None:
            return _interpolated(weights, strides)
        seen = ops.cast(seen, "float32")
        weights = ratio(_interpolated(weights * seen, strides), _interpolated(seen, strides))
        return weights if mask is None else ops.where(mask, weights, 0.0)

    def _told(self, weights):
        return ops.squeeze(weights, -1)

    def _strides_of(self, x_shape, gate_shape):
        """Returns the strides along the axes of places, if the shapes of the inputs match."""
        shapes = [self._with_channels_last(shape) for shape in (x_shape, gate_shape)]
        received = f"Received: x of shape {tuple(x_shape)}, gate of shape {tuple(gate_shape)}"
        if len(x_shape) != len(gate_shape) or not agree(x_shape[:1], gate_shape[:1]):
            raise ValueError(
                "AttentionGate needs `x` and `gate` with equally many axes, and one map of each "
                f"for every example. {received}."
            )
        pairs = list(zip(*(shape[1:-1] for shape in shapes), strict=True))
        strides = self.convolution.strides if self.built else self.strides
        if isinstance(strides, int):
            strides = (strides,) * len(pairs)
        known = [all(isinstance(size, int) for size in pair) for pair in pairs]
        if strides is None and not all(known):
            raise ValueError(
                "AttentionGate reads its strides from the sizes of `x` and `gate`, which must be "
                f"known. {received}. Pass strides=2, if `x` is twice as large as `gate`."
            )
        if strides is None:
            strides = tuple(max(size // max(coarse, 1), 1) for size, coarse in pairs)
        if len(strides) != len(pairs):
            raise ValueError(
                f"`strides` of AttentionGate must be one integer or {len(pairs)}, one for each "
                f"axis of places. {received}, strides={strides}."
            )
        are_multiples = all(
            size == stride * coarse
            for (size, coarse), stride, is_known in zip(pairs, strides, known, strict=True)
            if is_known
        )
        if not are_multiples:
            raise ValueError(
                "AttentionGate needs `x` whose sizes are those of `gate` times whole numbers, the "
                f"strides {strides}. {received}. Pad or resize `x`, for example with "
                "keras.layers.ZeroPadding2D, before the layers that make `gate` of it. A built "
                "layer keeps its strides."
            )
        return strides

    def get_config(self):
        return {**super().get_config(), "units": self.units, "strides": self.strides}


def _of_cells(mask, strides):
    """Returns which places of the coarse grid have any visible place of the fine one."""
    batch, *sizes, _ = shape_of(mask)
    cells = [each for size, n in zip(sizes, strides, strict=True) for each in (size // n, n)]
    mask = ops.reshape(mask, (batch, *cells, 1))  # (batch, rows, strides, columns, strides, 1)
    return ops.any(mask, axis=tuple(range(2, 2 * len(sizes) + 1, 2)))


def _interpolated(x, strides):
    """Returns maps `(batch, …, 1)` enlarged by linear interpolation between the centers."""
    for axis, stride in enumerate(strides, start=1):
        x = x if stride == 1 else _interpolated_along(x, axis, stride)
    return x


def _interpolated_along(x, axis, stride):
    x = ops.moveaxis(x, axis, -1)
    before = ops.concatenate([x[..., :1], x[..., :-1]], axis=-1)
    after = ops.concatenate([x[..., 1:], x[..., -1:]], axis=-1)
    places = ((np.arange(stride) + 0.5) / stride - 0.5).astype("float32")  # from the center
    nearest = ops.where(places < 0, before[..., None], after[..., None])
    parts = x[..., None] + ops.multiply(nearest - x[..., None], np.abs(places))
    *lead, size = shape_of(x)
    return ops.moveaxis(ops.reshape(parts, (*lead, size * stride)), -1, axis)
