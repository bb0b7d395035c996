"""Reads a Hugging Face folder into a plan, from which `zoo.load` builds a task."""

import pathlib

from zoo.checkpoints.encoders import reads_as_encoder, tokenizer_of
from zoo.checkpoints.families import family_of
from zoo.checkpoints.settings import Settings
from zoo.readers.text.reading import read_tokenizer
from zoo.storage import CONFIG


def read_checkpoint(folder, labels=None, problem_type=None, **languages):
    """Reads everything except the weights.

    Args:
        folder: The folder.
        labels: List of labels for a new head, or `None` for the head of the file.
        problem_type: In place of that of the file, as `Settings` takes it.
        **languages: `source_language` and `target_language`, of a model of many languages.

    Returns:
        A `Plan`, and the tokenizer, `None` for a model without texts.

    Raises:
        ValueError: If something in it is not implemented; the message says what.
    """
    folder = pathlib.Path(folder)
    settings = Settings.read(folder / CONFIG, labels, problem_type)
    family = family_of(settings)
    plan = family.plan(settings, folder)
    settings.require_all_seen()
    if labels is not None and "labels" not in plan.options:
        raise ValueError(f"{folder} is not a model that `labels` can give a new head.")
    if problem_type is not None and not plan.solves(problem_type):
        raise ValueError(
            f"{folder} is not a classifier, and does not become one with problem_type="
            f"{problem_type!r} alone: pass labels=[...] as well."
        )
    given = {name: language for name, language in languages.items() if language is not None}
    if given and not plan.has_languages:
        raise ValueError(
            f"{folder} is not a model of many languages, such as M2M100 or NLLB. Received: "
            f"{', '.join(f'{name}={language!r}' for name, language in given.items())}."
        )
    if plan.size is None:
        return plan, None
    if reads_as_encoder(plan):
        return plan, tokenizer_of(plan, folder)
    read = getattr(family, "tokenizer", read_tokenizer)
    tokenizer = read(folder, size=plan.size, **(languages if plan.has_languages else {}))
    has_head = plan.architecture in ("transformer_lm_labels", "transformer_lm_score")
    if has_head and plan.options["pad_id"] != tokenizer.pad_id:  # such as the unknown one of Llama
        plan.options["pad_id"] = -1
    _require_same_padding(folder, plan, tokenizer)
    plan.options |= {name: getattr(tokenizer, name) for name in plan.of_tokenizer}
    return plan, tokenizer


def _require_same_padding(folder, plan, tokenizer):
    pad_id = plan.options.get("pad_id", -1)  # -1 for a model without padding
    if pad_id not in (-1, tokenizer.pad_id):
        raise ValueError(
            f"{folder / CONFIG} says pad_token_id={pad_id}, and the tokenizer pads with "
            f"{tokenizer.pad_id}: model and tokenizer do not belong together."
        )
