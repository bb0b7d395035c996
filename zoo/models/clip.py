"""CLIP: pictures and texts to unit vectors of one space, in which they meet.

The task, searching, matching and naming pictures by texts, is `zoo.tasks.matching.Matcher`.
"""

import dataclasses
import math

import keras
from keras import ops

from keras_attention import EncoderBlock, MultiHeadAttention, masks
from keras_attention.errors import unknown_name
from keras_attention.positions import LearnedPosition
from zoo.models.core import Core
from zoo.models.transformer import (
    StackConfig,
    TokenEmbedding,
    final_norm,
    make_blocks,
    run_blocks,
)

POOLINGS = ("attention", "end", "mean")
SHARPEST = 100.0  # at most, similarities are multiplied by this


@dataclasses.dataclass(frozen=True, kw_only=True)
class TowerConfig(StackConfig):
    """Options of a tower: those of `StackConfig`, some with other defaults, and

    Args:
        pooling: `"attention"`: a learned query looks at all vectors; `"mean"`: of all vectors; or,
            of texts, `"end"`: the vector of the end token.
        is_causal: Whether a vector sees those before it alone.
        hiding: Fraction of the vectors of a text or picture that are hidden in training (Li et al.
            2023, https://arxiv.org/abs/2212.00794), but for the first.
        input_dropout: Fraction dropped of the numbers that a picture's vectors come with.
    """

    num_layers: int = 1
    size: int = 512
    num_heads: int = 8
    hidden: int = 2048
    normalize: str = "pre"
    position: str = "learned"
    activation: str = "quick_gelu"
    pooling: str = "attention"
    is_causal: bool = False
    hiding: float = 0.0
    input_dropout: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        if self.pooling not in POOLINGS:
            raise ValueError(unknown_name("pooling", self.pooling, POOLINGS))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClipConfig:
    """Options of a CLIP.

    Args:
        vocabulary_size: Number of tokens.
        channels: Size of the vectors that a picture comes as.
        positions: Number of these vectors, the parts of the picture.
        embedding_size: Size of the vectors of the common space.
        max_length: Tokens of a text at most, start and end included.
        end_id, pad_id: The tokens at the end of a text, and after it.
        text: Dictionary of the options of the tower of texts, see `TowerConfig`. CLIP's own is
            `{"num_layers": 12, "is_causal": True, "pooling": "end"}`.
        image: Dictionary of the options of the tower of pictures.
        temperature: What similarities are divided by before training changes it.
    """

    vocabulary_size: int
    channels: int = 1280
    positions: int = 49
    embedding_size: int = 512
    max_length: int = 77
    end_id: int = 2
    pad_id: int = 0
    text: dict | None = None
    image: dict | None = None
    temperature: float = 0.07

    def __post_init__(self):
        if TowerConfig(**self.image or {}).pooling == "end":
            raise ValueError(
                "A picture has no end token: pooling='end' is for texts. Pass image={'pooling': "
                f"'attention'}} or 'mean'. Received: image={self.image}."
            )


