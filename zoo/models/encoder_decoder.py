"""What models of an encoder and a Transformer decoder have in common: the call, and the steps."""

from keras import ops

from keras_attention import Memory
from zoo.models.core import Core
from zoo.models.transformer import run_blocks


class EncoderDecoder(Core):
    """A decoder of tokens that attends to what an encoder makes of a source.

    A subclass creates `embedding`, a `TokenEmbedding`, `decoder`, a list of `DecoderBlock`s, and
    `decoder_norm`, the normalization after them. Its `_encode(source, **options)` returns the
    outputs of the encoder, their mask or `None`, and the weights that `run_blocks` returned.

    Class attributes:
        source: Name of the input that the encoder reads.
    """

    source = None

    def embed(self, stack, ids, start=0, training=None):
        """Returns the input of a stack, `"encoder"` or `"decoder"`, for tokens from a position on.

        Args:
            stack: The stack.
            ids: int32 `(batch, length)`.
            start: Position of the first token.
            training: Whether to apply dropout.
        """
        return self.embedding(ids, start=start, training=training)

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
            source: What of the inputs the encoder reads, as in a call.
            max_length: Number of steps to reserve room for.

        Returns:
            The context, constant during decoding, and the first state.
        """
        encoded, mask, _ = self._encode(source, training=False)
        caches, memories = [], []
        for block in self.decoder:
            cache, memory = block.start(encoded, max_length, mask)
            caches.append(cache[:2])
            # Scores are float32: half precision would be converted in every step.
            memories.append((ops.cast(memory.key, "float32"), memory.value))
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


def weights_of_stacks(of_encoder, of_decoder):
    """Returns the weights that `run_blocks` returned for both stacks as a dictionary of lists."""
    return {
        "encoder": [weights for (weights,) in of_encoder],
        "decoder": [weights for weights, _ in of_decoder],
        "cross": [weights for _, weights in of_decoder],
    }
