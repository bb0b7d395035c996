"""`SoundReader`: turns sounds of any kind into the spectrograms that a model takes."""

import keras
import numpy as np
import tensorflow as tf

from keras_attention._checks import is_positive_number, require_positive_integers
from zoo.readers.audio import LOUDEST, is_array_with_rate, read_sounds, sound_bytes
from zoo.readers.log_mel import log_mel
from zoo.readers.mel import NEPERS
from zoo.readers.several import as_requests, assert_decoded
from zoo.readers.shown import Shown
from zoo.readers.wav import RATES, write_wav

LONGEST_SOUNDS = 3600.0  # seconds: of a preset of somebody else, too
MOST_BANDS = 1024


@keras.saving.register_keras_serializable(package="zoo")
class SoundReader(Shown):
    """The preprocessing of sounds: log-mel spectrograms, each normalized.

    $$ x = \\frac{l - mean(l)}{deviation(l)}, \\quad l = logmel(sound) $$

    So the result does not depend on loudness. With `decibels`, it does not depend on soft noise
    either: values are clipped to that much below the maximum, as in Whisper (Radford et al. 2022,
    https://arxiv.org/abs/2212.04356). With `each_band`, the mean is that of each band over time, so
    that the result does not depend on the microphone: cepstral mean normalization (Atal 1974,
    https://doi.org/10.1121/1.1914702), here of bands. It decodes like
    `zoo.readers.audio.read_sounds`, with the same graph in training, in Python and in the exported
    model.

    Args:
        rate: Samples per second; sounds of another rate are resampled.
        bands: Number of bands, see `zoo.readers.log_mel.log_mel`.
        window, hop: Length of a frame, and step from frame to frame, in seconds.
        seconds: Maximum length of a sound.
        decibels: Dynamic range below the loudest value, or `None` for all of it.
        each_band: Whether each band has a mean of its own.

    Attributes:
        shortest: Minimum number of samples of a sound, at the rate of the reader.

    Raises:
        ValueError: If a number is out of range.

    Example:

    >>> reader = SoundReader(rate=8000, bands=40)
    >>> reader
    SoundReader(rate=8000, bands=40)
    >>> sounds, is_sound = reader.read([sound_bytes((np.ones(800), 8000)), b"no sound"])
    >>> sounds["frames"].shape.as_list(), sounds["lengths"].numpy().tolist()
    ([2, 11, 40], [11, 0])
    >>> is_sound.numpy().tolist()
    [True, False]
    """

    request_name = "sound_bytes"
    shortest = 1

    def __init__(
        self,
        rate=16000,
        bands=80,
        window=0.025,
        hop=0.01,
        seconds=30.0,
        decibels=None,
        each_band=False,
    ):
        owner = type(self).__name__
        require_positive_integers(owner, rate=rate, bands=bands)
        numbers = {"window": window, "hop": hop, "seconds": seconds}
        for name, number in numbers.items():
            if not is_positive_number(number):
                raise ValueError(
                    f"`{name}` of {owner} must be a number of seconds above 0. Received: "
                    f"{name}={number!r}."
                )
        if not RATES[0] <= rate <= RATES[1] or bands > MOST_BANDS or seconds > LONGEST_SOUNDS:
            raise ValueError(
                f"{owner} takes `rate` from {RATES[0]} to {RATES[1]}, `bands` up to "
                f"{MOST_BANDS}, `seconds` up to {LONGEST_SOUNDS:g}. Received: rate={rate}, "
                f"bands={bands}, seconds={seconds}."
            )
        if hop > window or round(hop * rate) < 1 or window > 1.0:
            raise ValueError(
                f"`window` of {owner} may be 1 second at most, and `hop` from a sample to the "
                f"window. Received: window={window}, hop={hop}, rate={rate}."
            )
        if not (decibels is None or is_positive_number(decibels)):
            raise ValueError(
                f"`decibels` of {owner} must be a number above 0, or None. Received: "
                f"decibels={decibels!r}."
            )
        self.rate, self.bands, self.seconds = rate, bands, seconds
        self.window, self.hop = window, hop
        self.decibels, self.each_band = decibels, bool(each_band)

    @property
    def decides(self):
        """Options of a model of sounds that the reader determines."""
        return {"bands": self.bands}

    @property
    def drawn(self):
        """The reader whose spectrograms show sounds in plots."""
        return self

    def requests(self, sounds):
        """Returns the bytes of each sound of a call, and whether the call was for one sound."""

        def request_of(sound):
            shortest = self.shortest / self.rate if self.shortest > 1 else 0.0
            return sound_bytes(sound, self.seconds, shortest)

        if is_array_with_rate(sounds) or _is_numbers(sounds):
            return [request_of(sounds)], True
        return as_requests(sounds, request_of, "sounds", picture_rank=1)

    def read(self, requests):
        """Reads WAV files, in the graph.

        Args:
            requests: Strings `(batch,)`.

        Returns:
            Dictionary of `frames`, float32 `(batch, frames, bands)`, and `lengths`, int32
            `(batch,)`, the number of frames of each; and boolean `(batch,)`, whether each is a
            sound.
        """
        waves, lengths = read_sounds(requests, self.rate, self.seconds)
        return self.spectrograms(waves, lengths), lengths >= self.shortest

    def spectrograms(self, waves, lengths):
        """Returns model inputs for sounds `(batch, samples)` with given numbers of samples."""
        frames = self.log_mel(waves)
        return self.normalized(frames, self.frames_of(lengths))

    def log_mel(self, waves):
        """Returns log-mel spectrograms `(batch, frames, bands)` of sounds `(batch, samples)`."""
        window, hop = round(self.window * self.rate), round(self.hop * self.rate)
        return log_mel(waves, self.rate, self.bands, window, hop)

    def frames_of(self, lengths):
        """Returns the number of frames for a number of samples."""
        return tf.where(lengths > 0, 1 + lengths // round(self.hop * self.rate), 0)

    def normalized(self, frames, lengths):
        """Returns model inputs for log-mel spectrograms with given numbers of frames."""
        is_frame = tf.sequence_mask(lengths, tf.shape(frames)[1], tf.float32)[..., None]
        count = tf.maximum(tf.cast(lengths, tf.float32), 1.0)[:, None, None]
        if self.decibels is not None:
            heard = tf.where(is_frame > 0.0, frames, frames.dtype.min)
            loudest = tf.reduce_max(heard, axis=(1, 2), keepdims=True)
            frames = tf.maximum(frames, loudest - self.decibels * NEPERS)

        def mean(x):
            return tf.reduce_sum(x * is_frame, axis=1, keepdims=True) / count  # (batch, 1, bands)

        def of_all(x):
            return tf.reduce_mean(x, axis=2, keepdims=True)

        centre = mean(frames)
        centred = (frames - (centre if self.each_band else of_all(centre))) * is_frame
        deviation = tf.sqrt(of_all(mean(tf.square(centred)))) + 1e-5
        return {"frames": centred / deviation, "lengths": lengths}

    def batched(self, examples, batch_size):
        """Returns batches of (model inputs, label).

        Args:
            examples: Data set of (sound, label); a sound is the content of a WAV file, or its
                samples at the rate of the reader, 16-bit integers or floats from -1 to 1.
            batch_size: Number of sounds per batch.
        """
        spec = examples.element_spec[0]
        if spec.dtype == tf.string:
            batches = examples.batch(batch_size)
            return batches.map(self._read_all, num_parallel_calls=tf.data.AUTOTUNE)
        if spec.shape.rank != 1:
            raise ValueError(
                "Sounds in a data set must be WAV files, or have the shape (samples,). Received: "
                f"shape {spec.shape}."
            )
        if spec.dtype.size < 2:
            raise ValueError(
                "Samples in a data set must be 16-bit integers, or floats from -1 to 1. Received: "
                f"{spec.dtype.name}."
            )
        batches = examples.map(_with_length).padded_batch(batch_size)

        # AutoGraph, which tf.data applies, would take seconds and change nothing.
        @tf.autograph.experimental.do_not_convert
        def read(waves, lengths, labels):
            is_right = _assert_in_range(waves), self._assert_long_enough(lengths)
            with tf.control_dependencies(is_right):
                return self.spectrograms(tf.identity(waves), lengths), labels

        return batches.map(read, num_parallel_calls=tf.data.AUTOTUNE)

    def _read_all(self, encoded, labels):
        sounds, is_sound = self.read(encoded)
        longer = f", or are longer than {self.seconds:g} seconds"
        if self.shortest > 1:
            longer += f" or shorter than {self.shortest / self.rate:.3g}"
        with tf.control_dependencies([assert_decoded(is_sound, "sounds", longer)]):
            return {name: tf.identity(each) for name, each in sounds.items()}, labels

    def _assert_long_enough(self, lengths):
        """Returns an operation that fails unless all sounds of a batch have enough samples."""
        told = (
            f"Sounds must have at least {self.shortest} samples. Received:",
            tf.reduce_min(lengths),
            "at position",
            tf.argmin(lengths),
            "of a batch, from 0. Leave it out.",
        )
        return tf.debugging.Assert(tf.reduce_all(lengths >= self.shortest), told)

    def example(self):
        """Returns a tenth of a second of silence."""
        return write_wav(np.zeros(self.rate // 10, "int16"), self.rate)

    def get_config(self):
        return {
            "rate": self.rate,
            "bands": self.bands,
            "window": self.window,
            "hop": self.hop,
            "seconds": self.seconds,
            "decibels": self.decibels,
            "each_band": self.each_band,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def as_floats(samples):
    """Returns samples from -1 to 1, for 16-bit integers or floats."""
    return tf.cast(samples, tf.float32) / (32768.0 if samples.dtype.is_integer else 1.0)


def _with_length(samples, label):
    return as_floats(samples), tf.size(samples), label


def _assert_in_range(waves):
    """Returns an operation that fails unless a batch of sounds holds numbers as in lists."""
    loudest = tf.reduce_max(tf.abs(waves), axis=1)  # NaN for a sound with NaN
    is_wrong = ~(loudest <= LOUDEST)
    first = tf.argmax(is_wrong)
    told = (
        "Sounds of floats must hold finite numbers from -1 to 1. Received: up to",
        loudest[first],
        "at position",
        first,
        "of a batch, from 0. Divide 16-bit samples by 32768, or pass int16; leave out a sound that "
        "is not finite.",
    )
    return tf.debugging.Assert(tf.reduce_all(~is_wrong), told)


def _is_numbers(sounds):
    return hasattr(sounds, "__array__") and np.asarray(sounds).dtype.kind in "biufc"
