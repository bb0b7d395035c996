"""The EXIF orientation of photographs in JPEG files, inside TensorFlow graphs."""

import tensorflow as tf

# Cameras write the EXIF segment first, or second after that of JFIF.
HEAD = 4096
TAG = 0x0112
ENTRY = 12


def orientation_of(jpeg):
    """Returns the EXIF orientation of a JPEG file, from 1 to 8; 1 if it has none.

    Args:
        jpeg: Scalar string tensor, the content of a file; files of other formats have none.
    """
    head = tf.cast(tf.io.decode_raw(tf.strings.substr(jpeg, 0, HEAD), tf.uint8), tf.int32)
    segments = _positions_of_exif(head)
    return tf.cond(
        tf.size(segments) > 0,
        lambda: _orientation_in(head[segments[0] :]),
        lambda: tf.constant(1),
    )


def upright(image, orientation):
    """Turns an image that was stored with an EXIF orientation upright.

    Args:
        image: Tensor (rows, columns, channels); in a graph it must be square.
        orientation: Scalar from 1 to 8; 5 to 8 swap rows and columns.
    """

    def one_of(*orientations):
        return tf.reduce_any(orientation == tf.constant(orientations))

    image = tf.cond(orientation >= 5, lambda: tf.transpose(image, (1, 0, 2)), lambda: image)
    image = tf.cond(one_of(2, 3, 6, 7), lambda: image[:, ::-1], lambda: image)
    return tf.cond(one_of(3, 4, 7, 8), lambda: image[::-1], lambda: image)


def _positions_of_exif(head):
    """Returns where the TIFF structures of EXIF segments (FF E1, length, "Exif", 0, 0) begin."""
    pattern = {0: 0xFF, 1: 0xE1, **dict(enumerate(b"Exif\0\0", start=4))}
    places = tf.maximum(tf.size(head) - 10, 0)
    matches = [head[offset : places + offset] == byte for offset, byte in pattern.items()]
    is_jpeg = tf.reduce_all(head[:2] == (0xFF, 0xD8))
    return 10 + tf.where(tf.reduce_all(matches, axis=0) & is_jpeg)[:, 0]


def _orientation_in(tiff):
    # "II" or "MM", 42, where the first directory begins; its length, its entries of 12 bytes.
    is_little = tiff[0] == ord("I")

    def number(places):
        # Pointers in damaged files may be out of range: they are clipped.
        parts = tf.gather(tiff, tf.clip_by_value(places, 0, tf.size(tiff) - 1))
        parts = tf.where(is_little, parts, parts[..., ::-1])
        return tf.reduce_sum(parts * 256 ** tf.range(tf.shape(parts)[-1]), axis=-1)

    two, four = tf.range(2), tf.range(4)
    directory = tf.clip_by_value(number(4 + four), 0, HEAD)
    entries = directory + 2 + ENTRY * tf.range(tf.minimum(number(directory + two), HEAD // ENTRY))
    tags, values = number(entries[:, None] + two), number(entries[:, None] + 8 + two)
    value = tf.reduce_max(tf.where(tags == TAG, values, 0))
    return tf.where((value >= 1) & (value <= 8), value, 1)
