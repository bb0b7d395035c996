"""Models of two towers, one of images and one of texts, with vectors in a joint space."""

import dataclasses
import math

import keras
from keras import ops

from keras_attention import EncoderBlock
from zoo.models.core import Core
from zoo.models.pooling import unit_vectors
from zoo.models.transformer import final_norm, make_blocks, run_blocks


class Tower(keras.layers.Layer):
    """A stack of blocks over vectors.

    Class attributes:
        Whole: Dataclass of the options of the model of both towers.
        Options: Dataclass of the options of a tower, a `StackConfig`.
        side: The field of `Whole` with the options of this tower, `"text"` or `"image"`.

    Args:
        config: A `Whole`, or its fields as a dictionary.

    Attributes:
        whole: The `Whole`.
        config: The `Options`.
    """

    Whole = None
    Options = None
    side = None

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.whole = self.Whole(**config) if isinstance(config, dict) else config
        self.config = self.Options(**getattr(self.whole, self.side) or {})
        dtype = self.dtype_policy
        self.blocks = make_blocks(
            EncoderBlock, "block", self.config, mask=self.mask_of_blocks(), dtype=dtype
        )
        self.norm = final_norm(self.config, "norm", dtype)

    def mask_of_blocks(self):
        """Returns the `Mask` of every block, or `None` for none."""

    def build_blocks(self):
        vectors = (None, None, self.config.size)
        for block in self.blocks:
            block.build(vectors)
        self.norm.build(vectors)

    def run(self, x, mask=None, return_attention_scores=False, training=None):
        """Returns `(batch, length, size)` and a list of the weights of all blocks, empty unless
        requested.
        """
        flags = {"return_attention_scores": return_attention_scores, "training": training}
        x, weights = run_blocks(self.blocks, x, mask=mask, **flags)
        return self.norm(x), [each for (each,) in weights]

    def get_config(self):
        return {**super().get_config(), "config": dataclasses.asdict(self.whole)}


class TwoTowers(Core):
    """The towers, and the logits of pairs of their outputs.

    A subclass makes `text_tower`, `image_tower`, `text_projection` and `image_projection`, and
    turns cosines into logits by the learned scale.
    """

    def build(self, inputs_shape=None):
        for tower in (self.text_tower, self.image_tower):
            tower.build()
        self.text_projection.build((None, self.text_tower.config.size))
        self.image_projection.build((None, self.image_tower.config.size))
        self.log_scale = self.add_scalar("log_scale", -math.log(self.config.temperature))

    def add_scalar(self, name, initial):
        """Returns a new learned scalar, which is computed with in float32."""
        initial = keras.initializers.Constant(initial)
        return self.add_weight(name=name, shape=(), initializer=initial, autocast=False)

    def call(self, inputs, training=None):
        images = self.embed_images(inputs["images"], training=training)
        texts = self.embed_texts(inputs["token_ids"], training=training)
        return self.logits(ops.matmul(images, ops.transpose(texts)))

    def scale(self):
        """Returns the factor of the cosines, a scalar."""
        return ops.exp(ops.cast(self.log_scale, "float32"))

    def embed_images(self, images, training=None):
        """Returns float32 unit vectors `(images, embedding_size)`."""
        return unit_vectors(self.image_projection(self.image_tower(images, training=training)))

    def embed_texts(self, token_ids, training=None):
        """Returns float32 unit vectors `(texts, embedding_size)`."""
        return unit_vectors(self.text_projection(self.text_tower(token_ids, training=training)))
