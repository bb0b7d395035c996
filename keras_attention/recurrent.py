"""Attention inside a recurrent decoder: at each step, the decoder attends to the whole source."""

from typing import Any

import keras
from keras import ops

from keras_attention._checks import agree, require_one_of, require_positive_integers_or_none
from keras_attention._layer import ChecksMasks, require_built
from keras_attention.attention import memory_attention
from keras_attention.coverage import get_coverage
from keras_attention.multi_head import MultiHeadAttention

ORDERS = ("bahdanau", "conditional", "luong")


def _get_cell(cell):
    """Returns the cell that the argument of `AttentionCell` describes."""
    received = cell
    if isinstance(cell, dict):
        cell = keras.saving.deserialize_keras_object(cell)
    if not _is_cell(cell):
        raise ValueError(
            "`cell` of AttentionCell must be one Keras RNN cell, such as "
            f"keras.layers.GRUCell(512) or LSTMCell. Received: {received!r}. For a layer such as "
            "GRU, pass the cell instead; stacked cells are not supported."
        )
    return cell


def _is_cell(cell):
    """Whether it is an RNN cell of one size, not a layer over sequences or a stack of cells."""
    one_size = hasattr(cell, "get_initial_state") and hasattr(cell, "units")
    return one_size and not isinstance(cell, keras.layers.RNN)


