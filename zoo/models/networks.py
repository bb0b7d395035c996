"""The networks of `keras.applications` as functions of pictures, their weights constants."""

import contextlib
import math
import os
import sys
import warnings

import keras
import numpy as np
import tensorflow as tf

from keras_attention.errors import unknown_name

NETWORKS = [name for name in dir(keras.applications) if name[0].isupper()]


def make_network(name, image_size, weights):
    """Makes a network, up to its last convolution.

    Args:
        name: One of `NETWORKS`.
        image_size: Rows and columns of its pictures.
        weights: `"imagenet"`, path of a file, or `None` for those it is initialized with.

    Returns:
        A `keras.Model` that computes in float32.

    Raises:
        ConnectionError: The weights are not there and could not be downloaded.
    """
    make = getattr(keras.applications, name)
    try:
        with _float32(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`input_shape` is undefined")  # sizes not trained on
            return make(include_top=False, weights=weights, input_shape=(image_size, image_size, 3))
    except Exception as error:  # Keras raises it bare
        if not str(error).startswith("URL fetch failure"):
            raise
        url, _, reason = str(error).removeprefix("URL fetch failure on ").partition(": ")
        folder = os.path.join(os.environ.get("KERAS_HOME", os.path.join("~", ".keras")), "models")
        raise ConnectionError(
            f"The weights of {name} are not in {folder} and could not be downloaded: {reason}. "
            f"Download, on a machine with internet:\n  {url}\nand put the file into {folder}, or "
            "into the subfolder models of another folder and set KERAS_HOME to that, before Keras "
            "is imported. Keras passes over a folder in which it must not write."
        ) from None


def grids_of(network, owner, layer_names):
    """Returns the symbolic outputs of some layers.

    Args:
        network: A `keras.Model`.
        owner: What errors call it.
        layer_names: Names of layers whose outputs are grids (batch, rows, columns, channels).

    Raises:
        ValueError: There is no such layer, or its output is no grid.
    """
    if not layer_names:
        raise ValueError(f"`layers` of {owner} must name at least one layer. Received: none.")
    known = [layer.name for layer in network.layers]
    for name in layer_names:
        if name not in known:
            raise ValueError(unknown_name(f"layer of {owner}", name, known))
    outputs = [network.get_layer(name).output for name in layer_names]
    for name, output in zip(layer_names, outputs, strict=True):
        if len(output.shape) != 4:
            raise ValueError(
                "The layers must give grids (batch, rows, columns, channels). Layer "
                f"{name!r} of {owner} gives shape {output.shape}."
            )
    return outputs


def draw_weights(network):
    """Gives a network random weights, the same ones each time.

    Under those of the usual initializers next to nothing of a picture is left after many layers.
    """
    generator = np.random.default_rng(0)
    for variable in network.weights:
        shape = variable.shape
        if len(shape) > 1:
            is_depthwise = shape[-1] == 1
            inputs = math.prod(shape[:2] if is_depthwise else shape[:-1])
            variable.assign(generator.normal(0.0, math.sqrt(2.0 / inputs), shape))


def frozen(name, network):
    """Returns a network with all that it wants done to its pixels as a function of pictures.

    Its weights are constants in the graph: TensorFlow folds batch normalization into them, and
    whoever saves the graph saves them along.

    Args:
        name: One of `NETWORKS`, for its pixels.
        network: A `keras.Model` made of its layers, of one output.

    Returns:
        A concrete TensorFlow function of float32 (batch, size, size, 3) from 0 to 255.
    """
    preprocess = sys.modules[getattr(keras.applications, name).__module__].preprocess_input
    trainable = [variable.numpy() for variable in network.trainable_variables]
    others = [variable.numpy() for variable in network.non_trainable_variables]

    @tf.function(input_signature=[tf.TensorSpec(network.input.shape)], autograph=False)
    def function(images):
        # The convolutions of oneDNN fail on a batch of nothing, so they get one black picture then.
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


@contextlib.contextmanager
def _float32():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)
