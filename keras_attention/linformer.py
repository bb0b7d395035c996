"""Linformer: attention over a fixed number of learned mixtures of the keys."""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention import masks
from keras_attention._approximation import Approximation
from keras_attention._backend import shape_of
from keras_attention._checks import require_positive_integers
from keras_attention._initializers import independent
from keras_attention._memory import MemoryAttention
from keras_attention._products import matmul
from keras_attention.attention import Attention


@keras.saving.register_keras_serializable(package="keras_attention")
class LinformerAttention(MemoryAttention, Approximation):
    """Multi-head attention over `k` learned mixtures of the keys, whatever the number of keys.

    $$ head_h = softmax(Q_h (E K_h)^T / \\sqrt{d}) \\, F V_h $$

    with `E` and `F` of shape `k × max_length`, shared by all heads. Time and memory are
    `O(T · k · d)`. Each mixture combines keys from all positions, so causal masks and masks of
    pairs are not supported; padding is excluded from every mixture.

    Paper: Wang et al. 2020, Linformer: Self-Attention with Linear Complexity
    (https://arxiv.org/abs/2006.04768).

    Args:
        num_heads, key_dim, value_dim, dropout, use_bias, output_dim: As for `MultiHeadAttention`.
        projected_length: `k`, the number of mixtures.
        max_length: Maximum number of keys. Shorter inputs use the first columns of `E` and `F`.
        share_projection: Whether to use `E` as `F`.
        projection_initializer: Initializer of `E` and `F`. Defaults to a normal distribution with
            variance `1 / k`.
        seed: Integer seed of the dropout.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but `attention_mask` and `use_causal_mask` are not supported.

    Output shape:
        `(batch, query_length, output_dim)`; with `return_attention_scores` also the weights of the
        mixtures before dropout, float32 `(batch, num_heads, query_length, projected_length)`.

    Raises:
        ValueError: If a size is not positive, there are more keys than `max_length`, or a mask is
            not supported.

    Example:

    >>> layer = LinformerAttention(num_heads=2, key_dim=4, projected_length=3, max_length=64)
    >>> x = np.ones((2, 50, 8))
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 50, 3))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool | Collection[str] = True,
        *,
        output_dim: int | None = None,
        projected_length: int = 256,
        max_length: int = 512,
        share_projection: bool = False,
        projection_initializer: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        require_positive_integers(
            "LinformerAttention", projected_length=projected_length, max_length=max_length
        )
        self.projected_length = projected_length
        self.max_length = max_length
        self.share_projection = share_projection
        if projection_initializer is None:
            projection_initializer = keras.initializers.RandomNormal(stddev=projected_length**-0.5)
        self.projection_initializer = keras.initializers.get(projection_initializer)
        with keras.RematScope(mode=None):
            self.attention = Attention(
                dropout=dropout, seed=seed, dtype=self.dtype_policy, name="attention"
            )

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._require_fitting_shapes(query_shape, value_shape, key_shape)
        self._build_projections(query_shape, value_shape, key_shape)
        batch, length, _ = query_shape
        self.attention.build_heads(
            (batch, self.num_heads, length, self.key_dim),
            (batch, self.num_heads, self.projected_length, self.key_dim),
        )
        self.key_mixtures = self._mixtures("key_mixtures")
        self.value_mixtures = (
            self.key_mixtures if self.share_projection else self._mixtures("value_mixtures")
        )

    def _mixtures(self, name):
        return self.add_weight(
            name=name,
            shape=(self.projected_length, self.max_length),
            initializer=independent(self.projection_initializer),
        )

    def _weights_shape(self, query_shape, value_shape):
        return (*super()._weights_shape(query_shape, value_shape)[:-1], self.projected_length)

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        self._refuse_pairs(
            attention_mask, use_causal_mask, "every mixture contains keys from all positions"
        )

    def _require_fitting_shapes(self, query_shape, value_shape, key_shape):
        super()._require_fitting_shapes(query_shape, value_shape, key_shape)
        if isinstance(key_shape[1], int) and key_shape[1] > self.max_length:
            raise ValueError(
                f"{type(self).__name__} mixes at most max_length={self.max_length} keys. "
                f"Received: key of shape {tuple(key_shape)}. Use a larger max_length, or shorten "
                "the keys."
            )

    def _prepare(self, key, value, mask, start):
        self._require_fitting_shapes(key.shape, value.shape, key.shape)
        key = self._project(self.key_projection, key, self.key_dim)
        value = self._project(self.value_projection, value, self.value_dim)
        key = self._mix(self.key_mixtures, key, mask)
        value = self._mix(self.value_mixtures, value, mask)
        if mask is not None:  # a mixture of only hidden keys is hidden
            mask = ops.repeat(ops.any(mask, axis=1, keepdims=True), self.projected_length, axis=1)
        return self.attention.prepare_heads(key, value, mask)

    def _attend(self, query, memory, query_mask, mask, *arguments):
        is_causal = isinstance(mask, masks.Causal)
        self._require_possible(None, None if is_causal else mask, is_causal)
        query = self._project(self.query_projection, query, self.key_dim)
        context, weights = self.attention.attend_heads(query, memory, query_mask, None, *arguments)
        return self._merge(context), weights

    def _mix(self, mixtures, x, mask):
        """(batch, heads, key_length, size) -> (batch, heads, projected_length, size)."""
        if mask is not None:  # hidden inputs are zeros, but the projection adds its bias
            x = ops.where(mask[:, None, :, None], x, ops.cast(0.0, x.dtype))
        mixtures, length = ops.cast(mixtures, x.dtype), shape_of(x)[2]
        if isinstance(length, int) or ops.is_tensor(length):
            return matmul(mixtures[:, :length], x)
        # A symbolic length of JAX, which cannot know that it is at most max_length.
        return matmul(ops.take(mixtures, ops.arange(length, dtype="int32"), axis=1), x)

    def get_config(self):
        return {
            **super().get_config(),
            "projected_length": self.projected_length,
            "max_length": self.max_length,
            "share_projection": self.share_projection,
            "projection_initializer": keras.initializers.serialize(self.projection_initializer),
            "dropout": self.attention.dropout,
            "seed": self.attention.seed,
        }
