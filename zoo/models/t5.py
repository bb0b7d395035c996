"""T5: text to text, with relative position biases in place of positions.

The task, strings to strings, is `zoo.tasks.text_to_text.TextToText`.
"""

import dataclasses

import keras

from keras_attention.errors import unknown_name
from keras_attention.positions import T5Bias
from zoo.models.transformer_nmt import TransformerNMTConfig, TransformerTranslator


@dataclasses.dataclass(frozen=True, kw_only=True)
class T5Config(TransformerNMTConfig):
    """Options of a T5, in addition to those of `TransformerNMTConfig`; some defaults differ.

    Args:
        relative_buckets: Number of buckets of the relative position biases, see
            `keras_attention.positions.T5Bias`.
        relative_distance: The distance from which on all keys share a bucket.
        shared_bias: Whether all blocks of a stack share the biases; in umT5, each has its own.
        scaled_output: Whether the input of the output layer is divided by the square root of
            `size`, as in the first version, where it is `tied`.
    """

    normalize: str = "pre"
    position: str = "t5"
    norm: str = "rms"
    use_bias: bool | list = False
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    epsilon: float = 1e-6
    scaled: bool = False
    relative_buckets: int = 32
    relative_distance: int = 128
    shared_bias: bool = True
    scaled_output: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.position != "t5":
            raise ValueError(unknown_name("position of T5", self.position, ["t5"]))


@keras.saving.register_keras_serializable(package="zoo")
class T5(TransformerTranslator):
    """Encoder and decoder with relative position biases, which the blocks of a stack usually share.

    Attention scores are not divided by the square root of the head size.

    Paper: Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer (https://arxiv.org/abs/1910.10683). The defaults are its small model. Version 1.1
    and Flan-T5: `activation="tanh_gelu", gated=True, tied=False, scaled_output=False`; the small
    model has `num_layers=8, num_heads=6, key_dim=64, hidden=1024`. Models of its structure that
    read many languages are mT5 (https://arxiv.org/abs/2010.11934) and umT5
    (https://arxiv.org/abs/2304.09151), the latter with `shared_bias=False`.

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `T5Config`.

    Call arguments:
        inputs, return_attention_scores: As for `TransformerTranslator`.

    Output shape:
        As for `TransformerTranslator`.

    Example:

    >>> core = T5(50, num_layers=1, size=8, num_heads=2, hidden=16)
    >>> ids = np.array([[7, 9, 2]])
    >>> tuple(core({"source_ids": ids, "target_ids": ids[:, :2]}).shape)
    (1, 2, 50)
    """

    Config = T5Config
    architecture = "t5"
    description = "Text-to-text Transformer (Raffel et al. 2020)"

    def of_attention(self, stack):
        bias = T5Bias(
            self.config.relative_buckets,
            self.config.relative_distance,
            bidirectional=stack == "encoder",
            dtype=self.dtype_policy,
            name=f"{stack}_bias",
        )
        if self.config.shared_bias:
            setattr(self, f"{stack}_bias", bias)
        else:  # each block makes its own of the config
            bias = keras.saving.serialize_keras_object(bias)
        return {"score": "dot", "position": bias}

    def logits(self, x, table=None):
        x = self.decoder_norm(x)
        scale = self.config.size**-0.5 if self.config.scaled_output else 1.0
        return self.embedding.logits(x * scale, table)
