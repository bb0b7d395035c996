"""The Swin Transformer: attention inside windows of an image, whose patches are merged in stages.

The task, images to labels, is `zoo.tasks.classification.Classifier`.
"""

import dataclasses
from numbers import Integral

import keras
from keras import ops

from keras_attention import positions
from zoo.models.checked_options import CheckedOptions
from zoo.models.core import Core
from zoo.models.patches import PatchEmbedding
from zoo.models.rollout import attention_rollout
from zoo.models.transformer import run_blocks
from zoo.models.windows import WindowBlock, filled_up

EPSILON = 1e-5  # of the normalizations of patches, before the first stage and when they are merged


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwinConfig(CheckedOptions):
    """Options of a Swin Transformer.

    Args:
        num_labels: Number of labels; `labels=` of `zoo.load` determines it. 0 for a model without a
            head, which returns the pooled vector.
        num_layers: Number of blocks in each stage. In every second one, windows are shifted by
            half.
        num_heads: Number of attention heads in each stage.
        size: Size of the vector of a patch in the first stage; it doubles with each further stage.
        window: Rows and columns of a window, in patches.
        expansion: Hidden size of the feed-forward networks, as a multiple of that of the vectors.
        image_size: Rows and columns of the images. The reader determines it; no weight depends on
            it.
        channels: Number of channels of a pixel; the reader determines it.
        patch_size: Rows and columns of a patch.
        activation: Activation of the feed-forward networks.
        dropout: Dropout rate of patches and of the residual branches of blocks.
        attention_dropout: Dropout rate of the attention weights.
        use_bias: Whether projections and dense layers of blocks have a bias, or which of them, as
            for `EncoderBlock`.
        epsilon: Added to the variance in the normalizations of blocks and in the last one.
    """

    num_labels: int = 0
    num_layers: tuple = (2, 2, 6, 2)
    num_heads: tuple = (3, 6, 12, 24)
    size: int = 96
    window: int = 7
    expansion: float = 4.0
    image_size: int = 224
    channels: int = 3
    patch_size: int = 4
    activation: str = "gelu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    use_bias: bool | list = True
    epsilon: float = 1e-5

    def __post_init__(self):
        super().__post_init__()
        for name in ("num_layers", "num_heads"):
            numbers = getattr(self, name)
            if not isinstance(numbers, list | tuple) or not all(map(_is_count, numbers)):
                raise ValueError(
                    f"`{name}` of Swin must be a tuple of integers of at least 1, one for each "
                    f"stage. Received: {name}={numbers!r}."
                )
            object.__setattr__(self, name, tuple(map(int, numbers)))  # as JSON has them
        if not 0 < len(self.num_layers) == len(self.num_heads):
            raise ValueError(
                "`num_layers` and `num_heads` of Swin must have a number for each stage. Received: "
                f"num_layers={self.num_layers}, num_heads={self.num_heads}."
            )
        if self.expansion * self.size < 1:
            raise ValueError(
                "`expansion` of Swin must be a number above 0, such that expansion * size is at "
                f"least 1. Received: expansion={self.expansion}, size={self.size}."
            )

    @property
    def sizes(self):
        """Size of the vector of a patch in each stage."""
        return [self.size * 2**stage for stage in range(len(self.num_layers))]

    @property
    def vector_size(self):
        """Size of the pooled vector."""
        return self.sizes[-1]


