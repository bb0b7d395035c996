"""`Backbone`: a pretrained convolutional network that turns images into annotation vectors."""

import math
import os
import reprlib
import sys
import types

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from zoo.models.networks import (
    draw_weights,
    grids_of,
    make_network,
    require_coarser,
    require_network,
    vectors_of,
)

# Between machines the same weights differ by 1e-5, weights that somebody folded and rounded by
# some 0.02, other weights by 1 and more.
TOLERANCE = 0.1


@keras.saving.register_keras_serializable(package="zoo")
class Backbone(keras.layers.Layer):
    """A frozen network of `keras.applications` that turns images into annotation vectors.

    Xu et al. 2015, "Show, Attend and Tell", https://arxiv.org/abs/1502.03044, section 3.1.1: a
    lower convolutional layer returns one vector for each part of the image. With several layers,
    the first one defines the grid; the grids of the others are averaged or interpolated to it, and
    the vectors of each part are concatenated.

    The layer has no variables: its weights are loaded from `keras.applications` at the first
    image, and are constants from then on. So a model with a backbone is saved without its
    weights, and can be loaded before they are available. The fingerprint in the config is used to
    check that they are the weights that the model was trained with.

    Args:
        name: Class of the network in `keras.applications`.
        layers: Names of layers of the network whose outputs are grids.
        image_size: Rows and columns of the images.
        grid: Rows and columns of a coarser grid, to which the annotations are averaged; defaults to
            the grid of the first layer.
        weights: `"imagenet"`, the path of a weights file for `keras.applications`, or `None` for
            random weights, the same ones each time, for tests.
        fingerprint: Expected result of `fingerprint()`, checked when the weights are loaded; not
            checked by default.

    Attributes:
        grid: Rows and columns of the grid.
        channels: Size of an annotation vector.

    Call arguments:
        images: Tensor (batch, image_size, image_size, 3), RGB from 0 to 255, as returned by
            `read_images`. The layer applies the preprocessing of the network.

    Returns:
        Float32 tensor (batch, rows * columns, channels), the grid row by row.

    Raises:
        ValueError: If the network or a layer is unknown, the output of a layer is not a grid, the
            images have another size, or the weights have another fingerprint.
        ConnectionError: If the weights are missing and cannot be downloaded.

    Example:

    >>> backbone = Backbone("MobileNetV2", ["out_relu"], image_size=64, weights=None)
    >>> backbone.grid, backbone.channels, backbone(np.zeros((5, 64, 64, 3))).shape
    ((2, 2), 1280, TensorShape([5, 4, 1280]))
    """

    def __init__(
        self,
        name="MobileNetV2",
        layers=("out_relu",),
        image_size=224,
        weights="imagenet",
        fingerprint=None,
        grid=None,
    ):
        require_network("Backbone", name, image_size)
        if weights is not None and not isinstance(weights, str | os.PathLike):
            raise ValueError(
                "`weights` of Backbone must be 'imagenet', the path of a file, or None. "
                f"Received: {weights!r}."
            )
        super().__init__(name=name, dtype="float32", trainable=False)
        self.layer_names = [layers] if isinstance(layers, str) else list(layers)
        self.image_size = image_size
        self.weights_source = None if weights is None else os.fspath(weights)
        network = make_network(name, image_size, weights=None)
        grids = grids_of(network, name, self.layer_names)
        finest = grids[0].shape[1:3]
        self.coarser = None if grid is None else require_coarser("Backbone", grid, finest)
        self.grid = self.coarser or finest
        annotations = vectors_of(grids, self.grid)
        self.channels = annotations.shape[-1]
        # Keras and TensorFlow look for variables to save in every attribute, but not inside this.
        self._hidden = types.SimpleNamespace(
            network=network,
            annotator=keras.Model(network.input, annotations),
            function=None,
            fingerprint=fingerprint,
        )

    def call(self, images):
        shape = tuple(images.shape[1:])
        if shape != (self.image_size, self.image_size, 3):
            raise ValueError(
                f"The images of this {self.name} must have shape (batch, {self.image_size}, "
                f"{self.image_size}, 3). Received: shape {tuple(images.shape)}. Make them by "
                f"read_images(image_bytes, size={self.image_size})."
            )
        self._load()
        return self._hidden.function(ops.cast(images, "float32"))

    def compute_output_shape(self, input_shape):  # as `build`, or Keras' `summary` fails
        return input_shape[0], math.prod(self.grid), self.channels

    def fingerprint(self):
        """Returns a few numbers that identify this network and its weights.

        They are sums, weighted by cosines, of the annotation vectors of an image made of waves.
        """
        self._load()
        return self._hidden.fingerprint

    def check_fingerprint(self, expected):
        """Raises a `ValueError` unless this network has the fingerprint of another one.

        Args:
            expected: The `fingerprint()` of the other network.
        """
        self._require_same(self.fingerprint(), expected)

    def get_config(self):
        return {
            "name": self.name,
            "layers": self.layer_names,
            "image_size": self.image_size,
            "weights": self.weights_source,
            "fingerprint": self._hidden.fingerprint,
        } | ({} if self.coarser is None else {"grid": list(self.coarser)})

    def _load(self):
        """Loads the weights unless they are loaded already."""
        if self._hidden.function is not None:
            return
        with tf.init_scope():  # the first images may come while a graph is traced
            if self.weights_source is None:
                draw_weights(self._hidden.network)
            else:
                source = make_network(self.name, self.image_size, self.weights_source)
                self._hidden.network.set_weights(source.get_weights())
            function = _frozen(self.name, self._hidden.annotator)
            found = _numbers_of(function(_waves(self.image_size)).numpy())
        if self._hidden.fingerprint is not None:
            self._require_same(found, self._hidden.fingerprint)
        self._hidden.function = function
        self._hidden.fingerprint = self._hidden.fingerprint or found

    def _require_same(self, found, expected):
        try:
            difference = np.linalg.norm(np.subtract(found, expected)) / np.linalg.norm(expected)
        except (TypeError, ValueError):  # these are no numbers, or not as many
            difference = math.inf
        if not difference <= TOLERANCE:
            raise ValueError(
                f"The weights that were found for {self.name} (weights={self.weights_source!r}) "
                f"give other features than the expected ones: fingerprint {found} instead of "
                f"{reprlib.repr(expected)}, {difference:.0%} off. Use the weights of then, or "
                "compute the features and train the model again with these."
            )


