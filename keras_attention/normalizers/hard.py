"""Normalizers that select a single key."""

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention.normalizers.base import Normalizer, as_float32, below_highest

LOWEST = -1e38  # lower bound for the scores of visible keys


@keras.saving.register_keras_serializable(package="keras_attention")
class Hard(Normalizer):
    """Hard attention: the key with the highest score has weight 1, all others 0.

    $$ w = onehot(\\arg\\max_i s_i), \\quad
       \\text{stochastic, in training: } w = onehot(i), \\; i \\sim softmax(s) $$

    Paper: Xu et al. 2015, Show, Attend and Tell, section 4.1 (https://arxiv.org/abs/1502.03044);
    Bengio et al. 2013, Estimating or Propagating Gradients Through Stochastic Neurons
    (https://arxiv.org/abs/1308.3432).

    The argmax has no gradient, so the scores are not trained. With `stochastic=True`, a key is
    sampled during training, and the gradient is that of the softmax, as if the weights were the
    probabilities ("straight-through"). For REINFORCE, disable it with `straight_through=False`; its
    gradient instead goes through the log probability of the sample, which `draw` returns. Among
    equal scores, the first key is selected.

    Args:
        stochastic: Whether to sample keys during training. At inference, the highest score is used.
        seed: Integer seed of the samples.
        straight_through: Whether samples have the gradient of the softmax, or none.

    Example:

    >>> Hard()(np.array([[1.0, 3.0, 9.0]]), np.array([True, True, False])).numpy().tolist()
    [[0.0, 1.0, 0.0]]
    >>> hard = Hard(stochastic=True, seed=0)
    >>> one_hot, log_probability = hard.draw(np.array([[0.0, 50.0], [50.0, 0.0]]))
    >>> one_hot.numpy().tolist(), log_probability.numpy().tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [0.0, 0.0])
    """

    def __init__(self, stochastic=False, seed=None, straight_through=True):
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ValueError(
                "`seed` of the normalizer Hard must be an integer or None. "
                f"Received: seed={seed!r}."
            )
        self.stochastic, self.seed = stochastic, seed
        self.straight_through = straight_through
        self.seed_generator = keras.random.SeedGenerator(seed) if stochastic else None

    def __call__(self, scores, visible=None, training=None):
        scores, visible = as_float32(scores, visible)
        if not (self.stochastic and training):
            return _one_hot_of_highest(scores, visible)
        shifted, probabilities, _ = _softmax(scores, visible)
        one_hot = _drawn(shifted, visible, self.seed_generator)
        if not self.straight_through:
            return one_hot
        return one_hot + (probabilities - ops.stop_gradient(probabilities))  # adds exactly 0

    def draw(self, scores, visible=None, seed=None):
        """Samples one key for each row from the softmax of the scores.

        The gradient of `reward · log_probability` with respect to the scores is that of REINFORCE
        (Williams 1992, https://doi.org/10.1007/BF00992696), with any baseline subtracted from the
        reward.

        Args:
            scores: Tensor `(..., key_length)`.
            visible: Boolean tensor that broadcasts to `scores`, or `None` for all visible.
            seed: Integer or `keras.random.SeedGenerator`. Defaults to the generator of this object,
                which exists if it is stochastic.

        Returns:
            `(one_hot, log_probability)`: float32 `(..., key_length)` without a gradient, and
            `(...)` with one. Both are 0 for a row without visible keys.
        """
        seed = self.seed_generator if seed is None else seed
        if seed is None:
            raise ValueError(
                "The normalizer Hard has no seed to draw with: it is not stochastic. Received: "
                "seed=None. Make it with Hard(stochastic=True), or pass seed=."
            )
        scores, visible = as_float32(scores, visible)
        shifted, _, total = _softmax(scores, visible)
        one_hot = _drawn(shifted, visible, seed)
        log_probability = ops.sum(one_hot * shifted, axis=-1) - ops.log(total[..., 0])
        return one_hot, log_probability

    def get_config(self):
        return {
            "stochastic": self.stochastic,
            "seed": self.seed,
            "straight_through": self.straight_through,
        }


def _softmax(scores, visible):
    """Returns the scores minus the highest one, their softmax, and its denominator."""
    shifted = below_highest(scores, visible)
    powers = ops.where(visible, ops.exp(shifted), 0.0)
    total = ops.sum(powers, axis=-1, keepdims=True)
    total = ops.where(total > 0.0, total, 1.0)
    return shifted, powers / total, total


def _drawn(scores, visible, seed):
    """Returns the one-hot vector of a key sampled from the softmax, with the Gumbel-max trick."""
    uniform = keras.random.uniform(shape_of(scores), minval=1e-30, dtype="float32", seed=seed)
    return _one_hot_of_highest(ops.stop_gradient(scores) - ops.log(-ops.log(uniform)), visible)


def _one_hot_of_highest(scores, visible):
    # Compares indices: whether a score equals the highest one could depend on rounding, as XLA may
    # compute scores twice. For a row without visible keys, the highest is after all keys.
    seen = ops.where(visible, ops.maximum(ops.stop_gradient(scores), LOWEST), -float("inf"))
    sides = [(0, 0)] * (len(seen.shape) - 1) + [(0, 1)]
    place = ops.argmax(ops.pad(seen, sides, constant_values=2 * LOWEST), axis=-1, keepdims=True)
    places = ops.arange(shape_of(seen)[-1], dtype="int32")
    return ops.cast(places == ops.cast(place, "int32"), "float32")
