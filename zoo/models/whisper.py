"""Whisper: spectrograms of speech to text, and the step protocol of `zoo.decoding`.

The task, sounds to strings, is `zoo.tasks.transcription.Transcriber`.
"""

import dataclasses

import keras
import numpy as np
from keras import ops

from keras_attention import activations
from keras_attention._checks import fits
from keras_attention.errors import unknown_name
from keras_attention.positions import LearnedPosition
from zoo.models.transformer_nmt import TransformerNMTConfig, TransformerTranslator

STRIDE = 2  # frames that become one vector of the encoder


@dataclasses.dataclass(frozen=True, kw_only=True)
class WhisperConfig(TransformerNMTConfig):
    """Options of a Whisper, in addition to those of `TransformerNMTConfig`, whose defaults partly
    differ.

    Args:
        bands: Number of frequency bands in the spectrograms; the reader determines it.
        source_length: Number of vectors per spectrogram, one for every two frames.
        alignment_heads: Indices of the cross-attention heads that follow the speech, counted
            through all layers of the decoder: steps return their average; `None` for all.
    """

    num_layers: int = 4
    size: int = 384
    num_heads: int = 6
    hidden: int = 1536
    normalize: str = "pre"
    position: str = "learned"
    activation: str = "gelu"
    dropout: float = 0.0
    use_bias: bool | tuple = ("query", "value", "output", "feed_forward")
    pad_id: int = -1
    scaled: bool = False
    max_length: int = 448
    bands: int = 80
    source_length: int = 1500
    alignment_heads: list | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.position != "learned":
            raise ValueError(unknown_name("position of Whisper", self.position, ["learned"]))
        heads = self.num_heads * (self.decoder_layers or self.num_layers)
        if any(not 0 <= head < heads for head in self.alignment_heads or ()):
            raise ValueError(
                f"`alignment_heads` must be numbers from 0 to {heads - 1}. Received: "
                f"alignment_heads={self.alignment_heads!r}."
            )


@keras.saving.register_keras_serializable(package="zoo")
class Whisper(TransformerTranslator):
    """Two convolutions that halve the time axis, an encoder of frames, and a decoder of tokens.

    The encoder adds sinusoidal positions, which are saved with the weights but not trained; the
    decoder adds learned positions. The keys of attention have no bias.

    Paper: Radford et al. 2022, Robust Speech Recognition via Large-Scale Weak Supervision
    (https://arxiv.org/abs/2212.04356). The defaults are its tiny model.

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `WhisperConfig`.

    Call arguments:
        inputs: Dictionary of `frames`, float32 `(batch, 2 · source_length, bands)`, as
            returned by `zoo.SpeechReader`, and int32 `target_ids` `(batch, target_length)`, which
            begin with the start token.
        return_attention_scores: As for `TransformerTranslator`.

    Output shape:
        As for `TransformerTranslator`.

    Raises:
        ValueError: If the frames have another shape.

    Example:

    >>> core = Whisper(50, num_layers=1, size=8, num_heads=2, hidden=16, bands=4, source_length=5)
    >>> inputs = {"frames": np.zeros((1, 10, 4), "float32"), "target_ids": np.array([[7, 9]])}
    >>> tuple(core(inputs).shape)
    (1, 2, 50)
    """

    Config = WhisperConfig
    architecture = "whisper"
    description = "Transformer for speech transcription (Radford et al. 2022)"
    source = "frames"
    reader = "SpeechReader"

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.convolutions = [
            keras.layers.Conv1D(
                config.size,
                3,
                stride,
                data_format="channels_last",
                dtype=dtype,
                name=f"conv_{place}",
            )
            for place, stride in enumerate((1, STRIDE))
        ]
        self.encoder_place = LearnedPosition(
            config.source_length,
            embeddings_initializer=Sinusoids(),
            trainable=False,
            dtype=dtype,
            name="encoder_place",
        )
        self.drop = keras.layers.Dropout(config.dropout, dtype=dtype)

    def build(self, input_shape=None):
        channels = self.config.bands
        for convolution in self.convolutions:
            convolution.build((None, None, channels))
            channels = self.config.size
        self.encoder_place.build((None, None, channels))
        super().build(input_shape)

    def alignment(self, weights):
        chosen = self.config.alignment_heads
        return super().alignment(weights if chosen is None else ops.take(weights, chosen, axis=1))

    def _encode(self, frames, **options):
        config = self.config
        length, bands = STRIDE * config.source_length, config.bands
        if not fits(frames.shape, (None, length, bands)):
            raise ValueError(
                f"Whisper needs `frames` of shape (batch, {length}, {bands}). Received: shape "
                f"{tuple(frames.shape)}. Read sounds by zoo.SpeechReader, with as many bands and "
                "seconds."
            )
        x = ops.cast(frames, self.compute_dtype)
        gelu = keras.activations.gelu
        for convolution in self.convolutions:
            # "same" would pad an even length at its end only where the stride is 2.
            x = convolution(ops.pad(x, [[0, 0], [1, 1], [0, 0]]))
            x = activations.in_float32(gelu, x, options["training"])
        x = self.drop(self.encoder_place(x), training=options["training"])
        return self._encoded(x, None, **options)


@keras.saving.register_keras_serializable(package="zoo")
class Sinusoids(keras.initializers.Initializer):
    """The positions of Whisper's encoder: sines, then cosines, of wavelengths up to 10,000 · 2π.

    $$ p_t = [\\sin(t ω), \\cos(t ω)], \\quad ω_i = 10000^{-i / (d / 2 - 1)} $$

    `keras_attention.positions.SinusoidalPosition` divides by `d / 2` instead.
    """

    def __call__(self, shape, dtype=None):
        length, size = shape
        half = size // 2
        angles = np.outer(np.arange(length), 10000.0 ** (-np.arange(half) / max(half - 1, 1)))
        return ops.convert_to_tensor(np.hstack([np.sin(angles), np.cos(angles)]), dtype)
