"""Masks aligned to the start, as Keras has them."""

from keras import ops

from keras_attention import masks


class _FromStart(masks.Mask):
    """A mask for queries that stand where the first keys do, not the last."""

    def __init__(self, mask, shift):
        self.mask, self.shift = mask, shift

    def tile(self, query_positions, key_positions):
        return self.mask.tile(query_positions - self.shift, key_positions)

    def may_see(self, queries, keys):
        return self.mask.may_see(self._shifted(queries), keys)

    def sees_all(self, queries, keys):
        return self.mask.sees_all(self._shifted(queries), keys)

    def _shifted(self, queries):
        return tuple(position - self.shift for position in queries)


def from_start(mask, query, keys, axis=1):
    """Returns a mask of queries and keys, the first of which stand together.

    Args:
        mask: A `Mask`.
        query, keys: Tensors.
        axis: That of their lengths.
    """
    if query.shape[axis] == keys.shape[axis] and query.shape[axis] is not None:
        return mask
    return _FromStart(mask, ops.shape(keys)[axis] - ops.shape(query)[axis])
