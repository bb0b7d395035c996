"""Compilation on whatever backend Keras runs."""

import keras
from keras import ops


def compiled(function, jit_compile=True):
    """Returns a function of arrays compiled by XLA, or as it is where Keras runs PyTorch.

    With `jit_compile=False`, TensorFlow makes a graph of it, as `fit` does by default.
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=jit_compile, autograph=False)
    return lambda *arrays: function(*map(ops.convert_to_tensor, arrays))
