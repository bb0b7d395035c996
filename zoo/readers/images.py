"""Reads images from files, bytes or arrays, and from bytes inside graphs."""

import functools
import io
import os
import re
import reprlib
import sys

import numpy as np
import tensorflow as tf

from zoo.readers.orientation import orientation_of, upright
from zoo.readers.several import content_of
from zoo.readers.tracing import traced_once

FORMATS = "JPEG, PNG, GIF, BMP or WebP"
WHITE = 255.0
KERNELS = {"bilinear": "triangle", "bicubic": "keyscubic"}  # as TensorFlow calls them
# What PIL can write as PNG as it is; all else is converted first.
_PNG_MODES = {"1", "L", "LA", "P", "RGB", "RGBA", "I;16", "I;16B"}


def read_images(image_bytes, size, resized=None, keeps_shape=False, interpolation="bilinear"):
    """Decodes images of any size and format into a batch of one size, inside a graph or outside.

    The formats are JPEG, PNG, GIF, BMP and WebP. Grayscale, palette and CMYK images become RGB,
    transparency becomes white (in GIFs black, as TensorFlow decodes them), an animated GIF or PNG
    is reduced to its first frame, and a photograph, in a JPEG file, is rotated according to its
    EXIF orientation. Images are resized to a square, with antialiasing. An image that cannot be
    decoded, such as an animated WebP, does not affect the others: its row is zeros, and the second
    output says so.

    Args:
        image_bytes: String tensor (batch,), contents of files. The batch may be empty.
        size: Rows and columns of the results, an `int`.
        resized: Rows and columns of the square that an image is resized to, before its center is
            cropped; defaults to `size`, without cropping.
        keeps_shape: Whether to resize the shorter side to `resized` and keep the aspect ratio.
        interpolation: `"bilinear"` or `"bicubic"`.

    Returns:
        Float32 tensor (batch, size, size, 3), RGB from 0 to 255; boolean tensor (batch,), whether
        a row is an image.

    Example:

    >>> grey = image_bytes(np.full((8, 12), 0.5))
    >>> images, is_image = read_images([grey, b"no image"], size=2)
    >>> images[:, 0, 0].numpy().round()
    array([[128., 128., 128.],
           [  0.,   0.,   0.]], dtype=float32)
    >>> is_image.numpy()
    array([ True, False])
    """
    image_bytes = tf.convert_to_tensor(image_bytes, tf.string)
    count = tf.size(image_bytes, tf.int64)
    pictures = tf.data.Dataset.from_tensor_slices((tf.range(count), image_bytes))

    read_one = _reader(size, resized, keeps_shape, interpolation)

    def read(place, encoded):
        return place, read_one(encoded)

    pictures = pictures.map(read, num_parallel_calls=tf.data.AUTOTUNE)
    # Outside of tf.data an operation that fails takes the whole graph along. The row at the end is
    # there because exactly one element must remain, even of no images.
    end = tf.data.Dataset.from_tensors((count, tf.zeros((size, size, 3))))
    places, images = pictures.ignore_errors().concatenate(end).batch(count + 1).get_single_element()
    places = places[:, None]
    images = tf.scatter_nd(places, images, (count + 1, size, size, 3))
    is_image = tf.scatter_nd(places, tf.ones_like(places[:, 0]), (count + 1,)) > 0
    return images[:-1], is_image[:-1]


def read_image(encoded):
    """Returns one image in its own size, decoded as by `read_images`.

    Args:
        encoded: `bytes`, the content of a file.

    Returns:
        Uint8 array (rows, columns, 3).

    Example:

    >>> read_image(image_bytes(np.full((8, 12), 0.5)))[0, 0]
    array([128, 128, 128], dtype=uint8)
    """
    pixels = upright(_decode(encoded, _float), orientation_of(encoded))
    return np.rint(pixels).astype("uint8")