@keras.saving.register_keras_serializable(package="zoo")
class Swin(Core):
    """Stages of blocks over the patches of an image. Between two stages, each 2 × 2 patches become
    one. The pooled vector is the mean over the patches of the last stage.

    Paper: Liu et al. 2021, Swin Transformer: Hierarchical Vision Transformer using Shifted Windows
    (https://arxiv.org/abs/2103.14030). The defaults are its Swin-T. Its stochastic depth in
    training is not implemented.

    Args:
        num_labels: Number of labels.
        **options: The fields of `SwinConfig`.

    Call arguments:
        images: Float tensor `(batch, rows, columns, channels)`, as returned by `ImageReader`. Rows
            and columns may be any numbers: zeros fill up patches, windows, and patches to merge.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, num_labels)`, or without labels vectors `(batch, vector_size)`;
        with `return_attention_scores` also a list of `(batch, windows, num_heads, patches,
        patches)`, a tensor for each block, with the patches of a window.

    Example:

    >>> core = Swin(10, num_layers=(1, 2), num_heads=(1, 2), size=4, window=2, channels=1)
    >>> logits, weights = core(np.zeros((2, 28, 28, 1), "float32"), return_attention_scores=True)
    >>> tuple(logits.shape), [tuple(each.shape) for each in weights]
    ((2, 10), [(2, 16, 1, 4, 4), (2, 4, 2, 4, 4), (2, 4, 2, 4, 4)])
    """

    Config = SwinConfig
    heads = ("head",)
    reader = "ImageReader"

    def __init__(self, num_labels, **options):
        super().__init__(num_labels=num_labels, **options)
        config, dtype = self.config, self.dtype_policy
        self.patches = PatchEmbedding(config.size, config.patch_size, dtype=dtype)
        self.patch_norm = keras.layers.LayerNormalization(
            epsilon=EPSILON, dtype=dtype, name="patch_norm"
        )
        self.drop = keras.layers.Dropout(config.dropout, dtype=dtype)
        for stage, number in enumerate(config.num_layers):
            blocks = [self._block(stage, place) for place in range(number)]
            setattr(self, f"stage_{stage}", blocks)
        self.merges = [
            PatchMerging(size, dtype=dtype, name=f"merge_{stage}")
            for stage, size in enumerate(config.sizes[1:])
        ]
        self.norm = keras.layers.LayerNormalization(
            epsilon=config.epsilon, dtype=dtype, name="norm"
        )
        self.head = None
        if config.num_labels:
            self.head = keras.layers.Dense(config.num_labels, dtype=dtype, name="head")

    def _block(self, stage, place):
        config, dtype = self.config, self.dtype_policy
        return WindowBlock(
            config.num_heads[stage],
            int(config.expansion * config.sizes[stage]),
            normalize="pre",
            epsilon=config.epsilon,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation=config.activation,
            use_bias=config.use_bias,
            position=positions.GridBias(config.window, dtype=dtype),
            shift=config.window // 2 if place % 2 else 0,
            dtype=dtype,
            name=f"block_{stage}_{place}",
        )

    @property
    def architecture(self):
        return "swin" if self.config.num_labels else "swin_embedding"

    @property
    def description(self):
        kind = "Swin Transformer" + ("" if self.config.num_labels else " for image embeddings")
        return f"{kind} (Liu et al. 2021)"

    @property
    def stages(self):
        """List of the lists of blocks of each stage."""
        return [getattr(self, f"stage_{stage}") for stage in range(len(self.config.num_layers))]

    def build(self, images_shape=None):
        config = self.config
        self.patches.build((None, config.image_size, config.image_size, config.channels))
        self.patch_norm.build((None, None, None, config.size))
        for size, blocks in zip(config.sizes, self.stages, strict=True):
            for block in blocks:
                block.build((None, None, None, size))
        for size, merge in zip(config.sizes, self.merges, strict=False):
            merge.build((None, None, None, size))
        self.norm.build((None, None, None, config.vector_size))
        if self.head is not None:
            self.head.build((None, config.vector_size))

    def call(self, images, return_attention_scores=False, training=None):
        states, weights = self.encode(images, return_attention_scores, training)
        pooled = ops.mean(self.norm(states[-1]), axis=(1, 2))
        logits = ops.cast(pooled if self.head is None else self.head(pooled), "float32")
        return (logits, weights) if return_attention_scores else logits

    def encode(self, images, return_attention_scores=False, training=None):
        """Returns what enters each stage and what leaves the last one, before the last
        normalization: a list of `(batch, rows, columns, size)`; and the list of the weights of all
        blocks, empty unless requested.
        """
        self._require_pictures(images)
        x = self.patches(filled_up(images, self.config.patch_size))
        x = self.drop(self.patch_norm(x), training=training)
        states, weights = [x], []
        for stage, blocks in enumerate(self.stages):
            x, of_stage = run_blocks(
                blocks, x, return_attention_scores=return_attention_scores, training=training
            )
            weights += [of_block for (of_block,) in of_stage]
            x = self.merges[stage](x) if stage < len(self.merges) else x
            states.append(x)
        return states, weights

    def told(self, images, weights):
        """Explains an answer by attention, see `zoo.tasks.classification.Classifier.respond`.

        It is the attention of the last stage, whose vectors make up the answer. What they were
        merged from is not traced any further. The last row and column of a map also cover the
        zeros that fill up the image.

        Args:
            images: The images.
            weights: Weights that `call` returned for them.

        Returns:
            Dictionary of float32 `attention` `(batch, rows, columns)`, the regions that the answer
            comes from, by rollout through the blocks of the last stage, and `heads` `(batch,
            blocks, heads, rows, columns)`, the same for each head of these blocks alone. Each map
            sums to 1.
        """
        blocks, patch = self.stages[-1], self.config.patch_size * 2 ** len(self.merges)
        grid = tuple(-(-side // patch) for side in images.shape[1:3])
        weights = [
            block.weights_of_grid(of_block, grid)
            for block, of_block in zip(blocks, weights[-len(blocks) :], strict=True)
        ]
        return {
            "attention": _maps(attention_rollout(weights), grid),
            "heads": _maps(ops.stack(weights, axis=1), grid),
        }

    def _require_pictures(self, images):
        channels, shape = self.config.channels, tuple(images.shape)
        if len(shape) != 4 or None in shape[1:3] or shape[3] != channels:
            raise ValueError(
                f"Swin needs images of shape (batch, rows, columns, {channels}), with known rows "
                f"and columns. Received: shape {shape}. Read them by zoo.ImageReader, with as many "
                "channels."
            )


@keras.saving.register_keras_serializable(package="zoo")
class PatchMerging(keras.layers.Layer):
    """Replaces each 2 × 2 patches by one: their vectors, joined and normalized, are projected.

    Args:
        size: Size of the new vectors.

    Call arguments:
        x: `(batch, rows, columns, channels)`; odd rows and columns are filled up with zeros.

    Output shape:
        `(batch, rows / 2, columns / 2, size)`, rounded up.
    """

    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.size = size
        dtype = self.dtype_policy
        self.norm = keras.layers.LayerNormalization(epsilon=EPSILON, dtype=dtype, name="norm")
        self.reduction = keras.layers.Dense(size, use_bias=False, dtype=dtype, name="reduction")

    def build(self, x_shape):
        for layer in (self.norm, self.reduction):
            layer.build((*x_shape[:-1], 4 * x_shape[-1]))

    def call(self, x):
        x = filled_up(x, 2)
        rows, columns, size = x.shape[1] // 2, x.shape[2] // 2, x.shape[3]
        x = ops.reshape(x, (-1, rows, 2, columns, 2, size))
        x = ops.transpose(x, (0, 1, 3, 4, 2, 5))  # below each other first, as in the paper's code
        return self.reduction(self.norm(ops.reshape(x, (-1, rows, columns, 4 * size))))

    def get_config(self):
        return {**super().get_config(), "size": self.size}


def _maps(weights, grid):
    """Returns the mean attention of all queries, from weights `(batch, ..., patches, patches)`."""
    maps = ops.mean(weights, axis=-2)
    maps = maps / ops.maximum(ops.sum(maps, axis=-1, keepdims=True), 1e-9)
    return ops.reshape(maps, (-1, *maps.shape[1:-1], *grid))


def _is_count(number):
    return isinstance(number, Integral) and not isinstance(number, bool) and number > 0
