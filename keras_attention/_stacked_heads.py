"""Heads that attend to one sequence of keys, stacked into one sequence of queries.

Each key is then read from memory once for all heads, in one large product.
"""

from keras import ops

from keras_attention._backend import shape_of
from keras_attention.masks import Mask


def stacked(x):
    """(batch, heads, length, size) -> (batch, length · heads, size)."""
    batch, heads, length, size = shape_of(x)
    return ops.reshape(ops.swapaxes(x, 1, 2), (batch, length * heads, size))


def unstacked(x, heads):
    """(batch, length · heads, size) -> (batch, heads, length, size)."""
    batch, rows, size = shape_of(x)
    return ops.swapaxes(ops.reshape(x, (batch, rows // heads, heads, size)), 1, 2)


class StackedMask(Mask):
    """The mask of stacked queries: place `p` is head `p % heads` of the query at `p // heads`.

    Args:
        mask: The `Mask` of the queries.
        heads: Number of heads.
    """

    def __init__(self, mask, heads):
        self.mask, self.heads = mask, heads
        self.longest_tile = mask.longest_tile

    def tile(self, query_positions, key_positions):
        visible = self.mask.tile(query_positions // self.heads, key_positions)
        if visible.shape[1] == 1:
            return visible
        is_of_head = ops.arange(self.heads)[:, None] == query_positions % self.heads
        return ops.any(visible & is_of_head[:, :, None], axis=1, keepdims=True)

    def may_see(self, queries, keys):
        first, last = queries
        return self.mask.may_see((first // self.heads, last // self.heads), keys)
