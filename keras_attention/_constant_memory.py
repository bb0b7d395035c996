"""Causal layers that decode step by step with a memory of constant size."""

from numbers import Integral

from keras_attention._backend import known_values
from keras_attention._checks import agree
from keras_attention._layer import require_built


class ConstantMemory:
    """Mixin for causal layers whose memory does not grow with the number of positions.

    A subclass implements `_empty_memory` and `_next`.

    Class attributes:
        memory_class: A named tuple of tensors with the batch as their first axis; `length` is the
            number of positions so far, int32 `(batch,)`.
    """

    memory_class = None

    def room_for(self, value, mask=None):
        """Returns the memory before the first `step`, of one size for any number of positions.

        Args:
            value: Zeros `(batch, max_length, size)`. Their length does not matter.
            mask: Must be `None`.

        Returns:
            A named tuple of tensors with the batch as their first axis. A step keeps their shapes.

        Raises:
            ValueError: If the layer is not causal, or there is a mask.
        """
        self._require_steps()
        require_built(self, "query_shape, value_shape")
        if mask is not None:
            way_out = "Omit it, and step through sequences without padding"
            self._refuse("mask", "its memory has no positions to hide, only sums", way_out)
        return self._empty_memory(value)

    def step(self, x, memory, start, return_attention_scores=False):
        """Causal self-attention of the next positions.

        Args:
            x: Tensor `(batch, length, size)`: one position, or several at once, such as a prompt.
                Positions that its implicit Keras mask hides are not added to the memory.
            memory: What `room_for` or the previous step returned.
            start: Position of the first of them, an integer or scalar tensor.
            return_attention_scores: Must be `False`.

        Returns:
            `(context, None, memory)`; layers with a cache return weights in place of `None`.

        Raises:
            ValueError: If the layer is not causal, the memory does not end at `start`, or weights
                are requested. Only a `start` that is an integer can be checked, and only outside of
                compiled functions.
        """
        self._require_steps()
        self._require_fitting_shapes(x.shape, x.shape, x.shape)
        self._require_continued(memory, x, start)
        if return_attention_scores:
            way_out = "Call the layer on the whole sequence"
            self._refuse("return_attention_scores", "a step has no keys, only sums", way_out)
        context, memory = self._next(x, memory, start)
        return context, None, memory

    def _require_steps(self):
        """Raises a `ValueError` if the layer is not causal."""
        return

    def _empty_memory(self, value):
        """Returns the memory for sequences like `value`, before their first position."""
        raise NotImplementedError

    def _next(self, x, memory, start):
        """Returns the output for the next positions, and the memory after them."""
        raise NotImplementedError

    def _require_continued(self, memory, x, start):
        """Raises a `ValueError` if a memory does not continue with `x` at the position `start`."""
        name = type(self).__name__
        if not isinstance(memory, self.memory_class):
            raise ValueError(
                f"`memory` of a step of {name} must be what its `room_for` or previous step "
                f"returned. Received: {type(memory).__name__}. Begin with layer.room_for(x)."
            )
        if not agree(memory.length.shape, x.shape[:1]):
            raise ValueError(
                f"`memory` of a step of {name} must have one row for each row of `x`. Received: "
                f"{memory.length.shape[0]} rows, x of shape {tuple(x.shape)}. Repeat each tensor "
                "of the memory with keras.ops.repeat."
            )
        lengths = known_values(memory.length) if isinstance(start, Integral) else None
        if lengths is not None and (lengths != start).any():
            raise ValueError(
                f"`start` of a step of {name} must be the number of positions in the memory, since "
                f"nothing can be taken out of a sum. Received: start={start}, a memory of "
                f"{', '.join(map(str, sorted(set(lengths.tolist()))))} positions. To go back, keep "
                "the memory of an earlier step."
            )
