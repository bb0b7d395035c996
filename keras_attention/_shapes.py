"""Sizes of tensors for `ops.reshape`."""

from keras import ops

from keras_attention._backend import shape_of


def sizes_of(x):
    """Returns all sizes of a tensor, -1 for a single unknown one, which needs no operation."""
    if list(x.shape).count(None) == 1 and 0 not in x.shape:
        return tuple(-1 if size is None else size for size in x.shape)
    return shape_of(x)


def heads_and_length_exchanged(x):
    """Exchanges the second and third of four axes, without a copy if one of them has size 1."""
    if 1 not in x.shape[1:3]:
        return ops.swapaxes(x, 1, 2)
    first, second, third, last = sizes_of(x)
    return ops.reshape(x, (first, third, second, last))
