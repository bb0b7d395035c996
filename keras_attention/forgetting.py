"""Forgetting attention: softmax attention whose scores fall by what was forgotten since a key."""

from collections.abc import Collection
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import masks
from keras_attention._backend import shape_of
from keras_attention._memory import Memory
from keras_attention._registry import serialize
from keras_attention._split import split_after
from keras_attention.multi_head import MultiHeadAttention
from keras_attention.positions import Position

FIXED = ("score", "normalizer", "position", "soft_cap", "use_sink")


@keras.saving.register_keras_serializable(package="keras_attention")
class ForgettingAttention(MultiHeadAttention):
    """Causal multi-head attention with a forget gate, as in a Forgetting Transformer (FoX).

    $$ f_{ht} = σ(W^F x_t + b)_h, \\quad
       head_{hi} = softmax_j(\\frac{q_{hi}^T k_{hj}}{\\sqrt{d}} +
       \\sum_{l = j + 1}^{i} \\log f_{hl}) \\, v_{hj}, \\quad j \\le i $$

    `x_t` is the key's input. A gate of 1 keeps everything before, as in `MultiHeadAttention`; one
    of 0 forgets it. The gates also tell near keys from far ones: the layer needs no positions.

    Paper: Lin et al. 2025, Forgetting Transformer: Softmax Attention with a Forget Gate
    (https://arxiv.org/abs/2503.02130). Of its "Pro" block, the output gate and the normalization of
    queries and keys are options, `use_gate=True` and `query_key_norm=1e-6`.

    The keys of a `Memory` hold the logarithms of their gates as further features, one for each head
    that shares them. Scores are computed in float32, also in mixed precision, since they contain
    sums over the whole length; the gates themselves have the precision of the computation.

    Args:
        num_heads, key_dim, value_dim, dropout: As for `MultiHeadAttention`.
        use_bias: As for `MultiHeadAttention`; the projection of the gates is called `"forget"`.
        mask: A mask in addition to the causal one.
        **kwargs: All other arguments of `MultiHeadAttention` but those of the equation: `score`,
            `normalizer`, `position`, `soft_cap` and `use_sink`.

    Call arguments:
        As for `MultiHeadAttention`. Keys that a padding mask hides forget nothing.

    Output shape:
        As for `MultiHeadAttention`.

    Raises:
        ValueError: If an argument of the equation is given, or as for `MultiHeadAttention`.

    Example:

    >>> layer = ForgettingAttention(num_heads=2, key_dim=4)
    >>> x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype("float32")
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 2, 5, 5))
    """

    projections = (*MultiHeadAttention.projections, "forget")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool | Collection[str] = True,
        *,
        mask: Any = None,
        **kwargs: Any,
    ) -> None:
        given = [name for name in FIXED if name in kwargs]
        if given:
            raise ValueError(
                f"`{given[0]}` of ForgettingAttention is part of its equation. Received: "
                f"{given[0]}={kwargs[given[0]]!r}. Omit it, or use MultiHeadAttention."
            )
        self.further_mask = None if mask is None else masks.get(mask)
        causal = masks.combine(masks.Causal(), self.further_mask)
        forgotten = ForgetGates()
        super().__init__(
            num_heads,
            key_dim,
            value_dim,
            dropout,
            use_bias,
            mask=causal,
            position=forgotten,
            **kwargs,
        )

    def build(self, query_shape, value_shape, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        axes = self._attended_axes(query_shape, value_shape, key_shape or value_shape)
        key_shape = axes.flat_shape(key_shape or value_shape)
        self.forget_projection = self._projection("forget", self.num_heads, key_shape)

    def _prepare(self, key, value, mask, start):
        log_gates = ops.log_sigmoid(_float32(self.forget_projection(key)))
        key = self._of_heads(self.key_projection, self.key_norm, key)
        sharing = self.num_heads // self.num_key_value_heads
        parts = key, ops.cast(self._split_heads(log_gates, sharing), key.dtype)
        value = self._project(self.value_projection, value, self.value_dim)
        return Memory(ops.concatenate(parts, axis=-1), value, mask)

    def _attend_heads(self, query, memory, query_mask, mask, training, start, *flags):
        key, log_gates = split_after(memory.key, self.key_dim)
        length, sharing = shape_of(key)[-2], log_gates.shape[-1]
        log_gates = _float32(log_gates)
        own = np.eye(sharing)[np.arange(self.num_heads) % sharing]  # which gate is of a head
        own = ops.convert_to_tensor(own[:, None], log_gates.dtype)
        log_gates = ops.sum(log_gates * own, axis=-1)
        end = length if start is None else start + shape_of(query)[-2]
        counts = ops.arange(length, dtype="int32") < end  # a cache may have room behind
        if memory.mask is not None:
            counts = ops.logical_and(counts, memory.mask[:, None])
        forgotten = _sums_of_later(ops.where(counts, log_gates, 0.0))[..., None]
        key = ops.concatenate([_float32(key), forgotten], axis=-1)
        query, memory = _float32(query), memory._replace(key=key)
        return super()._attend_heads(query, memory, query_mask, mask, training, start, *flags)

    def get_config(self):
        config = {name: each for name, each in super().get_config().items() if name not in FIXED}
        further = self.further_mask
        return {**config, "mask": None if further is None else serialize(further)}


def _float32(x):
    """Casts to float32, unless `x` is float64."""
    return ops.cast(x, keras.backend.result_type(x.dtype, "float32"))


def _sums_of_later(x):
    """Returns the sum of everything behind each number of the last axis."""
    return ops.flip(ops.cumsum(ops.flip(x, axis=-1), axis=-1), axis=-1) - x


class ForgetGates(Position):
    """Adds the last feature of each key, what is forgotten since, to its scores.

    The sum from a key to the last query, in place of that to each query: the difference is the same
    for all keys, and a softmax does not see it.
    """

    num_key_features = 1

    def key_features(self, key):
        return None  # the layer joins them to the keys

    def bias(self, features, query_positions, key_positions):
        return ops.swapaxes(features[1], -1, -2)
