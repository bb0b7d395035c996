"""Sines and cosines on embeddings."""

import keras
import numpy as np
from keras import ops

from keras_attention.positions.embedding import PositionEmbedding


@keras.saving.register_keras_serializable(package="keras_attention")
class SinusoidalPosition(PositionEmbedding):
    """Sines and cosines of the position, at wavelengths that grow geometrically.

    $$ p_{t,2i} = \\sin(t / w^{2i/d}), \\quad p_{t,2i+1} = \\cos(t / w^{2i/d}) $$

    Paper: Vaswani et al. 2017, section 3.5 (https://arxiv.org/abs/1706.03762). The paper multiplies
    the embeddings by the square root of their size before.

    Angles, sines and the sum are float32 whatever the embeddings are, and rounded once. No weights,
    no largest length.

    Args:
        mode: `"add"` or `"concatenate"`.
        size: Size of the position vectors that are concatenated. Defaults to that of the
            embeddings.
        max_wavelength: `w`. Wavelengths go from `2π` to `2π · w`.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        start: Where the first vector stands, an integer or a scalar tensor.

    Output shape:
        `(batch, length, size)`; concatenated, `(batch, length, size + position_size)`.

    Raises:
        ValueError: If the mode is unknown, a number is out of range, or `x` is not of rank 3.

    Example:

    >>> layer = SinusoidalPosition()
    >>> layer(np.zeros((1, 2, 2))).numpy().astype(float).round(4).tolist()
    [[[0.0, 1.0], [0.8415, 0.5403]]]
    >>> layer(np.zeros((1, 1, 2)), start=1).numpy().astype(float).round(4).tolist()
    [[[0.8415, 0.5403]]]
    """

    def __init__(self, mode="add", size=None, max_wavelength=10000, **kwargs):
        super().__init__(mode, size, **kwargs)
        require_wavelength(type(self).__name__, max_wavelength)
        self.max_wavelength = max_wavelength

    def vectors(self, positions):
        angles = angles_of(positions, self.position_size, self.max_wavelength)
        pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # (length, pairs, 2)
        length = ops.shape(positions)[0]
        return ops.reshape(pairs, (length, 2 * pairs.shape[1]))[:, : self.position_size]

    def get_config(self):
        return {**super().get_config(), "max_wavelength": self.max_wavelength}


def angles_of(positions, size, max_wavelength):
    """Returns the angle of each position at each wavelength, two dimensions a wavelength.

    Args:
        positions: int32 `(length,)`.
        size: Number of dimensions; the last wavelength of an odd size has one dimension.
        max_wavelength: What the wavelengths, in units of `2π`, grow up to.

    Returns:
        float32 `(length, ceil(size / 2))`.
    """
    frequencies = float(max_wavelength) ** -(np.arange(0, size, 2) / size)
    return ops.outer(ops.cast(positions, "float32"), frequencies.astype("float32"))


def require_wavelength(owner, max_wavelength):
    """Raises a `ValueError` unless the largest wavelength is above the smallest one."""
    if not max_wavelength > 1:
        raise ValueError(
            f"`max_wavelength` of {owner} must be above 1, that of the first wavelength. "
            f"Received: max_wavelength={max_wavelength!r}."
        )
