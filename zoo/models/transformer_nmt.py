"""Translation with a Transformer: token ids to logits, and the step protocol of `zoo.decoding`.

The task, strings to strings, is `zoo.tasks.translation.Translator`.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import DecoderBlock, EncoderBlock, Memory
from zoo.models.core import Core
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
    """

    decoder_layers: int | None = None
    max_length: int = 512
    layout: str = "interleaved"


@keras.saving.register_keras_serializable(package="zoo")
class TransformerTranslator(Core):
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
    source = "source_ids"  # what of the inputs the encoder reads

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
        return embedding_of(config, config.max_length, self.dtype_policy, config.layout)

    def embed(self, stack, ids, start=0, training=None):
        """Returns the input of a stack, `"encoder"` or `"decoder"`, for tokens from a position on.

        Args:
            stack: The stack.
            ids: int32 `(batch, length)`.
            start: Position of the first token.
            training: Whether to apply dropout.
        """
        return self.embedding(ids, start=start, training=training)

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

    def call(self, inputs, return_attention_scores=False, training=None):
        options = {"return_attention_scores": return_attention_scores, "training": training}
        encoded, mask, of_encoder = self._encode(inputs[self.source], **options)
        x = self.embed("decoder", inputs["target_ids"], training=training)
        x, of_decoder = run_blocks(self.decoder, x, encoded, encoded_mask=mask, **options)
        logits = self.logits(x)
        if not return_attention_scores:
            return logits
        return logits, weights_of_stacks(of_encoder, of_decoder)

    def logits(self, x, table=None):
        """Returns float32 `(batch, length, vocabulary_size)` for the outputs of the last block.

        Args:
            x: `(batch, length, size)`.
            table: As for `TokenEmbedding.logits`.
        """
        return self.embedding.logits(self.decoder_norm(x), table)

    @property
    def longest(self):
        """Number of tokens with learned positions, or `None` for any number."""
        return self.config.max_length if self.config.position == "learned" else None

    # The step protocol of zoo.decoding.

    def start(self, source, max_length):
        """Reads the source.

        Args:
            source: int32 `(batch, source_length)`.
            max_length: Number of steps to reserve room for.

        Returns:
            The context, constant during decoding, and the first state.
        """
        encoded, mask, _ = self._encode(source, training=False)
        caches, memories = [], []
        for block in self.decoder:
            cache, memory = block.start(encoded, max_length, mask)
            caches.append(cache[:2])
            memories.append(memory[:2])
        source = {"memories": memories} | ({} if mask is None else {"mask": mask})
        context = {"of_source": source, "of_model": self.embedding.laid_out()}
        return context, {"time": ops.convert_to_tensor(0, "int32"), "caches": caches}

    def step(self, tokens, state, context):
        """Takes the previous tokens `(rows,)` and returns the logits of the next ones.

        Returns:
            `(logits, state, weights)`: `(rows, vocabulary_size)`, the next state, and the weights
            of cross-attention `(rows, source_length)`, the average of all layers and heads.
        """
        time, source = state["time"], context["of_source"]
        x = self.embed("decoder", tokens[:, None], start=time, training=False)
        caches, weights = [], []
        for block, cache, memory in zip(
            self.decoder, state["caches"], source["memories"], strict=True
        ):
            x, cache, _, of_cross = block.step(
                x,
                Memory(*cache, None),
                Memory(*memory, source.get("mask")),
                time,
                return_attention_scores=True,
            )
            caches.append(cache[:2])
            weights.append(of_cross)  # (rows, heads, 1, source_length)
        logits = self.logits(x, context.get("of_model"))[:, 0]
        average = self.alignment(ops.concatenate(weights, axis=1))
        return logits, {"time": time + 1, "caches": caches}, average

    def alignment(self, weights):
        """Returns the attention of a step to the source, `(rows, source_length)`.

        Args:
            weights: Weights of cross-attention, `(rows, heads of all layers, 1, source_length)`.
        """
        return ops.mean(weights, axis=(1, 2))

    def _encode(self, source_ids, **options):
        mask = ops.not_equal(source_ids, self.config.pad_id)
        x = self.embed("encoder", source_ids, training=options["training"])
        return self._encoded(x, mask, **options)

    def _encoded(self, x, mask, **options):
        """Returns the outputs of the encoder, the mask unchanged, and the weights."""
        x, weights = run_blocks(self.encoder, x, mask=mask, **options)
        return self.encoder_norm(x), mask, weights


def weights_of_stacks(of_encoder, of_decoder):
    """Returns the weights that `run_blocks` returned for both stacks as a dictionary of lists."""
    return {
        "encoder": [weights for (weights,) in of_encoder],
        "decoder": [weights for weights, _ in of_decoder],
        "cross": [weights for _, weights in of_decoder],
    }
