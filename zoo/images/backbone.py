"""Pretrained convolutional networks that turn images into annotation vectors."""

import contextlib
import math
import sys
import types

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_attention._checks import require_positive_integers
from keras_attention.errors import unknown_name

NETWORKS = [name for name in dir(keras.applications) if name[0].isupper()]


@keras.saving.register_keras_serializable(package="zoo")
class Backbone(keras.layers.Layer):
    def __init__(
        self,
        name="MobileNetV2",
        layers=("out_relu",),
        image_size=224,
        weights="imagenet",
    ):
        super().__init__(dtype="float32", trainable=False)
        self.network_name = name
        self.layer_names = tuple(layers)
        self.image_size = image_size
        self.weights_name = weights
        network = self._make(None)
        shapes = [network.get_layer(layer).output.shape for layer in layers]
        self.grid = tuple(shapes[0][1:3])
        self.channels = sum(shape[-1] for shape in shapes)
        self._cell = types.SimpleNamespace(network=None)

    def _make(self, weights):
        make = getattr(keras.applications, self.network_name)
        return make(
            include_top=False, weights=weights, input_shape=(self.image_size, self.image_size, 3)
        )

    def network(self):
        if self._cell.network is None:
            with tf.init_scope():
                network = self._make(self.weights_name)
                network = keras.Model(
                    network.input, [network.get_layer(layer).output for layer in self.layer_names]
                )
                self._cell.network = _frozen(network)
        return self._cell.network

    def call(self, images):
        module = sys.modules[getattr(keras.applications, self.network_name).__module__]
        inputs = module.preprocess_input(ops.cast(images, "float32"))
        grids = self.network()(inputs)
        first = grids[0]
        return ops.reshape(first, (-1, self.grid[0] * self.grid[1], self.channels))

    def fingerprint(self):
        size = self.image_size
        rows, columns = np.meshgrid(*[np.linspace(0, 1, size)] * 2, indexing="ij")
        waves = [np.sin(9 * rows * columns), np.cos(7 * rows - 4 * columns), rows - columns]
        image = 127.5 + 127.5 * np.stack(waves, axis=-1)
        features = np.array(self(image[None].astype("float32")))[0].astype("float64").ravel()
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(8, features.size))
        return [float(f"{value:.4g}") for value in signs @ features / math.sqrt(features.size)]

    def get_config(self):
        return {
            "name": self.network_name,
            "layers": list(self.layer_names),
            "image_size": self.image_size,
            "weights": self.weights_name,
        }


def _frozen(network):
    """Returns a network as a function whose weights are constants: TensorFlow folds them."""
    trainable, others = (
        [variable.numpy() for variable in variables]
        for variables in (network.trainable_variables, network.non_trainable_variables)
    )

    @tf.function(input_signature=[tf.TensorSpec(network.input.shape, "float32")], autograph=False)
    def annotate(images):
        constants = [tf.constant(value) for value in trainable], [tf.constant(v) for v in others]
        outputs, _ = network.stateless_call(*constants, images, training=False)
        return outputs

    return annotate
