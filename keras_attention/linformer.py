"""Linformer: attention over a fixed number of mixtures of the keys."""

import keras
from keras import ops

from keras_attention import masks
from keras_attention._approximation import Approximation
from keras_attention._checks import require_positive_integers
from keras_attention._initializers import independent
from keras_attention._products import matmul
from keras_attention.attention import Memory


@keras.saving.register_keras_serializable(package="keras_attention")
class LinformerAttention(Approximation):
    """Multi-head attention over `k` learned mixtures of the keys, whatever the number of keys.

    $$ head_h = softmax(Q_h (E K_h)^T / \\sqrt{d}) \\, F V_h $$

    with `E` and `F` of shape `k × max_length`, the same for all heads. Time and memory are
    `O(T · k · d)`. A mixture takes in keys from all positions, so there is no causal mask and no
    mask of pairs; padding is left out of every mixture.

    Paper: Wang et al. 2020, Linformer: Self-Attention with Linear Complexity
    (https://arxiv.org/abs/2006.04768).

    Args:
        num_heads, key_dim, value_dim, dropout, use_bias, output_dim: As for `MultiHeadAttention`.
        projected_length: `k`, the number of mixtures.
        max_length: The largest number of keys. Fewer use the first columns of `E` and `F`.
        share_projection: Whether `F` is `E`.
        projection_initializer: Initializer of `E` and `F`. Defaults to a normal distribution of
            variance `1 / k`.
        kernel_initializer, seed: As for `MultiHeadAttention`.

    Call arguments:
        As for `Attention`; `attention_mask` and `use_causal_mask` are refused.

    Output shape:
        `(batch, query_length, output_dim)`; with `return_attention_scores` also the weights of the
        mixtures before dropout, float32 `(batch, num_heads, query_length, projected_length)`.

    Raises:
        ValueError: If a size is not positive, there are more keys than `max_length`, or a mask
            cannot be honoured.

    Example:

    >>> layer = LinformerAttention(num_heads=2, key_dim=4, projected_length=3, max_length=64)
    >>> x = np.ones((2, 50, 8))
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 50, 3))
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        *,
        output_dim=None,
        projected_length=256,
        max_length=512,
        share_projection=False,
        projection_initializer=None,
        kernel_initializer="glorot_uniform",
        seed=None,
        **kwargs,
    ):
        super().__init__(
            num_heads,
            key_dim,
            value_dim,
            output_dim,
            use_bias,
            kernel_initializer,
            seed,
            dropout,
            **kwargs,
        )
        require_positive_integers(
            "LinformerAttention", projected_length=projected_length, max_length=max_length
        )
        self.projected_length = projected_length
        self.max_length = max_length
        self.share_projection = share_projection
        if projection_initializer is None:
            projection_initializer = keras.initializers.RandomNormal(stddev=projected_length**-0.5)
        self.projection_initializer = keras.initializers.get(projection_initializer)

    def build(self, query_shape, value_shape, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
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

    def attend(self, query, memory, query_mask=None, mask=None, *args, **kwargs):
        is_causal = isinstance(mask, masks.Causal)
        self._require_possible(None, None if is_causal else mask, is_causal)
        return super().attend(query, memory, query_mask, None, *args, **kwargs)

    def _number_of_weights(self, key_length):
        return self.projected_length

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        if use_causal_mask or attention_mask is not None:
            self._refuse(
                "use_causal_mask" if use_causal_mask else "attention_mask",
                "every mixture takes in keys from all positions",
                "Hide keys from all queries by value_mask or key_mask",
            )

    def _require_fitting_shapes(self, query_shape, value_shape, key_shape):
        super()._require_fitting_shapes(query_shape, value_shape, key_shape)
        if isinstance(key_shape[1], int) and key_shape[1] > self.max_length:
            raise ValueError(
                f"{type(self).__name__} mixes at most max_length={self.max_length} keys. "
                f"Received: key of shape {tuple(key_shape)}. Give it a larger max_length, or cut "
                "the keys."
            )

    def _prepare(self, key, value, mask, *args):
        self._require_fitting_shapes(key.shape, value.shape, key.shape)
        key, value, _ = super()._prepare(key, value, mask, *args)
        key, value = (
            self._mix(self.key_mixtures, key, mask),
            self._mix(self.value_mixtures, value, mask),
        )
        if mask is not None:  # a mixture of hidden keys alone is hidden
            mask = ops.repeat(ops.any(mask, axis=1, keepdims=True), self.projected_length, axis=1)
        return Memory(key, value, mask)

    def _mix(self, mixtures, x, mask):
        """(batch, heads, key_length, size) -> (batch, heads, projected_length, size)."""
        if mask is not None:  # hidden inputs are zeros, but the projection has added its bias
            x = ops.where(mask[:, None, :, None], x, ops.cast(0.0, x.dtype))
        return matmul(ops.cast(mixtures, x.dtype)[:, : ops.shape(x)[2]], x)

    def get_config(self):
        return {
            **super().get_config(),
            "projected_length": self.projected_length,
            "max_length": self.max_length,
            "share_projection": self.share_projection,
            "projection_initializer": keras.initializers.serialize(self.projection_initializer),
        }
