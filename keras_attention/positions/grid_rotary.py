"""Queries and keys of an image that are rotated depending on their row and column."""

import math

import keras
from keras import ops

from keras_attention._checks import (
    pair_of_integers,
    plain,
    require_counts,
    require_one_of,
)
from keras_attention._layer import as_floats
from keras_attention.positions.base import Position
from keras_attention.positions.rotary import turned
from keras_attention.positions.scaling import frequencies_of
from keras_attention.positions.sinusoidal import require_wavelength

COORDINATES = ("normalized", "indices")


@keras.saving.register_keras_serializable(package="keras_attention")
class GridRotary(Position):
    """Axial rotary position of images: half of the dimensions turn by the row, half by the column.

    $$ (x_i, x_{i+d/2}) \\mapsto (x_i \\cos φ_i - x_{i+d/2} \\sin φ_i,
       x_i \\sin φ_i + x_{i+d/2} \\cos φ_i) $$

    $$ φ_i = row / w^{4i/d}, \\quad φ_{d/4+i} = column / w^{4i/d} \\quad (i < d/4) $$

    The dot product of a rotated query and a rotated key only depends on their distances in rows and
    columns, so use it with the scores `"dot"` and `"scaled_dot"`.

    Source: Siméoni et al. 2025, DINOv3, section 3.2 (https://arxiv.org/abs/2508.10104), after Su et
    al. 2021, RoFormer (https://arxiv.org/abs/2104.09864). As there, `row` and `column` are by
    default `2π` times the coordinate of the center of a patch, from -1 at one edge of the image to
    1 at the other, so that a model sees images of other sizes as coarser or finer. With
    `coordinates="indices"` and `max_wavelength=10000`, they are those of Qwen2-VL's images (Wang et
    al. 2024, https://arxiv.org/abs/2409.12191).

    Positions count the patches of the grid row by row. Angles and rotation are computed in float32
    and rounded once. No weights.

    Args:
        grid: Rows and columns of the grid, or one number for both.
        max_wavelength: `w`, also called base or theta.
        coordinates: `"normalized"` for coordinates from -1 to 1, or `"indices"` for the numbers of
            rows and columns, from 0.
        num_prefix_tokens: Number of tokens in front of the grid that are not rotated, such as a
            class token and registers.

    Attributes:
        grid: Rows and columns of the grid. As there are no weights, it can be set for images of
            another size.

    Raises:
        ValueError: If an argument is unknown or out of range, or if the size of a head is not a
            multiple of 4 in `build`.

    Example:

    >>> position = GridRotary(grid=(2, 1), coordinates="indices")
    >>> position.build(heads=(), size=4)
    >>> position.rotate(np.array([[[1.0, 1.0, 0.0, 0.0]] * 2], "float32"), np.array([0, 1])
    ...     ).numpy().astype(float).round(4).tolist()
    [[[1.0, 1.0, 0.0, 0.0], [0.5403, 1.0, 0.8415, 0.0]]]
    """

    per_head = False

    def __init__(
        self, grid, max_wavelength=100, coordinates="normalized", num_prefix_tokens=0, **kwargs
    ):
        super().__init__(**kwargs)
        self.grid = pair_of_integers("GridRotary", "grid", grid)
        require_wavelength("GridRotary", max_wavelength)
        require_one_of("GridRotary", COORDINATES, coordinates=coordinates)
        require_counts("GridRotary", num_prefix_tokens=num_prefix_tokens)
        self.max_wavelength = max_wavelength
        self.coordinates = coordinates
        self.num_prefix_tokens = plain(num_prefix_tokens)

    def build(self, heads, size):
        super().build(heads, size)
        self._require_fitting_size(size)

    def _require_fitting_size(self, size):
        if size % 4:
            raise ValueError(
                "GridRotary rotates pairs of dimensions, half of them by the row and half by the "
                f"column, so it needs a multiple of 4. Received: heads of size {size}. Give heads "
                "another size, the key_dim of MultiHeadAttention or the size of the queries of "
                "Attention."
            )

    def rotate(self, x, positions):
        x = as_floats(x, "float32")
        self._require_fitting_size(x.shape[-1])
        frequencies = frequencies_of(x.shape[-1] // 2, self.max_wavelength).astype("float32")
        patches = positions - self.num_prefix_tokens
        angles = [
            ops.outer(self._coordinates(places, number), frequencies)
            for places, number in zip(
                (patches // self.grid[1], patches % self.grid[1]), self.grid, strict=True
            )
        ]
        angles = ops.concatenate(2 * angles, axis=-1)  # (length, size)
        if self.num_prefix_tokens:
            angles = ops.where(patches[:, None] >= 0, angles, 0.0)
        return ops.cast(turned(x, angles, "halves"), x.dtype)

    def _coordinates(self, places, number):
        """Returns the coordinates of some of a number of rows or columns, float32."""
        places = ops.cast(places, "float32")
        if self.coordinates == "indices":
            return places
        return 2.0 * math.pi * (2.0 * ((places + 0.5) / number) - 1.0)

    def get_config(self):
        return {
            **super().get_config(),
            "grid": self.grid,
            "max_wavelength": self.max_wavelength,
            "coordinates": self.coordinates,
            "num_prefix_tokens": self.num_prefix_tokens,
        }
