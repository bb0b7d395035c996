"""The kernel of Keras' backend for softmax attention with scaled dot products."""

import keras
from keras import ops

from keras_attention import masks
from keras_attention._backend import shape_of
from keras_attention.compute.tiles import visible_pairs


def attend_by_kernel(queries, key, value, *, mask=None, start=None):
    """Computes attention with `keras.ops.dot_product_attention`.

    Args:
        As for `keras_attention.compute.context_and_weights`. The queries are already scaled.

    Returns:
        The context `(batch, *heads, query_length, value_size)`.
    """
    (query,) = queries
    visible = None if mask is None else _visible(mask, query, key, start)
    if len(query.shape) == 3:
        query, key, value = (ops.expand_dims(x, 1) for x in (query, key, value))
        visible = None if visible is None else ops.expand_dims(visible, 1)
        return _of_heads(query, key, value, visible)[:, 0]
    return _of_heads(query, key, value, visible)


def _visible(mask, query, key, start):
    """Returns a mask as booleans `(batch, *heads, query_length, key_length)`, broadcast."""
    lengths = shape_of(query)[-2], shape_of(key)[-2]
    visible = visible_pairs(mask, masks.positions(*lengths, start), query.shape[:-2])
    return ops.broadcast_to(visible, (*shape_of(query)[:-2], *lengths))


def _of_heads(query, key, value, visible):
    """Returns the context `(batch, heads, query_length, value_size)` of tensors with heads."""
    dtype, value_size = value.dtype, value.shape[-1]
    size = max(query.shape[-1], value_size)  # some kernels need the same size for all three
    query, key, value = (
        _widened(ops.swapaxes(x, 1, 2), size)  # (batch, length, heads, size)
        for x in (query, key, value)
    )
    is_half = keras.backend.standardize_dtype(query.dtype) == "float16"
    if is_half and keras.backend.backend() == "tensorflow":
        # It would compute the scores in the dtype of the inputs, where large ones overflow.
        query, key, value = (ops.cast(x, "float32") for x in (query, key, value))
    sees_any = None
    if visible is not None:
        # For a row without visible keys, a GPU kernel may return NaN, and NaN as its gradient.
        sees_any = ops.any(visible, axis=-1, keepdims=True)
        visible = ops.logical_or(visible, ops.logical_not(sees_any))
    context = ops.dot_product_attention(query, key, value, mask=visible, scale=1.0)
    context = ops.swapaxes(ops.cast(context[..., :value_size], dtype), 1, 2)
    return context if sees_any is None else ops.where(sees_any, context, 0.0)


def _widened(x, size):
    """Pads the last axis with zeros, which does not change dot products."""
    missing = size - x.shape[-1]
    return ops.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, missing)]) if missing else x
