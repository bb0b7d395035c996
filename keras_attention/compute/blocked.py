"""Exact attention in a few blocks of queries, each with only the keys that its mask leaves it.

The scores of a block are held whole and its weights are kept for the gradient, so nothing is
computed twice. Pairs outside of the blocks are never computed: with a causal mask, that is almost
half of them. The keys of a block may lie apart, as those of a window and of global tokens do.
"""

import itertools
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention import masks, normalizers
from keras_attention._backend import shape_of
from keras_attention._products import matmul
from keras_attention.compute.reference import lead_of, scores_and_weights

NORMALIZERS = normalizers.Softmax, normalizers.SoftmaxOne  # those with the gradient of a softmax
MOST_BLOCKS = 8
SHORTEST_BLOCK = 128  # number of queries
MOST_STEPS = 32  # between two of them, a block may end
KEYS_A_STEP = 64  # ranges of keys begin and end at multiples of it


class Block(NamedTuple):
    """A range of queries, and the ranges of keys that contain all those that they may see."""

    queries: slice
    keys: tuple[slice, ...]


def attend_in_blocks(
    queries,
    key,
    value,
    *,
    scoring,
    normalizer,
    mask=None,
    dropout=None,
    start=None,
    training=None,
):
    """Computes attention in blocks of queries.

    Args:
        As for `keras_attention.compute.context_and_weights`.

    Returns:
        The context `(batch, *heads, query_length, value_size)`, in the dtype of `value`.
    """
    query_length, key_length = shape_of(queries[0])[-2], shape_of(key)[-2]
    query_positions, key_positions = masks.positions(query_length, key_length, start)
    of_scores = {"scoring": scoring, "normalizer": normalizer, "mask": mask, "training": training}
    of_scores["lead"] = lead_of(queries[0], value)
    blocks = blocks_of(query_length, key_length, mask, start)
    rows, columns = [(block.queries,) for block in blocks], [block.keys for block in blocks]
    queries = [_Cut(ops.cast(query, "float32"), rows) for query in queries]
    key, value = _Cut(ops.cast(key, "float32"), columns), _Cut(value, columns)
    query_positions = _Cut(query_positions, rows, axis=0)
    key_positions = _Cut(key_positions, columns, axis=0)

    contexts = []
    for row, column in zip(rows, columns, strict=True):
        scores, weights = scores_and_weights(
            [query[row] for query in queries],
            key[column],
            (query_positions[row], key_positions[column]),
            **of_scores,
        )
        mixing = weights if dropout is None else dropout(weights)
        contexts.append(_context(scores, weights, mixing, value[column]))
    return contexts[0] if len(contexts) == 1 else ops.concatenate(contexts, axis=-2)


