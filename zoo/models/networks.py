"""The networks of `keras.applications`, and the grids that their layers return."""

import contextlib
import contextvars
import math
import os
import sys
import warnings

import keras
import numpy as np
from keras import ops

from keras_attention._checks import require_positive_integers
from keras_attention.errors import unknown_name

NETWORKS = [name for name in dir(keras.applications) if name[0].isupper()]
_is_being_made = contextvars.ContextVar("is_being_made", default=False)
LARGEST_IMAGES = 1024  # rows: of a preset of somebody else, too


def require_network(owner, name, image_size):
    """Raises a `ValueError` unless there is a network for images of a size.

    Args:
        owner: Name of its owner, for error messages.
        name: One of `NETWORKS`.
        image_size: Rows and columns of the images.
    """
    if name not in NETWORKS:
        raise ValueError(unknown_name("network of keras.applications", name, NETWORKS))
    require_positive_integers(owner, image_size=image_size)
    if image_size > LARGEST_IMAGES:
        raise ValueError(
            f"`image_size` of {owner} must be at most {LARGEST_IMAGES}. Received: {image_size}."
        )


def require_coarser(owner, grid, finest):
    """Returns a grid as a tuple, or raises a `ValueError` unless it is coarser than another."""
    grid = tuple(grid)
    if len(grid) != 2 or not all(
        isinstance(new, int) and 1 <= new <= old for new, old in zip(grid, finest, strict=True)
    ):
        raise ValueError(
            f"`grid` of {owner} must be rows and columns, at most those of the first layer, "
            f"{finest}. Received: grid={grid}."
        )
    return grid


def make_network(name, image_size, weights):
    """Makes a network, up to its last convolution.

    Args:
        name: One of `NETWORKS`.
        image_size: Rows and columns of its images.
        weights: `"imagenet"`, the path of a file, or `None` for the initial ones.

    Returns:
        A `keras.Model` that computes in float32.

    Raises:
        ConnectionError: If the weights are missing and cannot be downloaded.
    """
    make = getattr(keras.applications, name)
    # Keras writes the progress of a download to standard output, which is for answers.
    aside = contextlib.redirect_stdout(sys.stderr)
    try:
        with _float32(), _making(), aside, warnings.catch_warnings():
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
        owner: Name of its owner, for error messages.
        layer_names: Names of layers whose outputs are grids (batch, rows, columns, channels).

    Raises:
        ValueError: If there is no such layer, or its output is not a grid.
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


def vectors_of(grids, size):
    """Returns the vectors (batch, positions, channels) of several grids, one for each part.

    Args:
        grids: Grids from `grids_of`: the others are resized to the first one.
        size: Rows and columns of the parts, to which the vectors are then averaged.
    """
    finest = grids[0].shape[1:3]
    joined = ops.concatenate([_resized(grid, finest) for grid in grids], axis=-1)
    joined = _resized(joined, size)
    return ops.reshape(joined, (-1, math.prod(size), joined.shape[-1]))


def draw_weights(network):
    """Gives a network random weights, the same ones each time.

    With the usual initializers, almost no signal of an image would be left after many layers.
    """
    generator = np.random.default_rng(0)
    for variable in network.weights:
        shape = variable.shape
        if len(shape) > 1:
            is_depthwise = shape[-1] == 1
            inputs = math.prod(shape[:2] if is_depthwise else shape[:-1])
            variable.assign(generator.normal(0.0, math.sqrt(2.0 / inputs), shape))


def is_being_made():
    """Whether the weights being created belong to a network, whose sizes are known."""
    return _is_being_made.get()


@contextlib.contextmanager
def _making():
    token = _is_being_made.set(True)
    try:
        yield
    finally:
        _is_being_made.reset(token)


@contextlib.contextmanager
def _float32():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)


def _resized(grid, size):
    """Resizes a grid, by averaging or interpolation."""
    if grid.shape[1:3] == size:
        return grid
    strides = tuple(there // here for there, here in zip(grid.shape[1:3], size, strict=True))
    if tuple(np.multiply(strides, size)) == grid.shape[1:3]:
        return ops.average_pool(grid, strides, strides, data_format="channels_last")
    # As products with constants, which ONNX and LiteRT know, where they lack `resize`.
    rows, columns = map(_shares, grid.shape[1:3], size)
    return ops.einsum("bijc,ki,lj->bklc", grid, rows, columns)


def _shares(there, here):
    """Returns the weights of `there` positions in each of `here` positions, an array."""
    each = np.eye(there, dtype="float32")[None, :, :, None]  # what is at one place alone
    resized = ops.image.resize(each, (here, there), antialias=True, data_format="channels_last")
    return ops.convert_to_numpy(resized)[0, :, :, 0]
