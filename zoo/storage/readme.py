"""`README.md` of a preset: its card, in the form that the Hugging Face Hub shows and searches.

https://huggingface.co/docs/hub/model-cards
"""

import itertools
import json
import re

from zoo.storage.cards import measured, told

LIBRARY = "keras-attention-zoo"
TASKS = {
    "translation": "translation",
    "captioning": "image-to-text",
    "classification": "text-classification",
    "language model": "text-generation",
    "masked language model": "fill-mask",
    "question answering": "question-answering",
    "speech recognition": "automatic-speech-recognition",
    "tagging": "token-classification",
    "transcription": "automatic-speech-recognition",
    "embedding": "sentence-similarity",
    "matching": "zero-shot-image-classification",
}
METRICS = {"word error rate, %": "wer"}  # others go by their first word
BY_ARCHITECTURE = {  # where the task alone does not tell
    "conformer": "audio-classification",
    "spectrogram_transformer": "audio-classification",
    "swin": "image-classification",
    "swin_embedding": "image-feature-extraction",
    "vit": "image-classification",
    "vit_embedding": "image-feature-extraction",
    "wav2vec2": "audio-classification",
}
LICENSES = (
    "apache-2.0",
    "mit",
    "bsd-3-clause",
    "gpl-3.0",
    "lgpl-3.0",
    "cc0-1.0",
    "cc-by-4.0",
    "cc-by-sa-4.0",
    "cc-by-nc-4.0",
    "cc-by-nc-sa-4.0",
)


def readme(card):
    """Returns the text of the `README.md` that goes with a card."""
    # JSON is YAML, too.
    metadata = [
        f"{key}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in metadata_of(card).items()
    ]
    facts = [f"**{title[0].upper()}{title[1:]}:** {text}" for title, text in told(card).items()]
    parts = [
        "\n".join(["---", *metadata, "---"]),
        f"# {card['name']}",
        f"{card['description']}, trained on {card['data']['name']}. {card['parameters']:,} weights."
        if card["data"]["name"]
        else f"{card['description']}. {card['parameters']:,} weights.",
        f"```sh\npip install {LIBRARY}\n```",
        "```python\nimport zoo\n\n"
        'model = zoo.load("hf://USER/NAME")  # or a folder with these files\n```',
        *facts,
        *_quality(card),
    ]
    return "\n\n".join(parts) + "\n"


def metadata_of(card):
    """Returns the Hub's metadata, a dictionary without the entries that the card does not give."""
    data = card["data"]
    language = data.get("language") or data.get("pair")
    metadata = {
        **_license(card.get("license", "")),
        "language": language.split("-") if language else None,
        "library_name": LIBRARY,
        "pipeline_tag": _pipeline_of(card),
        "tags": ["keras", "attention"],
        "datasets": [slug] if (slug := _slug(data["name"])) else None,
        "model-index": _model_index(card) if card["quality"] else None,
    }
    return {key: value for key, value in metadata.items() if value is not None}


def _license(text):
    first, *_ = text.lower().split() or [None]
    if first is None or first in LICENSES:
        return {"license": first}
    return {"license": "other", "license_name": text}


def _pipeline_of(card):
    return BY_ARCHITECTURE.get(card.get("architecture")) or TASKS.get(card["task"])


def _model_index(card):
    task = {"type": _pipeline_of(card) or _slug(card["task"]), "name": card["task"]}
    name = card["data"]["name"] or "unknown"
    results = []
    for split, entries in itertools.groupby(card["quality"], lambda entry: entry.get("split")):
        dataset = {"name": name, "type": _slug(name) or "unknown"}
        dataset |= {"split": split} if split else {}
        metrics = [
            {
                "type": METRICS.get(entry["metric"])
                or re.split("[ ,(]", entry["metric"])[0].lower(),
                "value": entry["value"],
                "name": entry["metric"],
            }
            for entry in entries
        ]
        results.append({"task": task, "dataset": dataset, "metrics": metrics})
    return [{"name": card["name"], "results": results}]


def _quality(card):
    """Returns the section about quality: a table, and below it how each number was measured."""
    if not card["quality"]:
        return []
    rows = [f"| {measured(entry)} | {entry['value']} |" for entry in card["quality"]]
    protocols = dict.fromkeys(
        f"- {entry['metric']}: {entry['protocol']}"
        for entry in card["quality"]
        if "protocol" in entry
    )
    table = "\n".join(["| measured | |", "|---|---|", *rows])
    return ["## Quality", table, *(["\n".join(protocols)] if protocols else [])]


def _slug(text):
    """Returns a text as the Hub names data sets; empty if it has no Latin letter and no digit."""
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")
