"""The vector of a sequence from those of its positions."""

from keras import ops

from keras_attention import AttentionPooling, MultiHeadAttention


def masked_mean(x, mask):
    """Returns the means `(batch, size)` of visible positions, computed in float32; 0 if none is.

    Args:
        x: Tensor `(batch, length, size)`.
        mask: Boolean `(batch, length)`.
    """
    counts = ops.cast(mask, "float32")[..., None]
    total = ops.sum(ops.cast(x, "float32") * counts, axis=1)
    return ops.cast(total / ops.maximum(ops.sum(counts, axis=1), 1.0), x.dtype)


def unit_vectors(x):
    """Returns float32 vectors `(batch, size)` of length 1."""
    return ops.normalize(ops.cast(x, "float32"), axis=-1)


def pooling_by_heads(num_heads, size, dtype):
    """Returns a layer that pools vectors of a size into one, `(batch, 1, size)`, by one query."""
    attention = MultiHeadAttention(num_heads, size // num_heads, dtype=dtype, name="attention")
    return AttentionPooling(attention, num_queries=1, dtype=dtype, name="pool")
