"""Sizes of tensors for `ops.reshape`."""

from keras_attention._backend import shape_of


def sizes_of(x):
    """Returns all sizes of a tensor, -1 for a single unknown one, which needs no operation."""
    if list(x.shape).count(None) == 1 and 0 not in x.shape:
        return tuple(-1 if size is None else size for size in x.shape)
    return shape_of(x)
