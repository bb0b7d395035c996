"""Sizes of tensors with few operations: `ops.shape` adds four to a graph for each unknown size."""

from keras import ops


def size_of(x, axis):
    """Returns the size of an axis, an integer if it is known."""
    known = x.shape[axis]
    return ops.shape(x)[axis] if known is None else known


def sizes_of(x):
    """Returns all sizes for `ops.reshape`, which takes -1 for a single unknown one."""
    if list(x.shape).count(None) == 1 and 0 not in x.shape:
        return tuple(-1 if size is None else size for size in x.shape)
    return ops.shape(x)
