"""Attention inside a recurrent decoder: at each step, the decoder attends to the whole source."""

from typing import Any

import keras
from keras import ops

from keras_attention import _rnn_cells
from keras_attention._backend import shape_of
from keras_attention._checks import require_one_of, require_positive_integers_or_none
from keras_attention._dense import Dense
from keras_attention._layer import require_built
from keras_attention._registry import serialize
from keras_attention.alignments._argument import get_alignment
from keras_attention.attention import memory_attention
from keras_attention.coverage import get_coverage
from keras_attention.gaussian_mixture import GaussianMixtureAttention
from keras_attention.multi_head import MultiHeadAttention

ORDERS = ("bahdanau", "conditional", "luong")


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
    see `Coverage`. With `alignment`, the weights themselves follow those of the step before: they
    only move forward, as speech does through a text, see `keras_attention.alignments`. So do the
    places of a `GaussianMixtureAttention`.

    The memory is prepared once per source: `memory = cell.prepare(encoded, mask)`. The state is a
    list of tensors with the batch as the first axis, so that beam search can reorder it. With
    `coverage` or `alignment`, its last tensors are the earlier weights; with a
    `GaussianMixtureAttention`, its last tensor holds the places of the Gaussians.

    Args:
        cell: A Keras RNN cell, such as `keras.layers.GRUCell(512)` or `LSTMCell`. Its first state
            is the query.
        attention: An `Attention`, `MultiHeadAttention` or `GaussianMixtureAttention` layer, or the
            name of a score. Steps are not counted: for its mask and its position, the query is
            always at the last key.
        order: `"bahdanau"`, `"conditional"` or `"luong"`.
        units: Size of the output `o_t` with `order="luong"`. Defaults to the size of the cell. The
            other orders have no such projection.
        gated: Whether to scale the context by the gate β.
        coverage: A `Coverage` layer, which says which scores it works with, or `None`.
        alignment: `"monotonic"`, `"stepwise"`, `"forward"`, an object of
            `keras_attention.alignments`, its config, or `None`. It takes the place of the
            normalizer of the attention, which must be softmax.

    Call arguments:
        inputs: Tensor `(batch, input_size)`, such as the embedded previous token.
        states: List of tensors, from `initial_state` or the previous step.
        memory: What `prepare` returned.
        training: Whether to apply dropout and the noise of an alignment.

    Returns:
        `(output, states, weights)`: output `(batch, output_size)` and weights `(batch, …,
        memory_length)`, with an axis of heads in between for multi-head attention.

    Raises:
        ValueError: If the order is unknown, `units` is given for another order, `cell` is not an
            RNN cell, `attention` is neither a name nor such a layer, `coverage` or `alignment` is
            none or does not fit the attention, or a state has the wrong shape.

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
        alignment: Any = None,
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
        self.cell = _rnn_cells.get_cell(cell)
        self.attention = memory_attention("AttentionCell", attention, self.dtype_policy)
        self.coverage = get_coverage(coverage, self.attention)
        self.alignment = get_alignment(alignment, self.attention)
        self.has_places = isinstance(self.attention, GaussianMixtureAttention)
        if self._history_length:
            # Keras would cast the sum of the weights to half precision, where it stops growing.
            self.autocast = False
        self.order = order
        self.units = units
        self.gated = gated
        if gated:
            self.gate = Dense(1, activation="sigmoid", dtype=self.dtype_policy, name="gate")
        if order == "conditional":
            config = {**self.cell.get_config(), "name": "second_cell"}
            self.second_cell = type(self.cell).from_config(config)
        if order == "luong":
            self.combine = Dense(
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
        if self.coverage is not None or self.alignment is not None:
            self._build_history(memory_shape[-1])
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

    def _build_history(self, memory_size):
        """Builds the layers that depend on earlier weights."""
        memory = self.attention.prepare(ops.zeros((1, 1, memory_size), self.compute_dtype))
        if self.coverage is not None and not self.coverage.built:
            self.coverage.build(self._keys(memory).shape)
        if self.alignment is not None and not self.alignment.built:
            self.alignment.build((*self._zero_weights(1, memory).shape, 1))  # (1, *heads, 1, 1)

    def _output_size(self, memory_shape):
        """Returns the size of the output `o_t` for a memory of this shape."""
        if self.order == "luong":
            return self.combine.units
        return self.cell.units + self._context_size(memory_shape)

    def _context_size(self, memory_shape):
        query_shape = (memory_shape[0], 1, self.cell.units)
        shape = self.attention.compute_output_shape(query_shape, memory_shape)
        if len(shape) != 3:
            raise ValueError(
                "`attention` of AttentionCell must return vectors, which a step joins with others. "
                f"Received: the layer {self.attention.name!r} with outputs of shape {shape}. Give "
                "it a single size: `output_dim`, or no `output_shape`."
            )
        return shape[-1]

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
            memory: What `prepare` returned. Required with `coverage` and `alignment`: the earlier
                weights are part of the state. They start as zeros for the coverage, and on the
                first key for the alignment.
        """
        require_built(self, "inputs_shape, memory_shape")
        states = _rnn_cells.initial_states(self.cell, state, self.name)
        self.forget_dropout()
        batch = shape_of(states[0])[0]
        if self.order == "luong":
            states.append(ops.zeros((batch, self.output_size), self.compute_dtype))
        states = [ops.cast(each, self.compute_dtype) for each in states]
        if self._history_length:
            states += self._initial_history(batch, memory)
        return states

    @property
    def _history_length(self):
        """Number of tensors in the state that hold earlier weights or places."""
        of_coverage = 0 if self.coverage is None else self.coverage.history_length
        return of_coverage + (self.alignment is not None) + self.has_places

    def _initial_history(self, batch, memory):
        if self.has_places:
            return [self.attention.initial_places(batch)]
        if memory is None:
            raise ValueError(
                f"`memory` is required for the initial state of the layer {self.name!r}: with "
                "coverage or an alignment, the state holds weights of all keys. Received: "
                "memory=None. Pass memory = cell.prepare(encoded) to "
                "cell.initial_state(state, memory)."
            )
        self.attention._require_memory(memory)
        zeros, history = self._zero_weights(batch, memory), []
        if self.coverage is not None:
            history += self.coverage.initial_history(zeros)
        if self.alignment is not None:
            history += [self.alignment.initial_weights(zeros, memory.mask)]
        return history

    def _zero_weights(self, batch, memory):
        """Returns zeros in the shape of the weights of a step."""
        has_heads = len(memory.key.shape) == 4  # queries may have more heads than keys
        heads = (self.attention.num_heads,) if has_heads else ()
        return ops.zeros((batch, *heads, shape_of(memory.key)[-2]), "float32")

    def call(self, inputs, states, memory, training=None):
        if not self._history_length:
            return self._step(inputs, states, memory, {}, training)[:3]
        self.attention._require_memory(memory)
        first, options = len(states) - self._history_length, {}
        states, history = states[:first], states[first:]
        inputs, value, *states = (
            ops.cast(x, self.compute_dtype) for x in (inputs, memory.value, *states)
        )
        memory = memory._replace(value=value)
        if self.alignment is not None:
            *history, previous = history
            options = {"normalizer": self.alignment.after(previous)}
        if self.coverage is not None:
            memory = memory._replace(key=self.coverage(self._keys(memory), history))
        if self.has_places:
            options = {"places": history[0]}
        output, states, weights, query = self._step(inputs, states, memory, options, training)
        if self.has_places:
            query = ops.expand_dims(query, axis=1)
            states = [*states, self.attention.places_after(query, history[0])]
        if self.coverage is not None:
            states = [*states, *self.coverage.next_history(history, weights)]
        if self.alignment is not None:
            states = [*states, weights]
        return output, states, weights

    def _keys(self, memory):
        """Returns the prepared keys, separate for each head even if several share them."""
        if isinstance(self.attention, MultiHeadAttention):
            return self.attention._for_each_head(memory.key)
        return memory.key

    def _step(self, inputs, states, memory, options, training):
        """Returns the output, the states without the history, the weights, and the query."""
        if self.order == "luong":
            *states, fed_back = states
            query, states = _rnn_cells.move(self.cell, [inputs, fed_back], states, training)
            context, weights = self._look(query, memory, options, training)
            output = self.combine(ops.concatenate([context, query], axis=-1))
            return output, [*states, output], weights, query
        if self.order == "conditional":
            query, states = _rnn_cells.move(self.cell, [inputs], states, training)
            context, weights = self._look(query, memory, options, training)
            hidden, states = _rnn_cells.move(self.second_cell, [context], states, training)
        else:
            query = states[0]
            context, weights = self._look(query, memory, options, training)
            hidden, states = _rnn_cells.move(self.cell, [inputs, context], states, training)
        return ops.concatenate([hidden, context], axis=-1), states, weights, query

    def draw_dropout(self, batch):
        """Draws the dropout masks of the cells, which Keras' cells keep for a whole sequence.

        Otherwise they are drawn in the first step: too late if that is traced, as in a scan.
        """
        for cell, size in zip(self.cells, self.cell_input_sizes, strict=True):
            _rnn_cells.draw_dropout(cell, batch, size, self.compute_dtype)

    def forget_dropout(self):
        """Clears the dropout masks of the cells, so that the next sequence gets new ones."""
        for cell in self.cells:
            _rnn_cells.forget_dropout(cell)

    def _look(self, query, memory, options, training):
        # Gradients of these are reshapes; gradients of slices would fill tensors with zeros.
        query = ops.expand_dims(query, axis=1)
        context, weights = self.attention.attend(query, memory, training=training, **options)
        context = ops.squeeze(context, axis=1)  # (batch, value_size)
        if self.gated:
            context = self.gate(ops.squeeze(query, axis=1)) * context
        return context, ops.squeeze(weights, axis=-2)

    def get_config(self):
        return {
            **super().get_config(),
            "cell": serialize(self.cell),
            "attention": serialize(self.attention),
            "order": self.order,
            "units": self.units,
            "gated": self.gated,
            "coverage": None if self.coverage is None else serialize(self.coverage),
            "alignment": None if self.alignment is None else serialize(self.alignment),
        }
