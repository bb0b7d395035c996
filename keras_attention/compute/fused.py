"""The kernel of Keras' backend for softmax attention with scaled dot products."""

import keras
from keras import ops

from keras_attention import masks
from keras_attention.compute.tiles import visible_pairs


def attend_by_kernel(queries, key, value, *, mask=None, start=None):
    """Computes attention with `keras.ops.dot_product_attention`.

    Args:
        As for `keras_attention.compute.context_and_weights`. The queries are already scaled.

    Returns:
        The context `(batch, *heads, query_length, value_size)`.
    """
    (query,) = queries
    has_heads = len(query.shape) == 4
    visible = None
    if mask is not None:
        positions = masks.positions(ops.shape(query)[-2], ops.shape(key)[-2], start)
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
    size = max(query.shape[-1], value_size)  # some kernels need the same size for all three
    query, key, value = (_widened(x, size) for x in (query, key, value))
    dtype = value.dtype
    if (
        keras.backend.backend() == "tensorflow"
        and keras.backend.standardize_dtype(query.dtype) == "float16"
    ):
        # It would compute the scores in the dtype of the inputs, where large ones overflow.
        query, key, value = (ops.cast(x, "float32") for x in (query, key, value))
    sees_any = None
    if visible is not None:
        # For a row without visible keys, a GPU kernel may return NaN, and NaN as its gradient.
        sees_any = ops.any(visible, axis=-1, keepdims=True)
        visible = ops.logical_or(visible, ops.logical_not(sees_any))
    context = ops.dot_product_attention(query, key, value, mask=visible, scale=1.0)
    context = ops.cast(context[..., :value_size], dtype)
    context = ops.swapaxes(context, 1, 2)  # (batch, heads, Tq, value_size)
    if sees_any is not None:
        context = ops.where(sees_any, context, 0.0)
    return context if has_heads else context[:, 0]


def _widened(x, size):
    """Pads the last axis with zeros, which does not change dot products."""
    missing = size - x.shape[-1]
    return ops.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, missing)]) if missing else x
