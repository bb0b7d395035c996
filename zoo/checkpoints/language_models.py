"""The common part of the families of language models: what follows their stack of blocks."""

import re

from zoo.checkpoints.chat import chat_of
from zoo.checkpoints.generation import ignore_generation, sampler_of_continuations
from zoo.checkpoints.names import with_output
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.sentence_transformers import DENSE, is_embedder, lowers_case, modules_of
from zoo.checkpoints.settings import REGRESSION, settings_of_labels

OUTPUT = "lm_head.weight"
OF_LABELS = "ForSequenceClassification"
WITHOUT_LABELS = {"Granite"}  # for which transformers has no such class
_KIND = re.compile(r"(LMHeadModel|Model|For[A-Za-z]+)$")


def require_language_model(settings, folder, classes):
    """Raises a `ValueError` unless the model writes, gives labels or a number, or embeds.

    Args:
        settings: `Settings`.
        folder: The folder. It may name the class of the stack alone if it is one of
            sentence-transformers, or if the model gets a new head.
        classes: Names of the classes of transformers that write.
    """
    families = {_KIND.sub("", name) for name in classes}
    with_labels = [family + OF_LABELS for family in sorted(families - WITHOUT_LABELS)]
    stacks = {*families, *(f"{family}Text" for family in families)}  # as Gemma 3 calls its stack
    others = {*with_labels, *(f"{stack}{OF_LABELS}" for stack in stacks - families)}
    if is_embedder(folder) or settings.makes_head:
        others |= {f"{stack}Model" for stack in stacks}
    if settings.architecture not in others:
        settings.require_class([*classes, *with_labels])


def language_plan(settings, folder, options, names, is_tied=True, output=OUTPUT):
    """Returns the `Plan` of a language model, or of one that gives labels, a number or a vector.

    Args:
        settings: `Settings`.
        folder: The folder of the checkpoint.
        options: Options of the stack.
        names: `Names` of the stack, with the prefix that they have in files of models with a head.
        is_tied: Whether the output layer shares the embedding table.
        output: Name of the tensor of the output layer. With the option `output_bias`, its bias is
            beside it.
    """
    bias = f"{output.removesuffix('weight')}bias"
    size = settings.take("vocab_size")
    has_labels = settings.makes_head or settings.architecture.endswith(OF_LABELS)
    if has_labels or is_embedder(folder):
        ignore_generation(settings)
        reader = _plan_of_labels if has_labels else _plan_of_vectors
        unused = (*names.unused, re.escape(output), re.escape(bias), DENSE)
        return reader(settings, folder, options, names._replace(unused=unused), size)
    if not options.pop("is_causal", True):
        raise ValueError(
            f"{settings.path} says use_bidirectional_attention=True, which is not implemented for "
            "models that write, only for those that embed or give labels."
        )
    options = {
        **options,
        "tied": is_tied,
        "chat": chat_of(folder),
        "sampler": sampler_of_continuations(settings, folder),
    }
    table, tied = with_output(names.table, output, is_tied)
    if options.get("output_bias"):
        table = {**table, "embedding.bias": bias}
    return Plan("transformer_lm", options, names._replace(table=table, tied=tied), size)


def _plan_of_labels(settings, folder, options, names, size):
    """Returns the plan of a classifier, or of a model that gives a number."""
    kind = settings.problem_type
    architecture, labels = "transformer_lm_score", None
    if kind != REGRESSION:
        architecture, labels = "transformer_lm_labels", settings.new_labels or settings.labels
        options = {**options, "labels": labels, "problem_type": kind}
    # transformers reads the last token that has another id, also if the text ends with this one.
    pad_id = settings.take("pad_token_id", default=None)
    options = {**options, "pad_id": -1 if pad_id is None else pad_id}
    names = names._replace(table={**names.table, "output_layer": "score"})
    if settings.makes_head:
        family = _KIND.sub("", settings.architecture)
        if settings.model_type == "gemma3_text":
            family = "Gemma3Text"
        told = {}
        if family not in WITHOUT_LABELS:
            told = {
                "architectures": [family + OF_LABELS],
                **settings_of_labels(labels or ["LABEL_0"], kind),
            }
        names = names.with_new_head("output_layer", told)
    return Plan(architecture, _without_output(options), names, size)


def _plan_of_vectors(settings, folder, options, names, size):
    """Returns the plan of an embedder."""
    if lowers_case(folder):
        raise ValueError(
            f"{folder} turns texts into lower case, which is not implemented for language models."
        )
    modules = modules_of(folder, options["context_length"])
    table, projections = dict(names.table), []
    for number, each in enumerate(modules.dense):
        table[f"projections.{number}"] = f"{each['place']}.linear"
        projections.append({name: each[name] for name in ("size", "activation", "use_bias")})
    options = {
        **_without_output(options),
        "pooling": modules.pooling,
        "projections": projections or None,
        **modules.options,
    }
    return Plan("transformer_lm_embedding", options, names._replace(table=table), size)


def _without_output(options):
    of_output = "output_bias", "output_scale", "output_soft_cap"
    return {name: value for name, value in options.items() if name not in of_output}
