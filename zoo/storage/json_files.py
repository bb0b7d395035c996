"""Untrusted JSON: it is read in a bounded amount of memory, and its nesting is limited."""

import json
import os

DEEPEST = 32


def read_json(path, largest):
    """Returns the content of a JSON file.

    Args:
        path: The file.
        largest: Maximum number of bytes.

    Raises:
        ValueError: If it is too large, is not JSON, or nests lists and dictionaries more than 32
            levels deep.
    """
    size = os.path.getsize(path)
    if size > largest:
        raise ValueError(f"it has {size} bytes, and {largest} are the most")
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON. {error}") from error
    level = [content]
    for _ in range(DEEPEST + 1):
        level = [each for parent in level for each in _children(parent)]
    if level:
        raise ValueError(f"lists and dictionaries are nested in it more than {DEEPEST} deep")
    return content


def read_named_json(path, largest):
    """Returns the same as `read_json`, whose errors name the file here."""
    try:
        return read_json(path, largest)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _children(content):
    if isinstance(content, dict):
        return content.values()
    return content if isinstance(content, list) else ()
