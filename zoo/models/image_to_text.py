"""What models of a Vision Transformer and a decoder of texts have in common."""

import dataclasses

from keras import ops

from keras_attention import DecoderBlock
from keras_attention.errors import unknown_name
from zoo.models.encoder_decoder import EncoderDecoder
from zoo.models.transformer import (
    StackConfig,
    WriterConfig,
    embedding_of,
    final_norm,
    make_blocks,
)
from zoo.models.vit import ViT


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageToTextConfig(WriterConfig):
    """Options of a model from images to text: those of `WriterConfig`, for the decoder, and these.

    Args:
        max_length: Number of positions of the decoder.
        image_size: Rows and columns of the images; the reader determines it.
        channels: Number of channels of a pixel; the reader determines it.
        patch_size: Rows and columns of a patch.
        image: Dictionary of the options of the Vision Transformer that reads the images, which are
            those of `StackConfig` and `distillation`, with the defaults of `ViTConfig`.

    Raises:
        ValueError: If an option in `image` is unknown.
    """

    pad_id: int = -1
    scaled: bool = False
    max_length: int = 512
    image_size: int = 384
    channels: int = 3
    patch_size: int = 16
    image: dict | None = None

    def __post_init__(self):
        super().__post_init__()
        known = [*(field.name for field in dataclasses.fields(StackConfig)), "distillation"]
        for name in self.image or {}:
            if name not in known:
                raise ValueError(unknown_name("option in `image`", name, known))


class ImageToText(EncoderDecoder):
    """A Vision Transformer, and a decoder that attends to the vectors of all its tokens.

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `ImageToTextConfig`.
    """

    source = "images"
    reader = "ImageReader"

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
        self.embedding = self.make_embedding()
        self.decoder = make_blocks(DecoderBlock, "decoder", config, dtype=dtype)
        self.decoder_norm = final_norm(config, "decoder_norm", dtype)

    def make_embedding(self):
        """Returns the `TokenEmbedding` of the decoder."""
        return embedding_of(self.config, self.config.max_length, self.dtype_policy)

    @property
    def encoded_size(self):
        """Size of the vectors that the decoder attends to."""
        return self.image_tower.config.size

    def build(self, input_shape=None):
        tokens = (None, None, self.config.size)
        self.image_tower.build()
        self.embedding.build()
        for block in self.decoder:
            block.build(tokens, (None, None, self.encoded_size))
        self.decoder_norm.build(tokens)

    def alignment(self, weights):
        """Returns the attention of a step to the patches, `(rows, patches)`.

        The tokens in front of the patches are nowhere in the image, so their share is left out: a
        map sums to 1.

        Args:
            weights: As for `EncoderDecoder.alignment`.
        """
        maps = super().alignment(weights)[:, self.image_tower.config.num_prefix_tokens :]
        return maps / ops.maximum(ops.sum(maps, axis=-1, keepdims=True), 1e-9)

    def _encode(self, images, **options):
        encoded, weights = self.image_tower.encode(images, **options)
        return encoded, None, weights
