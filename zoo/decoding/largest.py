"""The largest numbers of long rows: a top-k in two stages."""

import tensorflow as tf

WIDTH = 64  # numbers of a part of a row


def largest(x, count):
    """Returns what `tf.math.top_k` does: the largest numbers of each row, and where they are.

    A long row is cut into parts. The `count` parts with the largest maxima hold the `count` largest
    numbers, so that only these parts are searched: of the rest, the maxima are enough.

    Args:
        x: Tensor `[..., size]`.
        count: How many; all of a row that has fewer. Of equal numbers the first ones count.

    Returns:
        `(values, indices)`, both `[..., min(count, size)]`, the largest first.

    Example:

    >>> values, indices = largest(tf.constant([3.0, 9.0, 4.0]), 2)
    >>> values.numpy().tolist(), indices.numpy().tolist()
    ([9.0, 4.0], [1, 2])
    """
    size = x.shape[-1]
    if size is None or size < 2 * count * WIDTH:
        return tf.math.top_k(x, tf.minimum(count, tf.shape(x)[-1]))
    front, axis = tf.unstack(tf.shape(x)[:-1]), x.shape.rank - 1
    number = size // WIDTH
    parts = tf.reshape(x[..., : number * WIDTH], [*front, number, WIDTH])
    _, chosen = tf.math.top_k(tf.reduce_max(parts, -1), count)
    chosen = tf.sort(chosen)  # of equal numbers, the first ones stay the first
    places = chosen[..., None] * WIDTH + tf.range(WIDTH)  # [..., count, WIDTH]
    rest = tf.range(number * WIDTH, size)  # what is left of a row is no part
    places = tf.concat(
        [
            tf.reshape(places, [*front, count * WIDTH]),
            tf.broadcast_to(rest, [*front, size % WIDTH]),
        ],
        -1,
    )
    searched = tf.gather(parts, chosen, batch_dims=axis)
    searched = tf.reshape(searched, [*front, count * WIDTH])
    values, order = tf.math.top_k(tf.concat([searched, x[..., number * WIDTH :]], -1), count)
    return values, tf.gather(places, order, batch_dims=axis)
