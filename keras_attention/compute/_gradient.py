"""The one thing that keras.ops lacks: the gradient of a function, on every backend."""

import keras


def pullback(function, *inputs):
    """Returns `function(*inputs)` and a function from its gradient to those of the inputs.

    An input on which the output does not depend gets a gradient of zeros.
    """
    return _PULLBACKS[keras.backend.backend()](function, inputs)


def _tensorflow(function, inputs):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        inputs = [tf.identity(each) for each in inputs]  # unlike those of any tape outside
        tape.watch(inputs)
        output = function(*inputs)
    return output, lambda upstream: tape.gradient(
        output, inputs, upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )


def _jax(function, inputs):
    import jax

    return jax.vjp(function, *inputs)


def _torch(function, inputs):
    import torch

    with torch.enable_grad():
        inputs = [each.detach().requires_grad_() for each in inputs]
        output = function(*inputs)

    def gradients(upstream):
        found = torch.autograd.grad(output, inputs, upstream, allow_unused=True)
        pairs = zip(found, inputs, strict=True)
        return [torch.zeros_like(of) if each is None else each for each, of in pairs]

    return output, gradients


_PULLBACKS = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
