"""Blocks that decode step by step."""

import numpy as np
from keras import ops

from keras_attention._backend import known_values
from keras_attention._layer import require_built
from keras_attention._memory import GrowingMemory, sees_last


class CausalSteps:
    """Mixin for blocks with one causal self-attention, `self.attention`, that may grow a memory."""

    can_be_parallel = True

    def start(self, batch, max_length, mask=None):
        """Returns an empty cache for `step`, if the attention is causal and has one.

        Args:
            batch: Number of sequences.
            max_length: Maximum number of positions.
            mask: Boolean `(batch, max_length)`, `False` for padding, or `None`.

        Returns:
            A `Memory`; for layers with a memory of constant size, such as `LinearAttention`, a
            named tuple of tensors. Without a mask, the variables of a compiled loop are the key and
            the value of a `Memory` only, since a loop of TensorFlow cannot hold `None`: `step`
            takes `Memory(key, value, None)`.

        Raises:
            ValueError: If the attention has no cache, or its mask shows positions that are not
                written yet.
        """
        require_built(self, "x_shape")
        owner, attention = type(self).__name__, self.attention
        if not hasattr(attention, "room_for"):
            raise ValueError(
                f"The attention in {owner} must have a cache for steps. Received: "
                f"{type(attention).__name__}. Use MultiHeadAttention or another layer with the "
                "methods room_for and step."
            )
        if isinstance(attention, GrowingMemory) and _is_not_causal(attention.mask, max_length):
            raise ValueError(
                f"The mask of the attention in {owner} must be causal for steps, since the cache "
                f"does not yet hold later positions. Received: mask={attention.mask!r}. Use "
                "mask='causal' (or causal=True), or masks.Causal() & another mask."
            )
        return self._room(attention, batch, max_length, mask)

    def step(self, x, cache, start, return_attention_scores=False):
        """Processes the next positions like `call`, with the previous ones in the cache.

        Args:
            x: Tensor `(batch, length, size)`: one position, or several at once. Positions that its
                implicit Keras mask hides stay hidden, also in the next block.
            cache: What `start` or the previous step returned.
            start: Position of the first of them, an integer or a scalar tensor.
            return_attention_scores: Whether to also return the attention weights.

        Returns:
            `(x, cache)`, and if requested the weights `(batch, num_heads, length, max_length)`.

        Raises:
            ValueError: If the cache has no room for these positions. Only a `start` that is an
                integer can be checked.
        """
        attended, cache, weights = self._attend_to_cache(
            "attention", x, cache, start, return_attention_scores
        )
        x = self._end_step(attended, x)
        return (x, cache, weights) if return_attention_scores else (x, cache)


def _is_not_causal(mask, length):
    """Whether some position sees the last one, which is written later.

    While a graph is traced, only what the mask certainly shows counts.
    """
    if mask is None:
        return True
    if not isinstance(length, int) or length < 2:
        return False
    earlier, last = np.arange(length - 1, dtype="int32"), np.int32(length - 1)
    positions = ops.convert_to_tensor(earlier), ops.convert_to_tensor(last[None])
    seen = known_values(mask.tile(*positions))
    return sees_last(mask, length) if seen is None else bool(np.any(seen))
