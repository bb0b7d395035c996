"""Presets on disk: trained models as folders of files that people can read and check.

- `card.json`: what it is, how it was trained, how good it is, hashes of the other files
- `config.json`: the architecture, its arguments, and those of the task, such as the sampler
- `model.weights.h5`: the weights in half precision, as Keras reads them
- `tokenizer.json`: merges and frequent words
"""

import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from typing import NamedTuple

import h5py
import numpy as np

from keras_attention.errors import unknown_name
from zoo import architectures
from zoo.text import ByteBPETokenizer

PRESETS = pathlib.Path(__file__).parent / "presets"
CARD, CONFIG = "card.json", "config.json"
WEIGHTS, TOKENIZER = "model.weights.h5", "tokenizer.json"


class ModelInfo(NamedTuple):
    """What is known of a model of the zoo.

    Attributes:
        name: Name to `zoo.load` it by.
        task: What it does, such as `"translation"`.
        description: One line for people.
        data: What it was trained on; empty for an architecture.
        parameters: Number of weights; `None` for an architecture.
        megabytes: Size on disk; `None` for an architecture.
        quality: Dictionary of a metric and its protocol to the value measured.
        card: Everything that `card.json` says; empty for an architecture.
    """

    name: str
    task: str
    description: str
    data: str
    parameters: int | None
    megabytes: float | None
    quality: dict
    card: dict

    def __str__(self):
        lines = [self.name, f"  {self.description}"]
        if self.card:
            lines.append(f"  {self.task}, trained on {self.data}")
            millions = self.parameters / 1e6
            lines.append(f"  {millions:.1f} M weights, {self.megabytes:.1f} MB on disk")
        lines += [f"  {metric}: {value}" for metric, value in self.quality.items()]
        return "\n".join(lines)


def list_models():
    """Returns the `ModelInfo` of every trained model, then of every architecture.

    Example:

    >>> [model.name for model in list_models() if not model.card]
    ['bahdanau_nmt', 'luong_nmt', 'show_attend_tell', 'transformer_lm', 'transformer_nmt']
    """
    trained = sorted(folder.parent for folder in PRESETS.glob(f"*/{CARD}"))
    return [_preset_info(folder) for folder in trained] + [
        _architecture_info(name) for name in architectures.ARCHITECTURES
    ]


def info(name):
    """Returns the `ModelInfo` of a trained model, an architecture, or a folder with a preset.

    Raises:
        ValueError: If there is no such model; the nearest names are in the message.
    """
    if name in architectures.ARCHITECTURES:
        return _architecture_info(name)
    return _preset_info(_folder(name))


def load(name, weights="pretrained", tokenizer=None, dtype=None, **overrides):
    """Loads a model: strings in, strings out.

    Args:
        name: Name of a trained model or of an architecture (see `list_models`), or the folder of a
            preset that `python -m zoo train` wrote.
        weights: `"pretrained"`, `None` for fresh ones, or the path of a `.weights.h5` file: of
            `model.save_weights`, of a checkpoint in training, or of a preset.
        tokenizer: The tokenizer of a model with fresh weights. A trained model has its own.
        dtype: Keras dtype policy of the computation; the global one by default.
        **overrides: Arguments of the architecture, for fresh weights.

    Returns:
        A task, such as `zoo.Translator`.

    Raises:
        ValueError: If the name or an argument is unknown, or a file is not what the card says.

    Example:

    >>> model = load("bahdanau_nmt", weights=None, tokenizer=ByteBPETokenizer([]), dropout=0.2)
    >>> model.core.config["dropout"]
    0.2
    """
    if name in architectures.ARCHITECTURES:
        return _fresh_architecture(name, weights, tokenizer, dtype, overrides)
    folder = _folder(name)
    check_files(folder)
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    if weights is not None and (overrides or tokenizer is not None):
        changed = [*overrides, *(["tokenizer"] if tokenizer is not None else [])]
        raise ValueError(
            f"The weights of {name} fit its own architecture and tokenizer only. Received: "
            f"{', '.join(changed)}. Pass weights=None to train it anew with these."
        )
    architecture, options = config.pop("architecture"), config.pop("options")
    tokenizer = tokenizer or ByteBPETokenizer.load(folder / TOKENIZER)
    model = architectures.build(
        architecture, tokenizer, dtype, **{**config, **options, **overrides}
    )
    if weights is not None:
        _load_weights(model, folder / WEIGHTS if weights == "pretrained" else weights)
        if model.fingerprint is not None:
            model.check_fingerprint(_read_card(folder)["fingerprint"])
    return model


