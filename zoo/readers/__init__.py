"""Raw inputs to tensors, in one graph for training and serving."""

import pathlib

PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")  # files that are read in folders


def pictures_of(folder):
    """Returns the paths of the pictures in a folder, sorted.

    Raises:
        ValueError: If there is none.
    """
    folder = pathlib.Path(folder)
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in PICTURES)
    if not files:
        raise ValueError(f"There is no picture ({', '.join(PICTURES)}) in the folder {folder}.")
    return files
