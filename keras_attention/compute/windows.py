"""Attention to a window of keys and to global tokens, in memory linear in the length.

Queries are cut into blocks. A block is compared with its own keys, with those of the two blocks
next to it that its windows reach, and with the global tokens, which count only there. A short
sequence is a single block. Lengths are multiples of a block: `padding_of` tells what is missing.
"""

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention._backend import larger, shape_of, size_of
from keras_attention._products import matmul
from keras_attention.compute.partial import take_rows
from keras_attention.normalizers import Softmax

SHORTEST_BLOCK = 64  # number of queries in one of several blocks


class GlobalTokens(NamedTuple):
    """The tokens of each sequence that see all keys, and that all queries see.

    Attributes:
        places: Their positions, ascending, int32 `(batch, number)`.
        exists: Whether there is such a token, boolean `(batch, number)`.
        contains: Whether a position is one of them, boolean `(batch, length)`.
    """

    places: Any
    exists: Any
    contains: Any


def padding_of(length, reach):
    """Returns how many positions must follow a sequence.

    Args:
        length: Its length.
        reach: How far a query sees to each side.
    """
    block, _ = _sizes(length, reach)
    return larger((length + block - 1) // block, 1) * block - length  # ONNX rounds towards 0


def first_tokens(number, batch, length):
    """Returns the `GlobalTokens` at the start of each sequence.

    Args:
        number: Their number, an integer.
        batch, length: Number and length of the sequences.
    """
    order = ops.arange(number, dtype="int32")
    is_first = ops.arange(length, dtype="int32") < number
    found = ops.minimum(order, length - 1), order < length, is_first
    return GlobalTokens(*(ops.broadcast_to(x[None], (batch, shape_of(x)[0])) for x in found))


def tokens_of(mask):
    """Returns the `GlobalTokens` of a boolean mask `(batch, length)`."""
    length = shape_of(mask)[1]
    counts = ops.sum(ops.cast(mask, "int32"), axis=1)
    number = size_of(ops.max(counts, initial=0), length)
    order = ops.arange(length, dtype="int32")
    order = ops.cast(ops.argsort(ops.where(mask, order, order + length), axis=1), "int32")
    exists = ops.arange(number, dtype="int32") < counts[:, None]
    return GlobalTokens(order[:, :number], exists, mask)


def attend_in_windows(query, key, value, mask, tokens=None, *, reach, dropout=None):
    """Attends from each query to the keys around it, and to the global tokens.

    Args:
        query, key: Tensors `(batch, heads, length, size)`.
        value: Tensor `(batch, heads, length, value_size)`.
        mask: Boolean `(batch, length)`, which keys may be seen.
        tokens: `GlobalTokens`, or `None` for none.
        reach: How far a query sees to each side.
        dropout: A `WeightDropout` or `None`.

    Returns:
        The context `(batch, heads, length, value_size)` in the dtype of `value`.
    """
    batch, heads, length, _ = shape_of(query)
    block, beside = _sizes(length, reach)
    number = length // block

    def cut(x):
        """(batch, heads, length, size) -> (batch, heads, blocks, block, size)."""
        return ops.reshape(x, (batch, shape_of(x)[1], number, block, x.shape[-1]))

    def keys_of_blocks(x):
        """(batch, heads, length, size) -> (batch, heads, blocks, global tokens + keys, size)."""
        in_reach = _with_neighbors(cut(x), beside)
        if tokens is None:
            return in_reach
        of_tokens = take_of_heads(x, tokens.places)
        count, size = shape_of(of_tokens)[2:]
        of_tokens = ops.broadcast_to(of_tokens[:, :, None], (batch, heads, number, count, size))
        return ops.concatenate([of_tokens, in_reach], axis=3)

    in_window = mask if tokens is None else mask & ~tokens.contains
    seen = _with_neighbors(cut(ops.cast(in_window, "int32")[:, None, :, None]), beside)
    distances = ops.arange(block + 2 * beside, dtype="int32") - beside
    distances = distances - ops.arange(block, dtype="int32")[:, None]
    visible = ops.cast(seen, "bool")[..., None, :, 0] & (ops.abs(distances) <= reach)
    if tokens is not None:
        # (batch, number, 1); `take_along_axis` fails for no tokens of no sequences
        is_visible = take_rows(ops.cast(mask, "int32")[..., None], tokens.places)
        sees = tokens.exists & ops.cast(is_visible[..., 0], "bool")
        shape = batch, 1, number, block, shape_of(tokens.places)[1]
        sees = ops.broadcast_to(sees[:, None, None, None], shape)
        visible = ops.concatenate([sees, visible], axis=-1)
    key = keys_of_blocks(ops.cast(key, "float32"))
    scores = matmul(cut(_scaled(query)), key, transpose_b=True)
    weights = Softmax()(scores, visible)
    weights = ops.cast(weights if dropout is None else dropout(weights), value.dtype)
    context = matmul(weights, keys_of_blocks(value))
    return ops.reshape(context, (batch, heads, length, value.shape[-1]))


def attend_from_tokens(query, key, value, mask, dropout=None):
    """Attends from global tokens to all keys.

    Args:
        query: Their queries, `(batch, heads, number, size)`.
        key, value, mask, dropout: As for `attend_in_windows`.

    Returns:
        `(context, weights)`: the context `(batch, heads, number, value_size)` in the dtype of
        `value`, and the weights before dropout, float32 `(batch, heads, number, length)`.
    """
    scores = matmul(_scaled(query), ops.cast(key, "float32"), transpose_b=True)
    weights = Softmax()(scores, mask[:, None, None])
    mixing = weights if dropout is None else dropout(weights)
    return matmul(ops.cast(mixing, value.dtype), value), weights


def weights_in_windows(query, key, mask, tokens=None, *, reach):
    """Returns the weights that give the context of `attend_in_windows`, in quadratic memory.

    Args:
        query, key, mask, tokens, reach: As there.

    Returns:
        Tensor `(batch, heads, length, length)`, float32.
    """
    order = ops.arange(shape_of(query)[2], dtype="int32")
    visible = ops.abs(order - order[:, None])[None] <= reach
    if tokens is not None:
        visible = visible | tokens.contains[:, None]
    scores = matmul(_scaled(query), ops.cast(key, "float32"), transpose_b=True)
    return Softmax()(scores, (visible & mask[:, None])[:, None])


def with_rows(x, of_tokens, tokens):
    """Replaces the rows of global tokens.

    Args:
        x: Tensor `(batch, heads, length, size)`.
        of_tokens: Their rows `(batch, heads, number, size)`.
        tokens: `GlobalTokens`.
    """
    length = shape_of(x)[2]
    ranks = ops.cumsum(ops.cast(tokens.contains, "int32"), axis=1) - 1
    order = ops.arange(length, dtype="int32")
    rows = ops.where(tokens.contains, ranks + length, order)
    return take_of_heads(ops.concatenate([x, ops.cast(of_tokens, x.dtype)], axis=2), rows)


def take_of_heads(x, rows):
    """Returns the same rows of all heads of `x` `(batch, heads, length, size)`.

    Args:
        x: The tensor.
        rows: int32 `(batch, number)`.
    """
    batch, heads = shape_of(x)[:2]
    return take_rows(x, ops.broadcast_to(rows[:, None], (batch, heads, shape_of(rows)[1])))


def _sizes(length, reach):
    """Returns the number of queries in a block, and of keys that it needs on each side.

    A sequence is one block if several would be compared with as many keys.
    """
    block = max(reach, SHORTEST_BLOCK)
    most = block + 2 * reach
    if isinstance(length, int):
        return (max(length, 1), 0) if length <= most else (block, reach)
    if keras.backend.backend() == "jax":  # whose unknown lengths stay unknown
        return block, reach
    is_short = length <= most
    return ops.where(is_short, ops.maximum(length, 1), block), ops.where(is_short, 0, reach)


def _with_neighbors(x, beside):
    """Puts the end of the previous block and the start of the next one around each block.

    Args:
        x: Tensor `(batch, heads, blocks, block, size)`.
        beside: Number of keys on each side.
    """
    if isinstance(beside, int) and beside == 0:
        return x
    block, nothing = shape_of(x)[3], ops.zeros_like(x[:, :, :1])
    before = ops.concatenate([nothing, x[:, :, :-1]], axis=2)[:, :, :, block - beside :]
    after = ops.concatenate([x[:, :, 1:], nothing], axis=2)[:, :, :, :beside]
    return ops.concatenate([before, x, after], axis=3)


def _scaled(query):
    """Returns queries in float32, divided by the square root of their size."""
    return ops.cast(query, "float32") / math.sqrt(query.shape[-1])
