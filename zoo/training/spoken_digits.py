"""Training of classifiers of sounds on the Free Spoken Digit Dataset."""

import dataclasses
from typing import ClassVar

from zoo.learning.sounds import one_after_the_other
from zoo.loading import build
from zoo.readers.sound_reader import SoundReader
from zoo.training.classifiers import DIGITS, ClassifierRecipe

RATE = 8000
LENGTHS = (3200, 4800, 8000)  # samples that recordings are padded to, or cut to the last
PASSES = 5  # over the recordings in an epoch, after which a state is saved
USE = "Recognizing a digit spoken in English, one digit per recording."
LIMITS = (
    "It knows only the ten digits and predicts one for any sound. It was trained on only six "
    "speakers and is less accurate for others: models trained by this recipe on five of them "
    "recognized 87.5% of the digits of the sixth on average, from 81 to 93%."
)


@dataclasses.dataclass(frozen=True)
class SpokenDigitsRecipe(ClassifierRecipe):
    """Training of a classifier of spoken digits.

    Attributes:
        bands, window, decibels, each_band: As for `zoo.SoundReader`.
        speed, pause, echo, noise, color, tempo, throat, microphone, gaps: As for
            `zoo.learning.hearing.Hearing`: augmentation that varies voices, rooms and microphones.
        others: As for `ClassifierRecipe`.
    """

    bands: int = 40
    window: float = 0.025
    decibels: float | None = None
    each_band: bool = False
    speed: float = 0.12
    pause: float = 0.0
    echo: float = 0.0
    noise: tuple = (15.0, 60.0)
    color: float = 0.0
    tempo: float = 0.0
    throat: float = 0.08
    microphone: float = 0.3
    gaps: dict = dataclasses.field(
        default_factory=lambda: {"number": 1, "time": 0.15, "bands": 0.15}
    )
    epochs: int = 12
    batch_size: int = 64
    learning_rate: float = 3e-3
    warmup_steps: int = 100
    average_momentum: float = 0.99
    dtype: str = "float32"

    splits: ClassVar = ("-test", "validation")  # it learns from all that is not for the test
    measured_splits: ClassVar = ("test",)
    parts: ClassVar = "numbers 0 to 4 are for testing, the others for training"

    def load(self, split, data_dir=None):
        """Returns a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.spoken_digit import load_spoken_digit

        return load_spoken_digit(split, data_dir)

    def make_reader(self):
        """Returns the reader of the model."""
        return SoundReader(
            rate=RATE,
            bands=self.bands,
            window=self.window,
            decibels=self.decibels,
            each_band=self.each_band,
        )

    def make_model(self, dtype):
        parts = {"reader": self.make_reader(), "labels": DIGITS}
        return build(self.architecture, None, dtype, **parts, **self.overrides)

    def lessons(self, model, examples):
        """Returns recordings, which are augmented differently in each epoch."""
        arrays = one_after_the_other(examples.as_numpy_iterator())
        options = {"hearing": self.hearing(model.reader), "lengths": LENGTHS, "passes": PASSES}
        batches = -(-PASSES * len(arrays["labels"]) // self.batch_size)  # the last is filled up
        return "sounds", options, arrays, batches * self.batch_size

    def hearing(self, reader):
        """Returns arguments of `Hearing`."""
        return {
            "reader": reader.get_config(),
            "speed": self.speed,
            "pause": self.pause,
            "echo": self.echo,
            "noise": self.noise,
            "color": self.color,
            "tempo": self.tempo,
            "throat": self.throat,
            "microphone": self.microphone,
            "gaps": self.gaps,
        }

    def for_card(self):
        """Returns the entries of the card on the data, and on how the weights were chosen."""
        data = {
            "name": "Free Spoken Digit Dataset",
            "language": "en",
            "source": "https://github.com/Jakobovski/free-spoken-digit-dataset (TFDS spoken_digit "
            f"1.0.9: 3,000 recordings, 50 of each digit by each of six speakers; {self.parts})",
            "terms": "CC BY-SA 4.0",
            "citation": "Jackson et al. 2018, Free Spoken Digit Dataset "
            "(https://doi.org/10.5281/zenodo.1342401)",
        }
        return {
            "variant": "spoken digits",
            "data": data,
            "use": USE,
            "limits": LIMITS,
            "call": 'classify("seven.wav")',
            "chosen_by": "the last epoch is kept",
        }
