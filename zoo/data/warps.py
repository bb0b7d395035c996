"""Pictures of handwriting, a little different each time: shifted, turned, scaled, bent."""

import math

import tensorflow as tf

COARSE = 4  # rows and columns of the grid of random displacements


def warped(images, degrees=12.0, scale=0.12, shear=0.15, shift=0.08, bend=0.03, seed=None):
    """Draws an affine map and a smooth displacement for each picture, and shows it through them.

    Simard et al. 2003, Best Practices for Convolutional Neural Networks Applied to Visual Document
    Analysis (https://doi.org/10.1109/ICDAR.2003.1227801), with displacements that are interpolated
    from a coarse grid.

    Args:
        images: Float tensor `(batch, rows, columns, channels)`; what comes in from outside is 0.
        degrees: Largest angle.
        scale, shear, shift: Largest change of the size, of the slant, and of the place as a part of
            the side.
        bend: Standard deviation of the displacements, as a part of the side.
        seed: Seed, int32 `(2,)`; another one gives other pictures.

    Returns:
        A tensor of the same shape and dtype float32.

    Example:

    >>> picture = tf.ones((1, 8, 8, 1))
    >>> still = warped(picture, 0.0, 0.0, 0.0, 0.0, 0.0, seed=[1, 2])
    >>> bool(tf.reduce_all(still == picture))
    True
    """
    images = tf.cast(images, tf.float32)
    batch, rows, columns, _ = tf.unstack(tf.shape(images))
    y, x = tf.meshgrid(tf.linspace(-0.5, 0.5, rows), tf.linspace(-0.5, 0.5, columns), indexing="ij")

    def draw(number, shape=(), kind=tf.random.stateless_uniform, **options):
        return kind([batch, *shape], tf.random.fold_in(seed, number), **options)

    def up_to(number, largest):
        return draw(number, (1, 1), minval=-largest, maxval=largest)

    angle = up_to(0, math.radians(degrees))
    wide, high = 1.0 + up_to(1, scale), 1.0 + up_to(2, scale)
    slanted = x + up_to(3, shear) * y
    cosine, sine = tf.cos(angle), tf.sin(angle)
    across = wide * (cosine * slanted - sine * y) + up_to(4, shift)  # (batch, rows, columns)
    down = high * (sine * slanted + cosine * y) + up_to(5, shift)
    bent = draw(6, (COARSE, COARSE, 2), tf.random.stateless_normal, stddev=bend)
    bent = tf.image.resize(bent, (rows, columns), "bicubic")
    across = (across + bent[..., 0] + 0.5) * tf.cast(columns - 1, tf.float32)
    down = (down + bent[..., 1] + 0.5) * tf.cast(rows - 1, tf.float32)
    return _looked_up(images, down, across)


def _looked_up(images, down, across):
    """Returns the pixels at places between pixels, bilinearly."""
    padded = tf.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]])
    batch, rows, columns, channels = tf.unstack(tf.shape(padded))
    down = tf.clip_by_value(down + 1.0, 0.0, tf.cast(rows - 1, tf.float32) - 1e-3)
    across = tf.clip_by_value(across + 1.0, 0.0, tf.cast(columns - 1, tf.float32) - 1e-3)
    top, left = tf.floor(down), tf.floor(across)
    below, right = (down - top)[..., None], (across - left)[..., None]
    flat = tf.reshape(padded, (-1, channels))  # (batch * rows * columns, channels)
    first = (tf.range(batch)[:, None, None] * rows + tf.cast(top, tf.int32)) * columns
    first += tf.cast(left, tf.int32)

    def corner(offset):
        return tf.gather(flat, first + offset)

    upper = corner(0) * (1.0 - right) + corner(1) * right
    lower = corner(columns) * (1.0 - right) + corner(columns + 1) * right
    return upper * (1.0 - below) + lower * below
