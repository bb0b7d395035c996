"""Gradients on the current Keras backend, in every form in which it runs a function."""

import keras
import numpy as np
from keras import ops

from tests.attention import oracle
from tests.attention.compiled import compiled

# Forms besides eager, with their `jit_compile`: `fit` builds a graph, which rewrites arithmetic.
FORMS = {"tensorflow": {"graph": False, "XLA": True}, "jax": {"XLA": True}, "torch": {}}
IN_EVERY_FORM = False  # whether `gradients` uses every form, as with `--full`


def gradients(function, *inputs, **checks):
    """Returns the gradients of the sum of a function's output with respect to each input.

    Args:
        function, *inputs: A function of tensors, and its inputs.
        **checks: Arguments of `gradients_in_every_form`, which is used with `--full`.
    """
    if IN_EVERY_FORM:
        return gradients_in_every_form({"gradients": (function, *inputs)}, **checks)["gradients"]
    return _gradients(function, *map(ops.convert_to_tensor, inputs))


def gradients_in_every_form(cases, tolerance=3e-5, forms=None):
    """Returns gradients of functions; fails unless eager, graph and XLA give the same ones.

    All cases are compiled as one function, as compiling takes a second even for a small one.

    Args:
        cases: Dictionary of `(function, *inputs)`.
        tolerance: Largest difference between two forms, relative to an input's largest gradient.
        forms: Names of the forms besides eager. Defaults to all that the backend has.
    """
    inputs = {name: [ops.convert_to_tensor(x) for x in case[1:]] for name, case in cases.items()}

    def find(inputs):
        return {name: list(_gradients(case[0], *inputs[name])) for name, case in cases.items()}

    expected = find(inputs)
    for form, jit_compile in FORMS[keras.backend.backend()].items():
        if forms is not None and form not in forms:
            continue
        found = compiled(find, jit_compile)(inputs)
        for name, each in expected.items():
            for place, (eager, other) in enumerate(zip(each, found[name], strict=True)):
                eager, other = oracle.float64(eager), oracle.float64(other)
                np.testing.assert_allclose(
                    other,
                    eager,
                    atol=tolerance * max(1.0, np.abs(eager).max(initial=0.0)),
                    rtol=0,
                    err_msg=f"{name}: the gradient by input {place} is another one with {form}",
                )
    return expected


def _gradients(function, *inputs):
    def total(*inputs):
        return ops.sum(ops.cast(function(*inputs), "float32"))

    if keras.backend.backend() == "jax":
        import jax

        return jax.grad(total, argnums=tuple(range(len(inputs))))(*inputs)

    if keras.backend.backend() == "torch":
        import torch

        inputs = [each.detach().clone().requires_grad_() for each in inputs]
        result = total(*inputs)
        if not result.requires_grad:
            return [torch.zeros_like(each) for each in inputs]
        found = torch.autograd.grad(result, inputs, allow_unused=True)
        pairs = zip(found, inputs, strict=True)
        return [torch.zeros_like(of) if each is None else each for each, of in pairs]

    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = total(*inputs)
    found = tape.gradient(loss, inputs, unconnected_gradients="zero")
    return [tf.convert_to_tensor(each) for each in found]  # some are `IndexedSlices`


def of_layer(layer, *inputs, direction=1.0, **arguments):
    """Returns `(function, *inputs, *weights)` for the gradients of a built layer."""
    variables = layer.trainable_variables
    frozen = [variable.value for variable in layer.non_trainable_variables]

    def call(*arrays):
        inputs_now, weights = arrays[: len(inputs)], arrays[len(inputs) :]
        outputs, _ = layer.stateless_call(weights, frozen, *inputs_now, **arguments)
        return ops.multiply(outputs, direction)

    return call, *inputs, *(variable.value for variable in variables)


def layer_gradients(layer, *inputs, tolerance=3e-5, **arguments):
    """Returns the gradients of the sum of a built layer's output times `direction`.

    Args:
        layer, *inputs, **arguments: A layer, and the inputs and arguments of its call.
        tolerance: See `gradients_in_every_form`.

    Returns:
        `(by_inputs, by_weights)`: a list, and a dictionary with the paths of the weights as keys.
    """
    forms = None if layer.supports_jit else ["graph"]
    function, *tensors = of_layer(layer, *inputs, **arguments)
    found = gradients(function, *tensors, forms=forms, tolerance=tolerance)
    paths = [variable.path for variable in layer.trainable_variables]
    return found[: len(inputs)], dict(zip(paths, found[len(inputs) :], strict=True))


def weight_gradients(layer, *inputs, **arguments):
    """Returns a dictionary of weight paths to gradients of the sum of a built layer's output."""
    return layer_gradients(layer, *inputs, **arguments)[1]
