"""The Vision Transformer: images to logits, with patches as tokens.

The task, images to labels, is `zoo.tasks.classification.Classifier`.
"""

import dataclasses
import math

import keras
from keras import ops

from keras_attention import EncoderBlock, positions
from keras_attention.errors import unknown_name
from zoo.models.core import Core
from zoo.models.grid_position import GridPosition
from zoo.models.patches import PatchEmbedding
from zoo.models.rollout import attention_rollout
from zoo.models.transformer import StackConfig, final_norm, make_blocks, run_blocks
from zoo.models.vit_blocks import RotaryBlock, ScaledBlock

POSITIONS = ("learned", "sinusoidal", "rotary")
POOLINGS = ("first", "mean", "both")
DISTILLATIONS = (None, "token", "head")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ViTConfig(StackConfig):
    """Options of a Vision Transformer, in addition to those of `StackConfig`, whose defaults partly
    differ.

    Args:
        num_labels: Number of labels; `labels=` of `zoo.load` determines it. 0 for a model without a
            head, which returns the pooled vector.
        image_size: Rows and columns of the images; for images of another size, positions are
            interpolated. The reader determines it.
        channels: Number of channels of a pixel; the reader determines it.
        patch_size: Rows and columns of a patch.
        position: `"learned"`; `"sinusoidal"`: half of a vector encodes the row, half the column; or
            `"rotary"`: queries and keys are rotated by row and column, as in DINOv3, see
            `keras_attention.positions.GridRotary`.
        max_wavelength: Of the rotary positions.
        position_size: Rows and columns of the images that there are positions for, if that is not
            `image_size`, as in DINOv2.
        antialias: Whether the interpolation of positions filters what fewer patches cannot
            represent.
        pooling: `"first"` for a class token in front, `"mean"` for the mean of all patches,
            `"both"` for both, one after the other.
        stem: Channels of 3 × 3 convolutions applied before the image is cut into patches; the
            last ones halve it, as often as `patch_size` can be halved. The original has none.
        distillation: `"token"` for a second token in front, as in DeiT, `"head"` for one with its
            own logits, which are averaged with those of the class token; or `None`.
        registers: Number of further learned tokens in front of the patches, whose outputs are not
            used (Darcet et al. 2024, https://arxiv.org/abs/2309.16588).
        layer_scale: Initial value of a learned scale of the output of each part of a block, as in
            DINOv2 (Touvron et al. 2021, https://arxiv.org/abs/2103.17239), or `None` for none.
    """

    num_labels: int = 0
    num_layers: int = 12
    size: int = 768
    num_heads: int = 12
    hidden: int = 3072
    normalize: str = "pre"
    position: str = "learned"
    max_wavelength: float = 100.0
    activation: str = "gelu"
    dropout: float = 0.0
    epsilon: float = 1e-6
    image_size: int = 224
    channels: int = 3
    patch_size: int = 16
    position_size: int | None = None
    antialias: bool = False
    pooling: str = "first"
    stem: tuple = ()
    distillation: str | None = None
    registers: int = 0
    layer_scale: float | None = None

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "stem", tuple(self.stem))
        if self.pooling not in POOLINGS:
            raise ValueError(unknown_name("pooling", self.pooling, POOLINGS))
        if self.distillation not in DISTILLATIONS:
            raise ValueError(unknown_name("distillation", self.distillation, DISTILLATIONS[1:]))
        if self.distillation and self.pooling != "first":
            raise ValueError(
                "A distillation token stands behind the class token of pooling='first'. Received: "
                f"pooling={self.pooling!r}."
            )
        object.__setattr__(self, "position_size", self.position_size or self.image_size)
        for name in ("image_size", "position_size"):
            if getattr(self, name) % self.patch_size:
                raise ValueError(
                    f"`{name}` must be a multiple of `patch_size`. Received: "
                    f"{name}={getattr(self, name)}, patch_size={self.patch_size}."
                )
        if self.stem and 2 ** min(len(self.stem), self.halvings) != self.patch_size:
            raise ValueError(
                "Each of the last convolutions of `stem` halves the image, so `patch_size` must "
                "be a power of two, with at least as many convolutions. Received: stem="
                f"{self.stem}, patch_size={self.patch_size}."
            )

    def _require_position(self):
        if self.position not in POSITIONS:
            raise ValueError(unknown_name("position of an image", self.position, POSITIONS))

    @property
    def has_class_token(self):
        return self.pooling != "mean"

    @property
    def is_rotary(self):
        """Whether positions act inside the blocks, and are not added to the patches."""
        return self.position == "rotary"

    @property
    def tokens(self):
        """Names of the tokens in front of the patches that have a meaning of their own."""
        return ["class"] * self.has_class_token + ["distillation"] * bool(self.distillation)

    @property
    def num_prefix_tokens(self):
        """Number of all tokens in front of the patches."""
        return len(self.tokens) + self.registers

    @property
    def vector_size(self):
        """Size of the pooled vector."""
        return self.size * (2 if self.pooling == "both" else 1)

    @property
    def halvings(self):
        """How many times the stem halves an image."""
        return round(math.log2(self.patch_size))


