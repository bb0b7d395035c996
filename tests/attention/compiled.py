"""Compilation on whatever backend Keras runs."""

import keras
from keras import ops


def compiled(function):
    """Returns a function of arrays compiled by XLA, or as it is where Keras runs PyTorch."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True, autograph=False)
    return lambda *arrays: function(*map(ops.convert_to_tensor, arrays))
