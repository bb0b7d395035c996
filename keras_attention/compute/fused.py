"""The kernel that Keras' backend brings for softmax attention of scaled dot products."""

import keras
from keras import ops

from keras_attention.compute.tiles import positions_of, visible_pairs


def attend_by_kernel(queries, key, value, *, mask=None, start=None):
    """Computes attention by `keras.ops.dot_product_attention`.

    Args:
        As for `keras_attention.compute.context_and_weights`. The queries are scaled already.

    Returns:
        The context `(batch, *heads, query_length, value_size)`.
    """
    (query,) = queries
    has_heads = len(query.shape) == 4
    visible = None
    if mask is not None:
        positions = positions_of(ops.shape(query)[-2], ops.shape(key)[-2], start)
        visible = visible_pairs(mask, positions, query.shape[:-2])
        visible = visible if has_heads else visible[:, None]
        pairs = ops.shape(query)[-2], ops.shape(key)[-2]
        heads = query.shape[1] if has_heads else 1
        visible = ops.broadcast_to(visible, (ops.shape(query)[0], heads, *pairs))
    if has_heads:
        query, key, value = (ops.swapaxes(x, 1, 2) for x in (query, key, value))
    else:
        query, key, value = (x[:, :, None, :] for x in (query, key, value))
    value_size = value.shape[-1]
    size = max(query.shape[-1], value_size)  # some kernels take one size for all three
    query, key, value = (_widened(x, size) for x in (query, key, value))
    dtype = value.dtype
    if (
        keras.backend.backend() == "tensorflow"
        and keras.backend.standardize_dtype(query.dtype) == "float16"
    ):
        # It would hold the scores in the dtype of the inputs, where large ones overflow.
        query, key, value = (ops.cast(x, "float32") for x in (query, key, value))
    sees_any = None
    if visible is not None:
        # Of a row that sees nothing, the kernel of a GPU may make NaN, and NaN of its gradient.
        sees_any = ops.any(visible, axis=-1, keepdims=True)
        visible = ops.logical_or(visible, ops.logical_not(sees_any))
    context = ops.dot_product_attention(query, key, value, mask=visible, scale=1.0)
    context = ops.cast(context[..., :value_size], dtype)
    context = ops.swapaxes(context, 1, 2)  # (batch, heads, Tq, value_size)
    if sees_any is not None:
        context = ops.where(sees_any, context, 0.0)
    return context if has_heads else context[:, 0]


def _widened(x, size):
    """Adds zeros to the last axis, which no dot product notices."""
    missing = size - x.shape[-1]
    return ops.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, missing)]) if missing else x
