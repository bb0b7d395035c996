"""Keras' layer normalization, faster in graphs that only compute answers."""

import keras

from keras_attention._backend import layer_normalized


class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` over the last axis, with scale and offset.

    Keras' own takes 11 passes over the numbers, in TensorFlow an operation each.
    """

    def call(self, inputs):
        found = layer_normalized(inputs, self.gamma, self.beta, self.epsilon)
        return super().call(inputs) if found is None else found
