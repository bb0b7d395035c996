"""The Conformer: spectrograms to logits.

The task, sounds to labels, is `zoo.tasks.classification.Classifier`.
"""

import dataclasses
import math

import keras
from keras import ops

from keras_attention import ConformerBlock
from keras_attention.convolution import CONVOLUTION_NORMS
from keras_attention.errors import unknown_name
from zoo.models.core import Core
from zoo.models.heard import mean_of_tokens, told_over_time
from zoo.models.transformer import StackConfig, make_blocks, run_blocks


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConformerConfig(StackConfig):
    """Options of a Conformer, in addition to those of `StackConfig`, whose defaults partly differ.

    Args:
        num_labels: Number of labels.
        bands: Number of frequency bands in the spectrograms; the reader determines it.
        position: `"transformer_xl"`, or another one that acts in self-attention.
        kernel_size: Kernel size of the convolutions in the blocks.
        convolution_norm: `"batch"` or `"layer"`, the normalization in the convolution modules.
        strides: Strides in time of the subsampling convolutions; each also halves the bands.
        channels: Number of channels of the subsampling convolutions; defaults to `size`.
    """

    num_labels: int
    bands: int = 80
    num_layers: int = 16
    size: int = 144
    num_heads: int = 4
    hidden: int = 576
    normalize: str = "pre"
    position: str | dict = "transformer_xl"
    activation: str = "silu"
    dropout: float = 0.1
    kernel_size: int = 31
    convolution_norm: str = "batch"
    strides: tuple = (2, 2)
    channels: int | None = None

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "strides", tuple(self.strides))
        if self.convolution_norm not in CONVOLUTION_NORMS:
            known = CONVOLUTION_NORMS
            raise ValueError(unknown_name("convolution_norm", self.convolution_norm, known))
        if not self.strides or any(stride not in (1, 2) for stride in self.strides):
            raise ValueError(
                "`strides` must be 1 or 2 for each convolution in front, of which there is one at "
                f"least. Received: strides={self.strides}."
            )


