"""A penalty that grows with the distance, at a different rate in each head."""

import math

import keras
import numpy as np
from keras import ops

from keras_attention.positions.base import Position


@keras.saving.register_keras_serializable(package="keras_attention")
class ALiBi(Position):
    """Attention with linear biases: a penalty on the logits in proportion to the distance.

    $$ bias_h(q, k) = -m_h |q - k|, \\quad m_h = 2^{-8h/H} \\quad (h = 1 … H) $$

    If the number of heads is not a power of two, the slopes are those of the next lower power of
    two, followed by every other slope of twice that power, starting with the first one.

    Paper: Press et al. 2022, Train Short, Test Long: Attention with Linear Biases Enables Input
    Length Extrapolation, section 3 (https://arxiv.org/abs/2108.12409).

    The paper only attends to the left, with a causal mask. Without one, the penalty is the same on
    both sides. No weights.

    Example:

    >>> position = ALiBi()
    >>> position.build(heads=(8,), size=64)
    >>> position.bias(None, np.array([2]), np.array([0, 1, 2]))[:2].numpy().tolist()
    [[[-1.0, -0.5, -0.0]], [[-0.5, -0.25, -0.0]]]
    """

    def build(self, heads, size):
        super().build(heads, size)
        steepness = np.array(slopes(math.prod(self.heads)), "float32")
        self.slopes = steepness.reshape((*self.heads, 1, 1))

    def bias(self, features, query_positions, key_positions):
        distance = ops.abs(key_positions[None, :] - query_positions[:, None])
        penalty = ops.multiply(ops.cast(distance, "float32"), self.slopes)
        return -penalty  # (*heads, query_tile, key_tile)


def slopes(heads):
    """Returns the slopes for a number of heads."""
    power = 2 ** int(math.log2(heads))
    of_power = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    of_twice = [2.0 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return (of_power + of_twice)[:heads]
