"""BLIP: images to captions, and the step protocol of `zoo.decoding`.

The task, image files to captions, is `zoo.tasks.captioning.Captioner`.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import DecoderBlock, activations
from keras_attention.errors import unknown_name
from zoo.models.encoder_decoder import EncoderDecoder
from zoo.models.transformer import (
    StackConfig,
    TokenEmbedding,
    WriterConfig,
    final_norm,
    make_blocks,
    make_norm,
)
from zoo.models.vit import ViT


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlipConfig(WriterConfig):
    """Options of a BLIP: those of `WriterConfig`, for the decoder, some with other defaults, and
    these.

    Args:
        max_length: Number of positions of the decoder.
        image_size: Rows and columns of the images; the reader determines it.
        channels: Number of channels of a pixel; the reader determines it.
        patch_size: Rows and columns of a patch.
        image: Dictionary of the options of the Vision Transformer that reads the images, which are
            those of `StackConfig`, with the defaults of `ViTConfig`.

    Raises:
        ValueError: If the position is not `"learned"`, or an option in `image` is unknown.
    """

    num_layers: int = 12
    size: int = 768
    num_heads: int = 12
    hidden: int = 3072
    position: str = "learned"
    activation: str = "gelu"
    attention_dropout: float = 0.1
    epsilon: float = 1e-12
    pad_id: int = -1
    scaled: bool = False
    output_bias: bool = True
    max_length: int = 512
    image_size: int = 384
    channels: int = 3
    patch_size: int = 16
    image: dict | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.position != "learned":
            raise ValueError(unknown_name("position of BLIP", self.position, ["learned"]))
        known = [field.name for field in dataclasses.fields(StackConfig)]
        for name in self.image or {}:
            if name not in known:
                raise ValueError(unknown_name("option in `image` of BLIP", name, known))


@keras.saving.register_keras_serializable(package="zoo")
class Blip(EncoderDecoder):
    """A Vision Transformer, and a decoder of the shape of BERT that attends to its outputs.

    With the outputs `a_0 … a_n` of the class token and the patches, each block of the decoder
    normalizes the sum of the input and the output of each of its parts: causal self-attention,
    attention to the `a_i`, and a feed-forward network. With the output `h_t` of the last block for
    the words up to `y_{t-1}`, and the embedding table `E`:

    $$ p(y_t) ∝ \\exp(E \\, Norm(gelu(W h_t + b)) + c) $$

    Paper: Li et al. 2022, BLIP: Bootstrapping Language-Image Pre-training for Unified
    Vision-Language Understanding and Generation (https://arxiv.org/abs/2201.12086). The defaults
    are its base model, of which this is the part that describes images. The large one has
    `image={"num_layers": 24, "size": 1024, "num_heads": 16, "hidden": 4096}`.

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `BlipConfig`.

    Call arguments:
        inputs: Dictionary of `images`, float32 `(batch, rows, columns, channels)`, as returned by
            `zoo.ImageReader`, and int32 `target_ids` `(batch, length)`, which begin with the start
            token.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, length, vocabulary_size)`; with `return_attention_scores` also a
        dictionary of lists, a tensor `(batch, num_heads, queries, keys)` for each block: `encoder`,
        `decoder`, `cross`. The class token is the first token of an image.

    Raises:
        ValueError: If the images have another number of channels, or their rows and columns are
            not multiples of `patch_size`.

    Example:

    >>> core = Blip(50, num_layers=1, size=8, num_heads=2, hidden=16, image_size=8, patch_size=4,
    ...             image={"num_layers": 1, "size": 12, "num_heads": 2, "hidden": 16})
    >>> inputs = {"images": np.zeros((1, 8, 8, 3), "float32"), "target_ids": np.array([[7, 9]])}
    >>> tuple(core(inputs).shape)
    (1, 2, 50)
    """

    Config = BlipConfig
    architecture = "blip"
    description = "Transformer for image captioning (Li et al. 2022)"
    source = "images"

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.image_tower = ViT(
            num_labels=0,
            image_size=config.image_size,
            channels=config.channels,
            patch_size=config.patch_size,
            **config.image or {},
            dtype=dtype,
            name="image_tower",
        )
        self.embedding = TokenEmbedding(
            config.vocabulary_size,
            config.size,
            config.position,
            config.max_length,
            config.dropout,
            config.scaled,
            config.tied,
            config.output_bias,
            norm=config.norm,
            epsilon=config.epsilon,
            dtype=dtype,
        )
        self.decoder = make_blocks(DecoderBlock, "decoder", config, dtype=dtype)
        self.decoder_norm = final_norm(config, "decoder_norm", dtype)
        self.transform = keras.layers.Dense(
            config.size, activations.get(config.activation), dtype=dtype, name="transform"
        )
        self.transform_norm = make_norm(config, "transform_norm", dtype)

    def build(self, input_shape=None):
        tokens = (None, None, self.config.size)
        self.image_tower.build()
        self.embedding.build()
        for block in self.decoder:
            block.build(tokens, (None, None, self.image_tower.config.size))
        for layer in (self.decoder_norm, self.transform, self.transform_norm):
            layer.build(tokens)

    def logits(self, x, table=None):
        x = self.transform(self.decoder_norm(x))
        return self.embedding.logits(self.transform_norm(x), table)

    def alignment(self, weights):
        """Returns the attention of a step to the patches, `(rows, patches)`.

        The class token is nowhere in the image, so its share is left out: a map sums to 1.

        Args:
            weights: As for `EncoderDecoder.alignment`.
        """
        maps = super().alignment(weights)[:, 1:]
        return maps / ops.maximum(ops.sum(maps, axis=-1, keepdims=True), 1e-9)

    def _encode(self, images, **options):
        encoded, weights = self.image_tower.encode(images, **options)
        return encoded, None, weights
