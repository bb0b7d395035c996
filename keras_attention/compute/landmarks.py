"""Attention through landmarks: the means of segments of the queries, and of those of the keys.

Segments are cut from the visible positions only, so that padding anywhere changes nothing. If there
are no more visible positions than landmarks, each is its own landmark, and attention is exact.
"""

import math

from keras import ops

from keras_attention._backend import shape_of
from keras_attention._products import matmul, transposed
from keras_attention.normalizers import Softmax


def attend_by_landmarks(
    query, key, value, mask=None, query_mask=None, *, num_landmarks, num_iterations
):
    """Returns the context `(batch, heads, query_length, value_dim)`, float32.

    Args:
        query: Tensor `(batch, heads, query_length, size)`.
        key: Tensor `(batch, heads, key_length, size)`.
        value: Tensor `(batch or 1, heads or 1, key_length, value_dim)`.
        mask: Boolean `(batch, key_length)` or `None`.
        query_mask: Boolean `(batch, query_length)` or `None`.
        num_landmarks: Number of segments of the queries, and of the keys.
        num_iterations: Number of steps of the iteration for the inverse.
    """
    query, key, value = (ops.cast(x, "float32") for x in (query, key, value))
    query = query / math.sqrt(query.shape[-1])
    lengths = shape_of(query)[2], shape_of(key)[2]
    if any(isinstance(length, int) and length <= num_landmarks for length in lengths):
        return matmul(_softmax(query, key, query_mask, mask), value)
    queries = Segments(query_mask, lengths[0], num_landmarks)
    keys = Segments(mask, lengths[1], num_landmarks)
    query_means, key_means = queries.means(query), keys.means(key)
    contexts = matmul(_softmax(query_means, key, queries.visible, mask), value)  # of query_means
    between = _softmax(query_means, key_means, queries.visible, keys.visible)
    inner = matmul(inverse(between, num_iterations), contexts)
    inner = ops.where(keys.are_single, keys.means(value), inner)
    inner = ops.where(queries.are_single, contexts, inner)
    outer = _softmax(query, key_means, query_mask, keys.visible)
    outer = ops.where(queries.are_single, transposed(queries.averaging), outer)
    return matmul(outer, inner)


def weights(query, key, mask=None, query_mask=None, **options):
    """Returns the weights that give the same context, in quadratic time and memory.

    Args:
        As for `attend_by_landmarks`.

    Returns:
        Tensor `(batch, heads, query_length, key_length)`, float32.
    """
    units = ops.eye(shape_of(key)[2], dtype="float32")[None, None]  # one value for each key
    return attend_by_landmarks(query, key, units, mask, query_mask, **options)


class Segments:
    """Segments of the visible positions of a sequence, whose sizes differ by at most 1.

    Args:
        mask: Boolean `(batch, length)` or `None`.
        length: An integer above `number`, or a size that is not known yet.
        number: Number of segments.

    Attributes:
        averaging: Float32 `(batch or 1, 1, number, length)`: the weights of the means.
        visible: Boolean `(batch or 1, number)`: which segments are not empty. `None` if all.
        are_single: Boolean `(batch or 1, 1, 1, 1)`: whether no segment has several positions.
    """

    def __init__(self, mask, length, number):
        is_full = mask is None and isinstance(length, int)
        mask = ops.ones((1, length), "bool") if mask is None else mask
        count = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
        rank = ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1
        segment = ops.where(mask, rank * number // ops.maximum(count, 1), -1)
        members = segment[:, None, :] == ops.arange(number, dtype="int32")[:, None]
        members = ops.cast(members, "float32")[:, None]  # (batch or 1, 1, number, length)
        sizes = ops.sum(members, axis=-1, keepdims=True)
        self.averaging = members / ops.maximum(sizes, 1.0)
        self.visible = None if is_full else sizes[:, 0, :, 0] > 0.0
        self.are_single = (count <= number)[:, :, None, None]

    def means(self, x):
        """(batch, heads, length, size) -> (batch, heads, number, size)."""
        return matmul(self.averaging, x)


def inverse(matrix, num_iterations):
    """Approximates the Moore-Penrose inverse of matrices whose rows add up to 1, or are 0.

    Rows and columns of zeros stay columns and rows of zeros.

    Args:
        matrix: Tensor `(..., rows, columns)`, not negative.
        num_iterations: Number of steps.
    """
    # Not the largest norm of the batch: no sequence may depend on others. ‖A‖∞ is 1.
    columns = ops.sum(matrix, axis=-2, keepdims=True)
    norm = ops.max(columns, axis=-1, keepdims=True, initial=0.0)  # ‖A‖₁
    found = transposed(matrix) / ops.where(norm > 0.0, norm, 1.0)
    identity = ops.eye(matrix.shape[-2], dtype="float32")
    for _ in range(num_iterations):
        product = matmul(matrix, found)
        inner = 15.0 * identity - matmul(product, 7.0 * identity - product)
        found = matmul(found, 13.0 * identity - matmul(product, inner)) / 4.0
    return found


def _softmax(query, key, query_mask, mask):
    """Returns softmax weights of keys, 0 for what the masks hide."""
    visible = None if mask is None else mask[:, None, None, :]
    if query_mask is not None:
        rows = query_mask[:, None, :, None]
        visible = rows if visible is None else ops.logical_and(visible, rows)
    return Softmax()(matmul(query, key, transpose_b=True), visible)
