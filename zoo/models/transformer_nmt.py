"""Translation with a Transformer: token ids to logits, and the step protocol of `zoo.decoding`.

The task, strings to strings, is `zoo.tasks.translation.Translator`.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import DecoderBlock, EncoderBlock
from zoo.models.encoder_decoder import EncoderDecoder
from zoo.models.transformer import (
    WriterConfig,
    embedding_of,
    final_norm,
    make_blocks,
    run_blocks,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerNMTConfig(WriterConfig):
    """Options of a Transformer translator, in addition to those of `WriterConfig`.

    Args:
        decoder_layers: Number of blocks in the decoder; defaults to `num_layers`.
        max_length: Number of learned positions.
        layout: Layout of sinusoidal positions: `"interleaved"` or `"halves"`.
        max_wavelength: Their largest wavelength, as for `SinusoidalPosition`.
        first_position: Position of the first token.
    """

    decoder_layers: int | None = None
    max_length: int = 512
    layout: str = "interleaved"
    max_wavelength: float = 10000.0
    first_position: int = 0


@keras.saving.register_keras_serializable(package="zoo")
class TransformerTranslator(EncoderDecoder):
    """Encoder and decoder of a Transformer; one vocabulary and one table for both languages.

    Paper: Vaswani et al. 2017, Attention Is All You Need (https://arxiv.org/abs/1706.03762). The
    defaults are those of the base model. The big model has `size=1024, num_heads=16, hidden=4096,
    dropout=0.3`.

    Args:
        vocabulary_size: Number of tokens.
        **options: The fields of `TransformerNMTConfig`.

    Call arguments:
        inputs: Dictionary of int32 `source_ids` `(batch, source_length)` and `target_ids`
            `(batch, target_length)`, the latter beginning with the start token.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, target_length, vocabulary_size)`; with `return_attention_scores`
        also a dictionary of lists, a tensor `(batch, num_heads, queries, keys)` for each block:
        `encoder`, `decoder`, `cross`.
    """

    Config = TransformerNMTConfig
    architecture = "transformer_nmt"
    description = "Transformer translator (Vaswani et al. 2017)"
    source = "source_ids"

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.embedding = self.make_embedding()
        self.encoder = make_blocks(
            EncoderBlock, "encoder", config, dtype=dtype, **self.of_attention("encoder")
        )
        self.encoder_norm = final_norm(config, "encoder_norm", dtype)
        self.decoder = make_blocks(
            DecoderBlock,
            "decoder",
            config,
            config.decoder_layers,
            dtype=dtype,
            **self.of_attention("decoder"),
        )
        self.decoder_norm = final_norm(config, "decoder_norm", dtype)

    def make_embedding(self):
        """Returns the `TokenEmbedding` of both stacks."""
        config = self.config
        return embedding_of(
            config,
            config.max_length + config.first_position,
            self.dtype_policy,
            layout=config.layout,
            max_wavelength=config.max_wavelength,
        )

    def embed(self, stack, ids, start=0, training=None):
        return super().embed(stack, ids, start + self.config.first_position, training)

    def of_attention(self, stack):
        """Returns additional arguments of the blocks of a stack, `"encoder"` or `"decoder"`."""
        return {}

    def build(self, input_shape=None):
        shape = (None, None, self.embedding.size)
        self.embedding.build()
        for block in self.encoder:
            block.build(shape)
        for block in self.decoder:
            block.build(shape, shape)
        self.encoder_norm.build(shape)
        self.decoder_norm.build(shape)

    def _encode(self, source_ids, **options):
        mask = ops.not_equal(source_ids, self.config.pad_id)
        x = self.embed("encoder", source_ids, training=options["training"])
        return self._encoded(x, mask, **options)

    def _encoded(self, x, mask, **options):
        """Returns the outputs of the encoder, the mask unchanged, and the weights."""
        x, weights = run_blocks(self.encoder, x, mask=mask, **options)
        return self.encoder_norm(x), mask, weights
