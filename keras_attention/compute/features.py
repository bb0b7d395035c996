"""Attention whose weights are products of features: linear in length, even if causal.

Features are given as logarithms. Those of the keys are taken relative to the largest key, and those
of a query relative to its largest feature, so that no sum over all keys overflows or vanishes. Only
a causal query whose keys all weigh less than e⁻¹⁰⁰ relative to a later key gets zeros. Values get a
last column of ones, whose sum divides the other columns.

A causal computation may stop at any position and continue later: `Sums` are all it needs.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_attention import masks
from keras_attention._backend import larger, shape_of
from keras_attention._products import matmul, transposed
from keras_attention._split import split_after
from keras_attention.normalizers.base import LOWEST, hidden_lowest

CHUNK = 128  # number of queries and keys that the causal computation processes together
ROOM = 30.0  # logarithm of the largest feature: exp(2 · 30) may be added up 10⁹ times in float32
FAINT = 1e-17  # sums of weights up to this count as zero, since their gradient would overflow


class Sums(NamedTuple):
    """What a causal computation keeps of all keys and values so far, of a size that is constant."""

    largest: Any  # logarithm of each feature, float32 (batch, heads, 1, num_features)
    sums: Any  # relative to the largest, float32 (batch, heads, num_features, value_dim + 1)
    length: Any  # number of positions so far, int32 (batch,)


def attend_by_features(query, key, value, mask=None, query_mask=None, causal=False):
    """Returns the context `(batch, heads, query_length, value_dim)`, float32.

        context_i = Σ_j φ(q_i)ᵀφ(k_j) v_j / Σ_j φ(q_i)ᵀφ(k_j)

    Args:
        query: Logarithms of features, float32 `(batch, heads, query_length, num_features)`.
        key: Logarithms of features, float32 `(batch, heads, key_length, num_features)`.
        value: Tensor `(batch, heads, key_length, value_dim)`.
        mask: Boolean `(batch, key_length)` or `None`.
        query_mask: Boolean `(batch, query_length)` or `None`.
        causal: Whether to hide later keys; the last query has the position of the last key.
    """
    query, key, _ = _features(query, key, mask)
    value = _with_ones(value)
    if causal:
        sums, _ = _sums_up_to_now(query, key, value)
    else:
        sums = matmul(query, matmul(key, value, transpose_a=True))
    return _normalized(sums, query_mask)


def empty_sums(key, value):
    """Returns the `Sums` before the first position, for keys and values of the same sizes."""
    batch, heads, _, num_features = shape_of(key)
    columns = value.shape[-1] + 1
    return Sums(
        ops.full((batch, heads, 1, num_features), LOWEST, "float32"),
        ops.zeros((batch, heads, num_features, columns), "float32"),
        ops.zeros((batch,), "int32"),
    )


def attend_next(query, key, value, before, mask=None):
    """Causal attention of the next positions, which also see all that earlier calls have seen.

    Args:
        query, key, value, mask: As for `attend_by_features`, of one length; the mask hides queries
            as well as keys.
        before: The `Sums` of all earlier positions.

    Returns:
        `(context, sums)`.
    """
    query, key, largest = _features(query, key, mask, before.largest)
    earlier = before.sums * transposed(ops.exp(before.largest - _seen(largest)))
    sums, total = _sums_up_to_now(query, key, _with_ones(value), earlier)
    return _normalized(sums, mask), Sums(largest, total, before.length + shape_of(value)[2])


def weights(query, key, mask=None, query_mask=None, causal=False):
    """Returns the weights that give the same context, in quadratic time and memory.

    Args:
        As for `attend_by_features`.

    Returns:
        Tensor `(batch, heads, query_length, key_length)`, float32.
    """
    query, key, _ = _features(query, key, mask)
    pairs = matmul(query, key, transpose_b=True)
    if causal:
        pairs = ops.where(masks.Causal()(shape_of(query)[2], shape_of(key)[2]), pairs, 0.0)
    return _normalized(ops.concatenate([pairs, ops.sum(pairs, -1, keepdims=True)], -1), query_mask)


def _with_ones(value):
    value = ops.cast(value, "float32")
    return ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)


def _features(query, key, mask, largest=LOWEST):
    """Returns features in place of their logarithms, zeros for hidden keys, and the new `largest`.

    Args:
        query, key, mask: As for `attend_by_features`.
        largest: Largest logarithm of each feature over the keys of earlier calls.
    """
    # Keras casts a memory that is an argument of another layer to half precision, where e³⁰ is inf.
    query, key = ops.cast(query, "float32"), ops.cast(key, "float32")
    visible = True if mask is None else mask[:, None, :, None]
    found = ops.max(hidden_lowest(key, visible), axis=-2, keepdims=True, initial=LOWEST)
    largest = ops.stop_gradient(ops.maximum(found, largest))
    peak = _seen(largest)
    # Hidden keys are removed before any arithmetic: an overflow would reach the gradient as NaN.
    key = ops.where(visible, ops.exp(ops.where(visible, key, peak) - peak + ROOM), 0.0)
    query = query + peak
    highest = ops.max(query, axis=-1, keepdims=True, initial=LOWEST)
    return ops.exp(query - ops.stop_gradient(highest) + ROOM), key, largest


def _seen(largest):
    return ops.where(largest > LOWEST, largest, 0.0)


def _sums_up_to_now(query, key, value, earlier=None):
    """Adds up the pairs inside each chunk and the sums of all previous chunks.

    Args:
        query, key: Features.
        value: Values with a last column of ones.
        earlier: Sums of all keys before these, `(batch, heads, num_features, size)`, or `None`.

    Returns:
        `(sums, total)`: one row for each query, and the sums of all keys with the earlier ones.
    """
    query_length, key_length = shape_of(query)[2], shape_of(key)[2]
    longest = larger(larger(query_length, key_length), 1)
    chunk = min(CHUNK, longest) if isinstance(longest, int) else CHUNK
    number = -(-longest // chunk)

    def cut(x):
        """(batch, heads, length, size) -> (batch, heads, chunks, chunk, size)."""
        batch, heads, length, size = shape_of(x)
        padding = number * chunk - length  # in front, since queries and keys end together
        x = ops.pad(x, [(0, 0), (0, 0), (padding, 0), (0, 0)])
        return ops.reshape(x, (batch, heads, number, chunk, size))

    query, key, value = cut(query), cut(key), cut(value)
    of_chunks = matmul(key, value, transpose_a=True)  # (batch, heads, chunks, features, size)
    first = ops.zeros_like(of_chunks[:, :, :1]) if earlier is None else earlier[:, :, None]
    before = ops.cumsum(ops.concatenate([first, of_chunks], axis=2), axis=2)  # chunks + 1 of them
    pairs = matmul(query, key, transpose_b=True) * ops.tril(ops.ones((chunk, chunk), "float32"))
    sums = matmul(pairs, value) + matmul(query, before[:, :, :-1])
    batch, heads, _, _, size = shape_of(sums)
    joined = ops.reshape(sums, (batch, heads, number * chunk, size))
    return joined[:, :, number * chunk - query_length :], before[:, :, -1]


def _normalized(sums, query_mask):
    """Divides sums by their last column; they are 0 for queries without visible keys."""
    total = sums[..., -1:]
    seen = total > FAINT
    if query_mask is not None:
        seen = ops.logical_and(seen, query_mask[:, None, :, None])
    # First divide by a constant: the gradient of a division squares the divisor and may overflow.
    sums = ops.where(seen, sums, 1.0) / ops.stop_gradient(ops.where(seen, total, 1.0))
    context, total = split_after(sums, -1)
    return ops.where(seen, context / total, 0.0)
