"""Normalizers whose rows can be accumulated tile by tile, and recomputed in the backward pass."""

from keras import ops

from keras_attention import normalizers
from keras_attention._products import matmul
from keras_attention.normalizers.base import NONE


class OnlineSoftmax:
    """Softmax: keeps each row's highest score so far, and sums of exponentials relative to it."""

    @staticmethod
    def start(like):
        """Returns the sums of rows before the first tile.

        Args:
            like: Zeros `(..., value_size)` in the shape of the context.
        """
        total = like[..., :1]
        return total - float("inf"), total, like

    @staticmethod
    def add(sums, scores, visible, value, drop):
        """Returns the sums of rows after a further tile of keys."""
        highest, total, context = sums
        seen = scores if visible is None else ops.where(visible, scores, -float("inf"))
        # `initial` allows the maximum over an empty batch.
        of_tile = ops.max(seen, axis=-1, keepdims=True, initial=-float("inf"))
        new_highest = ops.maximum(highest, of_tile)
        origin = ops.where(ops.isfinite(new_highest), new_highest, 0.0)
        powers, decay = ops.exp(seen - origin), ops.exp(highest - origin)
        total = total * decay + ops.sum(powers, axis=-1, keepdims=True)
        return new_highest, total, context * decay + matmul(drop(powers), value)

    @staticmethod
    def finish(sums):
        """Returns the context, and the logarithm of the total, which normalizes the scores."""
        highest, total, context = sums
        is_seeing = total > 0.0
        total = ops.where(is_seeing, total, 1.0)
        return context / total, ops.where(is_seeing, highest + ops.log(total), float("inf"))

    @staticmethod
    def weights(scores, visible, log_total):
        seen = scores if visible is None else ops.where(visible, scores, -float("inf"))
        return ops.exp(seen - log_total)

    @staticmethod
    def gradient(weights, of_weights, mean, visible, log_total):
        """Returns the gradient of the scores.

        Args:
            weights: The weights of a tile.
            of_weights: Their gradient.
            mean: The weighted mean of a row's `of_weights`.
            visible, log_total: As for `weights`.
        """
        return weights * (of_weights - mean)


class OnlineSoftmaxOne(OnlineSoftmax):
    """The same, where each row starts with a score of 0 whose value is 0."""

    @staticmethod
    def start(like):
        nothing = like[..., :1]
        return nothing, ops.ones_like(nothing), like


class OnlineSum:
    """Division by the sum: keeps the sum of each row's scores so far."""

    @staticmethod
    def start(like):
        return like[..., :1], like

    @staticmethod
    def add(sums, scores, visible, value, drop):
        total, context = sums
        seen = scores if visible is None else ops.where(visible, scores, 0.0)
        total = total + ops.sum(seen, axis=-1, keepdims=True)
        return total, context + matmul(drop(seen), value)

    @staticmethod
    def finish(sums):
        total, context = sums
        is_seeing = ops.abs(total) > NONE
        inverse = ops.where(is_seeing, 1.0 / ops.where(is_seeing, total, 1.0), 0.0)
        return context * inverse, inverse

    @staticmethod
    def weights(scores, visible, inverse):
        seen = scores if visible is None else ops.where(visible, scores, 0.0)
        return seen * inverse

    @staticmethod
    def gradient(weights, of_weights, mean, visible, inverse):
        gradient = (of_weights - mean) * inverse
        return gradient if visible is None else ops.where(visible, gradient, 0.0)


ONLINE = {
    normalizers.Softmax: OnlineSoftmax,
    normalizers.SoftmaxOne: OnlineSoftmaxOne,
    normalizers.Sum: OnlineSum,
}