@keras.saving.register_keras_serializable(package="zoo")
class Clip(Core):
    """Two towers, one of pictures and one of texts, and the similarities of what they give.

    $$ S_{ij} = e^t \\frac{f(image_i) \\cdot g(text_j)}{|f(image_i)| |g(text_j)|} $$

    The scale e^t is learned, and 100 at most.

    Paper: Radford et al. 2021, Learning Transferable Visual Models From Natural Language
    Supervision (https://arxiv.org/abs/2103.00020). The tower of pictures begins with the grid of
    vectors that another network, such as `zoo.Backbone`, made of a picture.

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `ClipConfig`.

    Call arguments:
        inputs: Dictionary of `images`, float `(images, positions, channels)`, and `token_ids`,
            int32 `(texts, length)`, padded, as `Matcher` makes them.

    Output shape:
        Float32 `(images, texts)`: the similarities S.

    Example:

    >>> tower = {"size": 8, "num_heads": 2, "hidden": 16}
    >>> core = Clip(50, channels=6, positions=4, embedding_size=5, text=tower, image=tower)
    >>> token_ids = np.array([[1, 7, 9, 2], [1, 8, 2, 0], [1, 2, 0, 0]])
    >>> tuple(core({"images": np.ones((2, 4, 6)), "token_ids": token_ids}).shape)
    (2, 3)
    >>> ops.norm(core.embed_texts(token_ids), axis=-1).numpy().round(3).tolist()
    [1.0, 1.0, 1.0]
    """

    Config = ClipConfig
    architecture = "clip"
    description = "Pictures and texts in one space (Radford et al. 2021)"

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size=vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.text_tower = TextTower(config, dtype=dtype, name="text_tower")
        self.image_tower = GridTower(config, dtype=dtype, name="image_tower")
        self.text_projection, self.image_projection = (
            keras.layers.Dense(config.embedding_size, use_bias=False, dtype=dtype, name=name)
            for name in ("text_projection", "image_projection")
        )

    def build(self, inputs_shape=None):
        config = self.config
        self.text_tower.build((None, None))
        self.image_tower.build((None, config.positions, config.channels))
        self.text_projection.build((None, self.text_tower.config.size))
        self.image_projection.build((None, self.image_tower.config.size))
        self.log_scale = self.add_weight(
            name="log_scale",
            shape=(),
            initializer=keras.initializers.Constant(-math.log(config.temperature)),
            autocast=False,
        )

    def call(self, inputs, training=None):
        images = self.embed_images(inputs["images"], training=training)
        texts = self.embed_texts(inputs["token_ids"], training=training)
        return self.scale() * ops.matmul(images, ops.transpose(texts))

    def scale(self):
        """Returns what cosines are multiplied by, a scalar."""
        return ops.minimum(ops.exp(ops.convert_to_tensor(self.log_scale)), SHARPEST)

    def embed_images(self, images, training=None):
        """Returns float32 unit vectors `(images, embedding_size)`."""
        return _unit(self.image_projection(self.image_tower(images, training=training)))

    def embed_texts(self, token_ids, training=None):
        """Returns float32 unit vectors `(texts, embedding_size)`."""
        return _unit(self.text_projection(self.text_tower(token_ids, training=training)))


@keras.saving.register_keras_serializable(package="zoo")
class _Tower(keras.layers.Layer):
    """A stack of blocks over vectors, and one vector of all of them.

    Args:
        config: A `ClipConfig`, or its fields as a dictionary.
    """

    side = None  # the field of `ClipConfig` with the options

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.whole = ClipConfig(**config) if isinstance(config, dict) else config
        self.config = TowerConfig(**getattr(self.whole, self.side) or {})
        config, dtype = self.config, self.dtype_policy
        mask = masks.Causal() if config.is_causal else None
        self.blocks = make_blocks(EncoderBlock, "block", config, mask=mask, dtype=dtype)
        self.norm = final_norm(config, "norm", dtype)
        self.seed_generator = keras.random.SeedGenerator() if config.hiding else None
        self.pool = None
        if config.pooling == "attention":
            self.pool = AttentionPooling(config.num_heads, dtype=dtype, name="pool")

    def build_blocks(self):
        vectors = (None, None, self.config.size)
        for block in self.blocks:
            block.build(vectors)
        self.norm.build(vectors)
        if self.pool is not None:
            self.pool.build(vectors)

    def read(self, x, mask, end, training):
        """Returns `(batch, size)`, of vectors `(batch, length, size)`."""
        if training and self.config.hiding:
            shape = ops.shape(x)[:2]
            shown = keras.random.uniform(shape, seed=self.seed_generator) >= self.config.hiding
            shown = ops.logical_or(shown, ops.arange(shape[1]) == 0)
            mask = shown if mask is None else ops.logical_and(mask, shown)
        x, _ = run_blocks(self.blocks, x, mask=mask, training=training)
        x = self.norm(x)
        if self.pool is not None:
            return self.pool(x, mask=mask, training=training)
        if self.config.pooling == "end":
            return ops.squeeze(ops.take_along_axis(x, end[:, None, None], axis=1), axis=1)
        if mask is None:
            return ops.mean(x, axis=1)
        counts = ops.cast(mask, "float32")[..., None]
        total = ops.sum(ops.cast(x, "float32") * counts, axis=1)
        return ops.cast(total / ops.maximum(ops.sum(counts, axis=1), 1.0), x.dtype)

    def get_config(self):
        return {**super().get_config(), "config": dataclasses.asdict(self.whole)}


