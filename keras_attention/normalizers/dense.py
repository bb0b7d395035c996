"""Dense normalizers, which weight every visible key: two kinds of softmax, sum, sigmoid."""

import keras
from keras import ops

from keras_attention.normalizers.base import Normalizer, as_float32, hidden_lowest, ratio


@keras.saving.register_keras_serializable(package="keras_attention")
class Softmax(Normalizer):
    """Masked softmax over the keys.

    $$ w_i = \\frac{m_i \\exp(s_i - \\max_j s_j)}{\\sum_j m_j \\exp(s_j - \\max_j s_j)} $$

    where `m` is 1 for the visible keys and 0 for the hidden ones, and `0 / 0 = 0`. No large
    negative constant is added to the scores, so nothing overflows in half precision.

    Example:

    >>> Softmax()(np.array([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]], "float16"),
    ...           np.array([[True, True, False], [False] * 3])).numpy().tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """

    def __call__(self, scores, visible=None, training=None):
        scores, visible = as_float32(scores, visible)
        if scores.shape[-1] == 1:  # Keras' softmax warns about a single key
            return ops.where(visible, ops.ones_like(scores), 0.0)
        if visible is True:
            return ops.softmax(scores, axis=-1)

        # Hidden keys have a weight of 0, so the gradient does not need the mask again. The mask is
        # an argument, since JAX does not allow captured tensors of a loop here.
        @ops.custom_gradient
        def softmax(scores, visible):
            weights = ops.softmax(hidden_lowest(scores, visible), axis=-1)
            weights = weights * ops.cast(visible, "float32")

            def gradient(*arguments, upstream=None):
                weighted = weights * (arguments[0] if upstream is None else upstream)
                of_scores = weighted - weights * ops.sum(weighted, axis=-1, keepdims=True)
                return of_scores, None

            return weights, gradient

        return softmax(scores, visible)


@keras.saving.register_keras_serializable(package="keras_attention")
class SoftmaxOne(Normalizer):
    """Softmax with an extra key of score 0 and value 0, so that a query may attend to nothing.

    $$ w_i = \\frac{m_i \\exp(s_i)}{1 + \\sum_j m_j \\exp(s_j)} $$

    Where all scores are far below 0, the weights and their sum are close to 0. So a head with
    nothing to contribute need not attend to the first token or to punctuation. It is the same as
    `add_zero_attn` in PyTorch. With `use_sink=True` of `Attention` or `MultiHeadAttention`, the
    score of the extra key is learned.

    Source: Miller 2023, Attention Is Off By One
    (https://www.evanmiller.org/attention-is-off-by-one.html); Xiao et al. 2024, Efficient Streaming
    Language Models with Attention Sinks, equation 2 (https://arxiv.org/abs/2309.17453).

    Example:

    >>> SoftmaxOne()(np.array([[0.0, 0.0, 9.0], [-99.0, -99.0, -99.0]]),
    ...              np.array([True, True, False])).numpy().round(3).tolist()
    [[0.3330000042915344, 0.3330000042915344, 0.0], [0.0, 0.0, 0.0]]
    """

    def __call__(self, scores, visible=None, training=None):
        scores, visible = as_float32(scores, visible)
        seen = ops.where(visible, scores, 0.0)
        highest = ops.stop_gradient(ops.max(seen, axis=-1, keepdims=True, initial=0.0))
        powers = ops.where(visible, ops.exp(ops.where(visible, scores, highest) - highest), 0.0)
        return powers / (ops.exp(-highest) + ops.sum(powers, axis=-1, keepdims=True))


@keras.saving.register_keras_serializable(package="keras_attention")
class Sum(Normalizer):
    """Division by the sum over the keys, for scores that are already weights, such as kernels.

    $$ w_i = m_i s_i / \\sum_j m_j s_j, \\quad 0 / 0 = 0 $$

    A score of 0 gives a weight of exactly 0. A row whose sum is 0, as for a query out of reach of
    every key, is 0 everywhere with a gradient of 0. Scores must not be negative to give sensible
    weights.

    Paper: Nadaraya 1964, On Estimating Regression (https://doi.org/10.1137/1109020).

    Example:

    >>> Sum()(np.array([[1.0, 3.0, 9.0], [0.0, 0.0, 3.0]]),
    ...       np.array([True, True, False])).numpy().tolist()
    [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]
    """

    def __call__(self, scores, visible=None, training=None):
        scores, visible = as_float32(scores, visible)
        seen = ops.where(visible, scores, 0.0)
        return ratio(seen, ops.sum(seen, axis=-1, keepdims=True))


@keras.saving.register_keras_serializable(package="keras_attention")
class Sigmoid(Normalizer):
    """Independent weights for each key, between 0 and 1, that need not add up to 1.

    $$ w_i = m_i / (1 + \\exp(-s_i)) $$

    Paper: Ramapuram et al. 2024, Theory, Analysis, and Best Practices for Sigmoid Self-Attention
    (https://arxiv.org/abs/2409.04431). The paper subtracts the logarithm of the number of keys from
    the scores; here, that is up to the score.

    Example:

    >>> Sigmoid()(np.array([[0.0, 100.0, 9.0]]), np.array([True, True, False])).numpy().tolist()
    [[0.5, 1.0, 0.0]]
    """

    def __call__(self, scores, visible=None, training=None):
        scores, visible = as_float32(scores, visible)
        return ops.where(visible, ops.sigmoid(ops.where(visible, scores, 0.0)), 0.0)
