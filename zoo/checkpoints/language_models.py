"""The common part of the families of language models: what they write, or the vectors they give."""

import re

from zoo.checkpoints.chat import chat_of
from zoo.checkpoints.generation import ignore_generation, sampler_of_continuations
from zoo.checkpoints.names import Names, with_output
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.sentence_transformers import is_embedder, lowers_case, modules_of

OUTPUT = "lm_head.weight"
BASE = "model."


def require_language_model(settings, folder, classes):
    """Raises a `ValueError` unless the model has one of these classes of transformers.

    That of a folder of sentence-transformers may also be the class without the output layer.
    """
    if is_embedder(folder):
        bases = [name.replace("ForCausalLM", "Model") for name in classes]
        classes = (*classes, *bases, *(name.replace("Model", "TextModel") for name in bases))
    settings.require_class(classes)


def language_plan(settings, folder, options, table, is_tied, unused):
    """Returns the `Plan` of a language model, or of the embedder in a folder of
    sentence-transformers.

    Args:
        settings: `Settings`.
        folder: The folder.
        options: Options of the stack and the output layer.
        table: Table of `Names` of the stack.
        is_tied: Whether the output layer shares the embedding table.
        unused: As for `Names`.
    """
    size = settings.take("vocab_size")
    if is_embedder(folder):
        return _plan_of_embedder(settings, folder, options, table, unused, size)
    options = {
        **options,
        "tied": is_tied,
        "chat": chat_of(folder),
        "sampler": sampler_of_continuations(settings, folder),
    }
    table, tied = with_output(table, OUTPUT, is_tied)
    return Plan("transformer_lm", options, Names(table, "", tied, unused), size)


def _plan_of_embedder(settings, folder, options, table, unused, size):
    if lowers_case(folder):
        raise ValueError(
            f"{folder} turns texts into lower case, which is not implemented for language models."
        )
    ignore_generation(settings)
    modules = modules_of(folder, options["context_length"])
    projections = [
        {name: value for name, value in each.items() if name != "place"} for each in modules.dense
    ]
    options = {name: value for name, value in options.items() if name != "output_soft_cap"}
    options |= {"pooling": modules.pooling, "projections": projections or None, **modules.options}
    for number, each in enumerate(modules.dense):
        table = {**table, f"projections.{number}": f"{each['place']}.linear"}
    names = Names(table, BASE, {}, (*unused, re.escape(OUTPUT)))
    return Plan("transformer_lm_embedding", options, names, size)
