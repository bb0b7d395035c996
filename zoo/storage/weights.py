"""`model.weights.h5`: the weights of the core of a task."""

import collections
import contextlib
import pathlib

import h5py
import numpy as np
import tensorflow as tf

from keras_attention._keras import layers_in
from zoo.models.networks import is_being_made
from zoo.storage import CONFIG
from zoo.storage.arrays import arrays_in


def save_weights(model, path, dtype=None):
    """Writes a Keras weights file.

    Args:
        model: A task.
        path: The file to write.
        dtype: `None` for the weights as they are, or `"float16"` to round floats to it.

    Raises:
        ValueError: If a number is not finite, or beyond the range of float16.
    """
    if dtype not in (None, "float16"):
        raise ValueError(
            f"`dtype` must be None, for the weights as they are, or 'float16'. Received: {dtype!r}."
        )
    require_float(model)
    _require_finite(model, "The model")
    if dtype is None:
        model.core.save_weights(path)
        return
    whole = path.with_name("whole.weights.h5")
    model.core.save_weights(whole)
    with h5py.File(whole) as source, h5py.File(path, "w") as target:

        def copy(name, item):
            if isinstance(item, h5py.Group):
                copied = target.require_group(name)
            else:
                copied = target.create_dataset(name, data=_in_half_precision(name, item[()]))
            copied.attrs.update(item.attrs)

        source.visititems(copy)
        target.attrs.update(source.attrs)
    whole.unlink()


def require_float(model):
    """Raises a `ValueError` for a quantized model, whose file no new model could read."""
    if is_quantized(model.core):
        raise ValueError(
            "A model that is quantized cannot be loaded from a preset, a checkpoint or a .keras "
            "file, so it is not saved. Save it before `quantize`, and quantize what is loaded; or "
            "save_weights, and load them into a model that is quantized alike; or `export` it."
        )


def is_quantized(core):
    """Whether `quantize` has changed layers of a core."""
    return any(getattr(layer, "quantization_mode", None) for layer in layers_in(core))


def load_weights(model, path):
    """Loads the weights of a file, whose floats may have any precision, into a task.

    Args:
        model: A task.
        path: A file of a preset, of `model.save_weights`, or of a training checkpoint.

    Raises:
        ValueError: If there is no such file, it contains anything but unchunked numeric arrays, it
            does not fit, or a number in it is not finite.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(
            f"There is no weights file {path}. `weights` must be 'pretrained', None, or the path "
            "of a .weights.h5 file."
        )
    # A preset holds the weights of the core alone.
    is_of_task = any(name.startswith("core/") for name in arrays_in(path))
    part = model if is_of_task else model.core
    try:
        part.load_weights(path)
    except ValueError as error:
        raise ValueError(
            f"{path} does not hold the weights of this {type(model).__name__} of a "
            f"{type(model.core).__name__}. Pass a file of a model with the same architecture, "
            "options, tokenizer and labels."
        ) from error
    _require_finite(model, path)


@contextlib.contextmanager
def limited_to(path):
    """Limits the weights made in the block to those that a file has arrays for.

    So a model takes no more memory than the file, whatever sizes its config asks for. Networks of
    `keras.applications` are exempt: their sizes are fixed.

    Args:
        path: A `pathlib.Path` of a file with the weights of a core.

    Raises:
        ValueError: If the file contains anything but unchunked numeric arrays; in the block, if it
            has no array left with the shape of a new weight.
    """
    arrays = arrays_in(path)
    left = collections.Counter(arrays.values())

    def create(next_creator, **arguments):
        if is_being_made():
            return next_creator(**arguments)
        with tf.Graph().as_default():  # where a shape takes no memory
            shape = tuple(arguments["initial_value"]().shape)
        if tf.as_dtype(arguments["dtype"]).is_floating:  # others are random states
            if not left[shape]:
                free = {name: each for name, each in arrays.items() if left[each]}
                alike = [f"{n} {each}" for n, each in free.items() if len(each) == len(shape)]
                raise ValueError(
                    f"{path} does not fit {CONFIG}: the model has a weight {arguments['name']!r} "
                    f"of shape {shape}, and none of the arrays left in the file has it. With as "
                    f"many axes: {', '.join(alike[:9]) or 'none'}. Get all files of the preset "
                    "again, from a single source."
                )
            left[shape] -= 1
        return next_creator(**arguments)

    with tf.variable_creator_scope(create):
        yield


def _in_half_precision(name, values):
    """Rounds with NumPy: HDF5 halves numbers that it has to round up to a power of two."""
    if values.dtype.kind != "f":
        return values
    with np.errstate(over="ignore"):
        rounded = values.astype("float16")
    if not np.all(np.isfinite(rounded)):
        raise ValueError(
            f"The weight {name} holds {np.abs(values).max():.3g}, which is beyond float16. Save it "
            "with dtype=None."
        )
    return rounded


def _require_finite(model, owner):
    for weight in model.core.weights:
        if not np.all(np.isfinite(weight.numpy())):
            raise ValueError(f"{owner} holds numbers that are not finite, in {weight.path}.")
