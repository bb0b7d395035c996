"""Softmax attention to keys that come in parts, and rows of tensors in another order."""

from keras import ops

from keras_attention._backend import shape_of
from keras_attention._products import matmul
from keras_attention._split import split_after

LOWEST = -float("inf")  # the maximum of an empty set of scores


def sums_of(scores, meets, value):
    """Returns the sum of the weighted values, the sum of the weights, and their log scale.

    Args:
        scores: Tensor `(…, queries, keys)`.
        meets: Booleans that broadcast to the scores, which keys a query sees.
        value: Tensor `(…, keys, size)`.

    Returns:
        Tensor `(…, queries, size + 2)`.
    """
    seen = ops.where(meets, scores, LOWEST)
    peak = ops.stop_gradient(ops.max(seen, axis=-1, keepdims=True, initial=LOWEST))
    powers = ops.exp(seen - ops.where(ops.isfinite(peak), peak, 0.0))
    total = ops.sum(powers, axis=-1, keepdims=True)
    peak = ops.broadcast_to(peak, shape_of(total))  # on PyTorch, empty maxima are smaller
    return ops.concatenate([matmul(powers, value), total, peak], axis=-1)


def combined(parts):
    """Adds up what `sums_of` returned for several parts of the keys.

    Args:
        parts: Tensor `(parts, …, queries, size + 2)`.

    Returns:
        `(context, total)`: the sum of the weighted values, and that of the weights.
    """
    peaks = parts[..., -1:]
    peak = ops.max(peaks, axis=0, initial=LOWEST)
    factors = ops.exp(peaks - ops.where(ops.isfinite(peak), peak, 0.0))
    sums = ops.sum(parts[..., :-1] * ops.stop_gradient(factors), axis=0)
    return split_after(sums, -1)


def take_rows(x, rows):
    """Returns `(*lead, number, size)`, those rows of `x` `(*lead, length, size)`.

    Args:
        x: The tensor.
        rows: int32 `(*lead, number)`.
    """
    *lead, length, size = shape_of(x)
    number, sequences = shape_of(rows)[-1], 1
    for each in lead:
        sequences = sequences * each
    first = ops.arange(sequences, dtype="int32") * length
    rows = ops.reshape(rows, (sequences, number)) + first[:, None]
    flat = ops.reshape(x, (sequences * length, size))
    taken = ops.take(flat, ops.reshape(rows, (sequences * number,)), axis=0)
    return ops.reshape(taken, (*lead, number, size))
