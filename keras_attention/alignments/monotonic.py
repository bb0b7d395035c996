"""Alignments that decide at each key whether to stop there."""

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import plain, require_numbers
from keras_attention.alignments._passing import moved, passed_on
from keras_attention.alignments.base import Alignment


class Deciding(Alignment):
    """Base class of alignments with a probability `p` of stopping at each key.

    Args:
        noise: Standard deviation of the noise in training.
        initial_bias: Initial value of the bias `r` of the scores; each head has its own.
        seed: Integer seed of the noise.
    """

    def __init__(self, noise, initial_bias, seed, **kwargs):
        super().__init__(**kwargs)
        owner = type(self).__name__
        require_numbers(owner, 0, noise=noise)
        require_numbers(owner, initial_bias=initial_bias)
        self.noise = plain(noise)
        self.initial_bias = plain(initial_bias)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if noise else None

    def build(self, scores_shape):
        self.bias = self.add_weight(
            name="bias",
            shape=(*scores_shape[1:-2], 1, 1),
            initializer=keras.initializers.Constant(self.initial_bias),
            autocast=False,  # float32 even in mixed precision, like the scores
        )

    def _decide(self, scores, visible, training):
        """Returns `p` and `1 - p`, which are 0 and 1 for hidden keys; decisions at inference."""
        scores = scores + ops.cast(self.bias, "float32")
        if visible is not None:
            scores = ops.where(visible, scores, 0.0)  # the gradient of a NaN would be NaN
        if training:
            if self.noise:
                noise = keras.random.normal(
                    shape_of(scores), dtype="float32", seed=self.seed_generator
                )
                scores = scores + self.noise * noise
            stop, pass_on = ops.sigmoid(scores), ops.sigmoid(-scores)
        else:
            stop = ops.cast(scores >= 0.0, "float32")
            pass_on = 1.0 - stop
        if visible is None:
            return stop, pass_on
        return ops.where(visible, stop, 0.0), ops.where(visible, pass_on, 1.0)

    def get_config(self):
        return {
            **super().get_config(),
            "noise": self.noise,
            "initial_bias": self.initial_bias,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class Monotonic(Deciding):
    """Monotonic attention: from the last key on, the first one to stop at.

    $$ p_{t,j} = σ(e_{t,j} + r + ε), \\quad α_{t,j} = p_{t,j} \\sum_{k \\le j} α_{t-1,k}
       \\prod_{l=k}^{j-1} (1 - p_{t,l}) $$

    In training, these are the probabilities that a reader stops at key `j` who begins where it
    stopped before, and stops at each key with probability `p`. `ε` is noise, so that the model
    learns to make `p` close to 0 or 1. At inference, the reader stops at the first key with `p` of
    at least 0.5: one weight is 1, all others are 0. In both cases, what passes the last key is
    lost: the weights may sum to less than 1, and may all be 0.

    Paper: Raffel et al. 2017, Online and Linear-Time Attention by Enforcing Monotonic Alignments
    (https://arxiv.org/abs/1704.00784). Its score is `scores.Additive(normalized=True)`; `r` belongs
    to the alignment. The sums are exact, also for many keys: they are not computed by dividing by
    cumulative products.

    Args:
        noise: Standard deviation of `ε` in training. 0 means none.
        initial_bias: Initial value of `r`, which is learned for each head. The lower, the further
            an untrained model looks for a key to stop at. The paper tunes it for each task.
        seed: Integer seed of the noise.

    Raises:
        ValueError: If `noise` is not a number of at least 0, or `initial_bias` is not a number.

    Example:

    >>> alignment = Monotonic(noise=0.0, initial_bias=0.0)
    >>> scores, previous = np.array([[5.0, -1.0, 0.0, 9.0]]), np.array([[0.0, 1.0, 0.0, 0.0]])
    >>> alignment(scores, previous).numpy().tolist()
    [[0.0, 0.0, 1.0, 0.0]]
    >>> print(alignment(scores, previous, training=True).numpy().round(2))
    [[0.   0.27 0.37 0.37]]
    """

    def __init__(
        self,
        noise: float = 1.0,
        initial_bias: float = -1.0,
        seed: int | None = None,
        **kwargs,
    ) -> None:
        super().__init__(noise, initial_bias, seed, **kwargs)

    def call(self, scores, previous, visible=None, training=None):
        stop, pass_on = self._decide(scores, visible, training)
        return stop * passed_on(previous, pass_on)


@keras.saving.register_keras_serializable(package="keras_attention")
class Stepwise(Deciding):
    """Stepwise monotonic attention: each step stays at its key or moves to the next one.

    $$ p_{t,j} = σ(e_{t,j} + r + ε), \\quad
       α_{t,j} = α_{t-1,j} \\, p_{t,j} + α_{t-1,j-1} (1 - p_{t,j-1}) $$

    `p` is the probability of staying. Unlike with `Monotonic`, no key is left out. In training, `ε`
    is noise; at inference, `p` is rounded to 0 or 1, with 0.5 to 1: one weight is 1, all others are
    0. What moves past the last key is lost: the weights may sum to less than 1, and may all be 0.

    Paper: He et al. 2019, Robust Sequence-to-Sequence Acoustic Modeling with Stepwise Monotonic
    Attention for Neural TTS (https://arxiv.org/abs/1906.00672).

    Args:
        noise: Standard deviation of `ε` in training. 0 means none.
        initial_bias: Initial value of `r`, which is learned for each head: the higher, the longer
            an untrained model stays. It should fit the number of steps for each key: with `p` of
            `1 - 1 / n`, a key keeps `n` steps on average.
        seed: Integer seed of the noise.

    Raises:
        ValueError: If `noise` is not a number of at least 0, or `initial_bias` is not a number.

    Example:

    >>> alignment = Stepwise(noise=0.0)
    >>> scores, previous = np.array([[5.0, -1.0, 0.0, 9.0]]), np.array([[0.0, 1.0, 0.0, 0.0]])
    >>> alignment(scores, previous).numpy().tolist()
    [[0.0, 0.0, 1.0, 0.0]]
    >>> print(alignment(scores, previous, training=True).numpy().round(2))
    [[0.   0.27 0.73 0.  ]]
    """

    def __init__(
        self,
        noise: float = 1.0,
        initial_bias: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ) -> None:
        super().__init__(noise, initial_bias, seed, **kwargs)

    def call(self, scores, previous, visible=None, training=None):
        stay, move = self._decide(scores, visible, training)
        return previous * stay + moved(previous * move, visible)
