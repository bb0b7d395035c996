"""Attention whose weights are products of features: linear in length, causal as well.

Features come as logarithms in float32 and are made relative to the largest of their keys, so that
no sum over all keys overflows or vanishes. Values carry a last column of ones: its sum is what the
others are divided by.
"""

from keras import ops

from keras_attention import masks

CHUNK = 128  # queries and keys that the causal computation takes in at a time


def attend(query, key, value, mask=None, query_mask=None, causal=False):
    """Returns the context `(batch, heads, query_length, value_dim)`, float32.

        context_i = Σ_j φ(q_i)ᵀφ(k_j) v_j / Σ_j φ(q_i)ᵀφ(k_j)

    Args:
        query: Logarithms of features `(batch, heads, query_length, num_features)`.
        key: Logarithms of features `(batch, heads, key_length, num_features)`.
        value: Tensor `(batch, heads, key_length, value_dim)`.
        mask: Boolean `(batch, key_length)` or `None`.
        query_mask: Boolean `(batch, query_length)` or `None`.
        causal: Whether queries see no later keys; the last query stands where the last key does.
    """
    add_up = _sums_up_to_now if causal else _sums_of_all
    return _normalized(add_up(query, key, _with_ones(value), mask), query_mask)


def weights(query, key, mask=None, query_mask=None, causal=False):
    """Returns the weights that make the same context, in quadratic time and memory.

    Args:
        As for `attend`.

    Returns:
        Tensor `(batch, heads, query_length, key_length)`, float32.
    """
    visible = None if mask is None else mask[:, None, :, None]
    peak = _finite(_peak(key, visible))
    key = _features(key, peak, visible)
    pairs = ops.matmul(_query_features(query, peak), ops.swapaxes(key, -1, -2))
    if causal:
        pairs = ops.where(masks.Causal()(ops.shape(query)[2], ops.shape(key)[2]), pairs, 0.0)
    return _normalized(ops.concatenate([pairs, ops.sum(pairs, -1, keepdims=True)], -1), query_mask)


def _sums_of_all(query, key, value, mask):
    """Returns `Σ_j φ(q)ᵀφ(k_j) v_j`, up to a factor for each query, from logarithms of features."""
    visible = None if mask is None else mask[:, None, :, None]
    peak = _finite(_peak(key, visible))
    summary = ops.matmul(ops.swapaxes(_features(key, peak, visible), -1, -2), value)
    return ops.matmul(_query_features(query, peak), summary)


def _sums_up_to_now(query, key, value, mask):
    """Returns the same, each query over the keys up to its own position, chunk by chunk."""
    query_length, key_length = ops.shape(query)[2], ops.shape(key)[2]
    longest = _largest(query_length, key_length, 1)
    chunk = min(CHUNK, longest) if isinstance(longest, int) else CHUNK
    number = -(-longest // chunk)
    length = number * chunk

    def cut(x):
        """Pads in front, since queries and keys end together: (chunks, batch, heads, chunk, …)."""
        batch, heads, given, size = ops.shape(x)
        padded = ops.pad(x, [(0, 0), (0, 0), (length - given, 0), (0, 0)])
        return ops.moveaxis(ops.reshape(padded, (batch, heads, number, chunk, size)), 2, 0)

    visible = ops.ones_like(key[:, :1, :, :1])
    if mask is not None:
        visible = ops.cast(mask[:, None, :, None], visible.dtype)
    up_to_now = ops.tril(ops.ones((chunk, chunk)))

    def step(carry, tensors):
        _, summary, peak = carry
        query, key, value, visible = tensors
        visible = visible > 0
        highest = ops.maximum(peak, _peak(key, visible))
        now = _finite(highest)
        summary = summary * ops.swapaxes(ops.exp(_finite(peak, now) - now), -1, -2)
        query, key = _query_features(query, now), _features(key, now, visible)
        pairs = ops.matmul(query, ops.swapaxes(key, -1, -2)) * up_to_now
        mixed = ops.matmul(pairs, value) + ops.matmul(query, summary)
        summary = summary + ops.matmul(ops.swapaxes(key, -1, -2), value)
        carry = [mixed, summary, highest]
        return carry, carry

    tensors = [cut(x) for x in (query, key, value, visible)]
    batch, heads = ops.shape(key)[0], ops.shape(key)[1]
    start = [
        ops.zeros_like(tensors[2][0]),
        ops.zeros((batch, heads, key.shape[-1], value.shape[-1])),
        ops.full((batch, heads, 1, key.shape[-1]), -float("inf")),
    ]
    _, (mixed, _, _) = ops.scan(step, start, tensors)
    joined = ops.moveaxis(mixed, 0, 2)  # (batch, heads, chunks, chunk, value_dim + 1)
    joined = ops.reshape(joined, (batch, heads, length, value.shape[-1]))
    return joined[:, :, length - query_length :]


def _peak(key, visible):
    """Returns the largest logarithm of each feature over the visible keys, `-inf` if none is."""
    lowest = -float("inf")
    seen = key if visible is None else ops.where(visible, key, lowest)
    return ops.stop_gradient(ops.max(seen, axis=-2, keepdims=True, initial=lowest))


def _finite(x, otherwise=0.0):
    return ops.where(ops.isfinite(x), x, otherwise)


def _features(key, peak, visible):
    """Returns the features of keys relative to the largest ones, zeros for hidden keys."""
    if visible is None:
        return ops.exp(key - peak)
    # Hidden keys leave before any arithmetic: an overflow there would reach the gradient as NaN.
    return ops.where(visible, ops.exp(ops.where(visible, key, peak) - peak), 0.0)


def _query_features(query, peak):
    """Returns the features of queries that go with those keys, the largest of each query 1."""
    query = query + peak
    return ops.exp(query - ops.stop_gradient(ops.max(query, axis=-1, keepdims=True)))


def _with_ones(value):
    """Appends a value of 1 to each value: its sum is what the others are divided by."""
    value = ops.cast(value, "float32")
    return ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)


def _normalized(sums, query_mask):
    """Divides sums by their last column; where nothing is seen they are 0."""
    total = sums[..., -1:]
    mean = sums[..., :-1] / ops.where(total > 0.0, total, 1.0)
    if query_mask is None:
        return mean
    return ops.where(query_mask[:, None, :, None], mean, 0.0)


def _largest(*numbers):
    if all(isinstance(number, int) for number in numbers):
        return max(numbers)
    largest = numbers[0]
    for number in numbers[1:]:
        largest = ops.maximum(largest, number)
    return largest
