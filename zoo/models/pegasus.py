"""PEGASUS: text to text, with sinusoidal positions, as a summarizer.

The task, strings to strings, is `zoo.tasks.text_to_text.TextToText`.
"""

import dataclasses

import keras

from keras_attention.errors import unknown_name
from zoo.models.transformer_nmt import TransformerNMTConfig, TransformerTranslator


@dataclasses.dataclass(frozen=True, kw_only=True)
class PegasusConfig(TransformerNMTConfig):
    """Options of a PEGASUS: those of `TransformerNMTConfig`, some with other defaults.

    Args:
        max_length: Number of positions: what comes after them in a text is not read.
    """

    num_layers: int = 16
    size: int = 1024
    num_heads: int = 16
    hidden: int = 4096
    normalize: str = "pre"
    layout: str = "halves"
    output_bias: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.position != "sinusoidal":
            raise ValueError(unknown_name("position of PEGASUS", self.position, ["sinusoidal"]))


@keras.saving.register_keras_serializable(package="zoo")
class Pegasus(TransformerTranslator):
    """Encoder and decoder of a Transformer that normalizes first, with a number of positions.

    Paper: Zhang et al. 2020, PEGASUS: Pre-training with Extracted Gap-sentences for Abstractive
    Summarization (https://arxiv.org/abs/1912.08777). The defaults are its large model. The base
    model has `num_layers=12, size=768, num_heads=12, hidden=3072`.

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `PegasusConfig`.

    Call arguments:
        inputs, return_attention_scores: As for `TransformerTranslator`.

    Output shape:
        As for `TransformerTranslator`.

    Example:

    >>> core = Pegasus(50, num_layers=1, size=8, num_heads=2, hidden=16)
    >>> ids = np.array([[7, 9, 2]])
    >>> tuple(core({"source_ids": ids, "target_ids": ids[:, :2]}).shape)
    (1, 2, 50)
    """

    Config = PegasusConfig
    architecture = "pegasus"
    description = "Text-to-text Transformer for summaries (Zhang et al. 2020)"

    @property
    def longest(self):
        return self.config.max_length
