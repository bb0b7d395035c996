"""The largest numbers of long rows: a top-k in two stages."""

import tensorflow as tf

from keras_attention._backend import shape_of

WIDTH = 40  # numbers of a part of a row, about


def largest(x, count):
    """Returns the largest numbers of each row and their indices, like `tf.math.top_k`.

    A long row is split into parts. The `count` parts with the largest maxima hold the `count`
    largest numbers, so only these parts are searched.

    Args:
        x: Tensor `[..., size]`.
        count: Number of values; all, if a row has fewer. Of equal numbers, the first ones count.

    Returns:
        `(values, indices)`, both `[..., min(count, size)]`, the largest first.

    Example:

    >>> values, indices = largest(tf.constant([3.0, 9.0, 4.0]), 2)
    >>> values.numpy().tolist(), indices.numpy().tolist()
    ([9.0, 4.0], [1, 2])
    """
    if not is_long(x, count):
        return tf.math.top_k(x, tf.minimum(count, tf.shape(x)[-1]))
    parts, axis = in_parts(x), x.shape.rank - 1
    width = parts.shape[-1]
    _, chosen = tf.math.top_k(tf.reduce_max(parts, -1), count)
    chosen = tf.sort(chosen)  # of equal numbers, the first ones stay the first
    searched = tf.gather(parts, chosen, batch_dims=axis)
    front = shape_of(x)[:-1]
    values, order = tf.math.top_k(tf.reshape(searched, [*front, count * width]), count)
    part = tf.gather(chosen, order // width, batch_dims=axis)
    return values, part * width + order % width


def is_long(x, count):
    """Returns whether the largest numbers of rows are found faster in two stages."""
    return x.shape[-1] is not None and x.shape[-1] >= 2 * count * WIDTH


def in_parts(x):
    """Returns the parts of rows, `[..., parts, width]`, the last one padded with −inf."""
    size = x.shape[-1]
    width = _width(size)
    if size % width:
        rest = [[0, 0]] * (x.shape.rank - 1) + [[0, -size % width]]
        x = tf.pad(x, rest, constant_values=x.dtype.as_numpy_dtype("-inf"))
    return tf.reshape(x, [*shape_of(x)[:-1], -(-size // width), width])


def _width(size):
    """Returns the width of the parts of rows, one that needs no padding if there is any."""
    widths = [width for width in range(WIDTH // 2, 2 * WIDTH + 1) if size % width == 0]
    return min(widths, key=lambda width: abs(width - WIDTH), default=WIDTH)
