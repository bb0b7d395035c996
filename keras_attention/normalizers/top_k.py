"""Softmax over the highest scores."""

import keras
from keras import ops

from keras_attention._checks import is_positive_integer
from keras_attention.normalizers.base import LOWEST, Normalizer, as_float32, hidden_lowest
from keras_attention.normalizers.dense import Softmax


@keras.saving.register_keras_serializable(package="keras_attention")
class TopK(Normalizer):
    """Softmax over the `k` highest scores; the other keys have a weight of exactly 0.

    $$ w_i = \\frac{h_i \\exp(s_i)}{\\sum_j h_j \\exp(s_j)} $$

    where `h` is 1 for the visible keys whose scores are not below the k-th highest one. So more
    than `k` keys have a weight if their scores are equal, and all visible ones if they are fewer.
    The gradient is that of the softmax over these keys.

    Paper: Zhao et al. 2019, Explicit Sparse Transformer: Concentrated Attention Through Explicit
    Selection (https://arxiv.org/abs/1912.11637).

    Args:
        k: Number of keys. The paper's best is 8 for translation.

    Raises:
        ValueError: If `k` is not a positive integer.

    Example:

    >>> TopK(2)(np.array([[0.0, 3.0, 3.0, 9.0]]), np.array([True, True, True, False])
    ...     ).numpy().tolist()
    [[0.0, 0.5, 0.5, 0.0]]
    """

    def __init__(self, k: int = 8) -> None:
        if not is_positive_integer(k):
            raise ValueError(f"`k` of TopK must be a positive integer. Received: k={k!r}.")
        self.k = int(k)
        self.softmax = Softmax()

    def __call__(self, scores, visible=None, training=None):
        scores, visible = as_float32(scores, visible)
        seen = ops.stop_gradient(hidden_lowest(scores, visible))
        # There is one more behind the last, also where there are fewer keys.
        longer = [(0, 0)] * (len(seen.shape) - 1) + [(0, self.k + 1)]
        best, _ = ops.top_k(ops.pad(seen, longer, constant_values=LOWEST), self.k + 1)
        # Halfway between them, as XLA may compute scores twice with different rounding.
        limit = best[..., self.k - 1 : self.k] / 2.0 + best[..., self.k :] / 2.0
        is_low = seen < limit  # which a NaN is not
        return self.softmax(scores, ops.logical_and(visible, ops.logical_not(is_low)))

    def get_config(self):
        return {"k": self.k}
