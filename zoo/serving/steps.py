"""Exports a generating model as two graphs, for runtimes that take numbers only.

`start` takes the inputs of the model and returns tensors `context_0, …` and `state_0, …`. `step`
takes `tokens`, the last ones, and these tensors, and returns `logits` of the next tokens,
`next_state_0, …` and, if the model has it, `attention`. The caller picks the tokens.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from zoo.decoding.stretches import OF_MODEL


class Start(NamedTuple):
    """The start of generation.

    Attributes:
        function: Takes a batch of numbers and returns the context and the first state, as the
            model's own `start` does.
        input: `tf.TensorSpec` of that batch.
        length: Size of the second axis where shapes must be fixed; `None` if it is fixed already.
    """

    function: Callable
    input: tf.TensorSpec
    length: int | None = None

    def graphs(self, core, is_fixed=False):
        """Returns the graphs, like `start_and_step`."""
        return start_and_step(core, self, is_fixed)


def start_and_step(core, start, is_fixed=False):
    """Returns both graphs as functions of flat, named tensors.

    Args:
        core: The model of token ids.
        start: A `Start`.
        is_fixed: Whether shapes are fixed: a batch of one, and `start.length`.

    Returns:
        Dictionary of names to pairs `(function, input signature)`.
    """
    parts = {}

    def run_start(inputs):
        context, parts["state"] = start.function(inputs)
        parts["context"] = _without_weights(context)
        return {**_named("context", parts["context"]), **_named("state", parts["state"])}

    shape = [1, start.length or start.input.shape[1], *start.input.shape[2:]]
    shape = shape if is_fixed else start.input.shape
    signature = [tf.TensorSpec(shape, start.input.dtype, name=start.input.name)]
    traced = tf.function(run_start, signature, autograph=False).get_concrete_function()
    results = traced.structured_outputs.items()
    memory = {name: tf.TensorSpec(each.shape, each.dtype, name=name) for name, each in results}
    number = len(tf.nest.flatten(parts["context"]))
    order = [*_named("context", parts["context"]), *_named("state", parts["state"])]

    def run_step(tokens, *tensors):
        context = tf.nest.pack_sequence_as(parts["context"], tensors[:number])
        state = tf.nest.pack_sequence_as(parts["state"], tensors[number:])
        logits, state, attention = core.step(tokens, state, context)
        results = {"logits": logits, **_named("next_state", state)}
        return results if attention is None else {**results, "attention": attention}

    tokens = tf.TensorSpec(shape[:1], tf.int32, name="tokens")
    return {
        "start": (run_start, signature),
        "step": (run_step, [tokens, *(memory[name] for name in order)]),
    }


def _without_weights(context):
    """Returns a context without the weights prepared for steps: a graph has its own weights."""
    if not isinstance(context, dict):
        return context
    return {name: each for name, each in context.items() if name != OF_MODEL}


def _named(name, nest):
    return {f"{name}_{place}": each for place, each in enumerate(tf.nest.flatten(nest))}
