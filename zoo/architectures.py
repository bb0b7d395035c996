"""The architectures of the zoo by name, before anybody has trained them."""

from typing import Any, NamedTuple

from zoo.models.attention_nmt import AttentionRNNTranslator
from zoo.translator import Translator


class Architecture(NamedTuple):
    """A kind of model.

    Attributes:
        task: The class that owns text, decoding and export.
        core: The class of the model of token ids.
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
}
