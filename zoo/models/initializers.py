"""The initializer of recurrent kernels."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="zoo")
class Orthogonal(keras.initializers.Orthogonal):
    """Keras' orthogonal matrices, in any dtype.

    They are drawn in float32: TensorFlow has no QR decomposition of bfloat16.
    """

    def __call__(self, shape, dtype=None):
        return ops.cast(super().__call__(shape, "float32"), dtype or keras.config.floatx())
