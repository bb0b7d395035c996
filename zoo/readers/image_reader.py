"""`ImageReader`: turns images of any kind into the inputs of a model."""

import keras
import numpy as np
import tensorflow as tf

from keras_attention._checks import require_positive_integers
from keras_attention.errors import unknown_name
from zoo.readers.images import fitted, image_bytes, read_images
from zoo.readers.several import as_requests, assert_decoded
from zoo.readers.shown import Shown

INTERPOLATIONS = {"bilinear": 2, "bicubic": 3}  # to the numbers of PIL
LARGEST_IMAGES = 2048  # rows: of a preset of somebody else, too


@keras.saving.register_keras_serializable(package="zoo")
class ImageReader(Shown):
    """The preprocessing of images: their size, their channels, the range of their values.

    $$ x = \\frac{pixels / 255 - mean}{deviation} $$

    It decodes like `zoo.readers.images.read_images`, with the same graph in training, in Python and
    in the exported model.

    Args:
        size: Rows and columns.
        channels: 3 for color, 1 for grayscale.
        mean, deviation: A number for all channels, or a list of one for each.
        resized, keeps_shape, interpolation: As for `zoo.readers.images.read_images`.

    Raises:
        ValueError: If a number is out of range.

    Example:

    >>> reader = ImageReader(size=2, channels=1, mean=0.5, deviation=0.5)
    >>> images, is_image = reader.read([image_bytes(np.full((8, 12), 1.0)), b"no image"])
    >>> images[:, 0, 0].numpy().round(2).tolist(), is_image.numpy().tolist()
    ([[1.0], [-1.0]], [True, False])
    """

    request_name = "image_bytes"

    def __init__(
        self,
        size=224,
        channels=3,
        mean=0.5,
        deviation=0.5,
        resized=None,
        keeps_shape=False,
        interpolation="bilinear",
    ):
        require_positive_integers("ImageReader", size=size)
        if size > LARGEST_IMAGES:
            raise ValueError(
                f"`size` of ImageReader must be at most {LARGEST_IMAGES}. Received: size={size}."
            )
        if channels not in (1, 3):
            raise ValueError(
                f"`channels` of ImageReader must be 1 or 3. Received: channels={channels!r}."
            )
        self.size, self.channels = size, channels
        self.mean, self.deviation = mean, deviation
        self._check_resizing(size, resized, interpolation)
        self.resized, self.keeps_shape = resized, keeps_shape
        self.interpolation = interpolation
        numbers = tf.constant(mean, tf.float32), tf.constant(deviation, tf.float32)
        if any(each.shape not in ((), (channels,)) for each in numbers) or tf.reduce_any(
            numbers[1] <= 0.0
        ):
            raise ValueError(
                "`mean` and `deviation` of ImageReader must be numbers, or lists of one for each "
                f"channel, deviations above 0. Received: mean={mean!r}, deviation={deviation!r}."
            )

    def _check_resizing(self, size, resized, interpolation):
        if resized is not None and not size <= resized <= LARGEST_IMAGES:
            raise ValueError(
                f"`resized` of ImageReader must be from size={size} to {LARGEST_IMAGES}, or None. "
                f"Received: resized={resized!r}."
            )
        if interpolation not in INTERPOLATIONS:
            raise ValueError(unknown_name("interpolation", interpolation, INTERPOLATIONS))

    @property
    def _resizing(self):
        return self.resized, self.keeps_shape, self.interpolation

    @property
    def decides(self):
        """Options of a model of images that the reader determines."""
        return {"image_size": self.size, "channels": self.channels}

    @property
    def processor(self):
        """The preprocessing in the format of Hugging Face's `preprocessor_config.json`.

        >>> config = ImageReader(size=28, channels=1, mean=0.1307, deviation=0.3081).processor
        >>> config["size"], config["image_mean"], config["image_std"]
        ({'height': 28, 'width': 28}, [0.1307], [0.3081])
        """
        resized, square = self.resized or self.size, {"height": self.size, "width": self.size}
        mean, deviation = (
            np.broadcast_to(each, [self.channels]).tolist() for each in (self.mean, self.deviation)
        )
        return {
            "image_processor_type": "CLIPImageProcessor",  # which knows all of this
            "num_channels": self.channels,
            "do_convert_rgb": self.channels == 3,
            "do_resize": True,
            "size": {"shortest_edge": resized}
            if self.keeps_shape
            else {"height": resized, "width": resized},
            "resample": INTERPOLATIONS[self.interpolation],
            "do_center_crop": self.keeps_shape or resized != self.size,
            "crop_size": square,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": mean,
            "image_std": deviation,
        }

    def of_size(self, size):
        """Returns this reader for another size.

        >>> ImageReader(size=224, mean=0.45, resized=256).of_size(112)
        ImageReader(size=112, mean=0.45, resized=128)
        """
        config = self.get_config() | {"size": size}
        if self.resized is not None:
            config["resized"] = max(size, round(self.resized * size / self.size))
        return ImageReader(**config)

    def requests(self, images):
        """Returns the bytes of each image of a call, and whether the call was for one image."""
        return as_requests(images, image_bytes, "images", picture_rank=3)

    def read(self, requests):
        """Reads encoded images, in the graph.

        Args:
            requests: Strings `(batch,)`.

        Returns:
            float32 `(batch, size, size, channels)`, and boolean `(batch,)`, whether each is an
            image.
        """
        pixels, is_image = read_images(requests, self.size, *self._resizing)
        if self.channels == 1:
            pixels = tf.image.rgb_to_grayscale(pixels)
        return self.scale(pixels), is_image

    def batched(self, examples, batch_size):
        """Returns batches of (preprocessed image, label).

        Args:
            examples: Data set of (image, label); an image is encoded, or pixels from 0 to 255.
            batch_size: Number of images per batch.
        """
        dtype = examples.element_spec[0].dtype
        if dtype != tf.string:
            examples = examples.map(self._resized, num_parallel_calls=tf.data.AUTOTUNE)
            scale = self._scale_floats if dtype.is_floating else self._scale_all
            return examples.batch(batch_size).map(scale, num_parallel_calls=tf.data.AUTOTUNE)
        return examples.batch(batch_size).map(self._read_all, num_parallel_calls=tf.data.AUTOTUNE)

    def _read_all(self, encoded, labels):
        images, is_image = self.read(encoded)
        with tf.control_dependencies([assert_decoded(is_image, "images")]):
            return tf.identity(images), labels

    def _resized(self, pixels, label):
        if pixels.shape.rank != 3 or pixels.shape[-1] not in (1, 3):
            raise ValueError(
                "Images in a data set must be encoded, or have the shape (rows, columns, "
                f"channels) with 1 or 3 channels. Received: shape {pixels.shape}."
            )
        pixels = tf.cast(pixels, tf.float32)
        is_finite = tf.reduce_all(tf.math.is_finite(pixels))
        told = (
            "An image of a data set holds numbers that are not finite: correct it, or leave it out."
        )
        with tf.control_dependencies([tf.debugging.Assert(is_finite, [told])]):
            pixels = fitted(tf.identity(pixels), self.size, *self._resizing)
        if pixels.shape[-1] != self.channels:
            change = tf.image.rgb_to_grayscale if self.channels == 1 else tf.image.grayscale_to_rgb
            pixels = change(pixels)
        return pixels, label

    def _scale_all(self, pixels, labels):
        return self.scale(pixels), labels

    def _scale_floats(self, pixels, labels):
        with tf.control_dependencies([_assert_not_scaled(pixels)]):
            return self.scale(tf.identity(pixels)), labels

    def scale(self, pixels):
        """Scales pixels from 0 to 255 to the range that the model takes, as float32."""
        pixels = tf.cast(pixels, tf.float32) / 255.0
        return (pixels - tf.constant(self.mean)) / tf.constant(self.deviation)

    def example(self):
        """Returns a gray image."""
        return tf.io.encode_png(tf.fill([8, 8, 3], tf.constant(128, tf.uint8))).numpy()

    def get_config(self):
        return {
            "size": self.size,
            "channels": self.channels,
            "mean": self.mean,
            "deviation": self.deviation,
            "resized": self.resized,
            "keeps_shape": self.keeps_shape,
            "interpolation": self.interpolation,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _assert_not_scaled(pixels):
    """Returns an operation that fails if all images of a batch hold small numbers, as from 0 to 1.

    A single image may be nearly black, or all of it.
    """
    greatest = tf.reduce_max(tf.abs(pixels), axis=(1, 2, 3))  # of each image
    is_one_or_black = (tf.size(greatest) < 2) | tf.reduce_any(greatest == 0.0)
    told = (
        "Images of a data set must hold pixels from 0 to 255: the model scales them. Received a "
        "batch of floats up to",
        tf.reduce_max(greatest),
        "Multiply those from 0 to 1 by 255.",
    )
    return tf.debugging.Assert(is_one_or_black | tf.reduce_any(greatest > 1.0), told)
