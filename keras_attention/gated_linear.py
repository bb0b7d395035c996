"""Gated linear attention: each channel of the keys decays as each position decides."""

from collections.abc import Collection
from typing import Any

import keras

from keras_attention.retention import RetentionAttention

RANK = 16  # of the projection to the decays
FIXED = "gated", "position"


@keras.saving.register_keras_serializable(package="keras_attention")
class GatedLinearAttention(RetentionAttention):
    """Causal linear attention whose memory decays by channel, as each position decides (GLA).

    $$ S_t = S_{t-1} \\, diag(α_t) + v_t k_t^T, \\quad
       head_t = Norm(S_t q_t / \\sqrt{d}) \\odot silu(W^G x_t + b^G) $$

    $$ α_t = σ(W^α_2 W^α_1 x_t + b)^{1/16} $$

    The memory `S` of a head is a matrix that maps keys to values. At each position, each channel of
    the keys keeps a part of its own, between 0 and 1; `RetentionAttention` has one for all channels
    of a head. The decays tell near positions from far ones: the layer needs no other positions.
    The same as a weighted sum over all positions before:

    $$ S_t q_t = \\sum_{s \\le t} \\left( \\sum_c q_{tc} \\, k_{sc}
       \\prod_{r = s + 1}^{t} α_{rc} \\right) v_s $$

    `W^α_1` projects to 16 features. `Norm` normalizes each head to mean 0 and variance 1. It has no
    scale, which `W^O` contains.

    Time is linear in the length, and a call computes the positions of a chunk in parallel. `step`
    decodes with a memory of constant size, `S`, in float32.

    Paper: Yang et al. 2023, Gated Linear Attention Transformers with Hardware-Efficient Training
    (https://arxiv.org/abs/2312.06635). `KimiDeltaAttention` also corrects what the memory holds.

    Args:
        num_heads: Number of heads, each with its own memory.
        key_dim: `d`, the size of the queries and keys of one head.
        value_dim: Size of the values of one head. Defaults to `2 · key_dim`, as in the paper.
        output_dim: Size of the output. Defaults to the size of the query.
        epsilon: Added to the variance by the normalization, above 0.
        use_bias: Whether the projections add a bias, or a collection of those that do: `"query"`,
            `"key"`, `"value"`, `"decay"`, `"output_gate"`, `"output"`. In the paper, those of the
            decay and of the output gate do.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but query and value must have the same length, and `key` and
        `attention_mask` are not supported. A position that any padding mask hides is not written
        into the memory and does not decay it. Later positions are always hidden.

    Output shape:
        `(batch, length, output_dim)`; with `return_attention_scores` also the weights of the values
        in `S_t q_t / √d`, float32 `(batch, num_heads, length, length)`. They may be negative, and
        their sum is not 1. They are meant for inspection and take quadratic time and memory.

    Raises:
        ValueError: If an argument is out of range, the lengths differ, or a `key` or an
            `attention_mask` is given.

    Example:

    >>> layer = GatedLinearAttention(num_heads=2, key_dim=4)
    >>> x = np.random.default_rng(0).normal(size=(2, 50, 8)).astype("float32")
    >>> output = layer(x, x)
    >>> memory = layer.room_for(x)
    >>> _, _, memory = layer.step(x[:, :49], memory, start=0)
    >>> context, _, memory = layer.step(x[:, 49:], memory, start=49)
    >>> np.allclose(context, output[:, 49:], atol=1e-5)
    True
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        output_dim: int | None = None,
        epsilon: float = 1e-6,
        use_bias: bool | Collection[str] = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            key_dim,
            value_dim,
            output_dim=output_dim,
            gated=True,
            position=None,
            epsilon=epsilon,
            use_bias=use_bias,
            **kwargs,
        )

    def _build_decay(self, value_shape):
        self.decay_latent_projection = self._projection("decay_latent", RANK, value_shape)
        size = self.num_heads * self.key_dim
        self.decay_projection = self._projection("decay", size, (*value_shape[:-1], RANK))

    def _decay_logits(self, value):
        latent = self.decay_latent_projection(value)
        return self._project(self.decay_projection, latent, self.key_dim)

    def get_config(self):
        config = super().get_config()
        return {name: each for name, each in config.items() if name not in FIXED}
