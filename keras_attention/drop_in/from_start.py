"""Masks aligned to the start, as in Keras."""

from keras_attention import masks
from keras_attention._backend import shape_of


class _FromStart(masks.Mask):
    """A mask for queries that are aligned with the first keys, not the last."""

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
    """Returns a mask for queries and keys that are aligned at the start.

    Args:
        mask: A `Mask`.
        query, keys: Tensors.
        axis: The axis of their lengths.
    """
    if query.shape[axis] == keys.shape[axis] and query.shape[axis] is not None:
        return mask
    return _FromStart(mask, shape_of(keys)[axis] - shape_of(query)[axis])
