"""`model.weights.h5`: the weights of the core of a task."""

import pathlib

import h5py
import numpy as np


def save_weights(model, path, dtype=None):
    """Writes a Keras weights file.

    Args:
        model: A task.
        path: Where to.
        dtype: `None` for the weights as they are, or `"float16"` to round floats to it.

    Raises:
        ValueError: If a number is not finite, or is beyond float16.
    """
    if dtype not in (None, "float16"):
        raise ValueError(
            f"`dtype` must be None, for the weights as they are, or 'float16'. Received: {dtype!r}."
        )
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


def load_weights(model, path):
    """Gives a task the weights of a file, whose floats may be of any precision.

    Args:
        model: A task.
        path: File of a preset, of `model.save_weights`, or of a checkpoint in training.

    Raises:
        ValueError: If there is no such file, it does not fit, or a number in it is not finite.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(
            f"There is no weights file {path}. `weights` must be 'pretrained', None, or the path "
            "of a .weights.h5 file."
        )
    with h5py.File(path) as file:
        is_of_task = "core" in file  # a preset holds the weights of the core alone
    # Keras refuses links, data in other files, and shapes that little on disk stands behind.
    (model if is_of_task else model.core).load_weights(path)
    _require_finite(model, path)


def _in_half_precision(name, values):
    """Rounds by NumPy: HDF5 halves what it has to round up to a power of two."""
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
