"""Views of images, each a little different: augmentation that can be computed in advance."""

import math

import tensorflow as tf

SMALLEST_AREA = 0.8


def view_of(images, names, view):
    """Returns one view of a batch of images, always the same for the same names and number.

    View 0 is the whole image, view 1 its mirror image. Each further view is a crop whose sides
    are about 89 to 100% of the image's, mirrored half of the time and resized back; it depends
    on the number and the name.

    Args:
        images: Float tensor (batch, size, size, 3).
        names: String tensor (batch,), the names of the images.
        view: Index of the view, an `int`.

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
    """Returns a number from 0 to 1 for each name, derived from its hash."""
    keys = tf.strings.join([names, f"{view}", f"{number}"], separator="/")
    return tf.cast(tf.strings.to_hash_bucket_fast(keys, 2**24), tf.float32) / 2**24
