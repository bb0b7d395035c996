"""Latent attention: the keys and values of all heads come from one small vector per position."""

import math
from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention import masks
from keras_attention._backend import shape_of
from keras_attention._checks import (
    plain,
    require_fractions,
    require_positive_integers,
    require_positive_integers_or_none,
)
from keras_attention._heads import MultiHeadLayer
from keras_attention._initializers import for_each_head
from keras_attention._layer import with_padding
from keras_attention._memory import GrowingMemory, Memory, MemoryAttention
from keras_attention._products import einsum
from keras_attention._registry import serialize
from keras_attention._rotary import get_rotary
from keras_attention._stacked_heads import StackedMask, stacked, unstacked
from keras_attention.attention import Attention

OF_ATTENTION = ("normalizer", "soft_cap", "dropout", "implementation", "seed")


@keras.saving.register_keras_serializable(package="keras_attention")
class LatentAttention(GrowingMemory, MemoryAttention, MultiHeadLayer):
    """Multi-head latent attention (MLA): a cache of one small vector per position for all heads.

    $$ c_j = Norm(W^C x_j), \\quad k_{hj} = [W^K_h c_j; R_j W^R x_j], \\quad v_{hj} = W^V_h c_j $$

    $$ q_{hi} = [W^Q_h x_i; R_i W^P_h x_i], \\quad
       head_{hi} = \\sum_j softmax_j(q_{hi}^T k_{hj} / \\sqrt{d + r}) \\, v_{hj}, \\quad
       output_i = W^O [head_{1i}; …; head_{Hi}] $$

    `R` is the rotary position, applied to `r = rotary_dim` features beside the `d = key_dim` of
    each head; those of the keys are shared by all heads. `Norm` is an RMS normalization with a
    learned scale and an epsilon of 1e-6.

    The key of a `Memory` is `[c_j; R_j W^R x_j]`, `latent_dim + rotary_dim` numbers per position
    in a single head, and its value is empty. In DeepSeek-V2, with 128 heads of size 128, these are
    512 + 64 = 576 numbers. Multi-head attention would cache 2 · 128 · 128 = 32,768, and
    grouped-query attention with 8 groups 2 · 8 · 128 = 2,048.

    Attention is computed in one of two ways with equal results, whichever takes fewer operations:

    - Few queries, such as a decoding step, attend to the latents themselves. `W^K_h` is applied to
      the queries, since `q^T W^K_h c = ({W^K_h}^T q)^T c`, and `W^V_h` to the mean of the latents.
      A pair of query and key takes `2 (latent_dim + rotary_dim)` multiplications per head.
    - For many queries, such as a whole sequence, the keys and values of the heads are formed.
      A pair then takes `key_dim + rotary_dim + value_dim`.

    Either way, `W^K_h` and `W^V_h` take `latent_dim · (key_dim + value_dim)` multiplications per
    head, for each query in the first case and for each key in the second. A length that is not
    known in advance counts as long.

    Paper: DeepSeek-AI 2024, DeepSeek-V2, section 2.1 (https://arxiv.org/abs/2405.04434).

    Args:
        num_heads: Number of heads.
        key_dim: Size of the queries and keys of one head, without `rotary_dim`.
        value_dim: Size of the values of one head. Defaults to `key_dim`.
        dropout: As for `Attention`.
        use_bias: Whether the projections add a bias, or a collection of those that do: `"query"`,
            `"query_latent"`, `"latent"`, `"output"`. `W^K` and `W^V` have none.
        latent_dim: Size of `c`.
        rotary_dim: Number of rotated features of queries and keys, even.
        query_latent_dim: Size of a normalized latent vector from which queries are projected, or
            `None` to project them from the input.
        output_dim: Size of the output. Defaults to the size of the query.
        position: `"rotary"`, a `positions.Rotary` with its own options, or its config.
        normalizer, mask, soft_cap, implementation, seed: As for `Attention`.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but `key` is not supported, since keys and values share their latents.

    Output shape:
        `(batch, query_length, output_dim)`; with `return_attention_scores` also the weights before
        dropout, float32 `(batch, num_heads, query_length, key_length)`.

    Raises:
        ValueError: If an argument is unknown or out of range, a `key` is given, or as for
            `Attention`.

    Example:

    >>> layer = LatentAttention(num_heads=2, key_dim=4, latent_dim=6, rotary_dim=2, mask="causal")
    >>> x = np.random.default_rng(0).normal(size=(1, 5, 8)).astype("float32")
    >>> output = layer(x, x)
    >>> cache = layer.prepare(np.zeros((1, 5, 8), "float32"))
    >>> tuple(cache.key.shape)
    (1, 1, 5, 8)
    >>> for place in range(5):
    ...     cache = layer.extend(cache, x[:, place : place + 1], start=place)
    >>> last, _ = layer.attend(x[:, 4:], cache, start=4)
    >>> np.allclose(last, output[:, 4:], atol=1e-5)
    True
    """

    projections = ("query", "query_latent", "latent", "output")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool | Collection[str] = True,
        *,
        latent_dim: int,
        rotary_dim: int,
        query_latent_dim: int | None = None,
        output_dim: int | None = None,
        position: Any = "rotary",
        normalizer: Any = "softmax",
        mask: Any = None,
        soft_cap: float | None = None,
        implementation: str = "auto",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        owner = type(self).__name__
        require_fractions(owner, dropout=dropout)
        require_positive_integers(owner, latent_dim=latent_dim, rotary_dim=rotary_dim)
        require_positive_integers_or_none(owner, query_latent_dim=query_latent_dim)
        if rotary_dim % 2:
            raise ValueError(
                f"`rotary_dim` of {owner} must be even, since pairs of features are rotated. "
                f"Received: rotary_dim={rotary_dim}. Use {rotary_dim + 1}."
            )
        self.latent_dim = plain(latent_dim)
        self.rotary_dim = plain(rotary_dim)
        self.query_latent_dim = plain(query_latent_dim)
        self.mask = None if mask is None else masks.get(mask)
        self.position = get_rotary(owner, position)
        with keras.RematScope(mode=None):
            self.attention = Attention(
                normalizer=normalizer,
                soft_cap=soft_cap,
                dropout=dropout,
                implementation=implementation,
                seed=seed,
                dtype=self.dtype_policy,
                name="attention",
            )

    def build(self, query_shape, value_shape, key_shape=None):
        self._require_fitting_shapes(query_shape, value_shape, key_shape or value_shape)
        heads, size = self.num_heads, self.key_dim + self.rotary_dim
        from_shape = query_shape
        if self.query_latent_dim is not None:
            from_shape = (*query_shape[:2], self.query_latent_dim)
            self.query_latent_projection = self._projection(
                "query_latent", self.query_latent_dim, query_shape
            )
            self.query_latent_norm = self._norm("query_latent_norm", self.query_latent_dim)
        self.query_projection = self._projection("query", heads * size, from_shape)
        self.latent_projection = self._projection(
            "latent", self.latent_dim + self.rotary_dim, value_shape
        )
        self.latent_norm = self._norm("latent_norm", self.latent_dim)
        self.key_kernel = self._kernel_of_heads("key_kernel", self.key_dim)
        self.value_kernel = self._kernel_of_heads("value_kernel", self.value_dim)
        self._build_output(query_shape)
        self.position.build(heads=(heads,), size=self.rotary_dim)
        self.attention.build_heads(
            (query_shape[0], heads, query_shape[1], size),
            (query_shape[0], heads, value_shape[1], size),
        )

    def _norm(self, name, size):
        with keras.RematScope(mode=None):
            norm = keras.layers.RMSNormalization(dtype=self.dtype_policy, name=name)
        norm.build((None, None, size))
        return norm

    def _kernel_of_heads(self, name, size):
        """Returns a weight that projects latents into the heads."""
        return self.add_weight(
            name=name,
            shape=(self.num_heads, self.latent_dim, size),
            initializer=for_each_head(self._of_dense["kernel_initializer"]),
            regularizer=_of_each_head(self._of_dense["kernel_regularizer"], sum),
            constraint=_of_each_head(self._of_dense["kernel_constraint"], ops.stack),
        )

    def prepare(self, value, key=None, value_mask=None, key_mask=None, start=0):
        """See `Attention.prepare`; `key` must be `None`."""
        if key is not None:
            raise ValueError(
                f"{type(self).__name__} projects keys and values from the same latents. Received: "
                f"`key` of shape {tuple(key.shape)}. Omit it: layer(query, value), or use "
                "MultiHeadAttention."
            )
        return super().prepare(value, None, value_mask, key_mask, start)

    def choose_implementation(self, query_shape, value_shape, return_attention_scores=False):
        """See `Attention.choose_implementation`."""
        return self.attention.choose_for_mask(
            self.mask, query_shape, value_shape, return_attention_scores
        )

    def _prepare(self, key, value, mask, start):
        latent, rotary = ops.split(self.latent_projection(value), [self.latent_dim], axis=-1)
        places = ops.arange(shape_of(value)[1], dtype="int32") + start
        parts = [self.latent_norm(latent), self.position.rotate(rotary, places)]
        key = ops.concatenate(parts, axis=-1)[:, None]  # (batch, 1, length, latent + rotary)
        return Memory(key, key[..., :0], mask)

    def _attend(self, query, memory, query_mask, mask, training, start, return_attention_scores):
        length = shape_of(query)[1]
        if start is None:
            start = shape_of(memory.key)[2] - length
        is_long = self._forms_heads(query.shape[1], memory.key.shape[2])
        attend = self._attend_to_heads if is_long else self._attend_to_latents
        context, weights = attend(
            self._queries(query, start),
            memory.key[:, 0],  # (batch, key_length, latent_dim + rotary_dim)
            with_padding([self.mask, mask], memory, query_mask, start + length),
            training,
            start,
            return_attention_scores,
        )
        return self._merge(context), weights

    def _queries(self, query, start):
        """Returns queries `(batch, heads, length, key_dim + rotary_dim)`, already rotated."""
        if self.query_latent_dim is not None:
            query = self.query_latent_norm(self.query_latent_projection(query))
        query = self._project(self.query_projection, query, self.key_dim + self.rotary_dim)
        query, rotary = ops.split(query, [self.key_dim], axis=-1)
        places = ops.arange(shape_of(query)[2], dtype="int32") + start
        return ops.concatenate([query, self.position.rotate(rotary, places)], axis=-1)

    def _forms_heads(self, queries, keys):
        """Whether forming keys and values takes fewer operations than attending to latents.

        Args:
            queries, keys: Lengths. Unknown queries are taken to be as many as the keys, as in a
                whole sequence, and unknown keys to be very many, as in a cache.
        """
        projecting = self.latent_dim * (self.key_dim + self.value_dim)
        pair_of_latents = 2 * (self.latent_dim + self.rotary_dim)
        pair_of_heads = self.key_dim + self.rotary_dim + self.value_dim
        if not isinstance(queries, int):
            return pair_of_heads < pair_of_latents
        keys = max(keys, 1) if isinstance(keys, int) else math.inf
        with_latents = queries * (pair_of_latents + projecting / keys)  # per key
        return projecting + queries * pair_of_heads < with_latents

    def _attend_to_heads(self, query, memory, mask, training, start, return_attention_scores):
        """Returns the context `(batch, heads, length, value_dim)` and weights, or `None`."""
        latent, rotary = ops.split(memory, [self.latent_dim], axis=-1)
        key, value = (
            einsum("btl,hls->bhts", latent, ops.cast(kernel, latent.dtype))
            for kernel in (self.key_kernel, self.value_kernel)
        )
        rotary = ops.broadcast_to(rotary[:, None], (*shape_of(key)[:3], self.rotary_dim))
        memory = Memory(ops.concatenate([key, rotary], axis=-1), value, None)
        return self.attention.attend_heads(
            query, memory, None, mask, training, start, return_attention_scores
        )

    def _attend_to_latents(self, query, memory, mask, training, start, return_attention_scores):
        """Returns the same as `_attend_to_heads`."""
        # The score divides by √(latent_dim + rotary_dim), the size of the stacked queries.
        query = query * math.sqrt(memory.shape[-1] / query.shape[-1])
        query, rotary = ops.split(query, [self.key_dim], axis=-1)
        query = einsum("bhts,hls->bhtl", query, ops.cast(self.key_kernel, query.dtype))
        context, weights = self.attention.attend_heads(
            stacked(ops.concatenate([query, rotary], axis=-1)),
            Memory(memory, memory, None),  # without a copy of the latents as values
            None,
            None if mask is None else StackedMask(mask, self.num_heads),
            training,
            start * self.num_heads,
            return_attention_scores,
        )
        context = unstacked(context[..., : self.latent_dim], self.num_heads)
        context = einsum("bhtl,hls->bhts", context, ops.cast(self.value_kernel, context.dtype))
        return context, None if weights is None else unstacked(weights, self.num_heads)

    def get_config(self):
        of_attention = self.attention.get_config()
        return {
            **{name: of_attention[name] for name in OF_ATTENTION},
            **super().get_config(),
            "latent_dim": self.latent_dim,
            "rotary_dim": self.rotary_dim,
            "query_latent_dim": self.query_latent_dim,
            "position": serialize(self.position),
            "mask": None if self.mask is None else serialize(self.mask),
        }


def _of_each_head(function, join):
    """Returns a regularizer or constraint that treats the matrix of each head on its own."""
    if function is None:
        return None
    return lambda kernel: join([function(kernel[head]) for head in range(kernel.shape[0])])
