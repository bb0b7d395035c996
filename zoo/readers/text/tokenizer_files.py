"""The JSON files of tokenizers, each of which names its format."""

import json

from zoo.atomic import whole
from zoo.storage.json_files import read_json

LARGEST_FILE = 2**26  # bytes


def write(path, file_format, content):
    """Writes the content of a tokenizer.

    Args:
        path: Where to write.
        file_format: Name of the format.
        content: Dictionary.
    """
    with whole(path) as unfinished:
        text = json.dumps({**content, "format": file_format}, ensure_ascii=False)
        unfinished.write_text(text, encoding="utf-8")


def read(path, file_format, make):
    """Returns the tokenizer in a file that `write` wrote.

    Args:
        path: The file.
        file_format: Name of the format, which begins with that of the class.
        make: Function that makes the tokenizer from the content.

    Raises:
        ValueError: If the file does not hold such a tokenizer; the message says why.
    """
    try:
        content = read_json(path, LARGEST_FILE)
        if not isinstance(content, dict) or content.pop("format", None) != file_format:
            raise ValueError(f'"format" is not "{file_format}".')
        return make(content)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        kind = file_format.partition(" ")[0]
        raise ValueError(f"{path} does not hold a {kind}: {error!r}") from error