def fitted(image, size, resized=None, keeps_shape=False, interpolation="bilinear"):
    """Resizes and crops one image, in the graph, as `read_images` does.

    Args:
        image: Uint8 or float32 tensor (rows, columns, channels), from 0 to 255.
        size, resized, keeps_shape, interpolation: As for `read_images`.

    Returns:
        Float32 tensor (size, size, channels).
    """
    resized, sides = resized or size, tf.shape(image)[:2]
    shape = resized * sides // tf.reduce_min(sides) if keeps_shape else [resized, resized]
    # Makes nothing but the crop: of a line of pixels, all of `shape` would fill the memory.
    image = tf.raw_ops.ScaleAndTranslate(
        images=image[None],
        size=[size, size],
        scale=tf.cast(shape, tf.float32) / tf.cast(sides, tf.float32),
        translation=-tf.cast((tf.convert_to_tensor(shape) - size) // 2, tf.float32),
        kernel_type=KERNELS[interpolation],
        antialias=True,
    )[0]
    if interpolation == "bicubic":  # which goes beyond white and black at edges
        image = tf.clip_by_value(image, 0.0, 255.0)
    return tf.ensure_shape(image, (size, size, image.shape[-1]))


def image_bytes(image):
    """Returns the bytes of an image file for a path, bytes, a PIL image or an array.

    Args:
        image: Path of a file (`str` or `pathlib.Path`), bytes of a file, PIL image, or array of
            shape (rows, columns), or (rows, columns, channels) with 1, 3 or 4 channels, of uint8
            or of floats from 0 to 1.

    Returns:
        `bytes`: a file as it is, everything else as PNG.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If `read_images` cannot decode it, or it is an array of another form.
        TypeError: If it is something else.

    Example:

    >>> image_bytes(np.zeros((2, 2, 3), "uint8"))[1:4]
    b'PNG'
    """
    if isinstance(image, str | os.PathLike):
        return _require_picture(content_of(image, "image"), f"The file '{image}'")
    if isinstance(image, bytes | bytearray | memoryview):
        return _require_picture(bytes(image), f"An image of {len(image)} bytes")
    # Nobody has a PIL image who has not imported PIL.
    pil = sys.modules.get("PIL.Image")
    if pil is not None and isinstance(image, pil.Image):
        return _png_of_pil(image)
    if hasattr(image, "__array__"):
        return _png_of_array(np.asarray(image))
    raise TypeError(
        "An image must be a path, the bytes of a file, a PIL image or an array. "
        f"Received: {reprlib.repr(image)} of type {type(image).__name__}."
    )


@functools.cache
def _reader(*how):
    # Pixels are resized as they were decoded: as float32, large photographs would take four times
    # the memory.
    fit = traced_once(lambda pixels: fitted(pixels, *how))
    return traced_once(lambda encoded: upright(_decode(encoded, fit), orientation_of(encoded)))


def _decode(encoded, then):
    """Returns `then(pixels)` for the pixels (rows, columns, 3) of a file, uint8 or float32."""

    def starts_with(signature):
        return tf.strings.substr(encoded, 0, len(signature)) == signature

    return tf.case(
        [
            # The default method is off by one shade on average, and no faster.
            (
                starts_with(b"\xff\xd8"),
                lambda: then(tf.io.decode_jpeg(encoded, 3, dct_method="INTEGER_ACCURATE")),
            ),
            (starts_with(b"\x89PNG"), lambda: _decode_png(encoded, then)),
            (starts_with(b"RIFF"), lambda: _decode_webp(encoded, then)),
            (starts_with(b"BM"), lambda: then(_decode_bmp(encoded))),
        ],
        lambda: then(tf.io.decode_image(encoded, 3, expand_animations=False)),
    )


def _decode_png(encoded, then):
    pixels = tf.io.decode_png(encoded, channels=4)
    # To an image of fewer bits TensorFlow adds an alpha of the greatest number of so few bits.
    bits = tf.cast(tf.io.decode_raw(tf.strings.substr(encoded, 24, 1), tf.uint8)[0], tf.int32)
    opaque = tf.cast(2 ** tf.minimum(bits, 8) - 1, tf.uint8)
    return tf.cond(
        tf.reduce_all(pixels[..., 3] == opaque),
        lambda: then(pixels[..., :3]),
        lambda: then(_over_white(pixels)),
    )


def _decode_webp(encoded, then):
    # Of animations, TensorFlow decodes all frames, into the memory of one if only that is wanted.
    is_extended = tf.strings.substr(encoded, 12, 4) == b"VP8X"
    flags = tf.io.decode_raw(tf.strings.substr(encoded, 20, 1), tf.uint8)[0]
    is_animation = is_extended & (tf.bitwise.bitwise_and(flags, tf.constant(2, tf.uint8)) > 0)
    message = "It is an animation, which is supported in GIF and PNG files only."
    with tf.control_dependencies([tf.debugging.Assert(~is_animation, [message])]):
        # Only the number of channels of the file is accepted: 3, or 4 with transparency.
        pixels = tf.io.decode_image(encoded, channels=0, expand_animations=False)
    pixels = tf.ensure_shape(pixels, (None, None, None))
    return tf.cond(
        tf.shape(pixels)[-1] == 4,
        lambda: then(_over_white(tf.ensure_shape(pixels, (None, None, 4)))),
        lambda: then(tf.ensure_shape(pixels, (None, None, 3))),
    )


def _over_white(pixels):
    """Returns float32 RGB over white for RGBA."""
    pixels = _float(pixels)
    opacity = pixels[..., 3:] / 255.0
    return pixels[..., :3] * opacity + WHITE * (1.0 - opacity)


def _decode_bmp(encoded):
    header = tf.io.decode_raw(tf.strings.substr(encoded, 14, 16), tf.uint16)
    has_palette = header[7] == 8
    # Of four channels the last is padding, whatever its name.
    return tf.cond(
        has_palette,
        lambda: _colors_of_bmp(encoded, tf.cast(header[0], tf.int32)),
        lambda: _float(tf.io.decode_bmp(encoded)[..., :3]),
    )


def _colors_of_bmp(encoded, header_size):
    """Returns the colors of a BMP with a palette, which TensorFlow mistakes for grayscale."""
    numbers = tf.io.decode_bmp(encoded)[..., 0]
    first_pixel = tf.io.decode_raw(tf.strings.substr(encoded, 10, 4), tf.int32)[0]
    table = tf.strings.substr(encoded, 14 + header_size, first_pixel - 14 - header_size)
    table = tf.reshape(tf.io.decode_raw(table, tf.uint8), (-1, 4))
    return _float(tf.gather(table[:, 2::-1], tf.cast(numbers, tf.int32)))


def _float(pixels):
    return tf.cast(pixels, tf.float32)


def _require_picture(content, owner):
    try:
        _decode(content, tf.shape)
    except tf.errors.InvalidArgumentError as error:
        if not content:
            raise ValueError(f"{owner} is empty.") from None
        told = "".join(re.findall(r"b'(.*?)'", error.message)) or error.message
        told = re.sub(r"\{\{function_node .*?\}\} ?| ?\[Op:.*?\]", "", told)
        raise ValueError(
            f"{owner} cannot be read as an image: it must be a complete {FORMATS} file. "
            f"{told.rstrip('. ')}. Convert other formats, or in Python pass PIL.Image.open(path)."
        ) from None
    return content


def _png_of_pil(image):
    from PIL import Image, ImageOps

    if 0 in image.size:
        raise ValueError(f"A PIL image must have pixels. Received: one of size {image.size}.")
    image = ImageOps.exif_transpose(image)
    if image.mode == "I":  # grey of 32 bits, of which a PNG holds 16
        image = Image.fromarray(np.clip(np.asarray(image), 0, 2**16 - 1).astype("uint16"))
    if image.mode not in _PNG_MODES:
        image = image.convert("RGBA" if image.mode.lower().endswith("a") else "RGB")
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()


def _way_out(least, greatest):
    """Returns what to do about floats that are not from 0 to 1."""
    if not np.isfinite([least, greatest]).all():
        return "Some of them are not finite: correct these."
    if least > -0.5 and greatest < 1.5:  # such as by an interpolation
        return "Clip them: np.clip(array, 0.0, 1.0)."
    if least < 0.0:
        return "Do not normalize images: the model does."
    return "Divide by 255, or pass uint8."


def _png_of_array(array):
    pixels = array[..., None] if array.ndim == 2 else array
    if pixels.ndim != 3 or pixels.shape[-1] not in (1, 3, 4) or not pixels.size:
        are_several = array.ndim in (3, 4) and array.size
        way_out = " If these are several images, pass list(array)." if are_several else ""
        raise ValueError(
            "An array must be an image of shape (rows, columns) or (rows, columns, channels) with "
            f"1, 3 or 4 channels. Received: shape {array.shape}.{way_out}"
        )
    if pixels.dtype.kind == "f":
        least, greatest = pixels.min(), pixels.max()
        if not (least >= 0.0 and greatest <= 1.0):
            raise ValueError(
                "An array of floats must hold numbers from 0 to 1. Received: from "
                f"{least:.9g} to {greatest:.9g}. {_way_out(least, greatest)}"
            )
        pixels = np.rint(pixels * 255.0).astype("uint8")
    if pixels.dtype != np.uint8:
        raise ValueError(
            f"An array must be of uint8, or of floats from 0 to 1. Received: dtype {pixels.dtype}."
        )
    return tf.io.encode_png(pixels).numpy()
