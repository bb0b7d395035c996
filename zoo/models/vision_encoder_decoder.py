"""A Vision Transformer and a Transformer decoder: images to texts, such as the words in a picture
of a line, and the step protocol of `zoo.decoding`.

The task, image files to strings, is `zoo.tasks.captioning.Captioner`.
"""

import dataclasses

import keras

from zoo.models.image_to_text import ImageToText, ImageToTextConfig
from zoo.models.transformer import embedding_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class VisionEncoderDecoderConfig(ImageToTextConfig):
    """Options in addition to those of `ImageToTextConfig`, some of which have other defaults.

    Args:
        normalize_embedding: Whether the sums of embeddings and positions are normalized.
        projected: Whether a dense layer brings the vectors of the image to `size` before the
            decoder attends to them.
        first_position: Position of the first token.
        layout, max_wavelength: Of sinusoidal positions, as for `SinusoidalPosition`.
    """

    num_layers: int = 12
    size: int = 1024
    num_heads: int = 16
    hidden: int = 4096
    position: str | dict = "learned"
    activation: str = "gelu"
    normalize_embedding: bool = True
    projected: bool = False
    first_position: int = 0
    layout: str = "interleaved"
    max_wavelength: float = 10000.0


@keras.saving.register_keras_serializable(package="zoo")
class VisionEncoderDecoder(ImageToText):
    """A Vision Transformer, and a decoder that attends to its outputs.

    With the outputs `a_0 … a_n` of the class token and the patches, each block of the decoder
    applies causal self-attention, attention to the `a_i`, and a feed-forward network. With the
    output `h_t` of the last block for the words up to `y_{t-1}`, and the embedding table `E`, or
    with `tied=False` another one:

    $$ p(y_t) ∝ \\exp(E \\, h_t) $$

    Paper: Li et al. 2023, TrOCR: Transformer-based Optical Character Recognition with Pre-trained
    Models (https://arxiv.org/abs/2109.10282). The defaults are its base model.

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `VisionEncoderDecoderConfig`.

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

    >>> stack = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16}
    >>> core = VisionEncoderDecoder(50, **stack, image_size=8, patch_size=4, image=stack)
    >>> inputs = {"images": np.zeros((1, 8, 8, 3), "float32"), "target_ids": np.array([[7, 9]])}
    >>> tuple(core(inputs).shape)
    (1, 2, 50)
    """

    Config = VisionEncoderDecoderConfig
    architecture = "vision_encoder_decoder"
    description = "Transformer for reading text in images, and for captioning (Li et al. 2023)"

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        self.projection = None
        if self.config.projected:
            self.projection = keras.layers.Dense(
                self.config.size, dtype=self.dtype_policy, name="projection"
            )

    def make_embedding(self):
        config = self.config
        return embedding_of(
            config,
            config.max_length + config.first_position,
            self.dtype_policy,
            layout=config.layout,
            max_wavelength=config.max_wavelength,
            norm=config.norm if config.normalize_embedding else None,
            epsilon=config.epsilon,
        )

    @property
    def encoded_size(self):
        return super().encoded_size if self.projection is None else self.config.size

    def build(self, input_shape=None):
        super().build(input_shape)
        if self.projection is not None:
            self.projection.build((None, None, super().encoded_size))

    def embed(self, stack, ids, start=0, training=None):
        return super().embed(stack, ids, start + self.config.first_position, training)

    def _encode(self, images, **options):
        encoded, mask, weights = super()._encode(images, **options)
        return encoded if self.projection is None else self.projection(encoded), mask, weights
