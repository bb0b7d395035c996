"""`preprocessor_config.json` or, in newer folders, a part of `processor_config.json`."""

from zoo.storage.json_files import read_named_json

FILE, OF_ALL = "preprocessor_config.json", "processor_config.json"


def preprocessor_of(folder, part, largest):
    """Returns the path of the file that describes the preprocessing, and its content.

    Args:
        folder: The folder.
        part: Name of the preprocessor in `processor_config.json`.
        largest: Size of the largest file to read, in bytes.

    Returns:
        `(path, content)`; the content is empty if there is none.
    """
    path = folder / FILE
    content = read_named_json(path, largest) if path.is_file() else {}
    if not content and (folder / OF_ALL).is_file():
        path = folder / OF_ALL
        content = read_named_json(path, largest).get(part) or {}
    return path, content
