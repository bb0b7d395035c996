"""The architectures of the zoo by name, before anybody has trained them."""

import contextlib
import inspect
from typing import Any, NamedTuple

from keras_attention.errors import unknown_name
from zoo.captioner import Captioner
from zoo.generator import TextGenerator
from zoo.models.attention_nmt import AttentionRNNTranslator
from zoo.models.show_attend_tell import ShowAttendTell
from zoo.models.transformer_lm import TransformerLanguageModel
from zoo.models.transformer_nmt import TransformerTranslator
from zoo.translator import Translator


class Architecture(NamedTuple):
    """A kind of model.

    Attributes:
        task: The class that owns text, decoding and export.
        core: The class of the model of token ids; its first argument is the vocabulary size.
        defaults: Arguments of `core`.
        description: One line for people.
    """

    task: Any
    core: Any
    defaults: dict
    description: str


ARCHITECTURES = {
    "bahdanau_nmt": Architecture(
        Translator,
        AttentionRNNTranslator,
        {"order": "bahdanau", "score": "additive", "cell": "gru"},
        "GRU translator that attends before each step (Bahdanau et al. 2015)",
    ),
    "luong_nmt": Architecture(
        Translator,
        AttentionRNNTranslator,
        {"order": "luong", "score": "general", "cell": "lstm"},
        "LSTM translator that attends after each step, with input feeding (Luong et al. 2015)",
    ),
    "show_attend_tell": Architecture(
        Captioner,
        ShowAttendTell,
        {},
        "LSTM that looks at a picture again before each word (Xu et al. 2015)",
    ),
    "transformer_lm": Architecture(
        TextGenerator,
        TransformerLanguageModel,
        {},
        "Transformer language model",
    ),
    "transformer_nmt": Architecture(
        Translator,
        TransformerTranslator,
        {},
        "Transformer translator (Vaswani et al. 2017)",
    ),
}


def build(name, tokenizer, dtype=None, within=None, /, **overrides):
    """Returns a task with fresh weights.

    Args:
        name: Name of an architecture.
        tokenizer: The tokenizer, which decides on the size of the vocabulary.
        dtype: Keras dtype policy of the computation; the global one by default.
        within: Context manager that the weights of the core are made in; by default none.
        **overrides: Arguments of the model that differ from the architecture's own, and those of
            the task, such as `sampler`.

    Raises:
        ValueError: If the architecture or an argument is unknown.
    """
    if name not in ARCHITECTURES:
        raise ValueError(unknown_name("architecture", name, ARCHITECTURES))
    task, core, defaults, _ = ARCHITECTURES[name]
    settings = _arguments(task)[2:]  # without core and tokenizer
    allowed = sorted([*options(core), *settings])
    for override in overrides:
        if override not in allowed:
            raise ValueError(unknown_name(f"option of {name}", override, allowed))
    of_task = {key: overrides.pop(key) for key in settings if key in overrides}
    config = {**defaults, **overrides}
    with within or contextlib.nullcontext():
        core = core(tokenizer.vocabulary_size, **config, dtype=dtype)
        core.build()
    model = task(core, tokenizer, **of_task)
    model.build()
    return model


def options(core):
    """Returns the names of the arguments that a model of token ids takes beside the vocabulary."""
    return _arguments(core)[1:]


def _arguments(kind):
    parameters = inspect.signature(kind).parameters.values()
    return [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]


def name_of(model):
    """Returns the name of the architecture that a task is most alike.

    Raises:
        ValueError: If no architecture could have made the model.
    """

    def likeness(name):
        defaults = ARCHITECTURES[name].defaults.items()
        return sum(model.core.config[option] == default for option, default in defaults)

    kind = type(model), type(model.core)
    possible = [name for name, (task, core, *_) in ARCHITECTURES.items() if kind == (task, core)]
    if not possible:
        raise ValueError(
            f"{kind[0].__name__} around {kind[1].__name__} is no architecture of the zoo: "
            f"{', '.join(ARCHITECTURES)}. Save it with model.save(path.keras) instead."
        )
    return max(possible, key=likeness)
