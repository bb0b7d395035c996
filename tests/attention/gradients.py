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

    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = total(*inputs)
    return tape.gradient(loss, inputs, unconnected_gradients="zero")


def weight_gradients(layer, *inputs, **arguments):
    """Returns the gradients of the sum of a built layer's output, by the path of the weight."""
    frozen = [variable.value for variable in layer.non_trainable_variables]

    def call(*weights):
        outputs, _ = layer.stateless_call(weights, frozen, *inputs, **arguments)
        return outputs

    variables = layer.trainable_variables
    found = gradients(call, *(variable.value for variable in variables))
    return {variable.path: each for variable, each in zip(variables, found, strict=True)}
