"""Queries and keys that are rotated by where they stand."""

import keras
import numpy as np
from keras import ops

from keras_attention._products import matmul
from keras_attention.positions.base import Position
from keras_attention.positions.sinusoidal import angles_of, require_wavelength


@keras.saving.register_keras_serializable(package="keras_attention")
class Rotary(Position):
    """Rotary position: each pair of dimensions is rotated by an angle that grows with the position.

    $$ (x_{2i}, x_{2i+1}) \\mapsto (x_{2i} \\cos φ - x_{2i+1} \\sin φ,
       x_{2i} \\sin φ + x_{2i+1} \\cos φ), \\quad φ = t / w^{2i/d} $$

    The dot product of a rotated query and a rotated key depends on their positions through the
    difference alone, so `"dot"` and `"scaled_dot"` are the scores to use it with.

    Paper: Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding,
    equations 15 and 34 (https://arxiv.org/abs/2104.09864).

    Pairs are neighbours, as in the paper. Angles and rotation are float32 and rounded once. No
    weights.

    Args:
        max_wavelength: `w`. Wavelengths go from `2π` to `2π · w`.
        fraction: Fraction of the dimensions, from the first on, that is rotated (Black et al.
            2022, https://arxiv.org/abs/2204.06745, rotate a quarter). `d` is their number, which
            must be even.

    Raises:
        ValueError: If a number is out of range; when it is built, if `d` is odd or 0.

    Example:

    >>> position = Rotary()
    >>> position.build(heads=(), size=2)
    >>> position.rotate(np.array([[[1.0, 0.0], [1.0, 0.0]]], "float32"), np.array([0, 1])
    ...     ).numpy().astype(float).round(4).tolist()
    [[[1.0, 0.0], [0.5403, 0.8415]]]
    """

    per_head = False

    def __init__(self, max_wavelength=10000, fraction=1.0, **kwargs):
        super().__init__(**kwargs)
        require_wavelength("Rotary", max_wavelength)
        if not 0.0 < fraction <= 1.0:
            raise ValueError(
                "`fraction` of Rotary must be above 0 and at most 1, which rotates all dimensions. "
                f"Received: fraction={fraction!r}."
            )
        self.max_wavelength = max_wavelength
        self.fraction = fraction

    def build(self, heads, size):
        super().build(heads, size)
        self._rotated(size)

    def _rotated(self, size):
        """Returns how many dimensions of so many are rotated."""
        rotated = round(self.fraction * size)
        if rotated % 2 or not rotated:
            raise ValueError(
                "Rotary rotates pairs of dimensions, so it needs an even number of them. Received: "
                f"size {size} of a head, of which fraction={self.fraction} is {rotated}. Give "
                "the layer an even key_dim, or choose another fraction."
            )
        return rotated

    def rotate(self, x, positions):
        rotated = self._rotated(x.shape[-1])
        angles = angles_of(positions, rotated, self.max_wavelength)  # (length, pairs)
        still = ops.zeros((ops.shape(angles)[0], x.shape[-1] - rotated), "float32")
        angles = ops.concatenate([ops.repeat(angles, 2, axis=-1), still], axis=-1)
        # One matmul in place of slices, whose gradients are slow. Each sum has one term: no error.
        crossed = matmul(x, ops.cast(_cross(x.shape[-1]), x.dtype))
        rotated = ops.cast(x, "float32") * ops.cos(angles)
        rotated = rotated + ops.cast(crossed, "float32") * ops.sin(angles)
        return ops.cast(rotated, x.dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "fraction": self.fraction,
        }


def _cross(size):
    """Returns the matrix that takes each pair `(x, y)` to `(-y, x)`; the last of odd ones to 0."""
    matrix = np.zeros((size, size), "float32")
    first = np.arange(0, size - 1, 2)
    matrix[first + 1, first], matrix[first, first + 1] = -1.0, 1.0
    return matrix
