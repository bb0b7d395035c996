"""A recurrent decoder with attention, run over a whole sequence at once."""

from typing import Any

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import agree
from keras_attention._layer import ChecksArguments, padding_mask
from keras_attention._registry import serialize
from keras_attention.recurrent_cell import AttentionCell


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionRNN(ChecksArguments, keras.layers.Layer):
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
        inputs_mask: Boolean `(batch, length)`: `False` for padding, which does not change the
            state. Both masks are combined with Keras' implicit masks.

    Output shape:
        `(batch, length, output_size)`; with `return_attention_scores` also the weights
        `(batch, length, memory_length)`, with any axis of heads after the batch.

    Raises:
        ValueError: If `cell` is not an `AttentionCell`, inputs or memory are not of rank 3, their
            batch sizes differ, or a mask has the wrong shape.

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
        inputs_mask=None,
    ):
        self._require_sequences(inputs.shape, memory.shape)
        mask = padding_mask("AttentionRNN", "inputs_mask", inputs_mask, inputs)
        prepared = self.cell.prepare(memory, memory_mask)
        if initial_state is None:
            initial_state = ops.zeros((shape_of(inputs)[0], self.cell.cell.units), inputs.dtype)

        # JAX traces a loop only once: a seed that the attention draws from in a step is passed to
        # the next step as part of the state, and assigned again after the loop.
        seeds = self._seeds() if training else []

        def step(carry, x):
            _, _, before, drawn_from = carry
            _assign(seeds, drawn_from)
            if mask is not None:
                x, is_visible = x[:, :-1], x[:, -1] > 0
            output, states, weights = self.cell(x, before, prepared, training=training)
            if mask is not None:
                states = [_kept(is_visible, *pair) for pair in zip(before, states, strict=True)]
            carry = [output, weights, states, _values(seeds)]
            return carry, carry  # Keras requires the same structure

        states = self.cell.initial_state(initial_state, prepared)
        self._require_one_batch(inputs=inputs, memory=memory, initial_state=states[0])
        if training:
            self.cell.draw_dropout(shape_of(inputs)[0])
        if mask is not None:  # the gradient of a NaN would be NaN
            inputs = ops.where(mask[..., None], inputs, ops.cast(0, inputs.dtype))
            # As another number of each input: Keras scans a single array if its length is unknown.
            inputs = ops.concatenate([inputs, ops.cast(mask[..., None], inputs.dtype)], axis=-1)
        inputs = ops.swapaxes(inputs, 0, 1)  # (length, batch, input_size)
        # Zeros in the shape of a step's output and weights, to start the scan with.
        batch = shape_of(states[0])[0]
        output = ops.zeros((batch, self.cell.output_size), self.compute_dtype)
        weights = self.cell._zero_weights(batch, prepared)
        first = [output, weights, states, _values(seeds)]
        if inputs.shape[0] == 0:  # on PyTorch, Keras cannot scan nothing
            history = [ops.zeros((0, *shape_of(x)), x.dtype) for x in (output, weights)]
        else:
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
        return {**super().get_config(), "cell": serialize(self.cell)}


def _kept(is_visible, before, state):
    """Returns the new state of rows whose input is visible `(batch,)`, the one before of others."""
    is_new = ops.reshape(is_visible, (-1, *[1] * (len(state.shape) - 1)))
    return ops.where(is_new, state, before)


def _values(variables):
    return [ops.convert_to_tensor(each) for each in variables]


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
