"""SavedModels in the layout of TF Serving: `path/1`, `path/2`, ..., never half-written."""

import os
import pathlib

import keras
import tensorflow as tf
from tensorflow.saved_model.experimental import TrackableResource

from zoo.atomic import flush, unfinished_folder, whole
from zoo.serving.endpoints import answering_no_rows
from zoo.serving.warmup import write_requests


def write_version(path, resources, endpoints):
    """Writes a SavedModel as the next version in a folder.

    The write is atomic.

    Args:
        path: Folder of all versions; created if it does not exist.
        resources: Objects that the endpoints use: Keras layers and models for their variables, and
            `tf.Module`s such as tokenizers for their tables.
        endpoints: Dictionary of names to `Endpoint`; their examples become warm-up requests.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: If `path` is a file, or is itself a version.
    """
    path = require_versions(path)
    with unfinished_folder(path) as parent:
        folder = parent / "version"
        folder.mkdir()
        signatures = {
            name: (answering_no_rows(function), inputs)
            for name, (function, inputs, _) in endpoints.items()
        }
        write_saved_model(folder, resources, signatures)
        write_requests(folder, path.resolve().name, endpoints)
        return _rename_to_next_version(folder, path)


def write_saved_model(folder, resources, signatures):
    """Writes a SavedModel that only has signatures.

    `keras.export.ExportArchive` writes the same, but traces everything twice: once to find the
    variables, and again when TensorFlow saves.

    Args:
        folder: The folder to write.
        resources: As for `write_version`.
        signatures: Dictionary of names to pairs `(function, inputs)`, as in an `Endpoint`.
    """
    saved = tf.Module()
    saved.kept = [each for resource in resources for each in _variables_or_tables(resource)]
    functions = {
        name: tf.function(function, inputs, autograph=False)
        for name, (function, inputs) in signatures.items()
    }
    try:
        tf.saved_model.save(saved, str(folder), functions)
    except (tf.errors.OutOfRangeError, tf.errors.ResourceExhaustedError) as error:
        raise OSError(
            f"{folder} could not be written. Is the disk full? {error.message}"
        ) from error


def _variables_or_tables(resource):
    if isinstance(resource, keras.Layer):
        return [variable.value for variable in resource.variables]
    parts = tf.train.TrackableView(resource).descendants()
    return [part for part in parts if isinstance(part, TrackableResource)]


def require_versions(path):
    """Returns a path to which `write_version` can write.

    Raises:
        ValueError: If it is a file, or is itself a version: a number, as servers call versions.
    """
    path = pathlib.Path(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"`path` must be a folder for versions of the model. {path} is a file.")
    is_number = os.path.basename(os.path.abspath(path)).isdecimal()
    if is_number or (path / "saved_model.pb").exists():
        raise ValueError(
            f"`path` must be the folder of all versions of a model. {path} is one version, or "
            f"named like one: the export would be {path / '1'}, which no server finds. Export to "
            f"{path.parent if is_number else 'another folder'}: the next version is made there."
        )
    return path


def require_free(path):
    """Returns a path to which `write_folder` can write.

    Raises:
        ValueError: If something exists there that a new folder cannot replace.
    """
    path = pathlib.Path(path)
    if os.path.lexists(path) and not _can_be_replaced(path):
        raise ValueError(
            "`path` must be a new folder, or an empty one that is not a link, a mount point or the "
            f"current folder. {path} exists already. Choose another name."
        )
    return path


def _can_be_replaced(path):
    is_folder = path.is_dir() and not path.is_symlink() and not os.path.ismount(path)
    return is_folder and not path.samefile(os.curdir) and not any(path.iterdir())


def write_folder(path, write):
    """Writes a folder atomically.

    Args:
        path: The folder, as for `require_free`.
        write: Function that writes into the folder passed to it.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        ValueError: If something exists at `path` that a new folder cannot replace.
    """
    path = require_free(path)
    with whole(path) as folder:
        folder.mkdir()
        write(folder)
        if path.exists():
            path.rmdir()  # Windows renames over nothing
    return path


def _rename_to_next_version(unfinished, path):
    flush(unfinished)
    names = [each.name for each in path.iterdir()]
    version = 1 + max((int(name) for name in names if name.isdecimal()), default=0)
    while True:
        try:
            # A folder that is not empty cannot be renamed over: another export was quicker.
            os.rename(unfinished, path / str(version))
            return path / str(version)
        except OSError:
            if not (path / str(version)).exists():
                raise
            version += 1
