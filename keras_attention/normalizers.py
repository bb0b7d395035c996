"""Normalizers: how do scores become weights?"""

import keras
from keras import ops

from keras_attention._registry import Registry


class Normalizer:
    """Base class of all normalizers: `normalizer(scores, visible)` gives the weights.

    Weights are float32 whatever the scores are; they are exactly 0 where `visible` is `False`, and
    a row that sees nothing is 0 everywhere and sends back a gradient of exactly 0.

    Call arguments:
        scores: Tensor `(..., key_length)`; what stands at hidden places, even NaN, has no effect.
        visible: Boolean tensor that broadcasts to `scores`, or `None` for all visible.
    """

    def __call__(self, scores, visible=None):
        raise NotImplementedError(f"{type(self).__name__} must implement `__call__`.")

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.saving.register_keras_serializable(package="keras_attention")
class Softmax(Normalizer):
    """Masked softmax over the keys.

    $$ w_i = \\frac{m_i \\exp(s_i - \\max_j s_j)}{\\sum_j m_j \\exp(s_j - \\max_j s_j)} $$

    where `m` is 1 for the visible keys and 0 for the hidden ones, and `0 / 0 = 0`. No large
    negative constant is added to anything, so half precision has nothing to overflow.

    Example:

    >>> Softmax()(np.array([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]], "float16"),
    ...           np.array([[True, True, False], [False] * 3])).numpy().tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """

    def __call__(self, scores, visible=None):
        scores = ops.cast(scores, "float32")
        if visible is None:
            if scores.shape[-1] != 1:  # Keras' softmax warns about a single key
                return ops.softmax(scores, axis=-1)
            visible = True
        # Hidden scores leave before any arithmetic, else a NaN there would reach the gradient.
        lowest = -float("inf")  # the maximum of no keys at all
        seen = ops.where(visible, scores, lowest)
        highest = ops.max(seen, axis=-1, keepdims=True, initial=lowest)
        highest = ops.stop_gradient(ops.where(ops.isfinite(highest), highest, 0.0))
        shifted = ops.where(visible, scores, highest) - highest
        powers = ops.where(visible, ops.exp(shifted), 0.0)
        total = ops.sum(powers, axis=-1, keepdims=True)
        return powers / ops.where(total > 0.0, total, 1.0)


_registry = Registry("normalizer", Normalizer, {"softmax": Softmax})
get = _registry.get
names = _registry.names
