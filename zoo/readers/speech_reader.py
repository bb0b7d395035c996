"""`SpeechReader`: turns sounds of any kind into the spectrograms that Whisper takes."""

import keras
import tensorflow as tf

from zoo.readers.log_mel import whisper_log_mel
from zoo.readers.sound_reader import LONGEST_SOUNDS, SoundReader
from zoo.readers.wav import read_wav, write_wav


@keras.saving.register_keras_serializable(package="zoo")
class SpeechReader(SoundReader):
    """The preprocessing of Whisper: log-mel spectrograms of windows of 30 seconds.

    Shorter sounds are padded with silence. The values are those of `whisper_log_mel` in
    `zoo.readers.log_mel`; decoding is that of `zoo.SoundReader`.

    Args:
        rate, bands, window, hop: As for `zoo.SoundReader`.
        seconds: Length of a window.

    Raises:
        ValueError: If a number is out of range, or the frames of a window are not even.

    Example:

    >>> reader = SpeechReader(seconds=2.0)
    >>> sounds, is_sound = reader.read([reader.example(), b"no sound"])
    >>> sounds["frames"].shape.as_list(), sounds["lengths"].numpy().tolist()
    ([2, 200, 80], [10, 0])
    """

    def __init__(self, rate=16000, bands=80, window=0.025, hop=0.01, seconds=30.0):
        super().__init__(rate, bands, window, hop, seconds)
        self.samples = round(seconds * rate)
        self.frames = self.samples // round(hop * rate)
        if self.frames % 2:
            raise ValueError(
                "Whisper takes frames in pairs, and `seconds / hop` of SpeechReader must be even. "
                f"Received: seconds={seconds}, hop={hop}."
            )

    @property
    def decides(self):
        return {**super().decides, "source_length": self.frames // 2}

    def spectrograms(self, waves, lengths):
        missing = self.samples - tf.shape(waves)[1]
        waves = tf.pad(waves[:, : self.samples], [[0, 0], [0, tf.maximum(missing, 0)]])
        waves = tf.ensure_shape(waves, [None, self.samples])
        return {"frames": self.log_mel(waves), "lengths": self.frames_of(lengths)}

    def log_mel(self, waves):
        window, hop = round(self.window * self.rate), round(self.hop * self.rate)
        return whisper_log_mel(waves, self.rate, self.bands, window, hop)

    def frames_of(self, lengths):
        return tf.minimum(-(-lengths // round(self.hop * self.rate)), self.frames)

    def windows(self, sounds):
        """Splits sounds of up to an hour into consecutive windows.

        Args:
            sounds: As for `requests`.

        Returns:
            A list of lists of the bytes of WAV files, and whether it was one sound.
        """
        requests, is_one = self._requests(sounds)
        return [self._cut(request) for request in requests], is_one

    def waves(self, sounds):
        """Returns a list of `(samples, rate)`, float32 `(samples,)`, of sounds of up to an hour.

        Args:
            sounds: As for `requests`.
        """
        requests, _ = self._requests(sounds)
        found = ([each.numpy() for each in read_wav(tf.constant(one))] for one in requests)
        return [(wave.astype("float32"), int(rate)) for wave, rate in found]

    def get_config(self):
        config = super().get_config()
        return {name: config[name] for name in ("rate", "bands", "window", "hop", "seconds")}

    def _requests(self, sounds):
        longer = SoundReader(self.rate, self.bands, self.window, self.hop, LONGEST_SOUNDS)
        return longer.requests(sounds)

    def _cut(self, content):
        wave, rate = (each.numpy() for each in read_wav(tf.constant(content)))
        step = int(self.seconds * rate)
        if len(wave) <= step:
            return [content]
        return [
            write_wav(wave[first : first + step].astype("float32"), int(rate))
            for first in range(0, len(wave), step)
        ]
