"""Attention to selected blocks of keys, for long inputs."""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention import masks
from keras_attention._approximation import Approximation
from keras_attention._backend import shape_of
from keras_attention._checks import plain, require_positive_integers
from keras_attention._memory import GrowingMemory, Memory, MemoryAttention
from keras_attention._registry import serialize
from keras_attention._rotary import get_rotary
from keras_attention.compute.selected_blocks import SelectedBlocks


@keras.saving.register_keras_serializable(package="keras_attention")
class BlockSelectionAttention(GrowingMemory, MemoryAttention, Approximation):
    """Multi-head attention of each query to a few blocks of keys, which it selects by their means.

    $$ head_i = \\sum_{j \\in B_i} softmax_j(q_i^T k_j / \\sqrt{d}) \\, v_j, \\quad
       B_i = own_i \\cup \\bigcup top_{b \\ne own_i} (q_i^T mean_{j \\in b} k_j) $$

    The keys are cut into blocks of `block_size`. A query sees the block at its own position, and
    from the others the `n - 1` whose mean key has the largest product with it, where `n` is
    `num_blocks`. Each head selects for itself. Up to `num_blocks · block_size` positions, nothing
    is left out, and attention is exact. With the causal mask, a query selects from the blocks
    before its own, and sees its own block up to its position, so no later position has any effect.
    Without it, a query selects from the blocks on both sides.

    Gradients pass through the attention to the selected keys, and not through the selection, which
    has no weights: a model trained with `MultiHeadAttention` can continue with this layer, and the
    other way round.

    Padding takes no place in a block, so it changes nothing, wherever it is. Only the pairs of
    queries and their blocks are computed, in memory linear in the length `T`. Time is `O(T ·
    num_blocks · block_size · d)`, and `O(T² / block_size · d)` for the products with the means.

    With `causal=True`, the layer decodes step by step, with the cache of `MultiHeadAttention`:
    `room_for` and `step`. A step reads all keys for the means, but the values of selected blocks
    only.

    Paper: Lu et al. 2025, MoBA: Mixture of Block Attention for Long-Context LLMs
    (https://arxiv.org/abs/2502.13189).

    Args:
        num_heads, key_dim, value_dim, num_key_value_heads, output_dim: As for `MultiHeadAttention`.
        block_size: Number of keys in a block. The paper has 512 for a length of 8,192.
        num_blocks: Number of blocks that a query sees, including its own. The paper has 3.
        causal: Whether to always apply the causal mask.
        position: `"rotary"`, a `positions.Rotary` with its own options, its config, or `None`.
            Queries and keys are rotated before the means are formed.
        use_bias: As for `MultiHeadAttention`.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but `attention_mask` is not supported. The last query has the position
        of the last key.

    Output shape:
        `(batch, query_length, output_dim)`; with `return_attention_scores` also the weights,
        float32 `(batch, num_heads, query_length, key_length)`. They are meant for inspection and
        take quadratic time and memory.

    Raises:
        ValueError: If a size is not positive, `num_key_value_heads` does not divide `num_heads`,
            the position is not a rotary one, or a mask is not supported.

    Example:

    >>> layer = BlockSelectionAttention(
    ...     num_heads=2, key_dim=4, block_size=8, num_blocks=3, causal=True)
    >>> x = np.random.default_rng(0).normal(size=(2, 50, 8)).astype("float32")
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 50, 50))
    >>> int(np.count_nonzero(weights[0, 0, 49]))  # two blocks of 8, and 2 keys of its own
    18

    A prompt of 49 positions, and one step:

    >>> memory = layer.room_for(np.zeros_like(x))
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
        num_key_value_heads: int | None = None,
        output_dim: int | None = None,
        block_size: int = 64,
        num_blocks: int = 4,
        causal: bool = False,
        position: Any = None,
        use_bias: bool | Collection[str] = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        owner = type(self).__name__
        require_positive_integers(owner, block_size=block_size, num_blocks=num_blocks)
        self.num_key_value_heads = self._groups(num_key_value_heads)
        self.block_size = plain(block_size)
        self.num_blocks = plain(num_blocks)
        self.causal = causal
        self.position = get_rotary(owner, position, or_none=True)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._require_fitting_shapes(query_shape, value_shape, key_shape)
        groups = self.num_key_value_heads
        self.query_projection = self._projection(
            "query", self.num_heads * self.key_dim, query_shape
        )
        self.key_projection = self._projection("key", groups * self.key_dim, key_shape)
        self.value_projection = self._projection("value", groups * self.value_dim, value_shape)
        self._build_output(query_shape)
        if self.position is not None:
            self.position.build(heads=(self.num_heads,), size=self.key_dim)

    @property
    def mask(self):
        """The mask that applies to every call, besides the selection."""
        return masks.Causal() if self.causal else None

    def room_for(self, value, mask=None):
        if not self.causal:
            raise ValueError(
                f"{type(self).__name__} must be causal for steps, since its cache does not yet "
                "hold later positions. Received: causal=False. Make the layer with causal=True."
            )
        return super().room_for(value, mask)

    def _prepare(self, key, value, mask, start):
        key = self._project(self.key_projection, key, self.key_dim)
        value = self._project(self.value_projection, value, self.value_dim)
        return Memory(self._rotated(key, start), value, mask)

    def _attend(self, query, memory, query_mask, mask, training, start, return_attention_scores):
        self._require_possible(attention_mask=None if isinstance(mask, masks.Causal) else mask)
        if start is None:
            start = shape_of(memory.key)[2] - shape_of(query)[1]
        query = self._project(self.query_projection, query, self.key_dim)
        selected = SelectedBlocks(
            self._rotated(query, start),
            memory.key,
            memory.mask,
            query_mask,
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            causal=self.causal or mask is not None,
            start=start,
        )
        context = self._merge(selected.attend(memory.value))
        return context, selected.weights(memory.key) if return_attention_scores else None

    def _rotated(self, x, start):
        if self.position is None:
            return x
        return self.position.rotate(x, ops.arange(shape_of(x)[2], dtype="int32") + start)

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        if attention_mask is not None:
            self._refuse(
                "attention_mask",
                "it computes only pairs of selected blocks",
                "Hide keys from all queries with value_mask or key_mask, and later ones with "
                "causal=True",
            )

    def get_config(self):
        return {
            **super().get_config(),
            "num_key_value_heads": self.num_key_value_heads,
            "block_size": self.block_size,
            "num_blocks": self.num_blocks,
            "causal": self.causal,
            "position": None if self.position is None else serialize(self.position),
        }
