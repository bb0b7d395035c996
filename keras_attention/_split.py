"""Splitting the last axis of a tensor, whether its size is known or not."""

from keras import ops


def split_after(x, size):
    """Splits the last axis of a tensor in two, the first of which has a size; -1 leaves out one.

    A known axis is split by one operation, whose gradient is faster than that of two slices.
    """
    whole = x.shape[-1]
    if whole is None:  # such as weights of an unknown number of keys
        return x[..., :size], x[..., size:]
    return ops.split(x, [size if size >= 0 else whole + size], axis=-1)  # one part may be empty
