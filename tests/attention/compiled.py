"""Compilation on the current Keras backend."""

import keras
from keras import ops


def compiled(function, jit_compile=True):
    """Returns a function of arrays compiled by XLA, or unchanged if Keras runs on PyTorch.

    With `jit_compile=False`, TensorFlow builds a graph, as `fit` does by default.
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=jit_compile, autograph=False)
    return lambda *arrays: function(*map(ops.convert_to_tensor, arrays))
