"""Readers turn raw inputs into tensors, in one graph for training and serving."""

import pathlib

PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")  # files that are read in folders
SOUNDS = (".wav",)
_ENDINGS = {"image": PICTURES, "sound": SOUNDS}


def pictures_of(folder):
    """Returns the paths of the images in a folder, sorted.

    Raises:
        ValueError: If there is none.
    """
    return files_of(folder, "image")


def files_of(folder, kind):
    """Returns the paths of the files of a kind, `"image"` or `"sound"`, in a folder, sorted.

    Subfolders are not searched.

    Raises:
        ValueError: If there is none.
    """
    folder, endings = pathlib.Path(folder), _ENDINGS[kind]
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in endings)
    if not files:
        way_out = ""
        if any(each.is_dir() for each in folder.iterdir()):
            way_out = " Its subfolders are not searched: give one of them."
        raise ValueError(
            f"There is no {kind} ({', '.join(endings)}) in the folder {folder}.{way_out}"
        )
    return files
