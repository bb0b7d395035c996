"""Weights that later keys take first: each breaks its part off the stick that they left."""

import keras
from keras import ops

from keras_attention.normalizers.base import Normalizer, as_float32


@keras.saving.register_keras_serializable(package="keras_attention")
class StickBreaking(Normalizer):
    """Stick-breaking: from the last visible key back, each takes a part of what is left.

    $$ w_i = σ(s_i) \\prod_{j > i} (1 - m_j σ(s_j)), \\quad w_i = 0 \\text{ for hidden keys} $$

    Of keys with equally high scores, the last one wins, so that a causal layer needs no other
    positions. What no key takes is lost: the weights may sum to less than 1, and a head may attend
    to nothing. The order of the keys counts.

    Paper: Tan et al. 2025, Scaling Stick-Breaking Attention: An Efficient Implementation and
    In-depth Study (https://arxiv.org/abs/2410.17980). There, a query does not see its own key:
    `mask=masks.Causal() & ~masks.SlidingWindow(0, 0)`.

    Example:

    >>> StickBreaking()(np.array([[0.0, 0.0, 0.0, 9.0]]),
    ...                 np.array([True, True, True, False])).numpy().tolist()
    [[0.125, 0.25, 0.5, 0.0]]
    """

    def __call__(self, scores, visible=None, training=None):
        scores, visible = as_float32(scores, visible)
        scores = ops.where(visible, scores, 0.0)
        # In logarithms, so that a product of many keys does not vanish.
        left = ops.where(visible, -ops.softplus(scores), 0.0)
        after = ops.cumsum(ops.flip(left, axis=-1), axis=-1)
        after = ops.concatenate([ops.zeros_like(after[..., :1]), after[..., :-1]], axis=-1)
        taken = ops.exp(ops.flip(after, axis=-1) - ops.softplus(-scores))
        return ops.where(visible, taken, 0.0)
