"""SavedModels in the layout of TF Serving: `path/1`, `path/2`, ..., never half-written."""

import os
import pathlib
import shutil
import tempfile

import keras


def write_version(path, resources, endpoints):
    """Writes a SavedModel as the next version below a folder.

    It is written beside its place under a name that is no number, which TF Serving ignores, and
    renamed at the end: a version is there whole or not at all.

    Args:
        path: Folder of all versions; it is made if it is not there.
        resources: Objects that hold tables, such as a tokenizer.
        endpoints: Dictionary of names to `(function, input signature)`. A function takes tensors
            and returns a dictionary of tensors, the batch first.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: If `path` is a file.
    """
    path = pathlib.Path(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"`path` must be a folder for versions of the model. {path} is a file.")
    path.mkdir(parents=True, exist_ok=True)
    unfinished = pathlib.Path(tempfile.mkdtemp(prefix=".unfinished-", dir=path))
    try:
        archive = keras.export.ExportArchive()
        for resource in resources:
            archive.track(resource)
        for name, (function, signature) in endpoints.items():
            archive.add_endpoint(name, function, input_signature=signature)
        archive.write_out(str(unfinished), verbose=False)
        unfinished.chmod(0o755)  # mkdtemp lets nobody else in, and a server is somebody else
        return _rename_to_next_version(unfinished, path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _rename_to_next_version(unfinished, path):
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
