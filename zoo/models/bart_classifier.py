"""BART as a classifier: the decoder reads the text again, and its last token decides.

The task is `zoo.tasks.classification.Classifier`.
"""

import dataclasses

import keras
from keras import ops

from zoo.models.bart import Bart, BartConfig
from zoo.models.chunks import by_chunk, mean_of_chunks, parts_of, told_of_chunks
from zoo.models.encoder_decoder import weights_of_stacks
from zoo.models.rollout import attention_rollout
from zoo.models.transformer import run_blocks


@dataclasses.dataclass(frozen=True, kw_only=True)
class BartClassifierConfig(BartConfig):
    """Options of a BART with labels, in addition to those of `BartConfig`.

    Args:
        num_labels: Number of labels; `labels=` of `zoo.load` determines it.
        begin_id: Token that the decoder reads first, in front of the text.
    """

    output_bias: bool = False
    num_labels: int = 0
    begin_id: int = 2
    num_segments = 0  # whatever the text, there is one segment


@keras.saving.register_keras_serializable(package="zoo")
class BartClassifier(Bart):
    """A BART whose decoder reads the same text as its encoder; its last output gives the logits.

    Paper: Lewis et al. 2020, BART, section 3.1 (https://aclanthology.org/2020.acl-main.703).

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `BartClassifierConfig`.

    Call arguments:
        inputs: As for `zoo.models.text_encoder.TextEncoder`; segment ids are not used.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, num_labels)`; with `return_attention_scores` also a dictionary of
        weights, as for `TransformerTranslator`.

    Example:

    >>> core = BartClassifier(50, num_labels=2, num_layers=1, size=8, num_heads=2, hidden=16,
    ...                       max_length=10)
    >>> tuple(core(np.array([[1, 7, 2, 0]])).shape)
    (1, 2)
    """

    Config = BartClassifierConfig
    architecture = "bart_classifier"
    description = "Text-to-text Transformer for classification (Lewis et al. 2020)"

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.pooler = keras.layers.Dense(config.size, "tanh", dtype=dtype, name="pooler")
        self.output_layer = keras.layers.Dense(config.num_labels, dtype=dtype, name="output_layer")

    def build(self, input_shape=None):
        super().build(input_shape)
        for layer in (self.pooler, self.output_layer):
            layer.build((None, self.config.size))

    def call(self, inputs, return_attention_scores=False, training=None):
        token_ids, _ = parts_of(inputs)
        ids = by_chunk(token_ids)
        options = {"return_attention_scores": return_attention_scores, "training": training}
        encoded, mask, of_encoder = self._encode(ids, **options)
        begin = ops.full_like(ids[:, :1], self.config.begin_id)
        x = self.embed("decoder", ops.concatenate([begin, ids[:, :-1]], axis=1), training=training)
        x, of_decoder = run_blocks(self.decoder, x, encoded, encoded_mask=mask, **options)
        x = ops.take_along_axis(self.decoder_norm(x), self._last(ids)[:, None, None], axis=1)
        x = mean_of_chunks(self.pooler(x[:, 0]), token_ids, self.config.pad_id)
        logits = ops.cast(self.output_layer(x), "float32")
        if not return_attention_scores:
            return logits
        return logits, weights_of_stacks(of_encoder, of_decoder)

    def _last(self, ids):
        """Returns the place of the last token of each chunk, int32 `(batch,)`."""
        counts = ops.sum(ops.cast(ops.not_equal(ids, self.config.pad_id), "int32"), axis=1)
        return ops.maximum(counts - 1, 0)

    def told(self, inputs, weights):
        """Explains an answer by attention, see `zoo.tasks.classification.Classifier.respond`.

        Args:
            inputs: The texts, in chunks, or the pairs.
            weights: Weights that `call` returned for them.

        Returns:
            Dictionary of int32 `token_ids` and float32 `attention`, both `(batch, chunks *
            length)`: the tokens that the last output attended to, the mean of all cross-attentions
            followed by rollout through the encoder. A row sums to 1.
        """
        token_ids, _ = parts_of(inputs)
        ids = by_chunk(token_ids)
        cross = ops.mean(ops.cast(ops.stack(weights["cross"]), "float32"), axis=(0, 2))
        of_last = ops.take_along_axis(cross, self._last(ids)[:, None, None], axis=1)
        looks = ops.matmul(of_last, attention_rollout(weights["encoder"]))[:, 0]
        return told_of_chunks(looks, token_ids, self.config.pad_id)
