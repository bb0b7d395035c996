"""`card.json`: the description of a preset, and the hashes of its other files."""

import re
import reprlib
from numbers import Real

from zoo.storage import CARD, HASHED, LARGEST, TOKENIZER
from zoo.storage.json_files import read_named_json

FORMAT = 1  # a card without a number is of format 1

_TYPES = {
    "name": str,
    "task": str,
    "description": str,
    "data": dict,
    "quality": list,
    "parameters": int,
    "files": dict,
}
_OPTIONAL = {
    "architecture": str,
    "use": str,
    "limits": str,
    "license": str,
    "example": dict,
    "training": dict,
    "fingerprint": list,
}
_OF_DATA = "name", "language", "source", "terms", "citation"


def make_card(model, description="", data="", quality=None, license="", use="", limits=""):
    """Returns the content of the card of a model that a user trained.

    Args:
        model: A task whose architecture is one of the zoo's.
        description: One line for people; by default that of the architecture.
        data: What it was trained on, in a few words; or a dictionary with `name` and, where they
            apply, `language` such as `"en"` or `"en-de"`, `source`, `terms` and `citation`.
        quality: Dictionary from a metric and its protocol to the measured value.
        license: Terms for those who use it.
        use: What it is meant for.
        limits: What it cannot do, and what it should not be used for.
    """
    texts = {"description": description, "license": license, "use": use, "limits": limits}
    for argument, value in texts.items():
        if not isinstance(value, str):
            raise ValueError(f"`{argument}` must be a str. Received: {argument}={value!r}.")
    data = {"name": data} if isinstance(data, str) else data
    is_told = isinstance(data, dict) and "name" in data and not data.keys() - set(_OF_DATA)
    if not is_told or not all(isinstance(value, str) for value in data.values()):
        raise ValueError(
            f"`data` must be a str, or a dictionary of str with 'name' and any of "
            f"{', '.join(_OF_DATA[1:])}. Received: data={data!r}."
        )
    quality = {} if quality is None else quality
    if not isinstance(quality, dict) or not all(map(_is_metric, quality.items())):
        raise ValueError(
            "`quality` must be a dictionary of a metric and its protocol to a number, such as "
            f"{{'BLEU, test split': 38.7}}. Received: quality={quality!r}."
        )
    card = {
        "task": model.task_name,
        "architecture": architecture_of(model),
        "description": description or model.core.description,
        "data": data,
        "quality": [{"metric": metric, "value": float(value)} for metric, value in quality.items()],
    }
    facts = {"use": use, "limits": limits, "license": license}
    return card | {name: text for name, text in facts.items() if text}


def told(card):
    """Returns what a card tells prospective users of a model: a dictionary of titles to texts."""
    data, example = card["data"], card.get("example", {})
    facts = {
        "intended use": card.get("use"),
        "limits": card.get("limits"),
        "license": card.get("license"),
        "terms of the data": data.get("terms"),
        "source of the data": data.get("source"),
        "please cite": data.get("citation"),
        "example": " -> ".join(filter(None, [example.get("call"), example.get("result")])),
    }
    return {title: text for title, text in facts.items() if text}


def architecture_of(model):
    """Returns the name of the architecture of a task.

    Raises:
        ValueError: If `zoo.load` could not make such a task: its class is not one of the zoo's, or
            its core has no known architecture.
    """
    name = getattr(model.core, "architecture", None)
    if name is None or type(model).__module__.split(".")[0] != "zoo":
        raise ValueError(
            f"{type(model).__name__} around {type(model.core).__name__} is not an architecture of "
            "the zoo. Save it with model.save(path.keras) instead."
        )
    return name


def measured(entry):
    """Returns the metric of an entry of `quality`, and the part of the data if it is named."""
    return ", ".join(entry[key] for key in ("metric", "split") if key in entry)


def read_card(folder):
    """Returns the card of a preset.

    Raises:
        ValueError: If it is not a card, is incomplete, or has a newer format.
    """
    path = folder / CARD
    card = read_named_json(path, LARGEST[CARD])
    found = card.get("format", 1) if isinstance(card, dict) else None
    if isinstance(found, int) and found > FORMAT:
        raise ValueError(
            f"{path} is of format {found}, and this version of keras-attention-zoo reads format "
            f"{FORMAT}. Install a newer one: pip install --upgrade keras-attention-zoo."
        )
    problem = _problem_of(card)
    if problem:
        raise ValueError(f"{path} is damaged, or is not the card of a preset: {problem}.")
    return card


def _problem_of(card):
    """Returns what is wrong with a card, or `None`."""
    if not isinstance(card, dict):
        return "it is not a dictionary"
    for key, kind in (_TYPES | {key: _OPTIONAL[key] for key in _OPTIONAL if key in card}).items():
        if not isinstance(card.get(key), kind):
            found = reprlib.repr(card.get(key, "missing"))
            return f"{key!r} should be a {kind.__name__}, and is {found}"
    if card.get("format", 1) != FORMAT:
        return f"'format' should be {FORMAT}, and is {reprlib.repr(card['format'])}"
    if not isinstance(card["data"].get("name"), str):
        return "'data' has no 'name'"
    for entry in card["quality"]:
        if not isinstance(entry, dict) or not _is_measurement(entry):
            return f"{reprlib.repr(entry)} in 'quality' is not a metric with a value"
    if card["files"].keys() | {TOKENIZER} != set(HASHED):
        return f"'files' should be {', '.join(HASHED)}, and is {', '.join(card['files'])}"
    for name, entry in card["files"].items():
        if not isinstance(entry, dict) or not _is_fingerprint(entry):
            return f"{name} in 'files' has no 'sha256' and 'bytes'"
    return None


def _is_metric(item):
    metric, value = item
    return isinstance(metric, str) and isinstance(value, Real)


def _is_measurement(entry):
    texts = [entry.get("metric"), entry.get("split", ""), entry.get("protocol", "")]
    return all(isinstance(text, str) for text in texts) and isinstance(
        entry.get("value"), int | float
    )


def _is_fingerprint(entry):
    is_sha256 = re.fullmatch("[0-9a-f]{64}", str(entry.get("sha256")))
    return is_sha256 and isinstance(entry.get("bytes"), int)
