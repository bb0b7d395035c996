"""How every attention layer processes the arguments of its call, before the computation."""

from numbers import Integral
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention import masks
from keras_attention._keras import get_keras_mask
from keras_attention._recompute import Recomputable
from keras_attention.masks._arguments import require_visible


class Memory(NamedTuple):
    """What queries attend to, prepared once: prepared keys, values, and a padding mask."""

    key: Any  # (batch, *heads, key_length, size)
    value: Any  # (batch, *heads, key_length, value_size)
    mask: Any  # boolean (batch, key_length), or None


class ChecksMasks:
    """Mixin for layers: checks masks before Keras turns NumPy arrays into tensors."""

    def __call__(self, *args, **kwargs):
        for name, argument in kwargs.items():
            if name.endswith("mask"):
                require_visible(argument, name)
        return super().__call__(*args, **kwargs)


class AttentionLayer(ChecksMasks, Recomputable):
    """A layer called like Keras' attention layers: it checks shapes and combines masks.

    Attributes:
        num_heads: Number of heads.
        output_dim: Size of the output; `None` if it is the size of the query or the value.
    """

    num_heads = 1
    output_dim = None

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def __call__(self, query, *args, **kwargs):
        if isinstance(query, list | tuple):
            raise ValueError(
                f"Query, value and key are separate arguments of {type(self).__name__}: "
                f"layer(query, value, key). Received: a list of {len(query)} as the query. "
                "Unpack it: layer(*inputs)."
            )
        return super().__call__(query, *args, **kwargs)

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        """Returns the shape of the output, without that of the weights."""
        self._require_fitting_shapes(query_shape, value_shape, key_shape or value_shape)
        return (*query_shape[:-1], self._output_size(query_shape, value_shape))

    def _output_size(self, query_shape, value_shape):
        return self.output_dim or query_shape[-1]

    def _ready(self, x, mask):
        """Returns floats with zeros at hidden positions: 0 · NaN and its gradient would be NaN."""
        x = as_floats(x, self.compute_dtype)
        return x if mask is None else ops.where(mask[:, :, None], x, ops.cast(0.0, x.dtype))

    def _padding_mask(self, name, mask, tensor):
        return padding_mask(type(self).__name__, name, mask, tensor)

    def _mask_of_call(self, attention_mask, use_causal_mask, query, value):
        """Returns the mask of pairs that a call specifies, a `Mask` or `None`."""
        mask = masks.Causal() if use_causal_mask else None
        if attention_mask is None:
            return mask
        return masks.combine(mask, masks.Array(self._pairs_mask(attention_mask, query, value)))

    def _pairs_mask(self, mask, query, value):
        """Returns an `attention_mask` as booleans, with axes of size 1 broadcast."""
        mask = masks.as_boolean(mask, "attention_mask", ranks=(2, 3, 4))
        lengths = query.shape[1], value.shape[1]
        front = (query.shape[0], self.num_heads)[: len(mask.shape) - 2]
        shape = [None if size == 1 else size for size in mask.shape]
        if not agree(shape, (*front, *lengths)):
            whole = (query.shape[0], self.num_heads, *lengths)
            raise ValueError(
                f"`attention_mask` of {type(self).__name__} must have the shape (query_length, "
                f"key_length), (batch, query_length, key_length) or (batch, heads, query_length, "
                f"key_length), here (batch, heads, query_length, key_length) = {whole}; any of "
                f"them may be 1. Received: shape {tuple(mask.shape)}."
            )
        pairs = ops.shape(query)[1], ops.shape(value)[1]
        return ops.broadcast_to(mask, (*ops.shape(mask)[:-2], *pairs))

    def _require_fitting_shapes(self, query_shape, value_shape, key_shape):
        shapes = {"query": query_shape, "value": value_shape, "key": key_shape}
        received = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        if any(len(shape) != 3 for shape in shapes.values()):
            raise ValueError(
                f"{type(self).__name__} needs query, value and key of shape (batch, length, size). "
                f"Received: {received}. Add a length axis to a single vector with x[:, None, :]; "
                "turn images into sequences with keras.layers.Reshape((height * width, channels))."
            )
        if not agree(value_shape[:2], key_shape[:2]):
            raise ValueError(
                f"{type(self).__name__} needs one value for each key. Received: {received}. "
                "Batch and length of value and key must be equal."
            )
        if not agree(query_shape[:1], key_shape[:1]):
            raise ValueError(
                f"{type(self).__name__} needs one memory for each query sequence. Received: "
                f"{received}. The batch sizes must be equal; repeat the smaller one with "
                "keras.ops.repeat."
            )


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

        Returns:
            `(context, weights)`.
        """
        self._require_memory(memory)
        query_mask = self._padding_mask("query_mask", query_mask, query)
        query = self._ready(query, query_mask)
        return self._attend(
            query, memory, query_mask, mask, training, start, return_attention_scores
        )

    def _require_memory(self, memory):
        if not isinstance(memory, Memory):
            raise ValueError(
                f"`memory` of {type(self).__name__} must be what its `prepare` returned. Received: "
                f"{type(memory).__name__} of shape {getattr(memory, 'shape', None)}. Attend to "
                "memory = layer.prepare(value)."
            )


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
    (rows, length, size), shared = ops.shape(query), ops.shape(memory.key)[0]
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
        _, heads, _, keys = ops.shape(weights)
        weights = ops.reshape(weights, (shared, heads, times, length, keys))
        weights = ops.reshape(ops.swapaxes(weights, 1, 2), (rows, heads, length, keys))
    return context, weights


class GrowingMemory:
    """Mixin for layers whose memory a decoder fills step by step."""

    def extend(self, memory, value, start, key=None):
        """Writes new keys and values into a memory that has room for them: a cache.

        Args:
            memory: What `prepare` returned, without a mask, for example for zeros of shape `(batch,
                max_length, size)`.
            value, key: As in a call: the vectors at the positions from `start` on.
            start: Position of the first new key, an integer or scalar tensor.

        Returns:
            The new `Memory`. A `Causal` mask hides the positions that are not written yet.

        Raises:
            ValueError: If the memory has no room for the new positions. Only a `start` that is an
                integer can be checked; beyond the end, a tensor writes nothing.
        """
        _require_room(memory, value, start)
        new = self.prepare(value, key, start=start)
        pairs = zip(memory[:2], new[:2], strict=True)
        return Memory(*(_overwritten(old, part, start) for old, part in pairs), memory.mask)


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


def require_built(layer, shapes):
    """Raises a `ValueError` that names the arguments of `build` if a layer has no weights yet."""
    if not layer.built:
        raise ValueError(
            f"The layer {layer.name!r} ({type(layer).__name__}) has no weights yet. Call "
            f"the layer once, or its build({shapes})."
        )


def as_floats(x, dtype):
    """Returns arrays, integers and booleans as floats of a dtype; tensors of floats stay."""
    is_float = keras.backend.is_float_dtype(x.dtype) and not isinstance(x, np.ndarray)
    return x if is_float else ops.cast(x, dtype)


def agree(shape, other):
    """Whether two shapes are equal in all sizes that are known."""
    pairs = zip(shape, other, strict=True)
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def fits(shape, expected):
    """Whether two shapes have as many axes and agree."""
    return len(shape) == len(expected) and agree(shape, expected)


def padding_mask(owner, name, mask, tensor):
    """Joins an explicit mask with the implicit one that Keras left on the tensor.

    Args:
        owner: Name of the layer, for error messages.
        name: Name of the argument, for error messages.
        mask: Boolean `(batch, length)`, the shape of the tensor without its last axis, or `None`.
        tensor: The tensor that the mask belongs to.

    Raises:
        ValueError: If one of the two masks has the wrong shape.
    """
    implicit, shape = get_keras_mask(tensor), tuple(tensor.shape[:-1])
    if implicit is not None and not fits(implicit.shape, shape):
        raise ValueError(
            f"The mask that Keras attached to a tensor, the `{name}` of {owner}, must have the "
            f"shape (batch, length) = {shape} of the tensor. Received: shape "
            f"{tuple(implicit.shape)}. Instead of the tensor x, pass keras.ops.copy(x), which has "
            f"no mask, and a `{name}`."
        )
    if mask is None or mask is implicit:
        return implicit
    mask = masks.as_boolean(mask, name, ranks=(len(shape),))
    if not fits(mask.shape, shape):
        raise ValueError(
            f"`{name}` of {owner} must have the shape (batch, length) = {shape} of the tensor that "
            f"it belongs to. Received: shape {tuple(mask.shape)}. Pass one boolean for each "
            "position, True for positions that count."
        )
    return both(mask, implicit)


def both(first, second):
    """Returns the conjunction of two masks; `None` hides nothing."""
    if first is None or first is second:
        return second
    return first if second is None else ops.logical_and(first, second)


def _overwritten(old, new, start):
    """Returns `(..., length, size)` with new vectors from `start` on, dropping any beyond the end.

    `ops.slice_update` would work too, but on TensorFlow it needs XLA, which not every server has.
    """
    places = ops.arange(ops.shape(old)[-2], dtype="int32") - start  # (length,)
    count = ops.shape(new)[-2]
    is_new = ops.logical_and(places >= 0, places < count)
    if new.shape[-2] != 1:
        new = ops.take(new, ops.clip(places, 0, count - 1), axis=-2)
    return ops.where(is_new[:, None], ops.cast(new, old.dtype), old)
