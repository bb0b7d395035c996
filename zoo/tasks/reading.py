"""Which readers fit a model of images or sounds."""

from zoo.readers.image_reader import ImageReader
from zoo.readers.sound_reader import SoundReader
from zoo.readers.spectrogram_reader import SpectrogramReader
from zoo.readers.speech_reader import SpeechReader
from zoo.readers.wave_reader import WaveReader

_READERS = ImageReader, SoundReader, SpectrogramReader, SpeechReader, WaveReader
_BY_NAME = {each.__name__: each for each in _READERS}


def require_reader_that_fits(core, reader):
    """Raises a `ValueError` unless the reader makes the inputs of a core.

    Args:
        core: The core of a task. If its class does not name a `reader`, any will do.
        reader: The reader, or `None`.
    """
    name = getattr(core, "reader", None)
    if name is None:
        return
    # WaveReader derives from SoundReader for what they share, but makes no frames.
    fits = isinstance(reader, WaveReader) == (name == "WaveReader")
    if not fits or not isinstance(reader, _BY_NAME[name]):
        raise ValueError(
            f"{type(core).__name__} takes what zoo.{name} makes of its inputs. Received: "
            f"reader={reader!r}. Pass reader=zoo.{name}(...)."
        )
