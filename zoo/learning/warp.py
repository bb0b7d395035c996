"""Augmentation of pictures of handwriting: random shifts, rotations, scales and distortions."""

import math

import keras
from keras import ops

COARSE = 4  # rows and columns of the grid of random displacements


class Warp(keras.layers.Layer):
    """Applies a random affine map and a random smooth displacement to each picture.

    Paper: Simard et al. 2003, Best Practices for Convolutional Neural Networks Applied to Visual
    Document Analysis (https://doi.org/10.1109/ICDAR.2003.1227801), with displacements that are
    interpolated from a coarse grid.

    Args:
        degrees: Largest angle.
        scale, shear, shift: Largest change of the size, of the slant, and of the position as a
            fraction of the side.
        bend: Standard deviation of the displacements, as a fraction of the side.
        seed: Integer seed.

    Call arguments:
        images: Float `(batch, rows, columns, channels)`; outside the picture, pixels are 0.

    Example:

    >>> picture = np.ones((1, 8, 8, 1), "float32")
    >>> still = Warp(degrees=0.0, scale=0.0, shear=0.0, shift=0.0, bend=0.0)(picture)
    >>> bool(np.all(np.array(still) == picture))
    True
    """

    def __init__(
        self, degrees=12.0, scale=0.12, shear=0.15, shift=0.08, bend=0.03, seed=None, **kwargs
    ):
        super().__init__(**kwargs)
        self.degrees, self.scale, self.shear = degrees, scale, shear
        self.shift, self.bend = shift, bend
        self.seeds = keras.random.SeedGenerator(seed)

    def call(self, images):
        batch, rows, columns, _ = ops.shape(images)

        def up_to(largest):
            return keras.random.uniform((batch, 1, 1), -largest, largest, seed=self.seeds)

        y, x = ops.meshgrid(
            ops.linspace(-0.5, 0.5, rows), ops.linspace(-0.5, 0.5, columns), indexing="ij"
        )
        angle = up_to(math.radians(self.degrees))
        wide, high = 1.0 + up_to(self.scale), 1.0 + up_to(self.scale)
        slanted = x + up_to(self.shear) * y
        cosine, sine = ops.cos(angle), ops.sin(angle)
        across = wide * (cosine * slanted - sine * y) + up_to(self.shift)  # (batch, rows, columns)
        down = high * (sine * slanted + cosine * y) + up_to(self.shift)
        bent = keras.random.normal((batch, COARSE, COARSE, 2), 0.0, self.bend, seed=self.seeds)
        bent = ops.image.resize(bent, (rows, columns), "bicubic", data_format="channels_last")
        across = (across + bent[..., 0] + 0.5) * (columns - 1)
        down = (down + bent[..., 1] + 0.5) * (rows - 1)
        return _looked_up(images, down, across)


def _looked_up(images, down, across):
    """Returns the values at positions between pixels, by bilinear interpolation."""
    padded = ops.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]])
    batch, rows, columns, channels = ops.shape(padded)
    down = ops.clip(down + 1.0, 0.0, rows - 1 - 1e-3)
    across = ops.clip(across + 1.0, 0.0, columns - 1 - 1e-3)
    top, left = ops.floor(down), ops.floor(across)
    below, right = (down - top)[..., None], (across - left)[..., None]
    flat = ops.reshape(padded, (-1, channels))  # (batch * rows * columns, channels)
    first = (ops.arange(batch)[:, None, None] * rows + ops.cast(top, "int32")) * columns
    first = first + ops.cast(left, "int32")

    def corner(offset):
        return ops.take(flat, first + offset, axis=0)

    upper = corner(0) * (1.0 - right) + corner(1) * right
    lower = corner(columns) * (1.0 - right) + corner(columns + 1) * right
    return upper * (1.0 - below) + lower * below
