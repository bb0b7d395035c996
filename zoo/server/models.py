"""The models of a server: loaded ones, and folders of exported versions."""

import pathlib
import re

import tensorflow as tf

from zoo import loading
from zoo.server import signatures

DEFAULT = "serving_default"


class LoadedModel:
    """A task of the zoo, served from memory as version 1.

    Args:
        name: Name on the server.
        task: A task, such as a `zoo.Translator` or a `zoo.Classifier`.
        is_batched: Whether concurrent requests share batches.

    Attributes:
        version: Number of the version that is served.
        signatures: Dictionary of names to `Signature`.
    """

    def __init__(self, name, task, is_batched=True):
        self.name, self.task, self.version = name, task, 1
        self.signatures = {
            key: signatures.of_endpoint(endpoint, is_batched)
            for key, endpoint in task.endpoints().items()
        }
        self.signatures[DEFAULT].warm_up()

    def refresh(self):
        """Does nothing: models in memory do not change."""


class ExportedModel:
    """The newest version of a SavedModel in a folder of versions, as written by `export`.

    Args:
        name: Name on the server.
        folder: The folder of all versions.
        is_batched: Whether concurrent requests share batches.

    Attributes:
        version: Number of the version that is served.
        signatures: Dictionary of names to `Signature`.

    Raises:
        ValueError: If there is no version.
    """

    task = None

    def __init__(self, name, folder, is_batched=True):
        self.name, self.folder, self.version = name, pathlib.Path(folder), None
        self._is_batched, self._tried = is_batched, None
        self.refresh()
        if self.version is None:
            raise ValueError(
                f"{folder} holds no exported version, such as {folder}/1 with a saved_model.pb. "
                "Export one by model.export(folder)."
            )

    def refresh(self):
        """Switches to a newer version once it is warmed up; running requests keep the old one.

        Raises:
            Exception: If it cannot be loaded. This is not retried until one of its files changes.
        """
        versions = {
            int(each.parent.name): each.parent  # such as 1, or 0001
            for each in self.folder.glob("*/saved_model.pb")
            if each.parent.name.isdecimal()
        }
        newest = max(versions, default=None)
        if newest in (None, self.version):
            return
        content = _content(versions[newest])
        if content == self._tried:
            return
        self._tried = content
        loaded = tf.saved_model.load(str(versions[newest]))
        found = {
            key: signatures.of_saved_model(each, self._is_batched)
            for key, each in loaded.signatures.items()
        }
        if DEFAULT in found:
            found[DEFAULT].warm_up()
        self._loaded, self.signatures, self.version = loaded, found, newest


def model_of(name, is_batched=True):
    """Returns the model for a name on the command line.

    Args:
        name: A folder of exported versions, or a name for `zoo.load`.
        is_batched: Whether concurrent requests share batches.

    Raises:
        ValueError: If it is one version.
    """
    if pathlib.Path(name, "saved_model.pb").is_file():
        folder = pathlib.Path(name).resolve()
        is_version = folder.name.isdecimal()
        raise ValueError(
            f"{name} is a single SavedModel, and a server takes the folder of all versions of a "
            f"model: {f'serve {folder.parent}.' if is_version else f'move it to {folder}/1.'}"
        )
    if _is_exported(name):
        return ExportedModel(name_of(name), name, is_batched)
    return LoadedModel(name_of(name), loading.load(name), is_batched)


def name_of(name):
    """Returns what a server calls the model for a name on the command line.

    A folder or a file gives its own name, and `hf://user/name@revision` is called `name`.
    """
    path = pathlib.Path(name)
    if path.exists():
        return path.resolve().name if path.is_dir() else path.stem
    # What the path of a URL can hold.
    return re.split("[@#]", name.rpartition("/")[2])[0].removesuffix(".zip")


def require_distinct(names):
    """Raises a `ValueError` if two models of a server have the same name."""
    if len(set(names)) < len(names):
        raise ValueError(
            f"Models on a server have names of their own. Received: {', '.join(names)}. Rename the "
            "folder of one, or start a server for each."
        )


def _is_exported(name):
    return any(pathlib.Path(name).glob("*/saved_model.pb"))


def _content(folder):
    """Returns a value that changes whenever the content of a folder does."""
    files = [(each, each.stat()) for each in sorted(folder.rglob("*"))]
    return [(each, told.st_size, told.st_mtime_ns) for each, told in files]
