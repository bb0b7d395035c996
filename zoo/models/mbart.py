"""mBART: a BART that normalizes first, and translates.

The task, strings to strings, is `zoo.tasks.translation.Translator`.
"""

import dataclasses

import keras

from zoo.models.bart import Bart, BartConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class MBartConfig(BartConfig):
    """Options of an mBART: those of `BartConfig`, some with other defaults."""

    num_layers: int = 12
    size: int = 1024
    num_heads: int = 16
    hidden: int = 4096
    normalize: str = "pre"
    scaled: bool = True


@keras.saving.register_keras_serializable(package="zoo")
class MBart(Bart):
    """Encoder and decoder, each of which normalizes its input, and again at its end.

    Paper: Liu et al. 2020, Multilingual Denoising Pre-training for Neural Machine Translation
    (https://aclanthology.org/2020.tacl-1.47). The defaults are its large model.

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `MBartConfig`.

    Call arguments:
        inputs, return_attention_scores: As for `TransformerTranslator`.

    Output shape:
        As for `TransformerTranslator`.

    Example:

    >>> core = MBart(50, num_layers=1, size=8, num_heads=2, hidden=16, max_length=10)
    >>> ids = np.array([[7, 9, 2]])
    >>> tuple(core({"source_ids": ids, "target_ids": ids[:, :2]}).shape)
    (1, 2, 50)
    """

    Config = MBartConfig
    architecture = "mbart"
    description = "Transformer translator of many languages (Liu et al. 2020)"