@keras.saving.register_keras_serializable(package="zoo")
class Conformer(Core):
    """Convolutional subsampling of a spectrogram, a stack of Conformer blocks, the mean over time.

    Paper: Gulati et al. 2020, Conformer: Convolution-augmented Transformer for Speech Recognition
    (https://arxiv.org/abs/2005.08100). The defaults are the encoder of its Conformer (S).

    Args:
        num_labels: Number of labels.
        **options: The fields of `ConformerConfig`.

    Call arguments:
        sounds: Dictionary of `frames`, float32 `(batch, frames, bands)`, and `lengths`, int32
            `(batch,)`, as returned by `SoundReader`.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, num_labels)`; with `return_attention_scores` also a list of
        `(batch, num_heads, tokens, tokens)`, a tensor for each block.

    Example:

    >>> core = Conformer(10, bands=8, num_layers=1, size=8, num_heads=2, hidden=16, kernel_size=3)
    >>> sounds = {"frames": np.zeros((2, 20, 8), "float32"), "lengths": np.array([20, 13])}
    >>> tuple(core(sounds).shape)
    (2, 10)
    """

    Config = ConformerConfig
    heads = ("head",)
    reader = "SoundReader"
    architecture = "conformer"
    description = "Conformer for audio classification (Gulati et al. 2020)"

    def __init__(self, num_labels, **options):
        super().__init__(num_labels=num_labels, **options)
        config, dtype = self.config, self.dtype_policy
        self.subsampling = Subsampling(
            config.size, config.channels or config.size, config.strides, dtype=dtype
        )
        self.drop = keras.layers.Dropout(config.dropout, dtype=dtype)
        self.blocks = make_blocks(
            ConformerBlock,
            "block",
            config,
            kernel_size=config.kernel_size,
            convolution_norm=config.convolution_norm,
            dtype=dtype,
        )
        self.head = keras.layers.Dense(config.num_labels, dtype=dtype, name="head")

    def build(self, sounds_shape=None):
        config = self.config
        self.subsampling.build((None, None, config.bands))
        for block in self.blocks:
            block.build((None, None, config.size))
        self.head.build((None, config.size))

    def call(self, sounds, return_attention_scores=False, training=None):
        x, is_token, weights = self.encode(sounds, return_attention_scores, training)
        logits = ops.cast(self.head(mean_of_tokens(x, is_token)), "float32")
        return (logits, weights) if return_attention_scores else logits

    def encode(self, sounds, return_attention_scores=False, training=None):
        """Returns the outputs of the blocks.

        Args:
            sounds, return_attention_scores: As for `call`.
            training: Whether to apply dropout.

        Returns:
            `(x, is_token, weights)`: `(batch, tokens, size)`, the mask of the tokens that are not
            padding, boolean `(batch, tokens)`, and the list of weights, empty unless requested.
        """
        frames, lengths = self._require_sounds(sounds)
        x = self.subsampling(frames, lengths)  # (batch, tokens, size)
        is_token = self._are_tokens(x, lengths)
        x, weights = run_blocks(
            self.blocks,
            self.drop(x, training=training),
            mask=is_token,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        return x, is_token, [each for (each,) in weights]

    def told(self, sounds, weights):
        """Explains an answer by attention, see `zoo.models.heard.told_over_time`.

        Args:
            sounds: Inputs of `call`.
            weights: Weights that `call` returned for them.
        """
        return told_over_time(weights, self.subsampling.tokens_of(sounds["lengths"]))

    def _are_tokens(self, x, lengths):
        return ops.arange(ops.shape(x)[1]) < self.subsampling.tokens_of(lengths)[:, None]

    def _require_sounds(self, sounds):
        bands = self.config.bands
        is_dictionary = isinstance(sounds, dict) and {"frames", "lengths"} <= sounds.keys()
        frames = sounds["frames"] if is_dictionary else sounds
        received = "frames" if is_dictionary else type(sounds).__name__
        shape = tuple(getattr(frames, "shape", ()))
        if not is_dictionary or len(shape) != 3 or shape[2] != bands:
            raise ValueError(
                f"{type(self).__name__} needs a dictionary of `frames` (batch, frames, {bands}) "
                f"and `lengths` (batch,). Received: {received} of shape {shape}. Read sounds by "
                "zoo.SoundReader, with as many bands."
            )
        return frames, sounds["lengths"]


@keras.saving.register_keras_serializable(package="zoo")
class Subsampling(keras.layers.Layer):
    """3 × 3 convolutions that shorten a spectrogram, over time and frequency bands.

    Args:
        size: Size of the output vectors.
        channels: Number of channels of the convolutions.
        strides: Stride in time of each convolution; each also halves the bands.

    Call arguments:
        frames: `(batch, frames, bands)`.
        lengths: int32 `(batch,)`, the number of frames of each without padding.

    Output shape:
        `(batch, tokens, size)`.
    """

    def __init__(self, size, channels, strides=(2, 2), **kwargs):
        super().__init__(**kwargs)
        self.size, self.channels, self.strides = size, channels, tuple(strides)

    def build(self, frames_shape):
        dtype, bands = self.dtype_policy, frames_shape[-1]
        self.convolutions, channels = [], 1
        for stride in self.strides:
            convolution = keras.layers.Conv2D(
                self.channels,
                3,
                (stride, 2),
                data_format="channels_last",
                activation="relu",
                dtype=dtype,
            )
            convolution.build((None, None, bands + 2, channels))
            self.convolutions.append(convolution)
            bands, channels = -(-bands // 2), self.channels
        self.projection = keras.layers.Dense(self.size, dtype=dtype, name="projection")
        self.projection.build((None, None, bands * channels))

    def call(self, frames, lengths):
        lengths = ops.cast(lengths, "int32")
        x = ops.cast(frames, self.compute_dtype)[..., None]  # (batch, frames, bands, 1)
        for convolution, stride in zip(self.convolutions, self.strides, strict=True):
            is_frame = ops.arange(ops.shape(x)[1]) < lengths[:, None]
            x = ops.where(is_frame[:, :, None, None], x, ops.cast(0.0, x.dtype))
            # "same" would pad by the length of the longest in the batch.
            x = convolution(ops.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]))
            lengths = -(-lengths // stride)
        x = ops.reshape(x, (ops.shape(x)[0], ops.shape(x)[1], x.shape[2] * x.shape[3]))
        return self.projection(x)

    def tokens_of(self, lengths):
        """Returns the numbers of tokens for given numbers of frames."""
        return -(-ops.cast(lengths, "int32") // self.step)

    @property
    def step(self):
        """Number of frames per token."""
        return math.prod(self.strides)

    def get_config(self):
        return {
            **super().get_config(),
            "size": self.size,
            "channels": self.channels,
            "strides": self.strides,
        }
