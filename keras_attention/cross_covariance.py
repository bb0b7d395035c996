"""Cross-covariance attention: channels attend to channels, in time linear in the length."""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention._one_sequence import WithinOneSequence
from keras_attention._products import matmul, transposed
from keras_attention.normalizers.dense import Softmax


@keras.saving.register_keras_serializable(package="keras_attention")
class CrossCovarianceAttention(WithinOneSequence):
    """Multi-head attention of channels to channels, whatever the number of positions (XCA).

    $$ head = V_h A_h^T, \\quad A_h = softmax(τ_h \\, \\hat Q_h^T \\hat K_h) $$

    Each channel of the queries and of the keys, a column of `Q` and of `K`, is normalized to length
    1 along the sequence. So `A`, of `key_dim × key_dim`, holds the cosines of channels, sharpened
    by the learned factor `τ`, and each channel of the output is a mean of the channels of the
    values, with the same weights at every position. Time and memory are linear in the length: it is
    for the many patches of large images. Only the weights pass anything from one position to
    another, so that a network needs a layer such as a convolution beside it.

    The weights depend on all positions, so causal masks and masks of pairs are not supported.
    Padding has no effect on them: a position that any padding mask hides counts for nothing.

    Paper: El-Nouby et al. 2021, XCiT: Cross-Covariance Image Transformers, section 3.2
    (https://arxiv.org/abs/2106.09681), where `τ` divides; as here, it multiplies in the code.

    Args:
        num_heads, key_dim, output_dim: As for `MultiHeadAttention`. Each head has `key_dim`
            channels, which attend only to those of the same head.
        value_dim: Must be `key_dim` or `None`: the channels of the values have the weights of those
            of the keys.
        use_bias: As for `MultiHeadAttention`.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but query, value and key must have the same length, and `attention_mask`
        and `use_causal_mask` are not supported.

    Output shape:
        `(batch, length, output_dim)`; with `return_attention_scores` also the weights `A`, float32
        `(batch, num_heads, key_dim, key_dim)`: of the channels of the keys for each of the queries.

    Raises:
        ValueError: If a size is not positive or is not allowed, the lengths differ, or a mask is
            not supported.

    Example:

    >>> layer = CrossCovarianceAttention(num_heads=2, key_dim=4)
    >>> x = np.ones((2, 50, 8))
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 4, 4))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        output_dim: int | None = None,
        use_bias: bool | Collection[str] = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        if self.value_dim != self.key_dim:
            raise ValueError(
                f"`value_dim` of {type(self).__name__} must be key_dim={key_dim}: the channels of "
                f"values have the weights of those of keys. Received: value_dim={value_dim}. "
                "Omit it; output_dim is the size of the output."
            )

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._require_fitting_shapes(query_shape, value_shape, key_shape)
        self._build_projections(query_shape, value_shape, key_shape)
        self.temperature = self.add_weight(
            name="temperature",
            shape=(self.num_heads, 1, 1),
            initializer="ones",
            autocast=False,  # float32 even in mixed precision, like the weights
        )

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        use_causal_mask=False,
        training=None,
    ):
        self._require_possible(key, attention_mask, use_causal_mask)
        key = value if key is None else key
        self._require_fitting_shapes(query.shape, value.shape, key.shape)
        visible = self._padding(query, value, key, query_mask, value_mask, key_mask)
        query = self._channels(self.query_projection, query, visible)
        key = self._channels(self.key_projection, key, visible)
        value = self._channels(self.value_projection, value, visible)
        weights = self._weights(query, key)
        if visible is not None:
            weights = ops.where(ops.any(visible, axis=1)[:, None, None, None], weights, 0.0)
        output = self._merge(matmul(value, ops.cast(weights, value.dtype), transpose_b=True))
        return (output, weights) if return_attention_scores else output

    def _channels(self, projection, x, visible):
        """Returns projected heads `(batch, heads, length, key_dim)`, zeros at hidden positions."""
        x = self._project(projection, self._ready(x, visible), self.key_dim)
        if visible is None:
            return x
        return ops.where(visible[:, None, :, None], x, ops.cast(0.0, x.dtype))

    def _weights(self, query, key):
        """Returns the weights, float32 `(batch, heads, key_dim, key_dim)`."""
        query, key = ops.cast(query, "float32"), ops.cast(key, "float32")
        cosines = matmul(query, key, transpose_a=True)
        cosines = cosines * transposed(_inverse_norms(query)) * _inverse_norms(key)
        return Softmax()(cosines * ops.cast(self.temperature, "float32"))

    def _weights_shape(self, query_shape, value_shape):
        return (query_shape[0], self.num_heads, self.key_dim, self.key_dim)

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        self._refuse_pairs(
            attention_mask, use_causal_mask, "its weights, of channels, depend on all positions"
        )


def _inverse_norms(x):
    """Returns one over the norm of each channel of `(…, length, size)`, and 0 for a norm of 0."""
    squared = ops.sum(ops.square(x), axis=-2, keepdims=True)
    return ops.where(squared > 0.0, ops.rsqrt(ops.where(squared > 0.0, squared, 1.0)), 0.0)
