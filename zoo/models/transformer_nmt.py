"""Translation by a Transformer: token ids to logits, and the step protocol of `zoo.decoding`.

The task, strings to strings, is `zoo.translator.Translator`.
"""

import keras
from keras import ops

from keras_attention import DecoderBlock, EncoderBlock
from keras_attention.attention import Memory
from zoo.models.transformer_parts import TokenEmbedding, make_blocks


@keras.saving.register_keras_serializable(package="zoo")
class TransformerTranslator(keras.Model):
    """Encoder and decoder of a Transformer; one vocabulary and one table for both languages.

    Paper: Vaswani et al. 2017, Attention Is All You Need (https://arxiv.org/abs/1706.03762). The
    defaults are its base model. Its big one has `size=1024, num_heads=16, hidden=4096,
    dropout=0.3`.

    Args:
        vocabulary_size: Number of tokens; 0 is padding.
        num_layers: Number of blocks of encoder and decoder.
        size: Size of the vector of a token.
        num_heads: Number of heads.
        hidden: Size inside the feed-forward networks.
        normalize: `"post"` or `"pre"`.
        position: `"sinusoidal"`, `"learned"`, `"rotary"`, `"alibi"`, `"t5"` or `"shaw"`; the last
            four act in self-attention.
        max_length: Number of learned positions.
        activation: Activation of the feed-forward networks.
        dropout: Fraction dropped of embeddings and of what blocks add, in training.
        attention_dropout, hidden_dropout: Fraction dropped of the weights of attention, and inside
            the feed-forward networks.
        use_bias: Whether projections and dense layers add a bias.

    Call arguments:
        inputs: Dictionary of int32 `source_ids` `(batch, source_length)` and `target_ids`
            `(batch, target_length)`, the latter beginning with the start token.
        return_attention_scores: Whether to return the weights of all blocks, too.

    Output shape:
        Logits, float32 `(batch, target_length, vocabulary_size)`; with `return_attention_scores`
        also a dictionary of lists, a tensor `(batch, num_heads, queries, keys)` for each block:
        `encoder`, `decoder`, `cross`.
    """

    def __init__(
        self,
        vocabulary_size,
        num_layers=6,
        size=512,
        num_heads=8,
        hidden=2048,
        normalize="post",
        position="sinusoidal",
        max_length=512,
        activation="relu",
        dropout=0.1,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        use_bias=True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.config = {
            "vocabulary_size": vocabulary_size,
            "num_layers": num_layers,
            "size": size,
            "num_heads": num_heads,
            "hidden": hidden,
            "normalize": normalize,
            "position": position,
            "max_length": max_length,
            "activation": activation,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "hidden_dropout": hidden_dropout,
            "use_bias": use_bias,
        }
        dtype = self.dtype_policy
        self.embedding = TokenEmbedding(
            vocabulary_size, size, position, max_length, dropout, dtype=dtype
        )

        def norm(name):  # what leaves a block of kind "post" is normalized already
            if normalize == "post":
                return keras.layers.Identity(dtype=dtype, name=name)
            return keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name=name)

        self.encoder = make_blocks(EncoderBlock, "encoder", self.config, dtype=dtype)
        self.encoder_norm = norm("encoder_norm")
        self.decoder = make_blocks(DecoderBlock, "decoder", self.config, dtype=dtype)
        self.decoder_norm = norm("decoder_norm")

    def build(self, input_shape=None):
        shape = (None, None, self.embedding.size)
        self.embedding.build()
        for block in self.encoder:
            block.build(shape)
        for block in self.decoder:
            block.build(shape, shape)
        self.encoder_norm.build(shape)
        self.decoder_norm.build(shape)

    def build_from_config(self, config):
        self.build()

    def call(self, inputs, return_attention_scores=False, training=None):
        encoded, mask, encoder_weights = self._encode(
            inputs["source_ids"], return_attention_scores, training
        )
        x = self.embedding(inputs["target_ids"], training=training)
        weights = {"encoder": encoder_weights, "decoder": [], "cross": []}
        for block in self.decoder:
            x = block(
                x,
                encoded,
                encoded_mask=mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                x, of_decoder, of_cross = x
                weights["decoder"].append(of_decoder)
                weights["cross"].append(of_cross)
        logits = self.embedding.logits(self.decoder_norm(x))
        return (logits, weights) if return_attention_scores else logits

    @property
    def longest(self):
        """Tokens that there are learned positions for, or `None` for any number."""
        return self.config["max_length"] if self.config["position"] == "learned" else None

    # The step protocol of zoo.decoding.

    def start(self, source_ids, max_length):
        """Reads the source.

        Args:
            source_ids: int32 `(batch, source_length)`.
            max_length: Number of steps that there is room for.

        Returns:
            What stays while decoding and the first state.
        """
        encoded, mask, _ = self._encode(source_ids, False, False)
        caches, memories = [], []
        for block in self.decoder:
            cache, memory = block.start(encoded, max_length, mask)
            caches.append(cache[:2])
            memories.append(memory[:2])
        context = {"memories": memories, "mask": mask}
        return context, {"time": ops.convert_to_tensor(0, "int32"), "caches": caches}

    def step(self, tokens, state, context):
        """Takes the previous tokens `(rows,)` and gives the logits of the next ones.

        Returns:
            `(logits, state, weights)`: `(rows, vocabulary_size)`, the next state, and the weights
            of cross-attention `(rows, source_length)`, the average of all layers and heads.
        """
        time = state["time"]
        x = self.embedding(tokens[:, None], start=time, training=False)
        caches, weights = [], []
        for block, cache, memory in zip(
            self.decoder, state["caches"], context["memories"], strict=True
        ):
            x, cache, _, of_cross = block.step(
                x,
                Memory(*cache, None),
                Memory(*memory, context["mask"]),
                time,
                return_attention_scores=True,
            )
            caches.append(cache[:2])
            weights.append(of_cross)  # (rows, heads, 1, source_length)
        logits = self.embedding.logits(self.decoder_norm(x))[:, 0]
        average = ops.mean(ops.concatenate(weights, axis=1), axis=(1, 2))
        return logits, {"time": time + 1, "caches": caches}, average

    def _encode(self, source_ids, with_weights, training):
        mask = ops.not_equal(source_ids, 0)
        x = self.embedding(source_ids, training=training)
        weights = []
        for block in self.encoder:
            x = block(x, mask=mask, return_attention_scores=with_weights, training=training)
            if with_weights:
                x, of_block = x
                weights.append(of_block)
        return self.encoder_norm(x), mask, weights

    def get_config(self):
        return {**super().get_config(), **self.config}
