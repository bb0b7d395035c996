"""What a layer that holds one of Keras' RNN cells does with it."""

import contextlib

import keras
from keras import ops

from keras_attention._backend import shape_of


def get_cell(cell):
    """Returns the cell that the argument `cell` of `AttentionCell` describes.

    Raises:
        ValueError: If it is not one RNN cell.
    """
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


def initial_states(cell, state, owner):
    """Returns all states of a cell, given the first of them or a list of all.

    Args:
        cell: The cell.
        state: Tensor `(batch, cell.units)`, or a list of them. Missing states are zeros.
        owner: Name of the layer that holds the cell, for error messages.

    Raises:
        ValueError: If a state has the wrong shape, or their number is wrong.
    """
    states = list(state) if isinstance(state, (list, tuple)) else [state]
    for each in states:
        _require_fitting_state(cell, each, owner)
    batch = shape_of(states[0])[0]
    zeros = keras.tree.flatten(cell.get_initial_state(batch_size=batch))
    if len(states) not in (1, len(zeros)):
        raise ValueError(
            f"A {type(cell).__name__} has {len(zeros)} states. Received: {len(states)} "
            f"initial states for the layer {owner!r}. Pass only the first or all of them."
        )
    return states + zeros[len(states) :]


def _require_fitting_state(cell, state, owner):
    if len(state.shape) != 2 or state.shape[1] not in (None, cell.units):
        raise ValueError(
            f"The initial state of the layer {owner!r} must have the shape (batch, {cell.units}), "
            f"which its {type(cell).__name__} needs. Received: shape {tuple(state.shape)}. "
            f"Project it first with keras.layers.Dense({cell.units})."
        )


def move(cell, inputs, states, training):
    """Takes a step of a cell: returns its output and the list of its states.

    Args:
        cell: The cell.
        inputs: List of tensors `(batch, …)`, which are joined.
        states: List of all states of the cell.
        training: Whether to apply dropout.
    """
    inputs = ops.concatenate(inputs, axis=-1)
    with contextlib.nullcontext() if training else _without_draws(cell):
        hidden, states = cell(inputs, states, training=training)
    return hidden, keras.tree.flatten(states)


@contextlib.contextmanager
def _without_draws(cell):
    """Keeps a cell from drawing dropout masks.

    `SimpleRNNCell` draws them even where it does not use them: in a loop that JAX traces, from
    which the state of its seed cannot be assigned.
    """
    names = [name for name in ("dropout", "recurrent_dropout") if getattr(cell, name, 0)]
    rates = [getattr(cell, name) for name in names]
    try:
        for name in names:
            setattr(cell, name, 0.0)
        yield
    finally:
        for name, rate in zip(names, rates, strict=True):
            setattr(cell, name, rate)


def draw_dropout(cell, batch, input_size, dtype):
    """Draws the dropout masks of a cell, which Keras' cells keep for a whole sequence."""
    if hasattr(cell, "get_dropout_mask"):
        cell.get_dropout_mask(ops.ones((batch, input_size), dtype))
        cell.get_recurrent_dropout_mask(ops.ones((batch, cell.units), dtype))


def forget_dropout(cell):
    """Clears the dropout masks of a cell, so that the next sequence gets new ones."""
    if hasattr(cell, "reset_dropout_mask"):
        cell.reset_dropout_mask()
        cell.reset_recurrent_dropout_mask()
