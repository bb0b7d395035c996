"""The gated delta rule: linear attention that corrects what its memory holds for a key."""

import math
from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import (
    is_positive_number,
    plain,
    require_positive_integers_or_none,
    require_positive_numbers,
)
from keras_attention._recurrent_attention import RecurrentAttention, Written
from keras_attention._short_convolution import ShortConvolution

SMALLEST = 1e-6  # added to the squared norm of queries and keys
RATES = 0.01, 16.0  # initial `A`, uniform
STEPS = 0.001, 0.1  # initial softplus of the bias, log-uniform


@keras.saving.register_keras_serializable(package="keras_attention")
class GatedDeltaAttention(RecurrentAttention):
    """Causal linear attention by the gated delta rule: a memory that forgets and corrects itself.

    $$ S_t = α_t \\, S_{t-1} (I - β_t k_t k_t^T) + β_t v_t k_t^T, \\quad
       head_t = RMSNorm(S_t q_t / \\sqrt{d}) \\odot silu(W^G x_t) $$

    $$ q_t, k_t, v_t = silu(conv(W^{QKV} x))_t, \\quad
       β_t = b \\, σ(W^β x_t), \\quad α_t = \\exp(-A \\, softplus(W^α x_t + a)) $$

    The memory `S` of a head is a matrix that maps keys to values. Each position first decays all of
    it by `α`, then moves what it holds for the key `k_t` towards the value `v_t`, by the fraction
    `β`. `LinearAttention` only adds, so keys that are similar blend their values. Queries and keys
    are normalized to length 1, and the convolution is over the last `kernel_size` positions of each
    channel.

    Time is linear in the length, and a call computes the positions of a chunk in parallel. `step`
    decodes with a memory of constant size: `S`, in float32, and the last inputs of the convolution.

    Papers: Yang et al. 2024, Gated Delta Networks (https://arxiv.org/abs/2412.06464). Without the
    decay and the gate, this is DeltaNet: Yang et al. 2024, Parallelizing Linear Transformers with
    the Delta Rule (https://arxiv.org/abs/2406.06484). With `max_strength=2.0`, a position can also
    negate what the memory holds for its key, which is needed to count modulo 2: Grazzi et al. 2024,
    Unlocking State-Tracking in Linear RNNs (https://arxiv.org/abs/2411.12537).

    Args:
        num_heads: Number of heads, each with its own memory.
        key_dim: `d`, the size of the queries and keys of one head.
        value_dim: Size of the values of one head. Defaults to `key_dim`; the papers have up to
            twice that.
        output_dim: Size of the output. Defaults to the size of the query.
        num_key_heads: Number of heads of queries and keys, which divides `num_heads`: each serves
            adjacent heads of values. Defaults to `num_heads`.
        use_decay: Whether the memory decays; if not, `α = 1`.
        use_gate: Whether the heads are gated.
        kernel_size: Number of positions of the convolution, or `None` for no convolution.
        max_strength: `b`, the largest `β`, above 0 and at most 2.
        epsilon: Added to the mean of squares by the normalization, above 0.
        use_bias: Whether the projections add a bias, or a collection of those that do: `"query"`,
            `"key"`, `"value"`, `"strength"`, `"output_gate"`, `"output"`. The papers have none.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but query and value must have the same length, and `key` and
        `attention_mask` are not supported. A position that any padding mask hides is not written
        into the memory, does not decay it, and is zero for the convolution. Later positions are
        always hidden.

    Output shape:
        `(batch, length, output_dim)`; with `return_attention_scores` also the weights of the values
        in `S_t q_t / √d`, float32 `(batch, num_heads, length, length)`. They may be negative, and
        their sum is not 1. They are meant for inspection and take quadratic time and memory.

    Raises:
        ValueError: If an argument is out of range, the lengths differ, or a `key` or an
            `attention_mask` is given.

    Example:

    >>> layer = GatedDeltaAttention(num_heads=2, key_dim=4)
    >>> x = np.random.default_rng(0).normal(size=(2, 50, 8)).astype("float32")
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 50, 50))

    A prompt of 49 positions, and one step:

    >>> memory = layer.room_for(x)
    >>> _, _, memory = layer.step(x[:, :49], memory, start=0)
    >>> context, _, memory = layer.step(x[:, 49:], memory, start=49)
    >>> np.allclose(context, output[:, 49:], atol=1e-5)
    True
    """

    projections = ("query", "key", "value", "strength", "output_gate", "output")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        output_dim: int | None = None,
        num_key_heads: int | None = None,
        use_decay: bool = True,
        use_gate: bool = True,
        kernel_size: int | None = 4,
        max_strength: float = 1.0,
        epsilon: float = 1e-6,
        use_bias: bool | Collection[str] = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        owner = type(self).__name__
        require_positive_integers_or_none(
            owner, num_key_heads=num_key_heads, kernel_size=kernel_size
        )
        self.num_key_heads = plain(num_key_heads or num_heads)
        if self.num_heads % self.num_key_heads:
            raise ValueError(
                f"`num_key_heads` of {owner} must divide num_heads, since each serves as many "
                f"heads of values. Received: num_key_heads={num_key_heads}, num_heads={num_heads}."
            )
        if not is_positive_number(max_strength) or max_strength > 2:
            raise ValueError(
                f"`max_strength` of {owner} must be above 0 and at most 2; beyond 2, the memory "
                f"would grow without limit. Received: max_strength={max_strength!r}."
            )
        require_positive_numbers(owner, epsilon=epsilon)
        self.use_decay = use_decay
        self.use_gate = use_gate
        self.kernel_size = plain(kernel_size)
        self.max_strength = plain(max_strength)
        self.epsilon = plain(epsilon)

    def build(self, query_shape, value_shape, key_shape=None):
        self._require_fitting_shapes(query_shape, value_shape, key_shape or value_shape)
        key_size, value_size = self.num_key_heads * self.key_dim, self.num_heads * self.value_dim
        self.query_projection = self._projection("query", key_size, query_shape)
        self.key_projection = self._projection("key", key_size, value_shape)
        self.value_projection = self._projection("value", value_size, value_shape)
        self.strength_projection = self._projection("strength", self.num_heads, value_shape)
        if self.use_decay:
            self._build_decay(value_shape)
        self.output_gate_projection = None
        if self.use_gate:
            self._build_output_gate(query_shape)
        with keras.RematScope(mode=None):
            if self.kernel_size is not None:
                channels = 2 * key_size + value_size
                self.recent_shape = (self.kernel_size - 1, channels)
                self.convolution = ShortConvolution(
                    self.kernel_size, dtype=self.dtype_policy, name="convolution"
                )
                self.convolution.build((None, None, channels))
            self._build_norm(
                keras.layers.RMSNormalization(epsilon=self.epsilon, dtype="float32", name="norm")
            )
        self._build_output(query_shape)

    def _build_output_gate(self, query_shape):
        size = self.num_heads * self.value_dim
        self.output_gate_projection = self._projection("output_gate", size, query_shape)

    def _build_decay(self, value_shape):
        self.decay_projection = self._projection("decay", self.num_heads, value_shape)
        self._build_rates(self.num_heads)

    def _build_rates(self, num_decays):
        self.decay_bias, self.log_decay_rate = (
            self.add_weight(
                name=name,
                shape=(size,),
                initializer=initializer,
                autocast=False,  # float32 even in mixed precision
            )
            for name, size, initializer in [
                ("decay_bias", num_decays, _biases),
                ("log_decay_rate", self.num_heads, _log_rates),
            ]
        )

    def _write(self, query, value, visible, recent, start):
        mixed = ops.concatenate(
            [
                self.query_projection(query),
                self.key_projection(value),
                self.value_projection(value),
            ],
            axis=-1,
        )
        if self.kernel_size is None:
            mixed = ops.silu(ops.cast(mixed, "float32"))
        else:  # hidden inputs are zeros, but the projections add their biases
            mixed = ops.where(visible[:, :, None], mixed, ops.cast(0.0, mixed.dtype))
            mixed, recent = self.convolution(mixed, recent)
        size = self.num_key_heads * self.key_dim
        query, key, of_value = ops.split(mixed, [size, 2 * size], axis=-1)
        written = Written(
            self._direction(query) * self.key_dim**-0.5,
            self._direction(key),
            self._split_heads(of_value, self.value_dim),
            ops.where(visible[:, None, :, None], self._log_decay(value), 0.0),
            ops.where(visible[:, None], self._strength(value), 0.0),
        )
        return written, recent

    def _direction(self, x):
        """Returns queries or keys of length 1, `(batch, num_heads, length, key_dim)`."""
        x = self._split_heads(x, self.key_dim)
        x = x * ops.rsqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + SMALLEST)
        times = self.num_heads // self.num_key_heads
        return x if times == 1 else ops.repeat(x, times, axis=1)

    def _strength(self, value):
        """Returns `β`, float32 `(batch, num_heads, length)`."""
        strength = ops.cast(self.strength_projection(value), "float32")
        return self.max_strength * ops.sigmoid(ops.swapaxes(strength, 1, 2))

    def _log_decay(self, value):
        """Returns `log α`, float32 `(batch, num_heads, length, 1 or key_dim)`."""
        if not self.use_decay:
            batch, length, _ = shape_of(value)
            return ops.zeros((batch, self.num_heads, length, 1), "float32")
        bias, log_rate = (ops.cast(x, "float32") for x in (self.decay_bias, self.log_decay_rate))
        step = ops.softplus(ops.cast(self._decay_logits(value), "float32") + bias)
        step = self._split_heads(step, step.shape[-1] // self.num_heads)
        return -ops.exp(log_rate)[:, None, None] * step

    def _decay_logits(self, value):
        """Returns `W^α x`, `(batch, length, num_heads · decays of a head)`."""
        return self.decay_projection(value)

    def get_config(self):
        return {
            **super().get_config(),
            "num_key_heads": self.num_key_heads,
            "use_decay": self.use_decay,
            "use_gate": self.use_gate,
            "kernel_size": self.kernel_size,
            "max_strength": self.max_strength,
            "epsilon": self.epsilon,
        }


def _log_rates(shape, dtype=None):
    return ops.log(keras.random.uniform(shape, *RATES, dtype=dtype))


def _biases(shape, dtype=None):
    """Returns the inverse of softplus at log-uniform steps."""
    steps = ops.exp(keras.random.uniform(shape, *map(math.log, STEPS), dtype=dtype))
    return steps + ops.log(-ops.expm1(-steps))
