"""The rotary positions of ESM-2."""

import dataclasses

import keras

from keras_attention.positions import RotaryScaling
from keras_attention.positions.scaling import frequencies_of


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundedFrequencies(RotaryScaling):
    """Rounds the frequencies to half precision, since a model was trained with it.

    Example:

    >>> RoundedFrequencies().frequencies(4, 1000, None).astype(float).round(6).tolist()
    [1.0, 0.031616]
    """

    factor: float = 1.0

    def frequencies(self, size, max_wavelength, positions):
        exact = frequencies_of(size, max_wavelength).astype("float32")
        return exact.astype("float16").astype("float32")
