"""Views of pictures: a little different each, so that a model trains on more than there is."""

import math

import tensorflow as tf

SMALLEST_AREA = 0.8


def view_of(images, names, view):
    """Returns one view of a batch of pictures, the same one whenever it is asked for.

    View 0 is the whole picture, view 1 its mirror image. Every further one is a part of 80 to 100 %
    of the area, mirrored half of the time and resized back: another one for each number and name.

    Args:
        images: Float tensor (batch, size, size, 3).
        names: String tensor (batch,), the names of the pictures.
        view: Number of the view, an `int`.

    Returns:
        Float tensor (batch, size, size, 3).

    Example:

    >>> picture = tf.reshape(tf.range(12.0), (1, 2, 2, 3))
    >>> view_of(picture, tf.constant(["a.jpg"]), 1)[0, 0].numpy()
    array([[3., 4., 5.],
           [0., 1., 2.]], dtype=float32)
    """
    if view == 0:
        return images
    if view == 1:
        return images[:, :, ::-1]
    height, width, top, left, side = (_draw(names, view, number) for number in range(5))
    shortest = math.sqrt(SMALLEST_AREA)
    height, width = (shortest + (1.0 - shortest) * draw for draw in (height, width))
    top, left = top * (1.0 - height), left * (1.0 - width)
    bottom, right = top + height, left + width
    is_mirrored = side < 0.5
    left, right = tf.where(is_mirrored, right, left), tf.where(is_mirrored, left, right)
    boxes = tf.stack([top, left, bottom, right], axis=-1)
    rows = tf.range(tf.shape(images)[0])
    parts = tf.image.crop_and_resize(images, boxes, rows, tf.shape(images)[1:3])
    return tf.ensure_shape(parts, images.shape)


def _draw(names, view, number):
    """Returns a number from 0 to 1 for each name, by its hash."""
    keys = tf.strings.join([names, f"{view}", f"{number}"], separator="/")
    return tf.cast(tf.strings.to_hash_bucket_fast(keys, 2**24), tf.float32) / 2**24
