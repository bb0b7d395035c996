"""Retention: linear attention whose weights decay with the distance."""

from collections.abc import Collection
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import plain, require_positive_numbers
from keras_attention._recurrent_attention import RecurrentAttention, Written
from keras_attention._registry import serialize
from keras_attention._rotary import get_rotary

TEMPERATURE = 16  # keeps the decays of an untrained layer near 1


@keras.saving.register_keras_serializable(package="keras_attention")
class RetentionAttention(RecurrentAttention):
    """Multi-scale retention: causal linear attention that decays with the distance.

    $$ S_t = γ_h \\, S_{t-1} + v_t (R_t k_t)^T, \\quad
       head_{ht} = Norm(S_t R_t q_t / \\sqrt{d}) \\odot silu(W^G x_t), \\quad γ_h = 1 - 2^{-5-h} $$

    `R` is the rotary position, and `h = 0, 1, …` the head: those with small `h` see only what is
    near, the others almost everything before. The same as a weighted sum over all positions before:

    $$ S_t R_t q_t = \\sum_{s \\le t} γ_h^{t-s} \\, (R_t q_t)^T (R_s k_s) \\, v_s $$

    `Norm` normalizes each head to mean 0 and variance 1, as a group normalization does. It has no
    scale, which `W^O` contains.

    With `gated=True`, each position decides how much of the memory decays, in place of `γ_h`:

    $$ γ_{ht} = σ(W^γ x_t + b)_h^{1/16} $$

    Time is linear in the length, and a call computes the positions of a chunk in parallel. `step`
    decodes with a memory of constant size, `S`.

    Papers: Sun et al. 2023, Retentive Network: A Successor to Transformer for Large Language Models
    (https://arxiv.org/abs/2307.08621); gated: Sun et al. 2024, You Only Cache Once: Decoder-Decoder
    Architectures for Language Models, section 3 (https://arxiv.org/abs/2405.05254).
    `GatedDeltaAttention` also corrects what the memory holds.

    Args:
        num_heads: Number of heads.
        key_dim: `d`, the size of the queries and keys of one head.
        value_dim: Size of the values of one head. Defaults to `2 · key_dim`, as in the paper.
        output_dim: Size of the output. Defaults to the size of the query.
        gated: Whether the decay depends on the inputs. A hidden position then does not decay the
            memory.
        position: `"rotary"`, a `positions.Rotary` with its own options, its config, or `None`.
        epsilon: Added to the variance by the normalization, above 0.
        use_bias: Whether the projections add a bias, or a collection of those that do: `"query"`,
            `"key"`, `"value"`, `"decay"` if gated, `"output_gate"`, `"output"`.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but query and value must have the same length, and `key` and
        `attention_mask` are not supported. A position that any padding mask hides is not written
        into the memory, but counts for the distances. Later positions are always hidden.

    Output shape:
        `(batch, length, output_dim)`; with `return_attention_scores` also the weights of the values
        in `S_t R_t q_t / √d`, float32 `(batch, num_heads, length, length)`. They may be negative,
        and their sum is not 1. They are meant for inspection and take quadratic time and memory.

    Raises:
        ValueError: If an argument is out of range, the lengths differ, or a `key` or an
            `attention_mask` is given.

    Example:

    >>> layer = RetentionAttention(num_heads=2, key_dim=4)
    >>> x = np.random.default_rng(0).normal(size=(2, 50, 8)).astype("float32")
    >>> output = layer(x, x)
    >>> memory = layer.room_for(x)
    >>> _, _, memory = layer.step(x[:, :49], memory, start=0)
    >>> context, _, memory = layer.step(x[:, 49:], memory, start=49)
    >>> np.allclose(context, output[:, 49:], atol=1e-5)
    True
    """

    projections = ("query", "key", "value", "decay", "output_gate", "output")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        output_dim: int | None = None,
        gated: bool = False,
        position: Any = "rotary",
        epsilon: float = 1e-6,
        use_bias: bool | Collection[str] = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        if value_dim is None:
            self.value_dim = 2 * self.key_dim
        owner = type(self).__name__
        self.gated = gated
        self.position = get_rotary(owner, position, or_none=True)
        require_positive_numbers(owner, epsilon=epsilon)
        self.epsilon = plain(epsilon)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._require_fitting_shapes(query_shape, value_shape, key_shape)
        self._build_projections(query_shape, value_shape, key_shape)
        self.decay_projection = None
        if self.gated:
            self._build_decay(value_shape)
        size = self.num_heads * self.value_dim
        self.output_gate_projection = self._projection("output_gate", size, query_shape)
        if self.position is not None:
            self.position.build(heads=(self.num_heads,), size=self.key_dim)
        with keras.RematScope(mode=None):
            norm = keras.layers.LayerNormalization(
                epsilon=self.epsilon, center=False, scale=False, dtype="float32", name="norm"
            )
        self._build_norm(norm)

    def _build_decay(self, value_shape):
        self.decay_projection = self._projection("decay", self.num_heads, value_shape)

    def _write(self, query, value, visible, recent, start):
        places = ops.arange(shape_of(query)[1], dtype="int32") + start
        query = self._rotated(self.query_projection, query, places)
        key = self._rotated(self.key_projection, value, places)
        written = Written(
            query * self.key_dim**-0.5,
            ops.where(visible[:, None, :, None], key, 0.0),
            self._project(self.value_projection, value, self.value_dim),
            self._log_decay(value, visible),
            None,
        )
        return written, recent

    def _log_decay(self, value, visible):
        """Returns the logarithm of `γ`, float32 `(batch, num_heads, length, 1 or key_dim)`."""
        if self.gated:
            logits = ops.cast(self._decay_logits(value), "float32")
            log_decays = ops.log_sigmoid(logits) / TEMPERATURE
            return ops.where(visible[:, None, :, None], log_decays, 0.0)
        batch, length, _ = shape_of(value)
        log_decays = np.log1p(-(2.0 ** (-5 - np.arange(self.num_heads)))).astype("float32")
        return ops.broadcast_to(log_decays[:, None, None], (batch, self.num_heads, length, 1))

    def _decay_logits(self, value):
        return self._project(self.decay_projection, value, 1)

    def _rotated(self, projection, x, places):
        """Returns the queries or keys of all heads, rotated in float32."""
        x = ops.cast(self._project(projection, x, self.key_dim), "float32")
        return x if self.position is None else self.position.rotate(x, places)

    def get_config(self):
        position = None if self.position is None else serialize(self.position)
        return {
            **super().get_config(),
            "gated": self.gated,
            "position": position,
            "epsilon": self.epsilon,
        }
