"""The towers of a CLIP: texts to vectors, and images to vectors."""

import dataclasses

import keras
from keras import ops

from keras_attention import masks
from keras_attention.errors import unknown_name
from keras_attention.positions import LearnedPosition
from zoo.models.checked_options import CheckedOptions
from zoo.models.network_tail import NetworkTail
from zoo.models.pooling import masked_mean, pooling_by_heads
from zoo.models.transformer import StackConfig, TokenEmbedding
from zoo.models.two_towers import Tower

POOLINGS = ("attention", "end", "first", "mean")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TowerConfig(StackConfig):
    """Options of a tower, in addition to those of `StackConfig`, whose defaults partly differ.

    Args:
        pooling: `"attention"`: a learned query attends to all vectors; `"mean"`: the mean of all
            vectors; for texts, `"end"`: the vector of the end token; for patches of images,
            `"first"`: the vector of a learned class token.
        is_causal: Whether a vector only attends to itself and those before it.
        hiding: Fraction of the vectors of a text or image that are hidden in training (Li et al.
            2023, https://arxiv.org/abs/2212.00794), except for the first one.
        input_dropout: Dropout rate of the channels of an image's input vectors: the same channels
            in all parts of the grid.
        scaled: For texts, whether embeddings are multiplied by the square root of `size`.
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
    scaled: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.pooling not in POOLINGS:
            raise ValueError(unknown_name("pooling", self.pooling, POOLINGS))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClipConfig(CheckedOptions):
    """Options of a CLIP.

    Args:
        vocabulary_size: Number of tokens.
        channels: Size of the input vectors of an image; with patches, channels of a pixel.
        positions: Number of these vectors, or of patches, in an image.
        patch_size: Rows and columns of the patches that the image tower splits images into; or
            `None` if another network turns images into vectors.
        embedding_size: Size of the vectors in the joint space.
        max_length: Maximum number of tokens of a text, start and end included.
        end_id: Id of the end token of a text.
        pad_id: Id of the padding after it.
        text: Dictionary of the options of the text tower, see `TowerConfig`. Those of the original
            CLIP are `{"num_layers": 12, "is_causal": True, "pooling": "end", "scaled": False}`.
        tail: Dictionary of the arguments of the `NetworkTail` that the vectors of an image pass
            through before the image tower; or `None` for no such layers.
        image: Dictionary of the options of the image tower. Those of the original CLIP, ViT-B/32,
            are `{"num_layers": 12, "size": 768, "num_heads": 12, "hidden": 3072, "pooling":
            "first"}`, with `patch_size=32, channels=3`.
        temperature: Initial value of the divisor of the similarities, which is learned.
    """

    vocabulary_size: int
    channels: int = 1280
    positions: int = 49
    patch_size: int | None = None
    embedding_size: int = 512
    max_length: int = 77
    end_id: int = 2
    pad_id: int = 0
    text: dict | None = None
    tail: dict | None = None
    image: dict | None = None
    temperature: float = 0.07

    def __post_init__(self):
        super().__post_init__()
        pooling = TowerConfig(**self.image or {}).pooling
        if pooling == "end":
            raise ValueError(
                "An image has no end token: pooling='end' is for texts. Pass image={'pooling': "
                f"'attention'}} or 'mean'. Received: image={self.image}."
            )
        if self.tail and self.patch_size:
            raise ValueError(
                "tail=... is for the vectors that a backbone makes of images, not for patches. "
                f"Received: tail={self.tail}, patch_size={self.patch_size}."
            )
        if "first" in (TowerConfig(**self.text or {}).pooling, pooling * (not self.patch_size)):
            raise ValueError(
                "pooling='first' is for images that are cut into patches: patch_size=32. "
                f"Received: patch_size={self.patch_size}, image={self.image}, text={self.text}."
            )


class _Tower(Tower):
    """A stack of blocks over vectors, pooled to one vector."""

    Whole, Options = ClipConfig, TowerConfig

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        config, dtype = self.config, self.dtype_policy
        self.seed_generator = keras.random.SeedGenerator() if config.hiding else None
        self.pool = None
        if config.pooling == "attention":
            self.pool = pooling_by_heads(config.num_heads, config.size, dtype)

    def mask_of_blocks(self):
        return masks.Causal() if self.config.is_causal else None

    def build_blocks(self):
        super().build_blocks()
        if self.pool is not None:
            self.pool.build((None, None, self.config.size))

    def read(self, x, mask, end, return_attention_scores, training):
        """Returns `(batch, size)` for vectors `(batch, length, size)`; if requested, also the
        weights of all blocks, and of the attention pooling, `(batch, heads, 1, length)`.
        """
        if training and self.config.hiding:
            shape = ops.shape(x)[:2]
            shown = keras.random.uniform(shape, seed=self.seed_generator) >= self.config.hiding
            shown = ops.logical_or(shown, ops.arange(shape[1]) == 0)
            mask = shown if mask is None else ops.logical_and(mask, shown)
        flags = {"return_attention_scores": return_attention_scores, "training": training}
        x, weights = self.run(x, mask, **flags)
        if self.pool is None:
            pooled = self._pooled(x, mask, end)
        elif return_attention_scores:
            pooled, of_pool = self.pool(x, mask=mask, **flags)
            pooled = pooled[:, 0]
            weights.append(of_pool)
        else:
            pooled = self.pool(x, mask=mask, training=training)[:, 0]
        return (pooled, weights) if return_attention_scores else pooled

    def _pooled(self, x, mask, end):
        if self.config.pooling == "end":
            return ops.squeeze(ops.take_along_axis(x, end[:, None, None], axis=1), axis=1)
        if self.config.pooling == "first":
            return x[:, 0]
        return ops.mean(x, axis=1) if mask is None else masked_mean(x, mask)


@keras.saving.register_keras_serializable(package="zoo")
class TextTower(_Tower):
    """Turns token ids `(batch, length)`, with start and end, into vectors `(batch, size)`."""

    side = "text"

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = TokenEmbedding(
            self.whole.vocabulary_size,
            self.config.size,
            self.config.position,
            self.whole.max_length,
            self.config.dropout,
            self.config.scaled,
            dtype=self.dtype_policy,
            name="embedding",
        )

    def build(self, token_ids_shape=None):
        self.embedding.build()
        self.build_blocks()

    def call(self, token_ids, return_attention_scores=False, training=None):
        token_ids = ops.cast(token_ids, "int32")
        end = ops.argmax(ops.cast(ops.equal(token_ids, self.whole.end_id), "int32"), axis=1)
        mask = ops.not_equal(token_ids, self.whole.pad_id)
        x = self.embedding(token_ids, training=training)
        return self.read(x, mask, end, return_attention_scores, training)


@keras.saving.register_keras_serializable(package="zoo")
class GridTower(_Tower):
    """Turns the grids of images `(batch, positions, channels)` into vectors `(batch, size)`."""

    side = "image"

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        config, whole, dtype = self.config, self.whole, self.dtype_policy
        self.tail = NetworkTail(**whole.tail, name="tail") if whole.tail else None
        self.positions, self.channels = whole.positions, whole.channels
        if self.tail is not None:
            self.tail.require_taken(self.positions, self.channels)
            self.positions, self.channels = self.tail.positions, self.tail.channels
        self.input_norm = keras.layers.LayerNormalization(epsilon=config.epsilon, dtype=dtype)
        self.input_drop = keras.layers.Dropout(config.input_dropout, (None, 1, None), dtype=dtype)
        self.inputs = keras.layers.Dense(config.size, dtype=dtype, name="inputs")
        self.place = LearnedPosition(self.positions, dtype=dtype, name="place")
        self.drop = keras.layers.Dropout(config.dropout, dtype=dtype)

    def build(self, images_shape=None):
        images_shape = (None, self.positions, self.channels)
        self.input_norm.build(images_shape)
        self.inputs.build(images_shape)
        self.place.build((*images_shape[:-1], self.config.size))
        self.build_blocks()

    def call(self, images, return_attention_scores=False, training=None):
        x = self.input_drop(self.normalized(images), training=training)
        x = self.drop(self.place(self.inputs(x)), training=training)
        return self.read(x, None, None, return_attention_scores, training)

    def normalized(self, images):
        """Returns the input vectors of the tower, `(batch, positions, channels)`."""
        return self.input_norm(images if self.tail is None else self.tail(images))


@keras.saving.register_keras_serializable(package="zoo")
class PatchTower(_Tower):
    """Turns images `(batch, rows, columns, channels)` into vectors `(batch, size)`: a Vision
    Transformer with a normalization before its blocks.
    """

    side = "image"

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        config, whole, dtype = self.config, self.whole, self.dtype_policy
        patch = whole.patch_size
        self.patches = keras.layers.Conv2D(
            config.size,
            patch,
            patch,
            data_format="channels_last",
            use_bias=False,
            dtype=dtype,
            name="patches",
        )
        self.places = whole.positions + (config.pooling == "first")
        self.place = LearnedPosition(self.places, dtype=dtype, name="place")
        self.input_drop = keras.layers.Dropout(config.input_dropout, dtype=dtype)
        self.input_norm = keras.layers.LayerNormalization(epsilon=config.epsilon, dtype=dtype)

    def build(self, images_shape=None):
        size = self.config.size
        self.patches.build((None, None, None, self.whole.channels))
        self.class_token = None
        if self.config.pooling == "first":
            normal = keras.initializers.TruncatedNormal(stddev=0.02)
            self.class_token = self.add_weight(
                name="class_token", shape=(size,), initializer=normal
            )
        self.place.build((None, self.places, size))
        self.input_norm.build((None, self.places, size))
        self.build_blocks()

    def call(self, images, return_attention_scores=False, training=None):
        x = self.patches(images)
        x = ops.reshape(x, (-1, self.whole.positions, self.config.size))  # (batch, patches, size)
        if self.class_token is not None:
            first = ops.cast(ops.convert_to_tensor(self.class_token), x.dtype)
            first = ops.broadcast_to(first, (ops.shape(x)[0], 1, self.config.size))
            x = ops.concatenate([first, x], axis=1)
        x = self.input_norm(self.input_drop(self.place(x), training=training))
        return self.read(x, None, None, return_attention_scores, training)
