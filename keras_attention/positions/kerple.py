"""A learned penalty that grows with the distance, more slowly the farther away."""

import keras
from keras import ops

from keras_attention._checks import require_one_of
from keras_attention.positions.base import Position

KINDS = "logarithmic", "power"


@keras.saving.register_keras_serializable(package="keras_attention")
class Kerple(Position):
    """Kernelized relative positions (KERPLE): ALiBi's penalty, with a learned shape in each head.

    $$ logarithmic: bias_h(q, k) = -r_h \\log(1 + a_h |q - k|), \\quad r_h, a_h > 0 $$

    $$ power: bias_h(q, k) = -r_h |q - k|^{a_h}, \\quad r_h > 0, 0 < a_h < 2 $$

    The logarithm never hides far keys altogether, and extrapolates best to longer texts in the
    paper.

    Paper: Chi et al. 2022, KERPLE: Kernelized Relative Positional Embedding for Length
    Extrapolation (https://arxiv.org/abs/2205.09921).

    The penalty is the same on both sides. Weights 2 per head: `r = softplus(rate)`, and `a =
    softplus(growth)` or `2 sigmoid(growth)`.

    Args:
        kind: `"logarithmic"` or `"power"`.

    Raises:
        ValueError: If `kind` is another.

    Example:

    >>> position = Kerple()
    >>> position.build(heads=(8,), size=64)
    >>> tuple(position.bias(None, np.arange(3), np.arange(5)).shape)
    (8, 3, 5)
    """

    def __init__(self, kind="logarithmic", **kwargs):
        super().__init__(**kwargs)
        require_one_of("Kerple", KINDS, kind=kind)
        self.kind = kind

    def build(self, heads, size):
        super().build(heads, size)
        options = {
            "shape": (*self.heads, 1, 1),
            "initializer": keras.initializers.RandomUniform(-1.0, 1.0),  # heads begin to differ
            "autocast": False,  # float32 even in mixed precision
        }
        self.rate = self.add_weight(name="rate", **options)
        self.growth = self.add_weight(name="growth", **options)

    def bias(self, features, query_positions, key_positions):
        distance = ops.abs(key_positions[None, :] - query_positions[:, None])
        distance = ops.cast(distance, "float32")
        growth = ops.cast(self.growth, "float32")
        if self.kind == "logarithmic":
            penalty = ops.log(1.0 + ops.softplus(growth) * distance)  # tf2onnx has no log1p
        else:
            # A power of 0 is 0, but its gradient would be NaN.
            is_other = distance > 0
            penalty = ops.where(is_other, distance, 1.0) ** (2.0 * ops.sigmoid(growth))
            penalty = ops.where(is_other, penalty, 0.0)
        return -ops.softplus(ops.cast(self.rate, "float32")) * penalty

    def get_config(self):
        return {**super().get_config(), "kind": self.kind}
