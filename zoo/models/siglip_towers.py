"""The towers of a SigLIP: texts to vectors, and images to vectors."""

import dataclasses

import keras
from keras import ops

from keras_attention import FeedForward
from keras_attention.positions import LearnedPosition
from zoo.models.checked_options import CheckedOptions
from zoo.models.pooling import pooling_by_heads
from zoo.models.transformer import StackConfig, TokenEmbedding, make_norm
from zoo.models.two_towers import Tower


@dataclasses.dataclass(frozen=True, kw_only=True)
class SiglipTowerConfig(StackConfig):
    """Options of a tower: those of `StackConfig`, with the defaults of SigLIP's base size."""

    num_layers: int = 12
    size: int = 768
    num_heads: int = 12
    hidden: int = 3072
    normalize: str = "pre"
    position: str = "learned"
    activation: str = "tanh_gelu"
    dropout: float = 0.0
    epsilon: float = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class SiglipConfig(CheckedOptions):
    """Options of a SigLIP. The size of the image tower is that of the joint space.

    Args:
        vocabulary_size: Number of tokens.
        channels: Channels of a pixel.
        positions: Number of patches of an image.
        patch_size: Rows and columns of a patch.
        max_length: Number of tokens of every text, its end and padding included.
        end_id: Id of the end token of a text.
        pad_id: Id of the padding after it, which counts like any other token. It may be `end_id`.
        text: Dictionary of the options of the text tower, see `SiglipTowerConfig`.
        image: Dictionary of the options of the image tower.
        temperature: Initial value of the divisor of the cosines, which is learned.
        bias: Initial value of the bias of the logits, which is learned. Few of all pairs belong
            together: it should be negative.
    """

    vocabulary_size: int
    channels: int = 3
    positions: int = 196
    patch_size: int = 16
    max_length: int = 64
    end_id: int = 2
    pad_id: int = 0
    text: dict | None = None
    image: dict | None = None
    temperature: float = 0.1
    bias: float = -10.0

    @property
    def embedding_size(self):
        """Size of the vectors in the joint space."""
        return SiglipTowerConfig(**self.image or {}).size


class _Tower(Tower):
    """A stack of blocks over vectors."""

    Whole, Options = SiglipConfig, SiglipTowerConfig


@keras.saving.register_keras_serializable(package="zoo")
class SiglipTextTower(_Tower):
    """Turns token ids `(batch, max_length)` into the vectors `(batch, size)` of their last
    positions. Nothing is masked: padding counts like any other token.
    """

    side = "text"

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = TokenEmbedding(
            self.whole.vocabulary_size,
            self.config.size,
            self.config.position,
            self.whole.max_length,
            self.config.dropout,
            scaled=False,
            dtype=self.dtype_policy,
            name="embedding",
        )

    def build(self, token_ids_shape=None):
        self.embedding.build()
        self.build_blocks()

    def call(self, token_ids, return_attention_scores=False, training=None):
        x = self.embedding(token_ids, training=training)
        x, weights = self.run(x, return_attention_scores=return_attention_scores, training=training)
        return (x[:, -1], weights) if return_attention_scores else x[:, -1]


@keras.saving.register_keras_serializable(package="zoo")
class SiglipImageTower(_Tower):
    """Turns images `(batch, rows, columns, channels)` into vectors `(batch, size)`: a Vision
    Transformer without a class token, whose outputs are pooled by attention and a feed-forward
    network.
    """

    side = "image"

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        config, whole, dtype = self.config, self.whole, self.dtype_policy
        patch = whole.patch_size
        self.patches = keras.layers.Conv2D(
            config.size, patch, patch, data_format="channels_last", dtype=dtype, name="patches"
        )
        self.place = LearnedPosition(whole.positions, dtype=dtype, name="place")
        self.drop = keras.layers.Dropout(config.dropout, dtype=dtype)
        self.pool = pooling_by_heads(config.num_heads, config.size, dtype)
        self.pool_norm = make_norm(config, "pool_norm", dtype)
        self.pool_feed_forward = FeedForward(
            config.hidden, config.activation, dtype=dtype, name="pool_feed_forward"
        )

    def build(self, images_shape=None):
        size = self.config.size
        self.patches.build((None, None, None, self.whole.channels))
        self.place.build((None, self.whole.positions, size))
        self.build_blocks()
        self.pool.build((None, self.whole.positions, size))
        for layer in (self.pool_norm, self.pool_feed_forward):
            layer.build((None, size))

    def call(self, images, return_attention_scores=False, training=None):
        x = self.patches(images)
        x = ops.reshape(x, (-1, self.whole.positions, self.config.size))  # (batch, patches, size)
        x = self.drop(self.place(x), training=training)
        x, weights = self.run(x, return_attention_scores=return_attention_scores, training=training)
        if return_attention_scores:
            x, of_pool = self.pool(x, return_attention_scores=True, training=training)
            weights.append(of_pool)
        else:
            x = self.pool(x, training=training)
        x = x[:, 0]
        x = x + self.pool_feed_forward(self.pool_norm(x), training=training)
        return (x, weights) if return_attention_scores else x
