"""Language models that read a text and give labels, a number or a vector, in place of more text.

The tasks are `zoo.tasks.classification.Classifier`, `zoo.tasks.scoring.Scorer` and
`zoo.tasks.embedding.Embedder`.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import masks
from keras_attention.errors import unknown_name
from zoo.models.chunks import by_chunk, mean_of_chunks, parts_of, told_of_chunks
from zoo.models.language_stack import LanguageStack, LanguageStackConfig
from zoo.models.pooling import masked_mean, unit_vectors
from zoo.models.rollout import attention_rollout
from zoo.models.transformer import run_blocks

HEADS = {  # the architecture, and what it is
    "labels": (
        "transformer_lm_labels",
        "Transformer language model for classification (Radford et al. 2018)",
    ),
    "score": (
        "transformer_lm_score",
        "Transformer language model for scoring (Radford et al. 2018)",
    ),
    "embedding": (
        "transformer_lm_embedding",
        "Transformer language model for text embeddings (Zhang et al. 2025)",
    ),
}
POOLINGS = ("last", "mean")
OF_PROJECTION = ("size", "activation", "use_bias")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerLMReaderConfig(LanguageStackConfig):
    """Options of a language model that reads, in addition to those of `LanguageStackConfig`.

    Args:
        head: `"labels"`, `"score"` for a number, or `"embedding"` for a vector.
        num_labels: Number of labels; `labels=` of `zoo.load` determines it.
        is_causal: Whether a token only attends to itself and those before it, as in Qwen3
            Embedding. If not, as in EmbeddingGemma, a `window` is that many neighbors, half of them
            on each side.
        pooling: `"last"` for the vector of the last token other than padding, `"mean"` for the mean
            of all of them.
        projections: Dense layers after pooling with the head `"embedding"`, a list of dictionaries
            of `size`, and optionally `activation` and `use_bias`; `None` for no layer.
        unit_length: Whether vectors of the head `"embedding"` are normalized to length 1.

    Raises:
        ValueError: As for `LanguageStackConfig`, or if the head or the pooling is unknown, labels
            are missing, or `projections` are not such dictionaries, or for another head.
    """

    head: str = "labels"
    num_labels: int = 0
    is_causal: bool = True
    pooling: str = "last"
    projections: list | None = None
    unit_length: bool = True
    num_segments = 0  # whatever the text, there is one segment

    def __post_init__(self):
        super().__post_init__()
        if self.head not in HEADS:
            raise ValueError(unknown_name("head", self.head, HEADS))
        if self.pooling not in POOLINGS:
            raise ValueError(unknown_name("pooling", self.pooling, POOLINGS))
        if self.head == "labels" and self.num_labels < 1:
            raise ValueError(
                "A model of labels needs some: labels=[...]. Received: num_labels="
                f"{self.num_labels}."
            )
        for each in self.projections or ():
            is_dense = isinstance(each, dict) and "size" in each and set(each) <= {*OF_PROJECTION}
            if not is_dense or self.head != "embedding":
                raise ValueError(
                    "`projections` must be None or, with head='embedding', a list of dictionaries "
                    "with 'size' and, if needed, 'activation' and 'use_bias'. Received: "
                    f"{each!r} among them, head={self.head!r}."
                )

    @property
    def max_length(self):
        """Maximum number of tokens that are read at once."""
        return self.context_length

    @property
    def vector_size(self):
        """Size of the vector of a text."""
        return self.projections[-1]["size"] if self.projections else self.size


@keras.saving.register_keras_serializable(package="zoo")
class TransformerLMReader(LanguageStack):
    """The stack of a language model, whose vectors of tokens are pooled to that of the text.

    The last token of a causal model has read the whole text, so its vector tells the label
    (Radford et al. 2018, Improving Language Understanding by Generative Pre-Training, section 3.2)
    or is that of the text (Zhang et al. 2025, Qwen3 Embedding, https://arxiv.org/abs/2506.05176).
    EmbeddingGemma (Vera et al. 2025, https://arxiv.org/abs/2509.20354) takes the mean of tokens
    that see one another.

    Args:
        vocabulary_size: Number of tokens.
        **options: The fields of `TransformerLMReaderConfig`.

    Call arguments:
        inputs: int32 token ids `(batch, length)`, padded behind, or `(batch, chunks, length)` for
            the parts of long texts, as returned by `TextReader`. A text is the mean of its chunks,
            weighted by their numbers of tokens. Or a dictionary of such `token_ids` and
            `segment_ids`, for pairs of texts, as returned by `PairReader`; segments do not count.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Float32: logits `(batch, num_labels)`; with `head="score"`, numbers `(batch, 1)`; with
        `head="embedding"`, vectors `(batch, vector_size)`. With `return_attention_scores` also a
        list of `(batch * chunks, num_heads, length, length)`, a tensor for each block.

    Example:

    >>> core = TransformerLMReader(50, num_labels=3, num_layers=1, size=8, num_heads=2)
    >>> tuple(core(np.array([[1, 7, 2, 0]])).shape)
    (1, 3)
    """

    Config = TransformerLMReaderConfig
    has_template = True

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.output_layer, self.projections = None, []
        if config.head == "embedding":
            for place, each in enumerate(config.projections or ()):
                options = each.get("activation"), each.get("use_bias", True)
                name = f"projection_{place}"
                layer = keras.layers.Dense(each["size"], *options, dtype=dtype, name=name)
                self.projections.append(layer)
        else:
            outputs = config.num_labels if config.head == "labels" else 1
            self.output_layer = keras.layers.Dense(outputs, use_bias=False, dtype=dtype)

    @property
    def architecture(self):
        return HEADS[self.config.head][0]

    @property
    def description(self):
        return HEADS[self.config.head][1]

    def mask_of_blocks(self):
        return super().mask_of_blocks() if self.config.is_causal else None

    def mask_of_window(self):
        if self.config.is_causal:
            return super().mask_of_window()
        return masks.SlidingWindow(self.config.window // 2, self.config.window // 2)

    def build(self, input_shape=None):
        super().build()
        size = self.config.size
        for layer in [*self.projections, self.output_layer]:
            if layer is not None:
                layer.build((None, size))
                size = layer.units

    def call(self, inputs, return_attention_scores=False, training=None):
        token_ids, _ = parts_of(inputs)
        ids = by_chunk(token_ids)
        x, weights = run_blocks(
            self.blocks,
            self.embed(ids, 0, training),
            # Padding is behind: no token of a causal model sees it.
            mask=None if self.config.is_causal else ops.not_equal(ids, self.config.pad_id),
            return_attention_scores=return_attention_scores,
            training=training,
        )
        x = self._pool(self.norm(x), ids)
        for layer in self.projections:
            x = layer(x)
        x = mean_of_chunks(x, token_ids, self.config.pad_id)
        x = ops.cast(x if self.output_layer is None else self.output_layer(x), "float32")
        if self.config.head == "embedding" and self.config.unit_length:
            x = unit_vectors(x)
        return (x, [each for (each,) in weights]) if return_attention_scores else x

    def told(self, inputs, weights):
        """Explains an answer by attention, as `zoo.models.text_encoder.TextEncoder.told` does."""
        token_ids, _ = parts_of(inputs)
        looks = self._pool(attention_rollout(weights), by_chunk(token_ids))
        return told_of_chunks(looks, token_ids, self.config.pad_id)

    def _pool(self, x, ids):
        """Returns a vector for each chunk, `(batch * chunks, size)`."""
        is_token = ops.not_equal(ids, self.config.pad_id)
        if self.config.pooling == "mean":
            return masked_mean(x, is_token)
        places = ops.arange(ops.shape(ids)[1], dtype="int32")
        last = ops.max(ops.where(is_token, places, 0), axis=1)  # texts may hold padding tokens
        return ops.squeeze(ops.take_along_axis(x, last[:, None, None], axis=1), axis=1)
