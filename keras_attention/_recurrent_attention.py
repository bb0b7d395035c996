"""Causal self-attention that reads from a memory after each position has been written into it."""

from typing import Any, NamedTuple

from keras import ops

from keras_attention._backend import shape_of
from keras_attention._constant_memory import ConstantMemory
from keras_attention._one_sequence import WithinOneSequence
from keras_attention.compute import delta


class Written(NamedTuple):
    """What positions write into the memory and read from it, of each head."""

    query: Any  # (batch, heads, length, key_dim)
    key: Any  # (batch, heads, length, key_dim)
    value: Any  # (batch, heads, length, value_dim)
    log_decay: Any  # float32 (batch, heads, length, 1 or key_dim)
    strength: Any  # float32 (batch, heads, length), or None


class RecurrentMemory(NamedTuple):
    """What is kept of all positions so far, of a size that is constant."""

    state: Any  # what the keys are mapped to, float32 (batch, heads, key_dim, value_dim)
    recent: Any  # the last inputs of a convolution, (batch, kernel_size - 1, channels)
    length: Any  # number of positions so far, int32 (batch,)


class RecurrentAttention(ConstantMemory, WithinOneSequence):
    """Multi-head attention whose heads are recurrent networks with a matrix as their state.

    A call computes the positions of a chunk in parallel, as a step does with several positions.

    A subclass implements `_write`, and creates in `build` a `norm`, by `_build_norm`, and an
    `output_gate_projection`, which may be `None`.

    Attributes:
        recent_shape: Shape of the `recent` of a memory, without the batch.
    """

    memory_class = RecurrentMemory
    recent_shape = (0, 0)

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
        self._require_possible(key, attention_mask)
        self._require_fitting_shapes(query.shape, value.shape, value.shape)
        visible = self._visible(query, value, query_mask, value_mask, key_mask)
        query, value = self._ready(query, visible), self._ready(value, visible)
        written, _ = self._write(query, value, visible, self._no_recent(value), 0)
        context, _ = delta.attend(*written)
        output = self._read(context, query, visible)
        if not return_attention_scores:
            return output
        weights = delta.weights(written.query, written.key, *written[3:])
        return output, ops.where(visible[:, None, :, None], weights, 0.0)

    def _write(self, query, value, visible, recent, start):
        """Returns what positions write, and the new `recent`.

        Args:
            query, value: Inputs `(batch, length, size)`, zeros at hidden positions.
            visible: Boolean `(batch or 1, length)`.
            recent: That of the memory.
            start: Position of the first of them.

        Returns:
            `(written, recent)`.
        """
        raise NotImplementedError

    def _read(self, context, query, visible):
        """Returns the output for a context: normalized, gated and projected."""
        context = self.norm(ops.where(visible[:, None, :, None], context, 0.0))
        if self.output_gate_projection is not None:
            context = context * self._output_gate(query)
        return self._merge(context)

    def _output_gate(self, query):
        """Returns what each value of each head is multiplied by, float32."""
        gate = self._project(self.output_gate_projection, query, self.value_dim)
        return ops.silu(ops.cast(gate, "float32"))

    def _empty_memory(self, value):
        batch = shape_of(value)[0]
        return RecurrentMemory(
            delta.empty_state(batch, self.num_heads, self.key_dim, self.value_dim),
            self._no_recent(value),
            ops.zeros((batch,), "int32"),
        )

    def _no_recent(self, value):
        return ops.zeros((shape_of(value)[0], *self.recent_shape), self.compute_dtype)

    def _next(self, x, memory, start):
        visible = self._visible(x, x)
        x = self._ready(x, visible)
        written, recent = self._write(x, x, visible, memory.recent, start)
        context, state = delta.attend(*written, ops.cast(memory.state, "float32"))
        length = memory.length + shape_of(x)[1]
        return self._read(context, x, visible), RecurrentMemory(state, recent, length)

    def _dense_arguments(self, name):
        arguments = super()._dense_arguments(name)
        return arguments if name in self.projections else {**arguments, "use_bias": False}

    def _build_norm(self, norm):
        """Builds the normalization of the heads, which is computed in float32."""
        self.norm = norm
        norm.build((None, self.num_heads, None, self.value_dim))

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        if key is not None:
            self._refuse("key", "it writes a key and a value from each position", "Omit it")
        if attention_mask is not None:
            self._refuse(
                "attention_mask",
                "a memory holds all positions up to each query, and nothing else",
                "Hide positions with query_mask or value_mask",
            )
