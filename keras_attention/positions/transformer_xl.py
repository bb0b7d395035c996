"""Sinusoidal relative positions, with which queries are compared."""

import math

import keras
from keras import ops

from keras_attention._initializers import for_each_head
from keras_attention._products import matmul
from keras_attention.positions.base import Position
from keras_attention.positions.sinusoidal import angles_of, require_wavelength


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerXL(Position):
    """Relative positions of Transformer-XL: each head learns what a distance means.

    $$ bias(q_i, k_j) = (q_i + b)^T W_R r_{i-j} / \\sqrt{d}, \\quad
       r_n = [\\sin(n / w^{2m/s}); \\cos(n / w^{2m/s})] $$

    Paper: Dai et al. 2019, Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context,
    section 3.3 (https://arxiv.org/abs/1901.02860); the self-attention of the Conformer (Gulati et
    al. 2020, https://arxiv.org/abs/2005.08100).

    The paper's two vectors are included: its `u`, for contents, is the bias of the projection of
    the queries, and its `v`, for positions, is `u + b`. `s` is the size of all heads together.

    By the angle addition formulas, `W_R^T (q_i + b)` is rotated by `i` and multiplied by the sines
    and cosines of `j`. So there is no table of distances and no maximum distance, and a tile of
    pairs is a single product. Time `O(Tq · Tk · s)` per head; weights `s · d` and `d` per head.

    Args:
        max_wavelength: `w`. Wavelengths range from `2π` to `2π · w`.
        kernel_initializer: Initializer of `W_R`.

    Raises:
        ValueError: If `max_wavelength` is out of range.

    Example:

    >>> position = TransformerXL()
    >>> position.build(heads=(4,), size=8)
    >>> features = position.features(np.ones((1, 4, 3, 8), "float32"))
    >>> tuple(features.shape), tuple(position.bias(features, np.arange(3), np.arange(6)).shape)
    ((1, 4, 3, 32), (1, 4, 3, 6))
    """

    def __init__(self, max_wavelength=10000, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        require_wavelength("TransformerXL", max_wavelength)
        self.max_wavelength = max_wavelength
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, heads, size):
        super().build(heads, size)
        self.frequencies = -(-math.prod(heads) * size // 2)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*self.heads, size, 2 * self.frequencies),
            initializer=for_each_head(self.kernel_initializer),
            autocast=False,  # float32 even in mixed precision
        )
        self.bias_vector = self.add_weight(
            name="bias_vector", shape=(*self.heads, size), initializer="zeros", autocast=False
        )

    def features(self, query):
        vector = ops.cast(self.bias_vector, "float32")[..., None, :]
        kernel = ops.cast(self.kernel, "float32") / math.sqrt(self.size)
        return matmul(ops.cast(query, "float32") + vector, kernel)

    def bias(self, features, query_positions, key_positions):
        of_sine, of_cosine = ops.split(features, 2, axis=-1)
        sine, cosine = self._waves(query_positions)
        turned = ops.concatenate(
            [of_cosine * sine - of_sine * cosine, of_sine * sine + of_cosine * cosine], axis=-1
        )
        return matmul(turned, ops.transpose(ops.concatenate(self._waves(key_positions), axis=-1)))

    def _waves(self, positions):
        """Returns sines and cosines `(length, frequencies)`."""
        angles = angles_of(positions, 2 * self.frequencies, self.max_wavelength)
        return ops.sin(angles), ops.cos(angles)

    def get_config(self):
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
