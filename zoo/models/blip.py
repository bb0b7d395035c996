"""BLIP: images to captions, and the step protocol of `zoo.decoding`.

The task, image files to captions, is `zoo.tasks.captioning.Captioner`.
"""

import dataclasses

import keras

from keras_attention import activations
from keras_attention.errors import unknown_name
from zoo.models.image_to_text import ImageToText, ImageToTextConfig
from zoo.models.transformer import embedding_of, make_norm


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlipConfig(ImageToTextConfig):
    """Options of a BLIP: those of `ImageToTextConfig`, some with other defaults.

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
    output_bias: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.position != "learned":
            raise ValueError(unknown_name("position of BLIP", self.position, ["learned"]))


@keras.saving.register_keras_serializable(package="zoo")
class Blip(ImageToText):
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

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.transform = keras.layers.Dense(
            config.size, activations.get(config.activation), dtype=dtype, name="transform"
        )
        self.transform_norm = make_norm(config, "transform_norm", dtype)

    def make_embedding(self):
        config = self.config
        options = {"norm": config.norm, "epsilon": config.epsilon}
        return embedding_of(config, config.max_length, self.dtype_policy, **options)

    def build(self, input_shape=None):
        super().build(input_shape)
        for layer in (self.transform, self.transform_norm):
            layer.build((None, None, self.config.size))

    def logits(self, x, table=None):
        x = self.transform(self.decoder_norm(x))
        return self.embedding.logits(self.transform_norm(x), table)
