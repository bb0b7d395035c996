"""Language models that give a vector of a text, in place of its next token.

The task is `zoo.tasks.embedding.Embedder`.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import masks
from keras_attention.errors import unknown_name
from zoo.models.chunks import by_chunk, mean_of_chunks
from zoo.models.language_stack import LanguageStack, LanguageStackConfig
from zoo.models.pooling import masked_mean, unit_vectors
from zoo.models.transformer import run_blocks

POOLINGS = ("last", "mean")
OF_PROJECTION = ("size", "activation", "use_bias")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerLMEmbeddingConfig(LanguageStackConfig):
    """Options of an embedding model made of a language model, in addition to those of
    `LanguageStackConfig`.

    Args:
        is_causal: Whether a token only attends to itself and those before it, as in Qwen3
            Embedding. If not, as in EmbeddingGemma, a `window` is that many neighbors, half of them
            on each side.
        pooling: `"last"` for the vector of the last token, `"mean"` for the mean of all tokens.
        projections: Dense layers after pooling, a list of dictionaries of `size`, and optionally
            `activation` and `use_bias`; `None` for no layer.
        unit_length: Whether vectors are normalized to length 1.

    Raises:
        ValueError: As for `LanguageStackConfig`, or if the pooling is unknown, or a projection is
            not such a dictionary.
    """

    is_causal: bool = True
    pooling: str = "last"
    projections: list | None = None
    unit_length: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.pooling not in POOLINGS:
            raise ValueError(unknown_name("pooling", self.pooling, POOLINGS))
        for each in self.projections or ():
            is_dense = isinstance(each, dict) and "size" in each and set(each) <= {*OF_PROJECTION}
            if not is_dense:
                raise ValueError(
                    "`projections` of TransformerLMEmbedding must be None or a list of "
                    f"dictionaries with 'size' and, if needed, 'activation' and 'use_bias'. "
                    f"Received: {each!r} among them."
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
class TransformerLMEmbedding(LanguageStack):
    """The stack of a language model, whose vectors of tokens are pooled to that of the text.

    Papers: Zhang et al. 2025, Qwen3 Embedding (https://arxiv.org/abs/2506.05176), pools by the last
    token, behind which a causal model has read all; Vera et al. 2025, EmbeddingGemma
    (https://arxiv.org/abs/2509.20354), by the mean of tokens that see one another.

    Args:
        vocabulary_size: Number of tokens.
        **options: The fields of `TransformerLMEmbeddingConfig`.

    Call arguments:
        token_ids: int32 token ids `(batch, length)`, padded behind, or `(batch, chunks, length)`
            for the parts of long texts, as returned by `TextReader`. A text is the mean of its
            chunks, weighted by their numbers of tokens.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Float32 `(batch, vector_size)`; with `return_attention_scores` also a list of
        `(batch * chunks, num_heads, length, length)`, a tensor for each block.

    Example:

    >>> core = TransformerLMEmbedding(50, num_layers=1, size=8, num_heads=2, is_causal=False,
    ...                               pooling="mean", projections=[{"size": 6}])
    >>> tuple(core(np.array([[1, 7, 2, 0]])).shape)
    (1, 6)
    """

    Config = TransformerLMEmbeddingConfig
    architecture = "transformer_lm_embedding"
    description = "Transformer language model for text embeddings (Zhang et al. 2025)"
    has_template = True

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        self.projections = [
            keras.layers.Dense(
                each["size"],
                each.get("activation"),
                each.get("use_bias", True),
                dtype=self.dtype_policy,
                name=f"projection_{place}",
            )
            for place, each in enumerate(self.config.projections or ())
        ]

    def mask_of_blocks(self):
        return super().mask_of_blocks() if self.config.is_causal else None

    def mask_of_window(self):
        if self.config.is_causal:
            return super().mask_of_window()
        return masks.SlidingWindow(self.config.window // 2, self.config.window // 2)

    def build(self, input_shape=None):
        super().build()
        size = self.config.size
        for layer in self.projections:
            layer.build((None, size))
            size = layer.units

    def call(self, token_ids, return_attention_scores=False, training=None):
        token_ids = ops.cast(token_ids, "int32")
        ids = by_chunk(token_ids)
        is_token = ops.not_equal(ids, self.config.pad_id)
        x, weights = run_blocks(
            self.blocks,
            self.embed(ids, 0, training),
            mask=is_token,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        x = self._pool(self.norm(x), is_token)
        for layer in self.projections:
            x = layer(x)
        x = ops.cast(mean_of_chunks(x, token_ids, self.config.pad_id), "float32")
        x = unit_vectors(x) if self.config.unit_length else x
        return (x, [each for (each,) in weights]) if return_attention_scores else x

    def _pool(self, x, is_token):
        """Returns a vector for each chunk, `(batch * chunks, size)`."""
        if self.config.pooling == "mean":
            return masked_mean(x, is_token)
        last = ops.maximum(ops.sum(ops.cast(is_token, "int32"), axis=1) - 1, 0)
        return ops.squeeze(ops.take_along_axis(x, last[:, None, None], axis=1), axis=1)
