"""The files of Flickr8k as in its archives: where they are, and how they are read."""

import collections
import hashlib
import pathlib

IMAGES = "Flicker8k_Dataset"  # the archive's spelling
TEXTS = "Flickr8k_text"
CAPTIONS = "Flickr8k.token.txt"
CAPTIONS_PER_IMAGE = 5

# TFDS split -> the file with the names of its images.
IMAGE_LISTS = {
    "train": "Flickr_8k.trainImages.txt",
    "validation": "Flickr_8k.devImages.txt",
    "test": "Flickr_8k.testImages.txt",
}

HOW_TO_GET = f"""\
Flickr8k is for non-commercial research and education, and is not downloaded from here. Ask for it
at https://forms.illinois.edu/sec/1713398 (Hodosh et al. 2013 is what to cite), unpack
Flickr8k_Dataset.zip and Flickr8k_text.zip into one folder, so that it holds {IMAGES}/*.jpg and
{TEXTS}/*.txt (or the text files themselves), and name it: --data-dir '<folder>', or
manual_dir='<folder>' in Python."""
NO_FOLDER = f"Flickr8k: no folder was named.\n{HOW_TO_GET}"


def find_split(folder, split):
    """Finds the images and captions of one split.

    Args:
        folder: Path of the folder with the content of the archives.
        split: A key of `IMAGE_LISTS`.

    Returns:
        A list of `(path of the image, captions)` in the order of the list of the split.

    Raises:
        FileNotFoundError: If the list, the captions or images are missing.
        ValueError: If the list is empty, or an image in it does not have five captions.
    """
    folder = pathlib.Path(folder).expanduser()
    names = _read_lines(_find_text(folder, split, IMAGE_LISTS[split]))
    captions = _read_captions(_find_text(folder, split, CAPTIONS))
    if not names:
        raise ValueError(
            f"Flickr8k split {split!r}: {IMAGE_LISTS[split]} in '{folder}' names no image."
        )
    paths = [folder / IMAGES / name for name in names]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"Flickr8k split {split!r}: {len(missing)} of its {len(names)} images are not in "
            f"'{folder / IMAGES}': {_some(missing)}.\n{HOW_TO_GET}"
        )
    odd = [f"{name} ({len(captions[name])})" for name in names if not _has_all(captions[name])]
    if odd:
        raise ValueError(
            f"Flickr8k split {split!r}: {len(odd)} of its {len(names)} images do not have the "
            f"{CAPTIONS_PER_IMAGE} captions #0 to #{CAPTIONS_PER_IMAGE - 1} in {CAPTIONS}: "
            f"{_some(odd)}. Unpack Flickr8k_text.zip again."
        )
    return [
        (path, [captions[path.name][number] for number in range(CAPTIONS_PER_IMAGE)])
        for path in paths
    ]


def content(examples):
    """Returns a short hash of a result of `find_split`: names, images and captions, in order."""
    digest = hashlib.sha256()
    for path, captions in examples:
        for field in [path.name.encode(), path.read_bytes(), *map(str.encode, captions)]:
            digest.update(len(field).to_bytes(8, "little") + field)
    return digest.hexdigest()[:16]


def _find_text(folder, split, name):
    places = [folder / TEXTS, folder]
    for place in places:
        if (place / name).is_file():
            return place / name
    raise FileNotFoundError(
        f"Flickr8k split {split!r} is not in the folder '{folder}'"
        f"{'' if folder.is_dir() else ', which does not exist'}: "
        f"{name} is neither in '{places[0]}' nor in '{places[1]}'.\n{HOW_TO_GET}"
    )


def _read_captions(path):
    """Returns a dictionary from image names to dictionaries from numbers to captions."""
    captions = collections.defaultdict(dict)
    for line in _read_lines(path):
        key, _, caption = line.partition("\t")
        name, _, number = key.rpartition("#")
        captions[name][int(number) if number.isdecimal() else number] = caption.strip()
    return captions


def _has_all(captions):
    return set(captions) == set(range(CAPTIONS_PER_IMAGE)) and all(captions.values())


def _read_lines(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line.strip() for line in lines if line.strip()]


def _some(names, limit=5):
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