def blocks_of(query_length, key_length, mask, start):
    """Returns the blocks with the fewest pairs; one, if the mask tells nothing in advance."""
    everything = [Block(slice(None), (slice(None),))]
    start = key_length - query_length if start is None else start
    if mask is None or not all(isinstance(x, int) for x in (query_length, key_length, start)):
        return everything
    if query_length == 0 or key_length == 0:
        return everything
    length = max(SHORTEST_BLOCK, -(-query_length // MOST_STEPS))
    rows, columns = _ranges(query_length, length), _ranges(key_length, KEYS_A_STEP)
    first, last = np.transpose(rows)[..., None] + start
    may_see = mask.may_see((first, last - 1), (columns[:, 0], columns[:, 1] - 1))
    if not isinstance(may_see, np.ndarray):
        return everything
    may_see = np.broadcast_to(may_see, (len(rows), len(columns)))
    blocks = []
    for first, last in _fewest_pairs(may_see, *(np.diff(each)[:, 0] for each in (rows, columns))):
        places = np.flatnonzero(may_see[first:last].any(axis=0))
        places = places if len(places) else np.array([0])  # a softmax needs a key
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        keys = tuple(slice(int(columns[run[0], 0]), int(columns[run[-1], 1])) for run in runs)
        blocks.append(Block(slice(int(rows[first, 0]), int(rows[last - 1, 1])), keys))
    return blocks


def _fewest_pairs(may_see, heights, widths):
    """Returns how to group consecutive rows into blocks with as few pairs as possible.

    Args:
        may_see: Booleans `(rows, columns)`, whether queries of a row may see keys of a column.
        heights, widths: Number of queries in each row, and of keys in each column.

    Returns:
        Pairs `(first, last)` of indices, at most `MOST_BLOCKS`: a block has the rows from `first`
        up to, but not including, `last`.
    """
    number = len(may_see)
    pairs = np.full((number, number + 1), np.inf)  # of the rows from one index to another
    for first in range(number):
        seen = np.logical_or.accumulate(may_see[first:], axis=0)
        pairs[first, first + 1 :] = np.cumsum(heights[first:]) * np.dot(seen, widths)
    fewest, begins = [pairs[0]], []  # of the rows up to an index, in 1, 2, 3, ... blocks
    for _ in range(min(number, MOST_BLOCKS) - 1):
        with_another = fewest[-1][:number, None] + pairs
        begins.append(with_another.argmin(axis=0))
        fewest.append(with_another.min(axis=0))
    cuts = int(np.argmin([each[number] for each in fewest]))
    ends = [number]
    for begin in reversed(begins[:cuts]):
        ends.insert(0, int(begin[ends[0]]))
    return list(itertools.pairwise([0, *ends]))


def pairs_in_blocks(query_length, key_length, mask=None, start=None):
    """Returns the number of pairs in the blocks."""
    return sum(
        len(range(*block.queries.indices(query_length))) * len(range(*run.indices(key_length)))
        for block in blocks_of(query_length, key_length, mask, start)
        for run in block.keys
    )


def _ranges(length, step):
    """Returns int32 `(number, 2)`, the first position of each range and one after its last."""
    first = np.arange(0, length, step, dtype="int32")
    return np.stack([first, np.minimum(first + step, length)], axis=1)


class _Cut:
    """A tensor whose ranges of positions are put together from the pieces between their ends.

    The gradient of a slice has the length of the whole tensor; that of a piece is as short as the
    piece.

    Args:
        x: Tensor.
        needed: Tuples of ranges, each of which can be asked for.
        axis: Axis of the positions.
    """

    def __init__(self, x, needed, axis=-2):
        ends = {end for ranges in needed for each in ranges for end in (each.start, each.stop)}
        inner = sorted(ends - {None, 0, x.shape[axis]})
        self.axis, self.starts = axis, [0, *inner]
        self.pieces = ops.split(x, inner, axis=axis) if inner else [x]

    def __getitem__(self, ranges):
        if len(self.pieces) == 1:
            return self.pieces[0]
        pairs = zip(self.starts, self.pieces, strict=True)
        inside = [
            piece
            for start, piece in pairs
            if any(each.start <= start < each.stop for each in ranges)
        ]
        return inside[0] if len(inside) == 1 else ops.concatenate(inside, axis=self.axis)


def _context(scores, weights, mixing, value):
    """Returns the context, the product of the weights after dropout (`mixing`) and the values."""
    if keras.backend.backend() != "tensorflow":  # the others fuse the gradient of a softmax
        return matmul(ops.cast(mixing, value.dtype), value)
    dropped = [] if mixing is weights else [mixing]
    return _with_gradient_of_scores(scores, value, weights, *dropped)


@ops.custom_gradient
def _with_gradient_of_scores(scores, value, weights, *dropped):
    """Returns the context, whose gradient passes over the weights twice instead of four times.

    It bypasses the normalizer. The gradient of a softmax needs, for each query, the sum over keys
    of weights times their gradient. That is also the sum over features of the context times its
    gradient (Dao et al. 2022, FlashAttention, appendix B.2, https://arxiv.org/abs/2205.14135).
    The weights are an argument so that the gradient can be differentiated again.
    """
    (mixing,) = dropped or (weights,)
    in_dtype = ops.cast(mixing, value.dtype)
    context = matmul(in_dtype, value)

    def gradient(upstream):
        of_mixing = ops.cast(matmul(upstream, value, transpose_b=True), "float32")
        products = ops.cast(upstream, "float32") * ops.cast(context, "float32")
        mean = ops.sum(products, axis=-1, keepdims=True)
        of_value = matmul(in_dtype, upstream, transpose_a=True)
        if dropped:
            return mixing * of_mixing - weights * mean, of_value, None, None
        return weights * (of_mixing - mean), of_value, None

    return context, gradient
