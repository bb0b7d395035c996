"""Attention to memories: prepared once, attended to any number of times, and growing as caches."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attention._backend import overwritten, shape_of
from keras_attention._layer import AttentionLayer, both, require_built


class Memory(NamedTuple):
    """What queries attend to, prepared once: prepared keys, values, and a padding mask."""

    key: Any  # (batch, *heads, key_length, size)
    value: Any  # (batch, *heads, key_length, value_size)
    mask: Any  # boolean (batch, key_length), or None


class MemoryAttention(AttentionLayer):
    """An attention layer in two steps: `prepare` a memory once, `attend` to it any number of times.

    A subclass implements `_prepare` for keys and values, and `_attend` for queries.
    """

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        use_causal_mask=False,
        training=None,
    ):
        self._require_fitting_shapes(
            query.shape, value.shape, value.shape if key is None else key.shape
        )
        mask = self._mask_of_call(attention_mask, use_causal_mask, query, value)
        memory = self.prepare(value, key, value_mask, key_mask)
        context, weights = self.attend(
            query, memory, query_mask, mask, training, None, return_attention_scores
        )
        return (context, weights) if return_attention_scores else context

    def prepare(self, value, key=None, value_mask=None, key_mask=None, start=0):
        """Prepares a memory for any number of calls of `attend`.

        Args:
            value, key, value_mask, key_mask: As in a call.
            start: Position of the first key.

        Returns:
            A `Memory`, whose tensors have the batch as their first axis.
        """
        require_built(self, "query_shape, value_shape")
        key = value if key is None else key
        mask = both(
            self._padding_mask("value_mask", value_mask, value),
            self._padding_mask("key_mask", key_mask, key),
        )
        return self._prepare(self._ready(key, mask), self._ready(value, mask), mask, start)

    def attend(
        self,
        query,
        memory,
        query_mask=None,
        mask=None,
        training=None,
        start=None,
        return_attention_scores=True,
        **options,
    ):
        """Attends from queries to a memory.

        Args:
            query: Tensor `(batch, query_length, query_size)`.
            memory: What `prepare` returned.
            query_mask: Boolean `(batch, query_length)` or `None`.
            mask: An additional `Mask` or `None`.
            training: Whether to apply dropout.
            start: Position of the first query, an integer or scalar tensor. By default, the last
                query has the position of the last key.
            return_attention_scores: Whether to return the weights; if not, `None` takes their
                place.
            **options: For `Attention` and `MultiHeadAttention` also `normalizer`, a `Normalizer` in
                place of that of the layer; for `GaussianMixtureAttention` also `places`, those of
                the Gaussians before the first query.

        Returns:
            `(context, weights)`.
        """
        self._require_memory(memory)
        query_mask = self._padding_mask("query_mask", query_mask, query)
        query = self._ready(query, query_mask)
        return self._attend(
            query, memory, query_mask, mask, training, start, return_attention_scores, **options
        )

    def _require_memory(self, memory):
        if not isinstance(memory, Memory):
            raise ValueError(
                f"`memory` of {type(self).__name__} must be what its `prepare` returned. Received: "
                f"{type(memory).__name__} of shape {getattr(memory, 'shape', None)}. Attend to "
                "memory = layer.prepare(value)."
            )


class GrowingMemory:
    """Mixin for layers whose memory a decoder fills step by step."""

    def room_for(self, value, mask=None):
        """Returns an empty memory, a cache for `step` and `extend`.

        Args:
            value: Zeros `(batch, max_length, size)`, in the dtype of the inputs.
            mask: Boolean `(batch, max_length)`, `False` for padding, or `None`.

        Raises:
            ValueError: If the mask has the wrong shape.
        """
        key, prepared, _ = self.prepare(value)
        return Memory(key, prepared, self._padding_mask("mask", mask, value))

    def step(self, x, memory, start, return_attention_scores=False):
        """Self-attention of the next positions, for layers with a causal mask.

        Args:
            x: Tensor `(batch, length, size)`: one position, or several at once. Positions that its
                implicit Keras mask hides stay hidden in the memory.
            memory: What `room_for` or the previous step returned. A loop must carry its mask, too:
                without it, positions that an implicit mask has hidden are seen again. Where all
                steps need the same structure, begin with a mask of `room_for`, all `True`.
            start: Position of the first of them, an integer or scalar tensor.
            return_attention_scores: Whether to return the weights; if not, `None` takes their
                place.

        Returns:
            `(context, weights, memory)`.

        Raises:
            ValueError: If the layer has no mask, or one that shows later positions, or as for
                `extend`.
        """
        self._require_memory(memory)
        if self.mask is None or sees_last(self.mask, memory.value.shape[-2]):
            raise ValueError(
                f"{type(self).__name__} must be causal for steps, since its cache does not yet "
                f"hold later positions. Received: mask={self.mask!r}. Make the layer with "
                "mask='causal', or masks.Causal() & another mask."
            )
        memory = self.extend(memory, x, start)
        context, weights = self._attend_to_own(x, memory, start, return_attention_scores)
        return context, weights, memory

    def _attend_to_own(self, x, memory, start, with_weights):
        """Attends from positions to a memory that holds them and all before."""
        return self.attend(x, memory, start=start, return_attention_scores=with_weights)

    def extend(self, memory, value, start, key=None):
        """Writes new keys and values into a memory that has room for them: a cache.

        Args:
            memory: What `prepare` returned, without a mask, for example for zeros of shape `(batch,
                max_length, size)`.
            value, key: As in a call: the vectors at the positions from `start` on.
            start: Position of the first new key, an integer or scalar tensor.

        Returns:
            The new `Memory`. A `Causal` mask hides the positions that are not written yet. It has a
            mask if the old one has, or the new vectors have an implicit Keras mask.

        Raises:
            ValueError: If `memory` is not a `Memory`, or has no room for the new positions. Only a
                `start` that is an integer can be checked; beyond the end, a tensor writes nothing.
        """
        self._require_memory(memory)
        _require_room(memory, value, start)
        new = self.prepare(value, key, start=start)
        pairs = zip(memory[:2], new[:2], strict=True)
        mask = memory.mask
        if new.mask is not None:
            everything = ops.ones((shape_of(new.mask)[0], shape_of(memory.key)[-2]), "bool")
            shown = overwritten(everything[..., None], new.mask[..., None], start)
            mask = both(mask, shown[..., 0])
        return Memory(*(overwritten(old, part, start) for old, part in pairs), mask)


def attend_together(attention, query, memory, **options):
    """Attends to a memory where several adjacent rows of queries share each row of the memory.

    Rows that share are merged into one: the memory is read once for all of them, in larger
    products.

    Args:
        attention: A `MultiHeadAttention` without masks and positions.
        query: Tensor `(rows, length, size)`.
        memory: A `Memory` with as many rows, or a number that divides it.
        **options: As for `attention.attend`.

    Returns:
        `(context, weights)`, both with `rows`.
    """
    (rows, length, size), shared = shape_of(query), shape_of(memory.key)[0]
    are_known = isinstance(rows, int) and isinstance(shared, int)
    times = rows // max(shared, 1) if are_known else rows // ops.maximum(shared, 1)
    if are_known and times == 1:
        return attention.attend(query, memory, **options)
    if attention.attention.score.uses_positions:
        repeated = [None if part is None else ops.repeat(part, times, axis=0) for part in memory]
        return attention.attend(query, Memory(*repeated), **options)
    query = ops.reshape(query, (shared, times * length, size))
    context, weights = attention.attend(query, memory, **options)
    context = ops.reshape(context, (rows, length, context.shape[-1]))
    if weights is not None:
        _, heads, _, keys = shape_of(weights)
        weights = ops.reshape(weights, (shared, heads, times, length, keys))
        weights = ops.reshape(ops.swapaxes(weights, 1, 2), (rows, heads, length, keys))
    return context, weights


def places(mask, length):
    """Returns positions that skip padding, float32 `(batch or 1, length)`."""
    seen = ops.ones((1, length), "int32") if mask is None else ops.cast(mask, "int32")
    return ops.cast(ops.cumsum(seen, axis=1), "float32") - 1.0


def places_of_keys(memory):
    """Returns the positions of the keys of a memory, float32 `(batch or 1, key_length)`."""
    return places(memory.mask, shape_of(memory.key)[-2])


def sees_last(mask, length):
    """Whether a mask certainly shows the last of some positions to an earlier one.

    Args:
        mask: A `Mask`.
        length: Number of positions; nothing is certain if it is not an integer.
    """
    if not isinstance(length, int) or length < 2:
        return False
    earlier, last = np.arange(length - 1, dtype="int32"), np.int32(length - 1)
    seen = mask.sees_all((earlier, earlier), (last, last))
    return not ops.is_tensor(seen) and bool(np.any(seen))


def _require_room(memory, value, start):
    room, length = memory.value.shape[-2], value.shape[1]
    if not all(isinstance(number, Integral) for number in (room, length, start)):
        return
    if not 0 <= start <= room - length:
        raise ValueError(
            f"`start` must leave room for the new positions in the cache. Received: start={start} "
            f"for {length} new positions, in a cache of {room}. Make the cache with a larger "
            "`max_length` in `start`, or with a longer `value` in `prepare`."
        )
