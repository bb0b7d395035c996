"""`WaveReader`: turns sounds of any kind into the samples that wav2vec 2.0 and HuBERT take."""

import copy

import keras
import tensorflow as tf

from zoo.readers.sound_reader import SoundReader

SMALL = 1e-7  # added to the variance


@keras.saving.register_keras_serializable(package="zoo")
class WaveReader(SoundReader):
    """The preprocessing of models of samples: waves, each normalized.

    $$ x = \\frac{w - mean(w)}{\\sqrt{variance(w) + 10^{-7}}} $$

    with mean and variance of each recording. Shorter sounds of a batch are padded with zeros.
    Decoding is that of `zoo.SoundReader`: all channels are mixed, and other rates are resampled.

    Args:
        rate: Samples per second; sounds of another rate are resampled.
        seconds: Maximum length of a sound.
        normalize: Whether to normalize; otherwise samples are from -1 to 1.

    Raises:
        ValueError: If a number is out of range.

    Example:

    >>> reader = WaveReader()
    >>> sounds, is_sound = reader.read([reader.example(), b"no sound"])
    >>> sounds["samples"].shape.as_list(), sounds["lengths"].numpy().tolist()
    ([2, 1600], [1600, 0])
    """

    def __init__(self, rate=16000, seconds=60.0, normalize=True):
        super().__init__(rate, seconds=seconds)
        self.window = self.hop = 1.0 / rate  # a frame is a sample
        self.normalize = bool(normalize)

    @property
    def decides(self):
        return {}

    @property
    def drawn(self):
        return SoundReader(self.rate, seconds=self.seconds)

    def spectrograms(self, waves, lengths):
        """Returns model inputs for sounds `(batch, samples)` with given numbers of samples."""
        if self.normalize:
            is_sound = tf.sequence_mask(lengths, tf.shape(waves)[1], tf.float32)
            count = tf.maximum(tf.cast(lengths, tf.float32), 1.0)[:, None]

            def mean(x):
                return tf.reduce_sum(x * is_sound, axis=1, keepdims=True) / count

            centred = (waves - mean(waves)) * is_sound
            waves = centred / tf.sqrt(mean(tf.square(centred)) + SMALL)
        return {"samples": waves, "lengths": lengths}

    def of_shortest(self, shortest):
        """Returns this reader for a model that needs a minimum number of samples.

        Args:
            shortest: The number, at the rate of the reader.
        """
        reader = copy.copy(self)
        reader.shortest = shortest
        return reader

    def frames_of(self, lengths):
        return lengths

    def get_config(self):
        return {"rate": self.rate, "seconds": self.seconds, "normalize": self.normalize}