@keras.saving.register_keras_serializable(package="zoo")
class ViT(Core):
    """A stack of blocks over the patches of an image.

    Paper: Dosovitskiy et al. 2021, An Image is Worth 16x16 Words
    (https://arxiv.org/abs/2010.11929). The defaults are its ViT-B/16. With a `stem`: Xiao et al.
    2021, Early Convolutions Help Transformers See Better (https://arxiv.org/abs/2106.14881).

    Args:
        num_labels: Number of labels.
        **options: The fields of `ViTConfig`.

    Call arguments:
        images: Float tensor `(batch, rows, columns, channels)`, as returned by `ImageReader`; rows
            and columns are multiples of `patch_size`.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, num_labels)`, or without labels vectors `(batch, vector_size)`;
        with `return_attention_scores` also a list of
        `(batch, num_heads, tokens, tokens)`, a tensor for each block. The class token, if there is
        one, is the first.

    Example:

    >>> core = ViT(10, image_size=28, channels=1, patch_size=7, num_layers=1, size=8, num_heads=2,
    ...            hidden=16)
    >>> tuple(core(np.zeros((2, 28, 28, 1), "float32")).shape)
    (2, 10)
    """

    Config = ViTConfig
    heads = ("head", "distillation_head")
    reader = "ImageReader"

    def __init__(self, num_labels, **options):
        super().__init__(num_labels=num_labels, **options)
        config, dtype = self.config, self.dtype_policy
        self.patches = PatchEmbedding(
            config.size, config.patch_size, config.stem, config.activation, dtype=dtype
        )
        grid = config.position_size // config.patch_size
        kind, options = EncoderBlock, {"dtype": dtype}
        if config.is_rotary:
            self.place = positions.GridRotary(
                grid,
                config.max_wavelength,
                num_prefix_tokens=config.num_prefix_tokens,
                dtype=dtype,
                name="place",
            )
            kind = RotaryBlock
            options |= {"position": self.place, "layer_scale": config.layer_scale}
        else:  # positions stand in the patches: blocks see none
            self.place = GridPosition(
                (grid, grid), config.position, config.antialias, dtype=dtype, name="place"
            )
            if config.layer_scale is not None:
                kind = ScaledBlock
                options["layer_scale"] = config.layer_scale
        self.drop = keras.layers.Dropout(config.dropout, dtype=dtype)
        self.blocks = make_blocks(kind, "block", config, **options)
        self.norm = final_norm(config, "norm", dtype)
        self.head = self.distillation_head = None
        if config.num_labels:
            self.head = keras.layers.Dense(config.num_labels, dtype=dtype, name="head")
        if config.distillation == "head":
            self.distillation_head = keras.layers.Dense(
                config.num_labels, dtype=dtype, name="distillation_head"
            )

    @property
    def architecture(self):
        return "vit" if self.config.num_labels else "vit_embedding"

    @property
    def description(self):
        kind = "Vision Transformer" + ("" if self.config.num_labels else " for image embeddings")
        return f"{kind} (Dosovitskiy et al. 2021)"

    def build(self, images_shape=None):
        config = self.config
        tokens = (None, None, config.size)
        self.patches.build((None, config.image_size, config.image_size, config.channels))
        if not config.is_rotary:
            self.place.build((None, *self.place.grid, config.size))

        def add_vectors(name, *number):
            normal = keras.initializers.TruncatedNormal(stddev=0.02)
            weight = self.add_weight(name=name, shape=(*number, config.size), initializer=normal)
            setattr(self, name, weight)

        for token in config.tokens:
            add_vectors(f"{token}_token")
            if not config.is_rotary:
                add_vectors(f"{token}_place")
        if config.registers:
            add_vectors("registers", config.registers)
        for block in self.blocks:
            block.build(tokens)
        self.norm.build(tokens)
        for head in (self.head, self.distillation_head):
            if head is not None:
                head.build((None, config.vector_size))

    def call(self, images, return_attention_scores=False, training=None):
        x, weights = self.encode(images, return_attention_scores, training)
        logits = self._pool(x)
        logits = ops.cast(logits if self.head is None else self.head(logits), "float32")
        if self.distillation_head is not None:
            logits = (logits + ops.cast(self.distillation_head(x[:, 1]), "float32")) / 2
        return (logits, [each for (each,) in weights]) if return_attention_scores else logits

    def encode(self, images, return_attention_scores=False, training=None):
        """Returns the vectors of all tokens `(batch, tokens, size)`, and the weights of
        `run_blocks`.
        """
        self._require_pictures(images)
        x = self.patches(images, training=training)  # (batch, rows, columns, size)
        x = x if self.config.is_rotary else self.place(x)
        grid = tuple(x.shape[1:3])
        of_grid = {"grid": grid} if self.config.is_rotary else {}
        x = ops.reshape(x, (-1, math.prod(grid), x.shape[3]))  # (batch, patches, size)
        x = self._with_tokens(x)
        x, weights = run_blocks(
            self.blocks,
            self.drop(x, training=training),
            return_attention_scores=return_attention_scores,
            training=training,
            **of_grid,
        )
        return self.norm(x), weights

    def _pool(self, x):
        """Returns a vector for each image."""
        if self.config.pooling == "first":
            return x[:, 0]
        mean = ops.mean(x[:, self.config.num_prefix_tokens :], axis=1)
        if self.config.pooling == "mean":
            return mean
        return ops.concatenate([x[:, 0], mean], axis=-1)

    def _with_tokens(self, x):
        """Returns patches `(batch, patches, size)` with the tokens that precede them."""
        if not self.config.num_prefix_tokens:
            return x
        tokens = []
        for name in self.config.tokens:
            token = getattr(self, f"{name}_token")
            if not self.config.is_rotary:
                token = token + getattr(self, f"{name}_place")
            tokens.append(token[None])
        if self.config.registers:
            tokens.append(self.registers)
        tokens = ops.cast(ops.concatenate(tokens)[None], x.dtype)  # (1, tokens, size)
        tokens = ops.broadcast_to(tokens, (ops.shape(x)[0], *tokens.shape[1:]))
        return ops.concatenate([tokens, x], axis=1)

    def told(self, images, weights):
        """Explains an answer by attention, see `zoo.tasks.classification.Classifier.respond`.

        Args:
            images: The images.
            weights: Weights that `call` returned for them.

        Returns:
            Dictionary of float32 `attention` `(batch, rows, columns)`, the regions that the answer
            comes from, by rollout, and `heads` `(batch, blocks, heads, rows, columns)`, the same
            for each head alone. Each map sums to 1.
        """
        return {
            "attention": self._maps(attention_rollout(weights), images),
            "heads": self._maps(ops.stack(weights, axis=1), images),
        }

    def _maps(self, weights, images):
        """Returns attention maps of the answer from weights `(batch, ..., tokens, tokens)`."""
        weights = weights[..., self.config.num_prefix_tokens :]
        if self.config.has_class_token:
            maps = weights[..., 0, :]
        else:
            maps = ops.mean(weights[..., self.config.num_prefix_tokens :, :], axis=-2)
        maps = ops.cast(maps, "float32")
        maps = maps / ops.maximum(ops.sum(maps, axis=-1, keepdims=True), 1e-9)
        grid = [side // self.config.patch_size for side in images.shape[1:3]]
        return ops.reshape(maps, (-1, *maps.shape[1:-1], *grid))

    def _require_pictures(self, images):
        config, shape = self.config, tuple(images.shape)
        fits = len(shape) == 4 and shape[3] == config.channels
        if not fits or any(side is None or side % config.patch_size for side in shape[1:3]):
            raise ValueError(
                f"ViT needs images of shape (batch, rows, columns, {config.channels}), rows and "
                f"columns multiples of {config.patch_size}. Received: shape {shape}. Read them by "
                "zoo.ImageReader, with as many channels."
            )