@keras.saving.register_keras_serializable(package="zoo")
class TextTower(_Tower):
    """Token ids `(batch, length)`, each with start and end, to a vector each, `(batch, size)`."""

    side = "text"

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = TokenEmbedding(
            self.whole.vocabulary_size,
            self.config.size,
            self.config.position,
            self.whole.max_length,
            self.config.dropout,
            dtype=self.dtype_policy,
            name="embedding",
        )

    def build(self, token_ids_shape=None):
        self.embedding.build()
        self.build_blocks()

    def call(self, token_ids, training=None):
        token_ids = ops.cast(token_ids, "int32")
        end = ops.argmax(ops.cast(ops.equal(token_ids, self.whole.end_id), "int32"), axis=1)
        mask = ops.not_equal(token_ids, self.whole.pad_id)
        return self.read(self.embedding(token_ids, training=training), mask, end, training)


@keras.saving.register_keras_serializable(package="zoo")
class GridTower(_Tower):
    """Vectors of the parts of pictures `(batch, positions, channels)` to one, `(batch, size)`."""

    side = "image"

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        config, dtype = self.config, self.dtype_policy
        self.input_norm = keras.layers.LayerNormalization(epsilon=config.epsilon, dtype=dtype)
        self.input_drop = keras.layers.Dropout(config.input_dropout, dtype=dtype)
        self.inputs = keras.layers.Dense(config.size, dtype=dtype, name="inputs")
        self.place = LearnedPosition(self.whole.positions, dtype=dtype, name="place")
        self.drop = keras.layers.Dropout(config.dropout, dtype=dtype)

    def build(self, images_shape):
        self.input_norm.build(images_shape)
        self.inputs.build(images_shape)
        self.place.build((*images_shape[:-1], self.config.size))
        self.build_blocks()

    def call(self, images, training=None):
        x = self.input_drop(self.input_norm(images), training=training)
        x = self.drop(self.place(self.inputs(x)), training=training)
        return self.read(x, None, None, training)


@keras.saving.register_keras_serializable(package="zoo")
class AttentionPooling(keras.layers.Layer):
    """One vector of several, by the attention of a learned query.

    Paper: Lee et al. 2019, Set Transformer, section 3.2 (https://arxiv.org/abs/1810.00825).

    Args:
        num_heads: Number of heads, which may look at different vectors.

    Call arguments:
        x: `(batch, length, size)`.
        mask: Boolean `(batch, length)`, `False` for padding.

    Output shape:
        `(batch, size)`.
    """

    def __init__(self, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = num_heads

    def compute_mask(self, x, previous_mask=None):
        """Returns nothing: no length is left."""

    def build(self, x_shape):
        size = x_shape[-1]
        self.query = self.add_weight(
            name="query", shape=(1, size), initializer=keras.initializers.TruncatedNormal(stddev=1)
        )
        self.attention = MultiHeadAttention(
            self.num_heads, size // self.num_heads, dtype=self.dtype_policy, name="attention"
        )
        self.attention.build((None, 1, size), x_shape)

    def call(self, x, mask=None, training=None):
        query = ops.cast(ops.convert_to_tensor(self.query), x.dtype)
        query = ops.broadcast_to(query, (ops.shape(x)[0], 1, x.shape[-1]))
        return self.attention(query, x, value_mask=mask, training=training)[:, 0]

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads}


def _unit(x):
    return ops.normalize(ops.cast(x, "float32"), axis=-1)
