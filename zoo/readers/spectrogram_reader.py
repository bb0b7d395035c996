"""`SpectrogramReader`: turns sounds into what an Audio Spectrogram Transformer takes."""

import keras
import tensorflow as tf

from keras_attention._checks import is_positive_number, require_positive_integers
from zoo.readers.log_mel import kaldi_log_mel
from zoo.readers.sound_reader import SoundReader

MOST_FRAMES = 360_000  # in an hour


@keras.saving.register_keras_serializable(package="zoo")
class SpectrogramReader(SoundReader):
    """The preprocessing of the Audio Spectrogram Transformer: a fixed number of frames.

    $$ x = \\frac{l - mean}{deviation}, \\quad l = logmel(sound) $$

    with mean and deviation of a whole data set, those of AudioSet by default. The values of `l` are
    those of `zoo.readers.log_mel.kaldi_log_mel`, and 0 behind the end of a short sound; the end of
    a longer one is cut off. Decoding is that of `zoo.SoundReader`.

    Args:
        rate, bands, window, hop: As for `zoo.SoundReader`.
        seconds: Maximum length of a sound.
        frames: Number of frames, of which there are 100 in a second by default.
        mean, deviation: Numbers for the normalization; `deviation` is twice the standard deviation.

    Raises:
        ValueError: If a number is out of range.

    Example:

    >>> reader = SpectrogramReader(frames=64)
    >>> sounds, is_sound = reader.read([reader.example(), b"no sound"])
    >>> sounds["frames"].shape.as_list(), sounds["lengths"].numpy().tolist()
    ([2, 64, 128], [8, 0])
    """

    def __init__(
        self,
        rate=16000,
        bands=128,
        window=0.025,
        hop=0.01,
        seconds=300.0,
        frames=1024,
        mean=-4.2677393,
        deviation=9.1379948,
    ):
        super().__init__(rate, bands, window, hop, seconds)
        require_positive_integers("SpectrogramReader", frames=frames)
        if frames > MOST_FRAMES or not is_positive_number(deviation):
            raise ValueError(
                f"SpectrogramReader takes up to {MOST_FRAMES} `frames`, and a `deviation` above 0. "
                f"Received: frames={frames}, deviation={deviation!r}."
            )
        self.shortest = round(window * rate)  # there are no frames beyond the end
        self.frames, self.mean, self.deviation = frames, float(mean), float(deviation)

    @property
    def decides(self):
        return {**super().decides, "frames": self.frames}

    def spectrograms(self, waves, lengths):
        step = round(self.hop * self.rate)
        waves = waves[:, : self.frames * step + round(self.window * self.rate)]
        frames = self.log_mel(waves)[:, : self.frames]
        frames = tf.pad(frames, [[0, 0], [0, self.frames - tf.shape(frames)[1]], [0, 0]])
        frames = tf.ensure_shape(frames, [None, self.frames, self.bands])
        lengths = tf.minimum(self.frames_of(lengths), self.frames)
        is_frame = tf.sequence_mask(lengths, self.frames)[..., None]
        frames = (tf.where(is_frame, frames, 0.0) - self.mean) / self.deviation
        return {"frames": frames, "lengths": lengths}

    def log_mel(self, waves):
        window, hop = round(self.window * self.rate), round(self.hop * self.rate)
        return kaldi_log_mel(waves, self.rate, self.bands, window, hop)

    def frames_of(self, lengths):
        window, hop = round(self.window * self.rate), round(self.hop * self.rate)
        return tf.where(lengths < window, 0, 1 + (lengths - window) // hop)

    def get_config(self):
        config = super().get_config()
        own = {"frames": self.frames, "mean": self.mean, "deviation": self.deviation}
        names = "rate", "bands", "window", "hop", "seconds"
        return {name: config[name] for name in names} | own