def save(model, folder, card):
    """Writes a task as a preset, whole or not at all.

    Args:
        model: A task whose architecture is one of the zoo's.
        folder: Where to; must not exist.
        card: What to say of it: `task`, `description`, `data`, `quality`, `training`.

    Raises:
        ValueError: If the folder exists or the architecture is none of the zoo's.
    """
    folder = pathlib.Path(folder)
    if folder.exists():
        raise ValueError(f"The folder {folder} exists already. Remove it or choose another name.")
    config = {"architecture": architectures.name_of(model), "options": dict(model.core.config)}
    config["options"].pop("vocabulary_size")  # the tokenizer's business
    config |= model.settings
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = pathlib.Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder.parent))
    try:
        _write_json(unfinished / CONFIG, config)
        _save_weights(model, unfinished / WEIGHTS)
        model.tokenizer.save(unfinished / TOKENIZER)
        files = {name: _fingerprint(unfinished / name) for name in (CONFIG, WEIGHTS, TOKENIZER)}
        card = {
            "name": folder.name,
            **card,
            "parameters": model.core.count_params(),
            "files": files,
        }
        if model.fingerprint is not None:
            card["fingerprint"] = model.fingerprint
        _write_json(unfinished / CARD, card)
        unfinished.chmod(0o755)
        os.rename(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def check_files(folder):
    """Compares the files of a preset with the hashes of its card.

    Raises:
        ValueError: If a file is missing or is not the one that the card speaks of.
    """
    for name, expected in _read_card(folder)["files"].items():
        path = folder / name
        found = _fingerprint(path)["sha256"] if path.exists() else "no such file"
        if found != expected["sha256"]:
            raise ValueError(
                f"{path} is damaged or was changed: its sha256 should be {expected['sha256']}. "
                f"Found: {found}. Install the package again, or restore the file."
            )


def _fresh_architecture(name, weights, tokenizer, dtype, overrides):
    if weights == "pretrained":
        trained = [each.name for each in list_models() if each.card.get("architecture") == name]
        raise ValueError(
            f"{name} is an architecture, without weights of its own. Load a trained model "
            f"({', '.join(trained) or 'none yet'}), or pass weights=None for fresh weights."
        )
    if tokenizer is None:
        raise ValueError(
            f"{name} with fresh weights needs a tokenizer: tokenizer=zoo.ByteBPETokenizer.train("
            "sentences, vocabulary_size=8000), with the sentences of both languages."
        )
    model = architectures.build(name, tokenizer, dtype, **overrides)
    if weights is not None:
        _load_weights(model, weights)
    return model


def _folder(name):
    """Returns the folder of a shipped preset, or of one anywhere."""
    for folder in (PRESETS / str(name), pathlib.Path(name)):
        if (folder / CARD).is_file():
            return folder
    known = [model.name for model in list_models()]
    raise ValueError(unknown_name("model", str(name), known))


def _read_card(folder):
    path = folder / CARD
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _preset_info(folder):
    card = _read_card(folder)
    size = sum(each["bytes"] for each in card["files"].values())
    return ModelInfo(
        name=card["name"],
        task=card["task"],
        description=card["description"],
        data=card["data"]["name"],
        parameters=card["parameters"],
        megabytes=size / 1e6,
        quality={f"{each['metric']}, {each['split']}": each["value"] for each in card["quality"]},
        card=card,
    )


def _architecture_info(name):
    architecture = architectures.ARCHITECTURES[name]
    task = architecture.task.task_name
    return ModelInfo(name, task, architecture.description, "", None, None, {}, {})


def _save_weights(model, path):
    """Writes a Keras weights file whose floats are in half precision."""
    whole = path.with_name("whole.weights.h5")
    model.core.save_weights(whole)
    with h5py.File(whole) as source, h5py.File(path, "w") as target:

        def copy(name, item):
            if isinstance(item, h5py.Group):
                copied = target.require_group(name)
            else:
                # By NumPy: HDF5 halves what it has to round up to a power of two.
                values = item[()]
                is_float = item.dtype.kind == "f"
                copied = target.create_dataset(
                    name, data=values.astype("float16") if is_float else values
                )
            copied.attrs.update(item.attrs)

        source.visititems(copy)
        target.attrs.update(source.attrs)
    whole.unlink()


def _load_weights(model, path):
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(
            f"There is no weights file {path}. `weights` must be 'pretrained', None, or the path "
            "of a .weights.h5 file."
        )
    with h5py.File(path) as file:
        is_of_task = "core" in file  # a preset holds the weights of the core alone
    (model if is_of_task else model.core).load_weights(path)
    for weight in model.core.weights:
        if not np.all(np.isfinite(weight.numpy())):
            raise ValueError(f"{path} holds numbers that are not finite, in {weight.path}.")


def _fingerprint(path):
    content = path.read_bytes()
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def _write_json(path, content):
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
