"""Views of pictures: the same picture, slightly different each time, for training."""

import math

import tensorflow as tf

SMALLEST_AREA = 0.8


def view_of(images, names, view):
    """Returns one view of a batch of pictures: the same one whenever it is asked for.

    View 0 is the whole picture, view 1 its mirror image. Every further number cuts a part of 80 to
    100 % of the area out of each picture, at another place for each picture and number, mirrors
    half of these parts, and resizes them back.

    Args:
        images: Float tensor (batch, size, size, 3).
        names: String tensor (batch,). A picture's parts depend on its name, not on its place.
        view: Number of the view, a scalar.

    Returns:
        Float tensor (batch, size, size, 3).

    Example:

    >>> picture = tf.reshape(tf.range(12.0), (1, 2, 2, 3))
    >>> view_of(picture, tf.constant(["a.jpg"]), 1)[0, 0].numpy()
    array([[3., 4., 5.],
           [0., 1., 2.]], dtype=float32)
    """
    view = tf.convert_to_tensor(view, tf.int64)
    draws = _draws(names, view)
    images = tf.cond(view > 1, lambda: _parts(images, draws), lambda: images)
    is_mirrored = (view == 1) | ((view > 1) & (draws[:, 4] < 0.5))
    return tf.where(is_mirrored[:, None, None, None], images[:, :, ::-1], images)


def _draws(names, view):
    """Returns five numbers from 0 to 1 for each name."""
    seeds = tf.strings.to_hash_bucket_fast(names, 2**62)
    return tf.map_fn(
        lambda seed: tf.random.stateless_uniform((5,), tf.stack([seed, view])),
        seeds,
        fn_output_signature=tf.TensorSpec((5,), tf.float32),
    )


def _parts(images, draws):
    shortest = math.sqrt(SMALLEST_AREA)
    sides = shortest + (1.0 - shortest) * draws[:, 0:2]
    corners = (1.0 - sides) * draws[:, 2:4]
    boxes = tf.concat([corners, corners + sides], axis=-1)
    size = tf.shape(images)[1:3]
    parts = tf.image.crop_and_resize(images, boxes, tf.range(tf.shape(images)[0]), size)
    return tf.ensure_shape(parts, images.shape)
