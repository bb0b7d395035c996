"""The kind of a model's folder: a preset, a checkpoint of transformers, or an adapter of PEFT."""

import re

from zoo.storage import CARD, CONFIG
from zoo.storage.json_files import read_json

HUB = "hf://"
REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # of the Hub: user/name
ADAPTER = "adapter_config.json"
LARGEST_CONFIG = 2**24  # bytes


def is_adapter(folder):
    """Whether a folder holds an adapter of PEFT, and not the weights of its base.

    Args:
        folder: A `pathlib.Path`.
    """
    has_weights = any(any(folder.glob(name)) for name in ("model*.safetensors", "pytorch_model*"))
    return (folder / ADAPTER).is_file() and not has_weights


def is_checkpoint(folder):
    """Whether a folder is a Hugging Face checkpoint or an adapter, and not a preset of the zoo.

    Args:
        folder: A `pathlib.Path`.
    """
    if (folder / CARD).is_file():
        return False
    if is_adapter(folder):
        return True
    if not (folder / CONFIG).is_file():
        return False
    try:
        content = read_json(folder / CONFIG, LARGEST_CONFIG)
    except ValueError:
        return False
    return isinstance(content, dict) and "model_type" in content
