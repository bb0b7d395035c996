"""Attention inside buckets: positions are sorted by bucket, cut into chunks, and look one back.

A query meets a key in a round if both are in the same bucket, and the key is in the query's chunk
or the previous one. A pair that met in an earlier round is not counted again, so that all rounds
together are the softmax over all keys that a query meets. A query sees itself only if it meets no
other key.
"""

from keras import ops

from keras_attention._backend import shape_of
from keras_attention._products import matmul, transposed
from keras_attention.compute.partial import combined, sums_of, take_rows
from keras_attention.normalizers import Softmax


def attend_in_buckets(query, value, buckets, visible, chunk, causal=False):
    """Returns the context `(batch, heads, length, value_dim)`, float32.

    Args:
        query: Tensor `(batch, heads, length, size)`: the queries and, scaled to norm 1, the keys.
        value: Tensor `(batch, heads, length, value_dim)`.
        buckets: int32 `(batch, heads, rounds, length)`, not negative; hidden positions have a
            separate bucket, the last.
        visible: Boolean `(batch or 1, length)`.
        chunk: Length of a chunk, which divides the length.
        causal: Whether to hide later keys from a query.
    """
    query, value = ops.cast(query, "float32"), ops.cast(value, "float32")
    content = ops.concatenate([query, _keys(query), value], axis=-1)
    size = query.shape[-1]
    orders, places = _orders(buckets)
    chunks = places // chunk
    rounds = []
    for now in range(buckets.shape[2]):
        order = orders[:, :, now]
        tiles = _cut(take_rows(content, order), chunk)
        queries, others = ops.split(tiles, [size], axis=-1)
        keys, values = ops.split(_with_previous(others, 0.0), [size], axis=-1)
        scores = matmul(queries, keys, transpose_b=True)
        up_to_now = slice(0, now + 1)
        met = _equal(*_pairs(buckets[:, :, up_to_now], order, chunk))
        met = met & _near(*_pairs(chunks[:, :, up_to_now], order, chunk))
        meets = met[:, :, now] & ~ops.any(met[:, :, :now], axis=2)
        meets = meets & _may_see(*_pairs(None, order, chunk), causal)
        sums = sums_of(scores, meets, values)
        rounds.append(take_rows(_join(sums), places[:, :, now]))
    context, total = combined(ops.stack(rounds))
    context = ops.where(total > 0.0, context / ops.where(total > 0.0, total, 1.0), value)
    return ops.where(visible[:, None, :, None], context, 0.0)


def weights(query, buckets, visible, chunk, causal=False):
    """Returns the weights that give the same context, in quadratic time and memory.

    Args:
        As for `attend_in_buckets`.

    Returns:
        Tensor `(batch, heads, length, length)`, float32.
    """
    query = ops.cast(query, "float32")
    _, places = _orders(buckets)
    chunks = places // chunk
    in_round = _equal(buckets[..., :, None], buckets[..., None, :])
    in_round = in_round & _near(chunks[..., :, None], chunks[..., None, :])
    positions = ops.arange(shape_of(query)[2], dtype="int32")
    positions = positions[:, None], positions[None, :]
    meets = ops.any(in_round, axis=2) & _may_see(*positions, causal)
    alone = ~ops.any(meets, axis=-1, keepdims=True) & (positions[0] == positions[1])
    meets = (meets | alone) & visible[:, None, :, None]
    return Softmax()(matmul(query, _keys(query), transpose_b=True), meets)


def _keys(query):
    squares = ops.sum(ops.square(query), axis=-1, keepdims=True)
    return query * ops.rsqrt(squares + 1e-12)


def _orders(buckets):
    """Returns the position at each sorted place, and the sorted place of each position."""
    length = shape_of(buckets)[-1]
    ranks = buckets * length + ops.arange(length, dtype="int32")
    orders = ops.cast(ops.argsort(ranks, axis=-1), "int32")
    return orders, ops.cast(ops.argsort(orders, axis=-1), "int32")


def _equal(query, key):
    return query == key


def _near(query_chunk, key_chunk):
    return (query_chunk == key_chunk) | (query_chunk == key_chunk + 1)


def _may_see(query_position, key_position, causal):
    return query_position > key_position if causal else query_position != key_position


def _pairs(numbers, order, chunk):
    """Returns the numbers assigned to positions, in sorted order, for queries and for keys.

    Args:
        numbers: int32 `(batch, heads, rounds, length)`, or `None` for the positions themselves.
        order: Positions in sorted order, `(batch, heads, length)`.
        chunk: Length of a chunk.

    Returns:
        `(…, chunks, chunk, 1)` and `(…, chunks, 1, 2 · chunk)`, which broadcast to the scores.
    """
    if numbers is not None:
        order = ops.take_along_axis(numbers, order[:, :, None], axis=-1)
    tiles = _cut(order[..., None], chunk)
    return tiles, transposed(_with_previous(tiles, -1))


def _cut(x, chunk):
    """(…, length, size) -> (…, chunks, chunk, size)."""
    *lead, length, size = shape_of(x)
    return ops.reshape(x, (*lead, length // chunk, chunk, size))


def _join(x):
    """(…, chunks, chunk, size) -> (…, length, size)."""
    *lead, chunks, chunk, size = shape_of(x)
    return ops.reshape(x, (*lead, chunks * chunk, size))


def _with_previous(x, nobody):
    """Prepends to each chunk the previous one, and to the first one `nobody`."""
    sides = [(0, 0)] * (len(x.shape) - 3) + [(1, 0), (0, 0), (0, 0)]
    shifted = ops.pad(x, sides, constant_values=nobody)  # one chunk more
    return ops.concatenate([shifted[..., :-1, :, :], x], axis=-2)
