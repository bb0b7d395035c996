"""Files and folders that are there whole or not at all, whenever the process is killed.

They are written beside their place, in a folder whose name begins with `UNFINISHED`, and renamed
when they are on the disk. What a killed process leaves behind is such a folder, which nothing
reads: `sweep` removes it.
"""

import contextlib
import os
import pathlib
import shutil
import tempfile

UNFINISHED = ".unfinished-"  # no number, so that TF Serving ignores it


@contextlib.contextmanager
def whole(path):
    """Gives the block a place to write a file or a folder, which then replaces what is at `path`.

    If the block fails, what is at `path` stays as it is.

    Args:
        path: Where it belongs; a folder there must be empty. Its parents are made.

    Example:

    >>> folder = tempfile.mkdtemp()
    >>> with whole(f"{folder}/words.txt") as unfinished:
    ...     _ = unfinished.write_text("a cat")
    ...     os.path.exists(f"{folder}/words.txt")
    False
    >>> os.listdir(folder)
    ['words.txt']
    """
    path = pathlib.Path(path)
    with unfinished_folder(path.parent) as folder:
        unfinished = folder / path.name
        yield unfinished
        flush(unfinished)
        os.replace(unfinished, path)


@contextlib.contextmanager
def unfinished_folder(parent):
    """Gives the block a new folder, for what it then renames; what is left in it is removed.

    Args:
        parent: Where the folder is made, on the disk of the place it is renamed to.
    """
    parent = pathlib.Path(parent)
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=UNFINISHED, dir=parent, ignore_cleanup_errors=True
    ) as folder:
        yield pathlib.Path(folder)


def flush(path):
    """Waits until a file, or everything in a folder, is on the disk: a rename can be faster."""
    for file in filter(pathlib.Path.is_file, [path, *path.rglob("*")]):
        with open(file, "rb+") as opened:
            os.fsync(opened.fileno())


def sweep(folder):
    """Removes what killed processes left behind; none may be writing into the folder or below."""
    for unfinished in list(pathlib.Path(folder).rglob(f"{UNFINISHED}*")):
        shutil.rmtree(unfinished, ignore_errors=True)
