"""Norms of vectors, safe at zero, in float32."""

from keras import ops


def squared_norm(x):
    """Returns `‖x‖²` over the last axis, with `keepdims=True`, in float32."""
    return ops.sum(ops.square(ops.cast(x, "float32")), axis=-1, keepdims=True)


def unit(x):
    """Returns `x / ‖x‖` over the last axis; zero stays zero, with a finite gradient."""
    squared = squared_norm(x)
    norm = ops.sqrt(ops.where(squared > 0.0, squared, 1.0))
    return ops.cast(ops.cast(x, "float32") / norm, x.dtype)


def distance(squared):
    """Returns the square root, with a gradient of 0 instead of infinity at 0."""
    is_apart = squared > 0.0
    return ops.where(is_apart, ops.sqrt(ops.where(is_apart, squared, 1.0)), 0.0)
