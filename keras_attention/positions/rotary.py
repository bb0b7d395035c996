"""Queries and keys that are rotated depending on their positions."""

import keras
import numpy as np
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import is_positive_number, require_one_of
from keras_attention._layer import as_floats
from keras_attention._products import matmul
from keras_attention.positions import scaling as scalings
from keras_attention.positions.base import Position
from keras_attention.positions.sinusoidal import require_wavelength

PAIRS = ("neighbours", "halves")


@keras.saving.register_keras_serializable(package="keras_attention")
class Rotary(Position):
    """Rotary position: each pair of dimensions is rotated by an angle that grows with the position.

    $$ (x_{2i}, x_{2i+1}) \\mapsto (x_{2i} \\cos φ - x_{2i+1} \\sin φ,
       x_{2i} \\sin φ + x_{2i+1} \\cos φ), \\quad φ = t / w^{2i/d} $$

    The dot product of a rotated query and a rotated key only depends on the difference of their
    positions, so use it with the scores `"dot"` and `"scaled_dot"`.

    Paper: Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding,
    equations 15 and 34 (https://arxiv.org/abs/2104.09864).

    Angles and rotation are computed in float32 and rounded once. No weights.

    Args:
        max_wavelength: `w`. Wavelengths range from `2π` to `2π · w`. Also called base or theta.
        fraction: Fraction of the dimensions, starting with the first, to rotate (Black et al. 2022,
            https://arxiv.org/abs/2204.06745, rotate a quarter). `d` is their number, which must be
            even.
        pairs: Which dimensions form a pair: `"neighbours"`, `2i` and `2i + 1`, as in the paper; or
            `"halves"`, `i` and `i + d / 2`, as in Llama and later models.
        scaling: How to extend the context beyond the training length: `None`, or one of
            `positions.LinearScaling`, `DynamicScaling`, `YaRN`, `LongRoPE`, `Llama3Scaling`.

    Raises:
        ValueError: If an argument is unknown or out of range, or if `d` is odd or 0 in `build`.

    Example:

    >>> position = Rotary()
    >>> position.build(heads=(), size=2)
    >>> position.rotate(np.array([[[1.0, 0.0], [1.0, 0.0]]], "float32"), np.array([0, 1])
    ...     ).numpy().astype(float).round(4).tolist()
    [[[1.0, 0.0], [0.5403, 0.8415]]]
    """

    per_head = False

    def __init__(
        self, max_wavelength=10000, fraction=1.0, pairs="neighbours", scaling=None, **kwargs
    ):
        super().__init__(**kwargs)
        require_wavelength("Rotary", max_wavelength)
        if not is_positive_number(fraction) or fraction > 1:
            raise ValueError(
                "`fraction` of Rotary must be above 0 and at most 1, which rotates all dimensions. "
                f"Received: fraction={fraction!r}."
            )
        require_one_of("Rotary", PAIRS, pairs=pairs)
        self.max_wavelength = max_wavelength
        self.fraction = fraction
        self.pairs = pairs
        self.scaling = scalings.get(scaling)

    def build(self, heads, size):
        super().build(heads, size)
        self._rotated(size)

    def _rotated(self, size):
        """Returns how many of `size` dimensions are rotated."""
        rotated = round(self.fraction * size)
        if rotated % 2 or not rotated:
            raise ValueError(
                "Rotary rotates pairs of dimensions, so it needs an even number of them. Received: "
                f"heads of size {size}, of which fraction={self.fraction} rotates {rotated}. Give "
                "heads an even size, the key_dim of MultiHeadAttention or the size of the queries "
                "of Attention, or choose another fraction."
            )
        return rotated

    def rotate(self, x, positions):
        x = as_floats(x, "float32")
        rotated = self._rotated(x.shape[-1])
        frequencies = self._frequencies(rotated, positions)
        frequencies = ops.take(frequencies, _pair_of(rotated, self.pairs))  # (rotated,)
        angles = ops.outer(ops.cast(positions, "float32"), frequencies)
        return ops.cast(self._magnified(turned(x, angles, self.pairs), rotated), x.dtype)

    def _frequencies(self, rotated, positions):
        if self.scaling is None:
            return scalings.frequencies_of(rotated, self.max_wavelength).astype("float32")
        return self.scaling.frequencies(rotated, self.max_wavelength, positions)

    def _magnified(self, x, rotated):
        if self.scaling is None or self.scaling.magnitude == 1:
            return x
        factors = np.ones(x.shape[-1], "float32")
        factors[:rotated] = self.scaling.magnitude
        return ops.multiply(x, factors)

    def get_config(self):
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "fraction": self.fraction,
            "pairs": self.pairs,
            "scaling": keras.saving.serialize_keras_object(self.scaling),
        }


def turned(x, angles, pairs):
    """Returns vectors whose pairs of dimensions are rotated, float32 `(..., length, size)`.

    Args:
        x: Tensor `(..., length, size)`.
        angles: float32 `(length, rotated)`, the angle of the pair of each of the first dimensions.
        pairs: Which dimensions form a pair, see `Rotary`.
    """
    size, rotated = x.shape[-1], angles.shape[-1]
    still = ops.zeros((shape_of(angles)[0], size - rotated), "float32")
    angles = ops.concatenate([angles, still], axis=-1)
    # A matmul instead of slices, whose gradients are slow. Each sum has one term: it is exact.
    crossed = matmul(x, ops.cast(_cross(size, _pair_of(rotated, pairs)), x.dtype))
    whole = ops.cast(x, "float32") * ops.cos(angles)
    return whole + ops.cast(crossed, "float32") * ops.sin(angles)


def _pair_of(rotated, pairs):
    """Returns the index of each dimension's pair."""
    indices = np.arange(rotated // 2)
    return np.repeat(indices, 2) if pairs == "neighbours" else np.tile(indices, 2)


def _cross(size, pair_of):
    """Returns the matrix that maps each pair `(x, y)` to `(-y, x)`, and the rest to 0."""
    order = np.argsort(pair_of, kind="stable")
    first, second = order[::2], order[1::2]
    matrix = np.zeros((size, size), "float32")
    matrix[second, first], matrix[first, second] = -1.0, 1.0
    return matrix
