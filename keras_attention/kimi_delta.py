"""Kimi Delta Attention: the gated delta rule with a decay for each channel of the keys."""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention.gated_delta import GatedDeltaAttention

FIXED = "num_key_heads", "use_decay", "use_gate", "max_strength"


@keras.saving.register_keras_serializable(package="keras_attention")
class KimiDeltaAttention(GatedDeltaAttention):
    """Causal linear attention by the delta rule, with a memory that decays by channel (KDA).

    $$ S_t = S_{t-1} \\, diag(α_t) \\, (I - β_t k_t k_t^T) + β_t v_t k_t^T, \\quad
       head_t = RMSNorm(S_t q_t / \\sqrt{d}) \\odot σ(W^G_2 W^G_1 x_t) $$

    $$ q_t, k_t, v_t = silu(conv(W^{QKV} x))_t, \\quad
       β_t = σ(W^β x_t), \\quad α_t = \\exp(-A \\, softplus(W^α_2 W^α_1 x_t + a)) $$

    As `GatedDeltaAttention`, but at each position each channel of the keys keeps a part `α` of its
    own, as in `GatedLinearAttention`, in place of one for all channels of a head. First the memory
    decays, then what is left of it is corrected. Projections of low rank, to and from `value_dim`
    features, give the decays and the gates of the heads.

    Paper: Kimi Team 2025, Kimi Linear: An Expressive, Efficient Attention Architecture
    (https://arxiv.org/abs/2510.26692). The initial values of `A`, one for each head, and of `a`,
    one for each channel, are those of `GatedDeltaAttention`.

    Args:
        num_heads: Number of heads, each with its own memory.
        key_dim: `d`, the size of the queries and keys of one head.
        value_dim: Size of the values of one head. Defaults to `key_dim`, as in the paper.
        output_dim: Size of the output. Defaults to the size of the query.
        kernel_size: Number of positions of the convolution, or `None` for no convolution.
        epsilon: Added to the mean of squares by the normalization, above 0.
        use_bias: As for `GatedDeltaAttention`.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `GatedDeltaAttention`.

    Output shape:
        As for `GatedDeltaAttention`.

    Raises:
        ValueError: As for `GatedDeltaAttention`.

    Example:

    >>> layer = KimiDeltaAttention(num_heads=2, key_dim=4)
    >>> x = np.random.default_rng(0).normal(size=(2, 50, 8)).astype("float32")
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 50, 50))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        output_dim: int | None = None,
        kernel_size: int | None = 4,
        epsilon: float = 1e-6,
        use_bias: bool | Collection[str] = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            key_dim,
            value_dim,
            output_dim=output_dim,
            kernel_size=kernel_size,
            epsilon=epsilon,
            use_bias=use_bias,
            **kwargs,
        )

    def _build_decay(self, value_shape):
        self.decay_latent_projection, self.decay_projection = self._low_rank(
            "decay", self.num_heads * self.key_dim, value_shape
        )
        self._build_rates(self.num_heads * self.key_dim)

    def _build_output_gate(self, query_shape):
        self.output_gate_latent_projection, self.output_gate_projection = self._low_rank(
            "output_gate", self.num_heads * self.value_dim, query_shape
        )

    def _low_rank(self, name, size, shape):
        """Returns two projections, the second of the first, whose rank is `value_dim`."""
        latent = self._projection(f"{name}_latent", self.value_dim, shape)
        return latent, self._projection(name, size, (*shape[:-1], self.value_dim))

    def _decay_logits(self, value):
        return super()._decay_logits(self.decay_latent_projection(value))

    def _output_gate(self, query):
        latent = self.output_gate_latent_projection(query)
        gate = self._project(self.output_gate_projection, latent, self.value_dim)
        return ops.sigmoid(ops.cast(gate, "float32"))

    def get_config(self):
        config = super().get_config()
        return {name: each for name, each in config.items() if name not in FIXED}
