"""The kind of a model's folder: a preset of the zoo, or a checkpoint of transformers."""

from zoo.storage import CARD, CONFIG
from zoo.storage.json_files import read_json

LARGEST_CONFIG = 2**24  # bytes


def is_checkpoint(folder):
    """Whether a folder is a Hugging Face checkpoint, and not a preset of the zoo.

    Args:
        folder: A `pathlib.Path`.
    """
    if (folder / CARD).is_file() or not (folder / CONFIG).is_file():
        return False
    try:
        content = read_json(folder / CONFIG, LARGEST_CONFIG)
    except ValueError:
        return False
    return isinstance(content, dict) and "model_type" in content
