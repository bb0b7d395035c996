"""BERT-style text encoders: token ids to vectors, labels, answers, or masked tokens.

The tasks are `zoo.tasks.classification.Classifier`, `zoo.tasks.scoring.Scorer`,
`zoo.tasks.tagging.Tagger`, `zoo.tasks.answering.Answerer`, `zoo.tasks.masked.MaskFiller` and
`zoo.tasks.embedding.Embedder`.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import EncoderBlock, TransformerBlock, activations, masks, positions
from keras_attention._backend import rows_of
from keras_attention.errors import unknown_name
from zoo.models import rounded_frequencies  # noqa: F401, which configs of positions may hold
from zoo.models.chunks import by_chunk, mean_of_chunks, parts_of, told_of_chunks
from zoo.models.core import Core
from zoo.models.longformer import (
    before_first,
    begin_block_with,
    longformer_block,
    require_longformer,
)
from zoo.models.pooling import masked_mean
from zoo.models.rollout import attention_rollout
from zoo.models.transformer import (
    TransformerConfig,
    final_norm,
    make_blocks,
    make_norm,
    run_blocks,
)

HEADS = {  # the architecture, and what it is
    "labels": ("text_encoder", "Text encoder for classification (Devlin et al. 2019)"),
    "score": ("text_encoder_score", "Text encoder for scoring (Devlin et al. 2019)"),
    "tags": ("text_encoder_tags", "Text encoder for tagging words (Devlin et al. 2019)"),
    "span": (
        "text_encoder_span",
        "Text encoder for extractive question answering (Devlin et al. 2019)",
    ),
    "masked": (
        "text_encoder_masked",
        "Text encoder for masked language modeling (Devlin et al. 2019)",
    ),
    "embedding": (
        "text_encoder_embedding",
        "Text encoder for text embeddings (Reimers and Gurevych 2019)",
    ),
}
WITH_GLOBAL_TOKENS = "labels", "score", "span"  # in Longformer
MASKED_SHARE = 0.15 * 0.8  # of the tokens, in the training of ESM
OF_TOKENS = "tags", "span", "masked"  # heads whose output layer reads the vector of each token
POOLINGS = ("first", "mean")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(TransformerConfig):
    """Options of a text encoder, in addition to those of `TransformerConfig`, whose defaults partly
    differ.

    Args:
        head: `"labels"`, `"score"` for a number, `"tags"` for a label of each token, `"span"`
            for the start and end of an answer, `"masked"` for masked tokens, or `"embedding"` for a
            vector.
        num_labels: Number of labels; `labels=` of `zoo.load` determines it.
        embedding_size: Size of the embeddings, which a dense layer projects to `size` if it
            differs, as in ELECTRA; defaults to `size`.
        position: `"learned"`, added to the embedding; or a position inside self-attention, as for
            `TransformerConfig`, such as `"rotary"`. All blocks share the vectors of
            `"disentangled"`, as in DeBERTa.
        window: How far a token sees to each side; `None` for no limit.
        global_every: With a `window`, every `global_every`-th block, beginning with the first, sees
            all tokens; 0 for none.
        global_position: Position inside the attention of these blocks; defaults to `position`.
        windows: For `LongformerAttention`, the window of each block: an even number of neighbors
            that a token sees, half on each side. With the heads `"labels"` and `"score"`, the first
            token is global; with `"span"`, those before the first separator are.
        separator_id: Id of the token behind the question, for `windows` with the head `"span"`.
        shared_block: Whether one block takes the place of all `num_layers`, as in ALBERT: it is
            applied again and again.
        first_norm: Whether with `normalize="pre"` the first block normalizes its input, which the
            embedding has already normalized.
        relative_buckets: Number of buckets of a learned relative position bias, which all blocks
            share and which is added to learned positions, as in MPNet; 0 for none.
        max_length: Number of positions; longer texts are read in chunks.
        position_offset: Number of rows of the position table before the first position, as in
            RoBERTa.
        embedding_norm: Whether the sum of the embeddings is normalized.
        mask_id: Id of the token that masks, for models that were trained with masked tokens as if
            they had been dropped out, as ESM was: their vectors are zero, and the others are scaled
            by the share of tokens that are left, compared with that in training.
        num_segments: Number of segment types, the first of which is that of a single text; 0 for
            none.
        pooling: `"first"` for the vector of the start token, `"mean"` for the mean of all tokens.
        pooler: Activation of a dense layer after pooling: `"tanh"` in BERT and RoBERTa, `"relu"` in
            DistilBERT; `None` for no layer.
        vector_size: Number of outputs of that layer with the head `"embedding"`; defaults to
            `size`.
        transform: Whether the output layer of every head, not only that of `"masked"`, reads the
            result of a dense layer and a normalization, which replace the `pooler`.
        masked_activation: Activation of that dense layer.
        unit_length: Whether vectors of the head `"embedding"` are normalized to length 1.
    """

    num_layers: int = 12
    size: int = 768
    num_heads: int = 12
    hidden: int = 3072
    position: str = "learned"
    activation: str = "gelu"
    attention_dropout: float = 0.1
    epsilon: float = 1e-12
    head: str = "labels"
    num_labels: int = 0
    embedding_size: int | None = None
    window: int | None = None
    global_every: int = 0
    global_position: str | dict | None = None
    windows: list | None = None
    separator_id: int | None = None
    shared_block: bool = False
    first_norm: bool = True
    relative_buckets: int = 0
    max_length: int = 512
    position_offset: int = 0
    embedding_norm: bool = True
    mask_id: int | None = None
    num_segments: int = 0
    pooling: str = "first"
    pooler: str | None = "tanh"
    vector_size: int | None = None
    transform: bool = False
    masked_activation: str = "gelu"
    unit_length: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.position == "sinusoidal":
            known = sorted(["learned", *positions.names()])
            raise ValueError(unknown_name("position of an encoder", self.position, known))
        if self.position != "learned" and (self.relative_buckets or self.position_offset):
            raise ValueError(
                "`relative_buckets` and `position_offset` need position='learned'. Received: "
                f"position={self.position!r}, relative_buckets={self.relative_buckets}, "
                f"position_offset={self.position_offset}."
            )
        if self.head not in HEADS:
            raise ValueError(unknown_name("head", self.head, HEADS))
        if self.pooling not in POOLINGS:
            raise ValueError(unknown_name("pooling", self.pooling, POOLINGS))
        if self.head in ("labels", "tags") and self.num_labels < 1:
            raise ValueError(
                "A model of labels needs some: labels=[...]. Received: num_labels="
                f"{self.num_labels}."
            )
        if self.windows is not None:
            require_longformer(self)
            object.__setattr__(self, "windows", [int(x) for x in self.windows])  # as JSON has it
        if self.shared_block and (self.windows or self.global_every or not self.first_norm):
            raise ValueError(
                "`shared_block` needs blocks that are alike, without `windows`, `global_every` and "
                f"first_norm=False. Received: windows={self.windows}, global_every="
                f"{self.global_every}, first_norm={self.first_norm}."
            )
        object.__setattr__(self, "embedding_size", self.embedding_size or self.size)
        object.__setattr__(self, "vector_size", self.vector_size or self.size)
        if self.vector_size != self.size and (self.head != "embedding" or self.pooler is None):
            raise ValueError(
                f"`vector_size` other than size={self.size} needs head='embedding' and a `pooler`. "
                f"Received: vector_size={self.vector_size}, head={self.head!r}, "
                f"pooler={self.pooler!r}."
            )


@keras.saving.register_keras_serializable(package="zoo")
class TextEncoder(Core):
    """A stack of blocks over the tokens of a text, and one of six heads.

    Paper: Devlin et al. 2019, BERT (https://arxiv.org/abs/1810.04805). The defaults, with
    `num_segments=2`, are its base model; its large one has `num_layers=24, size=1024, num_heads=16,
    hidden=4096`. RoBERTa: `position_offset=2, epsilon=1e-5, pad_id=1`. DistilBERT: `num_layers=6,
    num_segments=0, pooler="relu"`.

    Args:
        vocabulary_size: Number of tokens.
        **options: The fields of `TextEncoderConfig`.

    Call arguments:
        inputs: int32 token ids `(batch, length)`, or `(batch, chunks, length)` for the parts of
            long texts, as returned by `TextReader`. A text is the mean of its chunks, weighted by
            their numbers of tokens. Or a dictionary of such `token_ids` and `segment_ids`, for
            pairs of texts, as returned by `PairReader`; without `segment_ids`, all tokens are in
            the first segment.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Float32: logits `(batch, num_labels)`; with `head="score"`, numbers `(batch, 1)`; with
        `head="tags"`, logits `(batch, length, num_labels)`; with `head="span"`, `(batch, length,
        2)`, logits of the start and the end of an answer; with `head="masked"`, `(batch,
        length, vocabulary_size)`; with `head="embedding"`, vectors `(batch, vector_size)`. With
        `return_attention_scores` also a list of `(batch * chunks, num_heads, length, length)`, a
        tensor for each block.

    Example:

    >>> core = TextEncoder(vocabulary_size=50, num_labels=2, num_layers=1, size=8, num_heads=2,
    ...                    hidden=16)
    >>> tuple(core(np.array([[1, 7, 2, 0]])).shape)
    (1, 2)
    """

    Config = TextEncoderConfig

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size=vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.embedding = TextEmbedding(config, dtype=dtype, name="embedding")
        self.distances = self.by_distance = None
        if config.position != "learned":
            position = positions.get(config.position)
            if isinstance(position, positions.Disentangled):
                self.distances = position.embedding
        if config.relative_buckets:
            self.by_distance = positions.T5Bias(config.relative_buckets, dtype=dtype)
        if config.shared_block:
            self.blocks = [self._make_block(0)] * config.num_layers
        else:
            self.blocks = [self._make_block(place) for place in range(config.num_layers)]
        self.norm = final_norm(config, "norm", dtype)
        self.drop = keras.layers.Dropout(config.dropout, dtype=dtype)
        self.pooler = self.output_layer = self.transform = None
        if config.head == "masked" or (config.transform and config.head != "embedding"):
            self.transform = keras.layers.Dense(
                config.embedding_size if config.head == "masked" else config.size,
                activations.get(config.masked_activation),
                use_bias=config.use_bias is not False,
                dtype=dtype,
            )
            self.transform_norm = make_norm(config, "transform_norm", dtype)
        elif config.pooler is not None and config.head not in OF_TOKENS:
            self.pooler = keras.layers.Dense(config.vector_size, config.pooler, dtype=dtype)
        outputs = {"labels": config.num_labels, "tags": config.num_labels, "score": 1, "span": 2}
        if config.head in outputs:
            self.output_layer = keras.layers.Dense(outputs[config.head], dtype=dtype)

    @property
    def architecture(self):
        return HEADS[self.config.head][0]

    @property
    def description(self):
        return HEADS[self.config.head][1]

    def build(self, token_ids_shape=None):
        tokens, vectors = (None, None, self.config.size), (None, self.config.size)
        self.embedding.build()
        for block in dict.fromkeys(self.blocks):  # each once
            block.build(tokens)
        self.norm.build(tokens)
        if self.transform is not None:
            self.transform.build(tokens)
            self.transform_norm.build((None, None, self.transform.units))
        if self.config.head == "masked":
            self.output_bias = self.add_weight(
                name="output_bias", shape=(self.config.vocabulary_size,), initializer="zeros"
            )
        for layer in (self.pooler, self.output_layer):
            if layer is not None:
                layer.build(vectors)

    def call(self, inputs, return_attention_scores=False, training=None):
        token_ids, _ = parts_of(inputs)
        x, weights = self.encode(inputs, return_attention_scores, training)
        if self.config.head not in OF_TOKENS:
            x = self._pool(x, token_ids)
            x = x if self.pooler is None else self.pooler(x)
            x = mean_of_chunks(x, token_ids, self.config.pad_id)
        if self.config.head == "masked":
            x = self.tell(x)
        elif self.transform is not None:
            x = self.transform_norm(self.transform(x))
        if self.output_layer is not None:
            x = self.output_layer(self.drop(x, training=training))
        x = ops.cast(x, "float32")
        if self.config.head == "embedding" and self.config.unit_length:
            x = ops.normalize(x, axis=-1)
        return (x, weights) if return_attention_scores else x

    def encode(self, inputs, return_attention_scores=False, training=None):
        """Returns the vectors of tokens `(batch * chunks, length, size)`, and a list of weights."""
        token_ids, segment_ids = parts_of(inputs)
        ids = by_chunk(token_ids)
        segment_ids = None if segment_ids is None else by_chunk(segment_ids)
        of_question = {}
        if self.config.windows is not None and self.config.head == "span":
            of_question = {"global_mask": before_first(self.config.separator_id, ids)}
        x, weights = run_blocks(
            self.blocks,
            self.embedding(ids, segment_ids, training=training),
            mask=ops.not_equal(ids, self.config.pad_id),
            return_attention_scores=return_attention_scores,
            training=training,
            **of_question,
        )
        return self.norm(x), [each for (each,) in weights]

    def _make_block(self, place):
        config = self.config
        if config.windows is not None:
            is_global = config.head in WITH_GLOBAL_TOKENS
            return longformer_block(config, place, is_global, self.dtype_policy)
        is_global = config.global_every and place % config.global_every == 0
        is_local = config.window is not None and not is_global
        position = self.by_distance
        if config.position != "learned":
            position = config.position if is_local else config.global_position or config.position
        if self.distances is not None:
            position = positions.Disentangled(self.distances, dtype=self.dtype_policy)
        (block,) = make_blocks(
            EncoderBlock if place or config.first_norm else BlockOfNormalized,
            "block",
            config,
            number=1,
            first=place,
            position=position,
            mask=masks.SlidingWindow(config.window, config.window) if is_local else None,
            dtype=self.dtype_policy,
        )
        return block

    def begin_with(self, other):
        """Copies the weights of the embeddings and blocks of another encoder, but not of its head.

        Raises:
            ValueError: If the shapes, `num_layers` or `shared_block` differ.
        """
        pairs = [(self.embedding, other.embedding), (self.norm, other.norm)]
        for name in ("num_layers", "shared_block"):
            own, trained = (getattr(each.config, name) for each in (self, other))
            if own != trained:
                raise ValueError(
                    f"{name} must be {trained}, as in the encoder to begin with. Received: "
                    f"{name}={own}."
                )
        pairs += zip(self.blocks, other.blocks, strict=True)
        for own, trained in pairs:
            if isinstance(own, TransformerBlock) and isinstance(trained, TransformerBlock):
                begin_block_with(own, trained)
            else:
                own.set_weights(trained.get_weights())

    def tell(self, x):
        """Returns the logits of tokens for vectors `(..., size)`, with `head="masked"`."""
        logits = self.embedding.logits(self.transform_norm(self.transform(x)))
        return logits + ops.cast(self.output_bias, "float32")

    def told(self, inputs, weights):
        """Explains an answer by attention, see `zoo.tasks.classification.Classifier.respond`.

        Args:
            inputs: The texts, in chunks, or the pairs.
            weights: Weights that `call` returned for them.

        Returns:
            Dictionary of int32 `token_ids` and float32 `attention`, both `(batch, chunks *
            length)`: the tokens that the answer came from, by rollout. A row sums to 1.
        """
        token_ids, _ = parts_of(inputs)
        looks = self._pool(attention_rollout(weights), token_ids)
        return told_of_chunks(looks, token_ids, self.config.pad_id)

    def _pool(self, x, token_ids):
        """Returns a vector for each chunk, `(batch * chunks, size)`."""
        if self.config.pooling == "first":
            return x[:, 0]
        return masked_mean(x, ops.not_equal(by_chunk(token_ids), self.config.pad_id))


@keras.saving.register_keras_serializable(package="zoo")
class BlockOfNormalized(EncoderBlock):
    """The block after an embedding that is normalized, so that its attention reads it as it is."""

    def _make_norm(self, name, x_shape):
        if name != "attention_norm":
            return super()._make_norm(name, x_shape)
        return keras.layers.Identity(dtype=self.dtype_policy, name=name)


@keras.saving.register_keras_serializable(package="zoo")
class TextEmbedding(keras.layers.Layer):
    """The sum of token, learned position and segment embeddings, normalized unless
    `embedding_norm` is false, and projected to the size of the blocks.

    Args:
        config: A `TextEncoderConfig`, or its fields as a dictionary.

    Call arguments:
        ids: int32 `(batch, length)`.
        segment_ids: int32 `(batch, length)`; by default all tokens are in the first segment.

    Output shape:
        `(batch, length, size)`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = TextEncoderConfig(**config) if isinstance(config, dict) else config
        self.norm = keras.layers.Identity(dtype=self.dtype_policy, name="norm")
        if self.config.embedding_norm:
            self.norm = make_norm(self.config, "norm", self.dtype_policy)
        self.drop = keras.layers.Dropout(self.config.dropout, dtype=self.dtype_policy)
        self.project = None
        if self.config.embedding_size != self.config.size:
            self.project = keras.layers.Dense(
                self.config.size, dtype=self.dtype_policy, name="project"
            )

    def build(self, ids_shape=None):
        config, size = self.config, self.config.embedding_size

        def table(name, rows):
            normal = keras.initializers.TruncatedNormal(stddev=0.02)
            return self.add_weight(name=name, shape=(rows, size), initializer=normal)

        self.tokens = table("tokens", config.vocabulary_size)
        self.places = None
        if config.position == "learned":
            self.places = table("places", config.max_length + config.position_offset)
        self.segments = table("segments", config.num_segments) if config.num_segments else None
        self.norm.build((None, None, size))
        if self.project is not None:
            self.project.build((None, None, size))

    def call(self, ids, segment_ids=None, training=None):
        first, length = self.config.position_offset, ops.shape(ids)[1]
        x = rows_of(self.tokens, ids, training)
        if self.config.mask_id is not None:
            x = self._without_masked(x, ids)
        if self.places is not None:
            x = x + ops.convert_to_tensor(self.places)[first : first + length]
        if self.segments is not None:
            segment_ids = ops.zeros_like(ids) if segment_ids is None else segment_ids
            x = x + rows_of(self.segments, segment_ids, training)
        x = self.drop(self.norm(x), training=training)
        return x if self.project is None else self.project(x)

    def _without_masked(self, x, ids):
        """Drops the vectors of masked tokens out, with the share of them in each text."""
        is_masked = ops.equal(ids, self.config.mask_id)
        is_token = ops.not_equal(ids, self.config.pad_id)
        masked, tokens = (ops.sum(ops.cast(x, "float32"), axis=-1) for x in (is_masked, is_token))
        left = 1 - masked / ops.maximum(tokens, 1)
        scale = ops.where(is_masked, 0.0, ((1 - MASKED_SHARE) / left)[:, None])
        return x * ops.cast(scale, x.dtype)[..., None]

    def logits(self, x):
        """Returns float32 `(batch, length, vocabulary_size)`, with the token embedding table."""
        table = ops.cast(self.tokens, x.dtype)
        return ops.cast(ops.matmul(x, ops.transpose(table)), "float32")

    def get_config(self):
        return {**super().get_config(), "config": dataclasses.asdict(self.config)}
