"""BART: text to text, with learned positions and normalized embeddings.

The task, strings to strings, is `zoo.tasks.text_to_text.TextToText`.
"""

import dataclasses

import keras

from keras_attention.errors import unknown_name
from keras_attention.positions import LearnedPosition
from zoo.models.transformer import TokenEmbedding, make_norm
from zoo.models.transformer_nmt import TransformerNMTConfig, TransformerTranslator

OFFSET = 2  # rows of the tables of positions before the first position


@dataclasses.dataclass(frozen=True, kw_only=True)
class BartConfig(TransformerNMTConfig):
    """Options of a BART: those of `TransformerNMTConfig`, some with other defaults."""

    size: int = 768
    num_heads: int = 12
    hidden: int = 3072
    position: str = "learned"
    activation: str = "gelu"
    scaled: bool = False
    output_bias: bool = True
    max_length: int = 1024

    def __post_init__(self):
        super().__post_init__()
        if self.position != "learned":
            raise ValueError(unknown_name("position of BART", self.position, ["learned"]))


@keras.saving.register_keras_serializable(package="zoo")
class Bart(TransformerTranslator):
    """Encoder and decoder, each of which adds its own positions, and then normalizes.

    Paper: Lewis et al. 2020, BART: Denoising Sequence-to-Sequence Pre-training for Natural Language
    Generation, Translation, and Comprehension (https://aclanthology.org/2020.acl-main.703). The
    defaults are its base model. The large one has `num_layers=12, size=1024, num_heads=16,
    hidden=4096`.

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `BartConfig`.

    Call arguments:
        inputs, return_attention_scores: As for `TransformerTranslator`.

    Output shape:
        As for `TransformerTranslator`.

    Example:

    >>> core = Bart(50, num_layers=1, size=8, num_heads=2, hidden=16, max_length=10)
    >>> ids = np.array([[7, 9, 2]])
    >>> tuple(core({"source_ids": ids, "target_ids": ids[:, :2]}).shape)
    (1, 2, 50)
    """

    Config = BartConfig
    architecture = "bart"
    description = "Text-to-text Transformer (Lewis et al. 2020)"

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        dtype = self.dtype_policy
        self.encoder_entry = Entry(self.config, dtype=dtype, name="encoder_entry")
        self.decoder_entry = Entry(self.config, dtype=dtype, name="decoder_entry")

    def make_embedding(self):
        config = self.config
        return TokenEmbedding(
            config.vocabulary_size,
            config.size,
            scaled=config.scaled,
            tied=config.tied,
            output_bias=config.output_bias,
            dtype=self.dtype_policy,
        )

    def build(self, input_shape=None):
        for entry in (self.encoder_entry, self.decoder_entry):
            entry.build((None, None, self.config.size))
        super().build(input_shape)

    def embed(self, stack, ids, start=0, training=None):
        entry = self.encoder_entry if stack == "encoder" else self.decoder_entry
        return entry(self.embedding(ids), start=start, training=training)


@keras.saving.register_keras_serializable(package="zoo")
class Entry(keras.layers.Layer):
    """Adds the positions of a stack to embedded tokens, and normalizes the sums.

    Args:
        config: A `BartConfig`, or its fields as a dictionary.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        start: Position of the first token, an integer or a scalar tensor.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = BartConfig(**config) if isinstance(config, dict) else config
        dtype = self.dtype_policy
        self.place = LearnedPosition(self.config.max_length + OFFSET, dtype=dtype, name="place")
        self.norm = make_norm(self.config, "norm", dtype)
        self.drop = keras.layers.Dropout(self.config.dropout, dtype=dtype)

    def build(self, x_shape):
        self.place.build(x_shape)
        self.norm.build(x_shape)

    def call(self, x, start=0, training=None):
        x = self.norm(self.place(x, start=start + OFFSET))
        return self.drop(x, training=training)

    def get_config(self):
        return {**super().get_config(), "config": dataclasses.asdict(self.config)}