def _frozen(name, network):
    """Returns a network, including its preprocessing, as a function of images.

    Its weights are constants in the graph: TensorFlow folds batch normalization into them, and
    they are saved with the graph.

    Args:
        name: One of `NETWORKS`, for its preprocessing.
        network: A `keras.Model` of its layers, with one output.

    Returns:
        A concrete TensorFlow function of float32 (batch, size, size, 3) from 0 to 255.
    """
    preprocess = sys.modules[getattr(keras.applications, name).__module__].preprocess_input
    trainable = [variable.numpy() for variable in network.trainable_variables]
    others = [variable.numpy() for variable in network.non_trainable_variables]

    @tf.function(input_signature=[tf.TensorSpec(network.input.shape)], autograph=False)
    def function(images):
        # The convolutions of oneDNN fail on a batch of nothing, so they get one black image then.
        count = tf.shape(images)[0]
        images = tf.pad(images, [[0, tf.maximum(1 - count, 0)], [0, 0], [0, 0], [0, 0]])
        output, _ = network.stateless_call(
            [tf.constant(value) for value in trainable],
            [tf.constant(value) for value in others],
            preprocess(images),
            training=False,
        )
        return output[:count]

    return function.get_concrete_function()


def _waves(size):
    """Returns a test image with structure that every network responds to."""
    rows, columns = np.meshgrid(*[np.linspace(0.0, 1.0, size)] * 2, indexing="ij")
    waves = [np.sin(9 * rows * columns), np.cos(7 * rows - 4 * columns), rows - columns]
    return (127.5 + 127.5 * np.stack(waves, axis=-1))[None].astype("float32")


def _numbers_of(annotations):
    """Returns the fingerprint of annotation vectors."""
    flat = annotations.ravel().astype("float64")
    flat -= flat.mean()
    # Angles that grow quadratically: no pattern in the features is in step with them.
    angles = np.outer(np.sqrt([2, 3, 5, 7, 11, 13, 17, 19]), np.arange(flat.size) ** 2)
    return [float(f"{number:.4g}") for number in np.cos(angles) @ flat / math.sqrt(flat.size)]
