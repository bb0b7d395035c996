"""Keras' dense layer with a small graph."""

import keras

from keras_attention._products import project


class Dense(keras.layers.Dense):
    """`keras.layers.Dense`, whose product is one of matrices.

    Keras' own multiplies sequences by `tf.tensordot`. For sizes that TensorFlow does not know that
    takes 26 operations, more than half of all in the graph of a Transformer block.
    """

    def call(self, inputs, training=None):
        x = project(inputs, self.kernel, self.bias)
        return x if self.activation is None else self.activation(x)

    def load_own_variables(self, store):
        super().load_own_variables(store)
        if self.lora_enabled:
            # Keras makes both factors of the update 0, so that neither has a gradient again.
            first = self.lora_kernel_a
            first.assign(keras.initializers.HeUniform()(first.shape, first.dtype))

    def quantize(self, mode=None, type_check=True, config=None):
        super().quantize(mode, type_check=False, config=config)  # Keras checks for its own class
