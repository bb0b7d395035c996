"""Normalizers that give most keys a weight of exactly 0, but are still differentiable.

Both subtract a threshold from the scores and clip the result at 0. The keys above the threshold,
the support, are found by sorting, outside of the gradient: a score is in the support if the weights
would sum to less than 1 with this score as the threshold. Given the support, the threshold is a
function of the mean and the spread of its scores, which also gives the gradient.
"""

import keras
from keras import ops

from keras_attention.normalizers.base import Normalizer, as_float32, below_highest


class _Sparse(Normalizer):
    """What sparsemax and entmax have in common: `w = max(0, s - τ)^power`."""

    def threshold(self, size, mean, spread):
        """Returns the threshold of a support.

        Args:
            size: Number of scores in the support.
            mean: Their mean.
            spread: The sum of their squared deviations from the mean.
        """
        raise NotImplementedError

    def weights_above(self, score, size, total, squares):
        """Returns the sum of all weights if a score were the threshold.

        It uses no division and no root, so that integers stay exact.

        Args:
            score: The score.
            size: Number of scores that are at least as high, including itself.
            total, squares: Their sum, and the sum of their squares.
        """
        raise NotImplementedError

    def weigh(self, scores, visible):
        """Returns how far float32 scores are above the threshold; 0 for the others."""
        scores = below_highest(scores, visible)
        # A score 1 below the highest is never in the support, so hidden scores are set to it.
        scores = ops.where(visible, ops.maximum(scores, -1.0), -1.0)
        fixed = ops.stop_gradient(scores)
        found = ops.relu(self._above_threshold(fixed, self._support(fixed)))
        # The gradient is that of the formula, only for keys with a weight above 0: rounding may
        # have reduced that of the lowest key of the support to 0.
        above = self._above_threshold(scores, found > 0.0)
        return above + (found - ops.stop_gradient(above))

    def _above_threshold(self, scores, is_support):
        """Returns how far the scores of a support are above its threshold; 0 for the others."""

        def total(x):
            return ops.sum(ops.where(is_support, x, 0.0), axis=-1, keepdims=True)

        size = ops.maximum(total(ops.ones_like(scores)), 1.0)
        mean = total(scores) / size
        threshold = self.threshold(size, mean, total(ops.square(scores - mean)))
        return ops.where(is_support, scores - threshold, 0.0)

    def _support(self, scores):
        """Returns which scores between -1 and 0 are above the threshold of their row."""
        descending = -ops.sort(-scores, axis=-1)
        size = ops.cumsum(ops.ones_like(scores), axis=-1)
        total = ops.cumsum(descending, axis=-1)
        squares = ops.cumsum(ops.square(descending), axis=-1)
        is_above = self.weights_above(descending, size, total, squares) < 1.0
        lowest = ops.min(ops.where(is_above, descending, 0.0), axis=-1, keepdims=True, initial=0.0)
        others = ops.where(is_above, -1.0, descending)
        highest_other = ops.max(others, axis=-1, keepdims=True, initial=-1.0)
        # Halfway between them, as XLA may compute scores twice with different rounding.
        return ops.logical_and(scores >= (lowest + highest_other) / 2.0, scores > -1.0)


@keras.saving.register_keras_serializable(package="keras_attention")
class Sparsemax(_Sparse):
    """Sparsemax: the Euclidean projection of the scores onto the simplex.

    $$ w_i = \\max(0, s_i - \\tau), \\quad \\tau \\text{ such that } \\sum_i w_i = 1 $$

    Paper: Martins and Astudillo 2016, From Softmax to Sparsemax
    (https://arxiv.org/abs/1602.02068).

    A key whose score is 1 or more below the highest has a weight of exactly 0. Time `O(Tk log Tk)`
    per row.

    Example:

    >>> Sparsemax()(np.array([[1.0, 1.5, 0.0, 9.0]]),
    ...             np.array([True, True, True, False])).numpy().tolist()
    [[0.25, 0.75, 0.0, 0.0]]
    """

    def threshold(self, size, mean, spread):
        return mean - 1.0 / size

    def weights_above(self, score, size, total, squares):
        return total - size * score

    def __call__(self, scores, visible=None, training=None):
        return self.weigh(*as_float32(scores, visible))


@keras.saving.register_keras_serializable(package="keras_attention")
class Entmax15(_Sparse):
    """1.5-entmax: halfway between softmax and sparsemax, smooth and sparse.

    $$ w_i = \\max(0, s_i / 2 - \\tau)^2, \\quad \\tau \\text{ such that } \\sum_i w_i = 1 $$

    Paper: Peters et al. 2019, Sparse Sequence-to-Sequence Models
    (https://arxiv.org/abs/1905.05702).

    A key whose score is 2 or more below the highest has a weight of exactly 0. Time `O(Tk log Tk)`
    per row.

    Example:

    >>> Entmax15()(np.array([[2.0, 2.0, 0.0, 9.0]]),
    ...            np.array([True, True, True, False])).numpy().round(4).tolist()
    [[0.5, 0.5, 0.0, 0.0]]
    """

    def threshold(self, size, mean, spread):
        return mean - ops.sqrt(ops.maximum(1.0 - spread, 1e-12) / size)

    def weights_above(self, score, size, total, squares):
        return squares - 2.0 * score * total + size * ops.square(score)

    def __call__(self, scores, visible=None, training=None):
        scores, visible = as_float32(scores, visible)
        return ops.square(self.weigh(scores / 2.0, visible))
