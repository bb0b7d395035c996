"""Lengths of vectors, safe at zero, in float32."""

from keras import ops


def squared_norm(x):
    """Returns `‖x‖²` over the last axis, which is kept, in float32."""
    return ops.sum(ops.square(ops.cast(x, "float32")), axis=-1, keepdims=True)


def unit(x):
    """Returns `x / ‖x‖` over the last axis; zero stays zero, and its gradient is finite."""
    squared = squared_norm(x)
    norm = ops.sqrt(ops.where(squared > 0.0, squared, 1.0))
    return ops.cast(ops.cast(x, "float32") / norm, x.dtype)


def distance(squared):
    """Returns the square root, whose gradient at 0 is 0 and not infinite."""
    is_apart = squared > 0.0
    return ops.where(is_apart, ops.sqrt(ops.where(is_apart, squared, 1.0)), 0.0)
