"""Gradients on whatever backend Keras runs."""

import keras
from keras import ops


def gradients(function, *inputs):
    """Returns the gradients of the sum of a function's output by each of its inputs."""
    inputs = [ops.convert_to_tensor(each) for each in inputs]

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
    return tape.gradient(loss, inputs, unconnected_gradients="zero")


def layer_gradients(layer, *inputs, direction=1.0, **arguments):
    """Returns the gradients of the sum of a built layer's output times `direction`.

    Returns:
        `(by_inputs, by_weights)`: a list, and a dictionary with the path of the weight.
    """
    variables = layer.trainable_variables
    frozen = [variable.value for variable in layer.non_trainable_variables]

    def call(*arrays):
        inputs_now, weights = arrays[: len(inputs)], arrays[len(inputs) :]
        outputs, _ = layer.stateless_call(weights, frozen, *inputs_now, **arguments)
        return outputs * direction

    found = gradients(call, *inputs, *(variable.value for variable in variables))
    paths = [variable.path for variable in variables]
    return found[: len(inputs)], dict(zip(paths, found[len(inputs) :], strict=True))


def weight_gradients(layer, *inputs, **arguments):
    """Returns the gradients of the sum of a built layer's output, by the path of the weight."""
    return layer_gradients(layer, *inputs, **arguments)[1]
