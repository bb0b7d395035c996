"""The files of a preset, written together and checked together."""

import dataclasses
import hashlib
import json
import math
import os
import pathlib

from zoo.atomic import whole
from zoo.storage import CARD, CONFIG, HASHED, LARGEST, README, TOKENIZER, WEIGHTS, archives
from zoo.storage.arrays import arrays_in
from zoo.storage.cards import FORMAT, architecture_of, read_card
from zoo.storage.readme import readme
from zoo.storage.weights import save_weights


def save(model, path, card, dtype=None):
    """Writes a task as a preset, atomically.

    Args:
        model: A task whose architecture is one of the zoo's.
        path: A new folder, or a new archive that ends with `.zip`.
        card: Its description: `task`, `description`, `data`, `quality`, `training`.
        dtype: `None` for the weights as they are, or `"float16"`.

    Returns:
        The name to load it by, a `str`: the path, `"./animals"` for `"animals"`, which may be the
        name of a model of the zoo; for an archive, followed by its hash, `#sha256=...`.

    Raises:
        ValueError: If the path exists, the architecture is not one of the zoo's, or a weight is not
            finite or does not fit into `dtype`.
    """
    path = pathlib.Path(path)
    if path.exists():
        raise ValueError(f"{path} exists already. Remove it, or choose another name.")
    is_archive = path.suffix == ".zip"
    with whole(path) as unfinished:
        folder = unfinished.with_suffix("") if is_archive else unfinished
        folder.mkdir()
        _write_files(model, folder, card, dtype)
        if is_archive:
            archives.pack(folder, unfinished)
    if is_archive:
        return f"{path}#sha256={fingerprint(path)['sha256']}"
    return str(path) if path.name != str(path) else os.path.join(os.curdir, path)


def check_files(folder, way_out):
    """Compares the files of a preset with the hashes of its card.

    Args:
        folder: Folder of the preset.
        way_out: What to do if they differ, for the message.

    Raises:
        ValueError: If a file is missing, is too large, or does not match the hash in the card.
    """
    _require_sizes(folder)
    for name, expected in read_card(folder)["files"].items():
        path = folder / name
        found = fingerprint(path)["sha256"] if path.is_file() else "no such file"
        if found != expected["sha256"]:
            raise ValueError(
                f"{path} is damaged or was changed: its sha256 should be {expected['sha256']}. "
                f"Found: {found}. {way_out}"
            )


def _require_sizes(folder):
    for name, largest in LARGEST.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else 0
        if size > largest:
            raise ValueError(f"{path} has {size} bytes, and a preset may have {largest} there.")


def fingerprint(path):
    """Returns a dictionary of the `sha256` of a file and its size in `bytes`."""
    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": sha256, "bytes": path.stat().st_size}


def _write_files(model, folder, card, dtype):
    decided = model.decides(model.tokenizer, **model.settings).items()
    options = dataclasses.asdict(model.core.config).items()
    options = {name: value for name, value in options if (name, value) not in decided}
    config = {"architecture": architecture_of(model), "options": options}
    _write_json(folder / CONFIG, config | model.settings)
    save_weights(model, folder / WEIGHTS, dtype)
    if model.tokenizer is not None:
        model.tokenizer.save(folder / TOKENIZER)
    card = {
        "format": FORMAT,
        "name": folder.name,
        **card,
        "parameters": sum(map(math.prod, arrays_in(folder / WEIGHTS).values())),
        "files": {name: fingerprint(folder / name) for name in HASHED if (folder / name).exists()},
    }
    if model.fingerprint is not None:
        card["fingerprint"] = model.fingerprint
    _write_json(folder / CARD, card)
    (folder / README).write_text(readme(card), encoding="utf-8")
    _require_sizes(folder)  # what `zoo.load` would refuse


def _write_json(path, content):
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
