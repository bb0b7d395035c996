"""Sinusoidal position embeddings."""

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import is_positive_number, require_one_of
from keras_attention.positions.embedding import PositionEmbedding
from keras_attention.positions.scaling import frequencies_of

LAYOUTS = ("interleaved", "halves")


@keras.saving.register_keras_serializable(package="keras_attention")
class SinusoidalPosition(PositionEmbedding):
    """Sines and cosines of the position, at wavelengths that grow geometrically.

    $$ interleaved: p_{t,2i} = \\sin(t / w^{2i/d}), \\quad p_{t,2i+1} = \\cos(t / w^{2i/d}) $$

    $$ halves: p_{t,i} = \\sin(t / w^{2i/d}), \\quad p_{t,d/2+i} = \\cos(t / w^{2i/d}) $$

    Paper: Vaswani et al. 2017, section 3.5 (https://arxiv.org/abs/1706.03762). The paper first
    multiplies the embeddings by the square root of their size, `keras.layers.Rescaling(size**0.5)`;
    `x * size**0.5` would lose Keras' implicit mask.

    Angles, sines and the sum are computed in float32, whatever the dtype of the embeddings, and
    rounded once. No weights, no maximum length.

    Args:
        mode: `"add"` or `"concatenate"`.
        size: Size of the concatenated position vectors. Defaults to the size of the embeddings.
        max_wavelength: `w`. Wavelengths range from `2π` to `2π · w`.
        layout: `"interleaved"`, alternating sines and cosines as in the paper; or `"halves"`, all
            sines followed by all cosines, as in Marian.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        start: Position of the first vector: an integer, a scalar tensor, or int32 `(batch,)`, one
            for each sequence. See `PositionEmbedding`.

    Output shape:
        `(batch, length, size)`; concatenated, `(batch, length, size + position_size)`.

    Raises:
        ValueError: If the mode or the layout is unknown, a number is out of range, or `x` is not
            of rank 3.

    Example:

    >>> layer = SinusoidalPosition()
    >>> layer(np.zeros((1, 2, 2))).numpy().astype(float).round(4).tolist()
    [[[0.0, 1.0], [0.8415, 0.5403]]]
    >>> layer(np.zeros((1, 1, 2)), start=1).numpy().astype(float).round(4).tolist()
    [[[0.8415, 0.5403]]]
    """

    def __init__(self, mode="add", size=None, max_wavelength=10000, layout="interleaved", **kwargs):
        super().__init__(mode, size, **kwargs)
        owner = type(self).__name__
        require_wavelength(owner, max_wavelength)
        require_one_of(owner, LAYOUTS, layout=layout)
        self.max_wavelength = max_wavelength
        self.layout = layout

    def vectors(self, positions):
        angles = angles_of(positions, self.position_size, self.max_wavelength)
        sines, cosines = ops.sin(angles), ops.cos(angles)
        if self.layout == "halves":
            return ops.concatenate([sines, cosines], axis=-1)[:, : self.position_size]
        pairs = ops.stack([sines, cosines], axis=-1)  # (length, pairs, 2)
        length = shape_of(positions)[0]
        return ops.reshape(pairs, (length, 2 * pairs.shape[1]))[:, : self.position_size]

    def get_config(self):
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "layout": self.layout,
        }


def angles_of(positions, size, max_wavelength):
    """Returns the angle of each position at each wavelength, float32 `(length, ceil(size / 2))`.

    Args:
        positions: int32 `(length,)`.
        size, max_wavelength: As for `frequencies_of`.
    """
    frequencies = frequencies_of(size, max_wavelength).astype("float32")
    return ops.outer(ops.cast(positions, "float32"), frequencies)


def require_wavelength(owner, max_wavelength):
    """Raises a `ValueError` unless the largest wavelength exceeds the smallest one."""
    if not is_positive_number(max_wavelength) or max_wavelength <= 1:
        raise ValueError(
            f"`max_wavelength` of {owner} must be above 1, the value of the smallest wavelength. "
            f"Received: max_wavelength={max_wavelength!r}."
        )