def _values(variables):
    return [ops.convert_to_tensor(each) for each in variables]


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionCell(keras.layers.Layer):
    """One step of a recurrent decoder that attends to a memory.

    `order="bahdanau"` attends first and then updates the state:

    $$ c_t = attend(s_{t-1}, h), \\quad s_t = RNN(s_{t-1}, [x_t; c_t]), \\quad o_t = [s_t; c_t] $$

    `order="luong"` updates the state first and then attends, with input feeding:

    $$ s_t = RNN(s_{t-1}, [x_t; o_{t-1}]), \\quad a_t = attend(s_t, h), \\quad
       o_t = \\tanh(W [a_t; s_t]) $$

    `order="conditional"` updates the state, attends, and updates again with a second such cell:

    $$ s'_t = RNN(s_{t-1}, x_t), \\quad c_t = attend(s'_t, h), \\quad s_t = RNN_2(s'_t, c_t), \\quad
       o_t = [s_t; c_t] $$

    Papers: Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473); Luong et al. 2015, sections 3
    and 3.3 (https://aclanthology.org/D15-1166); Sennrich et al. 2017, section 2 and figure 1
    (https://aclanthology.org/E17-3017), for the conditional order.

    With `gated=True`, a gate computed from the query state `s` scales the context:

    $$ β = σ(w^⊤ s + b), \\quad c_t = β \\, attend(s, h) $$

    Paper: Xu et al. 2015, section 4.2.1 (https://arxiv.org/abs/1502.03044).

    With `coverage`, the keys of the memory depend on the attention weights of the earlier steps,
    see `Coverage`.

    The memory is prepared once per source: `memory = cell.prepare(encoded, mask)`. The state is a
    list of tensors with the batch as the first axis, so that beam search can reorder it. With
    `coverage`, its last tensors are the earlier weights.

    Args:
        cell: A Keras RNN cell, such as `keras.layers.GRUCell(512)` or `LSTMCell`. Its first state
            is the query.
        attention: An `Attention` or `MultiHeadAttention` layer, or the name of a score. Steps are
            not counted: for its mask and its position, the query is always at the last key.
        order: `"bahdanau"`, `"conditional"` or `"luong"`.
        units: Size of the output `o_t` with `order="luong"`. Defaults to the size of the cell. The
            other orders have no such projection.
        gated: Whether to scale the context by the gate β.
        coverage: A `Coverage` layer, which says which scores it works with, or `None`.

    Call arguments:
        inputs: Tensor `(batch, input_size)`, such as the embedded previous token.
        states: List of tensors, from `initial_state` or the previous step.
        memory: What `prepare` returned.
        training: Whether to apply dropout.

    Returns:
        `(output, states, weights)`: output `(batch, output_size)` and weights `(batch, …,
        memory_length)`, with an axis of heads in between for multi-head attention.

    Raises:
        ValueError: If the order is unknown, `units` is given for another order, `cell` is not an
            RNN cell, `attention` is neither a name nor such a layer, `coverage` is not a `Coverage`
            or does not fit the attention, or a state has the wrong shape.

    Example:

    >>> cell = AttentionCell(keras.layers.GRUCell(8), attention="additive")
    >>> encoded, inputs = np.ones((2, 5, 6)), np.ones((2, 4))
    >>> cell.build(inputs.shape, encoded.shape)
    >>> memory = cell.prepare(encoded)
    >>> output, states, weights = cell(inputs, cell.initial_state(np.zeros((2, 8))), memory)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 14), (2, 5))
    """

    def __init__(
        self,
        cell: Any,
        attention: Any = "additive",
        order: str = "bahdanau",
        units: int | None = None,
        gated: bool = False,
        coverage: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_one_of("AttentionCell", ORDERS, order=order)
        if order != "luong" and units is not None:
            raise ValueError(
                f"`units` is the size of the projection W of order='luong'; order={order!r} has "
                f"none. Received: units={units}. Omit it."
            )
        require_positive_integers_or_none("AttentionCell", units=units)
        self.supports_masking = True
        self.cell = _get_cell(cell)
        self.attention = memory_attention("AttentionCell", attention, self.dtype_policy)
        self.coverage = get_coverage(coverage, self.attention)
        if self.coverage is not None:
            # Keras would cast the sum of the weights to half precision, where it stops growing.
            self.autocast = False
        self.order = order
        self.units = units
        self.gated = gated
        if gated:
            self.gate = keras.layers.Dense(
                1, activation="sigmoid", dtype=self.dtype_policy, name="gate"
            )
        if order == "conditional":
            config = {**self.cell.get_config(), "name": "second_cell"}
            self.second_cell = type(self.cell).from_config(config)
        if order == "luong":
            self.combine = keras.layers.Dense(
                units or self.cell.units,
                activation="tanh",
                use_bias=False,
                dtype=self.dtype_policy,
                name="combine",
            )

    def build(self, inputs_shape, memory_shape):
        """Creates the weights.

        Args:
            inputs_shape: Shape of the inputs of one step, `(batch, input_size)`.
            memory_shape: Shape of the memory, `(batch, memory_length, memory_size)`.
        """
        batch, input_size = inputs_shape
        query_shape = (batch, 1, self.cell.units)
        if not self.attention.built:  # already built if loaded from a file or shared
            self.attention.build(query_shape, memory_shape)
        if self.coverage is not None and not self.coverage.built:
            any_memory = ops.zeros((1, 1, memory_shape[-1]), self.compute_dtype)
            self.coverage.build(self._keys(self.attention.prepare(any_memory)).shape)
        context_size = self._context_size(memory_shape)
        self.output_size = self._output_size(memory_shape)
        if self.order == "luong":
            self.combine.build((batch, self.cell.units + context_size))
        self.cell_input_sizes = {
            "bahdanau": [input_size + context_size],
            "conditional": [input_size, context_size],
            "luong": [input_size + self.output_size],
        }[self.order]
        for cell, size in zip(self.cells, self.cell_input_sizes, strict=True):
            if not cell.built:
                cell.build((batch, size))
        if self.gated:
            self.gate.build((batch, self.cell.units))

    def _output_size(self, memory_shape):
        """Returns the size of the output `o_t` for a memory of this shape."""
        if self.order == "luong":
            return self.combine.units
        return self.cell.units + self._context_size(memory_shape)

    def _context_size(self, memory_shape):
        query_shape = (memory_shape[0], 1, self.cell.units)
        return self.attention.compute_output_shape(query_shape, memory_shape)[-1]

    @property
    def cells(self):
        """The RNN cells of a step: two with `order="conditional"`, otherwise one."""
        return [self.cell, self.second_cell] if self.order == "conditional" else [self.cell]

    def prepare(self, memory, mask=None):
        """Prepares the source for all steps: projects its keys once and applies the mask."""
        require_built(self, "inputs_shape, memory_shape")
        return self.attention.prepare(memory, value_mask=mask)

    def initial_state(self, state, memory=None):
        """Returns the state before the first step.

        A cell with dropout draws a new dropout mask for the sequence that begins here.

        Args:
            state: Tensor `(batch, cell.units)`, the first state of the cell; its other states (the
                memory cell of an LSTM) are then zeros. Or a list of all its states. The output that
                is fed back starts as zeros.
            memory: What `prepare` returned. Required with `coverage`: the earlier weights, which
                start as zeros, are part of the state.
        """
        require_built(self, "inputs_shape, memory_shape")
        states = list(state) if isinstance(state, (list, tuple)) else [state]
        for each in states:
            self._require_fitting_state(each)
        self.forget_dropout()
        batch = ops.shape(states[0])[0]
        zeros = keras.tree.flatten(self.cell.get_initial_state(batch_size=batch))
        if len(states) not in (1, len(zeros)):
            raise ValueError(
                f"A {type(self.cell).__name__} has {len(zeros)} states. Received: {len(states)} "
                f"initial states for the layer {self.name!r}. Pass only the first or all of them."
            )
        states += zeros[len(states) :]
        if self.order == "luong":
            states.append(ops.zeros((batch, self.output_size), self.compute_dtype))
        states = [ops.cast(each, self.compute_dtype) for each in states]
        if self.coverage is not None:
            states += self._initial_history(batch, memory)
        return states

    def _initial_history(self, batch, memory):
        if memory is None:
            raise ValueError(
                f"`memory` is required for the initial state of the layer {self.name!r}: with "
                "coverage, the state holds weights of all keys. Received: memory=None. Pass "
                "memory = cell.prepare(encoded) to cell.initial_state(state, memory)."
            )
        self.attention._require_memory(memory)
        return self.coverage.initial_history(self._zero_weights(batch, memory))

    def _zero_weights(self, batch, memory):
        """Returns zeros in the shape of the weights of a step."""
        has_heads = len(memory.key.shape) == 4  # queries may have more heads than keys
        heads = (self.attention.num_heads,) if has_heads else ()
        return ops.zeros((batch, *heads, ops.shape(memory.key)[-2]), "float32")

    def _require_fitting_state(self, state):
        if len(state.shape) != 2 or state.shape[1] not in (None, self.cell.units):
            raise ValueError(
                f"The initial state of the layer {self.name!r} must have the shape (batch, "
                f"{self.cell.units}), which its {type(self.cell).__name__} needs. Received: shape "
                f"{tuple(state.shape)}. Project it first with "
                f"keras.layers.Dense({self.cell.units})."
            )

    def call(self, inputs, states, memory, training=None):
        if self.coverage is None:
            return self._step(inputs, states, memory, training)
        self.attention._require_memory(memory)
        first = len(states) - self.coverage.history_length
        history = states[first:]
        inputs, value, *states = (
            ops.cast(x, self.compute_dtype) for x in (inputs, memory.value, *states[:first])
        )
        memory = memory._replace(key=self.coverage(self._keys(memory), history), value=value)
        output, states, weights = self._step(inputs, states, memory, training)
        return output, [*states, *self.coverage.next_history(history, weights)], weights

    def _keys(self, memory):
        """Returns the prepared keys, separate for each head even if several share them."""
        if isinstance(self.attention, MultiHeadAttention):
            return self.attention._for_each_head(memory.key)
        return memory.key

    def _step(self, inputs, states, memory, training):
        if self.order == "luong":
            *states, fed_back = states
            hidden, states = self._move(self.cell, [inputs, fed_back], states, training)
            context, weights = self._look(hidden, memory, training)
            output = self.combine(ops.concatenate([context, hidden], axis=-1))
            return output, [*states, output], weights
        if self.order == "conditional":
            between, states = self._move(self.cell, [inputs], states, training)
            context, weights = self._look(between, memory, training)
            hidden, states = self._move(self.second_cell, [context], states, training)
        else:
            context, weights = self._look(states[0], memory, training)
            hidden, states = self._move(self.cell, [inputs, context], states, training)
        return ops.concatenate([hidden, context], axis=-1), states, weights

    def draw_dropout(self, batch):
        """Draws the dropout masks of the cells, which Keras' cells keep for a whole sequence.

        Otherwise they are drawn in the first step: too late if that is traced, as in a scan.
        """
        for cell, size in zip(self.cells, self.cell_input_sizes, strict=True):
            if hasattr(cell, "get_dropout_mask"):
                cell.get_dropout_mask(ops.ones((batch, size), self.compute_dtype))
                state = ops.ones((batch, cell.units), self.compute_dtype)
                cell.get_recurrent_dropout_mask(state)

    def forget_dropout(self):
        """Clears the dropout masks of the cells, so that the next sequence gets new ones."""
        for cell in self.cells:
            if hasattr(cell, "reset_dropout_mask"):
                cell.reset_dropout_mask()
                cell.reset_recurrent_dropout_mask()

    def _look(self, query, memory, training):
        # Gradients of these are reshapes; gradients of slices would fill tensors with zeros.
        query = ops.expand_dims(query, axis=1)
        context, weights = self.attention.attend(query, memory, training=training)
        context = ops.squeeze(context, axis=1)  # (batch, value_size)
        if self.gated:
            context = self.gate(ops.squeeze(query, axis=1)) * context
        return context, ops.squeeze(weights, axis=-2)

    def _move(self, cell, inputs, states, training):
        inputs = ops.concatenate(inputs, axis=-1)
        hidden, states = cell(inputs, states, training=training)
        return hidden, keras.tree.flatten(states)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "cell": serialize(self.cell),
            "attention": serialize(self.attention),
            "order": self.order,
            "units": self.units,
            "gated": self.gated,
            "coverage": None if self.coverage is None else serialize(self.coverage),
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionRNN(ChecksMasks, keras.layers.Layer):
    """Runs an `AttentionCell` over a whole sequence of inputs, as for teacher forcing.

    Args:
        cell: An `AttentionCell`.

    Call arguments:
        inputs: Tensor `(batch, length, input_size)`.
        memory: Tensor `(batch, memory_length, memory_size)`: the encoded source.
        initial_state: Tensor `(batch, cell.cell.units)`, or a list of all states of the cell, as
            for `AttentionCell.initial_state`. Defaults to zeros.
        memory_mask: Boolean `(batch, memory_length)`: `False` for padding.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether to apply dropout.

    Output shape:
        `(batch, length, output_size)`; with `return_attention_scores` also the weights
        `(batch, length, memory_length)`, with any axis of heads after the batch.

    Raises:
        ValueError: If `cell` is not an `AttentionCell`, inputs or memory are not of rank 3, or
            their batch sizes differ.

    Example:

    >>> layer = AttentionRNN(AttentionCell(keras.layers.LSTMCell(8), "general", order="luong"))
    >>> outputs, weights = layer(
    ...     np.ones((2, 3, 4)), np.ones((2, 5, 6)), return_attention_scores=True)
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((2, 3, 8), (2, 3, 5))
    """

    def __init__(self, cell: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        # On TensorFlow, XLA cannot differentiate a loop of unknown length, such as `ops.scan`.
        self.supports_jit = keras.backend.backend() != "tensorflow"
        self.cell = keras.saving.deserialize_keras_object(cell) if isinstance(cell, dict) else cell
        if not isinstance(self.cell, AttentionCell):
            raise ValueError(
                f"`cell` of AttentionRNN must be an AttentionCell. Received: {cell!r}. "
                "Wrap an RNN cell in AttentionCell(cell, attention)."
            )

    def build(self, inputs_shape, memory_shape):
        self._require_sequences(inputs_shape, memory_shape)
        batch, _, input_size = inputs_shape
        if not self.cell.built:
            self.cell.build((batch, input_size), memory_shape)

    def call(
        self,
        inputs,
        memory,
        initial_state=None,
        memory_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        self._require_sequences(inputs.shape, memory.shape)
        prepared = self.cell.prepare(memory, memory_mask)
        if initial_state is None:
            initial_state = ops.zeros((ops.shape(inputs)[0], self.cell.cell.units), inputs.dtype)

        # JAX traces a loop only once: a seed that the attention draws from in a step is passed to
        # the next step as part of the state, and assigned again after the loop.
        seeds = self._seeds() if training else []

        def step(carry, x):
            _, _, states, drawn_from = carry
            _assign(seeds, drawn_from)
            output, states, weights = self.cell(x, states, prepared, training=training)
            carry = [output, weights, states, _values(seeds)]
            return carry, carry  # Keras requires the same structure

        states = self.cell.initial_state(initial_state, prepared)
        self._require_one_batch(inputs=inputs, memory=memory, initial_state=states[0])
        if training:
            self.cell.draw_dropout(ops.shape(inputs)[0])
        inputs = ops.swapaxes(inputs, 0, 1)  # (length, batch, input_size)
        # Zeros in the shape of a step's output and weights, to start the scan with.
        batch = ops.shape(states[0])[0]
        output = ops.zeros((batch, self.cell.output_size), self.compute_dtype)
        weights = self.cell._zero_weights(batch, prepared)
        first = [output, weights, states, _values(seeds)]
        last, history = ops.scan(step, first, inputs)
        _assign(seeds, last[-1])
        self.cell.forget_dropout()
        outputs = ops.swapaxes(history[0], 0, 1)  # (batch, length, output_size)
        if not return_attention_scores:
            return outputs
        return outputs, ops.moveaxis(history[1], 0, -2)  # (batch, *heads, length, memory_length)

    def compute_output_shape(self, inputs_shape, memory_shape):
        """Returns the shape of the outputs, without that of the weights."""
        self._require_sequences(inputs_shape, memory_shape)
        return (*inputs_shape[:2], self.cell._output_size(memory_shape))

    def compute_output_spec(self, *args, **kwargs):
        # The spec of what `call` returns, including the weights. `keras.layers.Layer` would use
        # `compute_output_shape`.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def _require_sequences(self, inputs_shape, memory_shape):
        if len(inputs_shape) != 3 or len(memory_shape) != 3:
            raise ValueError(
                "AttentionRNN needs inputs of shape (batch, length, input_size) and memory of "
                f"shape (batch, memory_length, memory_size). Received: inputs "
                f"{tuple(inputs_shape)}, memory {tuple(memory_shape)}. For a single step, call its "
                "AttentionCell."
            )

    def _require_one_batch(self, **tensors):
        shapes = [tensor.shape[:1] for tensor in tensors.values()]
        if not all(agree(shape, shapes[0]) for shape in shapes):
            received = ", ".join(f"{name} {tuple(each.shape)}" for name, each in tensors.items())
            raise ValueError(
                "AttentionRNN needs inputs, memory and initial state of the same batch size. "
                f"Received: {received}. Repeat the smaller one with keras.ops.repeat."
            )

    def _seeds(self):
        """Returns the states of all seed generators."""
        weights = {id(weight) for weight in self.cell.weights}
        return [each for each in self.cell.variables if id(each) not in weights]

    def get_config(self):
        return {**super().get_config(), "cell": keras.saving.serialize_keras_object(self.cell)}
