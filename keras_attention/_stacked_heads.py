"""Heads that attend to one sequence of keys, stacked into one sequence of queries.

Each key is then read from memory once for all heads, in one large product.
"""

from keras import ops

from keras_attention.masks import Mask


def stacked(x):
    """(batch, heads, length, size) -> (batch, length · heads, size)."""
    batch, heads, length, size = ops.shape(x)
    return ops.reshape(ops.swapaxes(x, 1, 2), (batch, length * heads, size))


def unstacked(x, heads):
    """(batch, length · heads, size) -> (batch, heads, length, size)."""
    batch, rows, size = ops.shape(x)
    return ops.swapaxes(ops.reshape(x, (batch, rows // heads, heads, size)), 1, 2)


class StackedMask(Mask):
    """The mask of stacked queries.

    Row `i` is head `i % heads` of the query at position `start + i // heads`.

    Args:
        mask: The `Mask` of the queries.
        heads: Number of heads.
        start: Position of the first query, an integer or scalar tensor.
    """

    def __init__(self, mask, heads, start):
        self.mask, self.heads, self.start = mask, heads, start
        self.longest_tile = mask.longest_tile

    def tile(self, query_positions, key_positions):
        visible = self.mask.tile(self._position(query_positions), key_positions)
        if visible.shape[1] == 1:
            return visible
        is_of_head = ops.arange(self.heads)[:, None] == query_positions % self.heads
        return ops.any(visible & is_of_head[:, :, None], axis=1, keepdims=True)

    def may_see(self, queries, keys):
        return self.mask.may_see(tuple(map(self._position, queries)), keys)

    def _position(self, row):
        return row // self.heads + self.start
