"""Training of classifiers of sounds on the Free Spoken Digit Dataset."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from zoo.data.sounds import (
    at_another_speed,
    of_another_microphone,
    of_another_throat,
    with_gaps,
    with_noise,
)
from zoo.loading import build
from zoo.readers.sound_reader import SoundReader, as_floats
from zoo.training import runs
from zoo.training.classifiers import DIGITS, ClassifierRecipe

RATE = 8000
SHUFFLED_SOUNDS = 3000
BUCKETS = (2000, 2800, 3600, 4400, 5200, 6400)  # samples: little of a batch is padding
USE = "Telling which digit somebody says in English, one digit a recording."
LIMITS = (
    "It knows the ten digits alone, and names one whatever it hears. It learned from six speakers "
    "alone, and understands others less well: models of this recipe that learned for 12 epochs "
    "from five of them told 76 % of the digits of the sixth, from 53 to 87 %. Silence before and "
    "after the digit should be cut off."
)


@dataclasses.dataclass(frozen=True)
class SpokenDigitsRecipe(ClassifierRecipe):
    """Training of a classifier of spoken digits.

    Attributes:
        bands: Bands of the spectrograms.
        speed: Largest change of the speed, see `zoo.data.sounds.at_another_speed`.
        noise: Least and most decibels of a sound above its noise.
        throat: Largest stretching of the bands, see `zoo.data.sounds.of_another_throat`.
        microphone: How much the loudness of bands differs, see
            `zoo.data.sounds.of_another_microphone`.
        gaps: Arguments of `zoo.data.sounds.with_gaps`.
        others: As for `ClassifierRecipe`.
    """

    bands: int = 40
    speed: float = 0.12
    noise: tuple = (15.0, 60.0)
    throat: float = 0.08
    microphone: float = 0.3
    gaps: dict = dataclasses.field(
        default_factory=lambda: {"number": 1, "time": 0.15, "bands": 0.15}
    )
    epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 3e-3
    warmup_steps: int = 100
    average_momentum: float = 0.99
    dtype: str = "float32"

    examples_of_validation: ClassVar = 50

    def load(self, split, data_dir=None):
        """Returns a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.spoken_digit import load_spoken_digit

        return load_spoken_digit(split, data_dir)

    def make_model(self, dtype):
        reader = SoundReader(rate=RATE, bands=self.bands)
        return build(self.architecture, None, dtype, reader=reader, labels=DIGITS, **self.overrides)

    def lessons(self, reader, examples, seed):
        """Returns batches of sounds, each a little different in each epoch."""
        sounds = examples.cache().shuffle(SHUFFLED_SOUNDS, seed=seed)
        faster = tf.data.Dataset.zip(sounds, runs.seeds(seed)).map(
            self._faster, num_parallel_calls=2
        )
        batches = faster.bucket_by_sequence_length(
            lambda wave, length, label: length, BUCKETS, [self.batch_size] * (len(BUCKETS) + 1)
        )

        def lesson(examples, seed):
            waves, lengths, labels = examples
            labels = tf.cast(labels, tf.int32)
            heard = self.heard_otherwise(reader, waves, lengths, seed)
            return heard, labels, tf.ones_like(labels, tf.float32)

        return tf.data.Dataset.zip(batches, runs.seeds(seed + 1)).map(lesson).prefetch(2)

    def heard_otherwise(self, reader, waves, lengths, seed):
        """Returns what a model takes of sounds `(batch, samples)`, each a little different."""
        waves = with_noise(waves, self.noise, tf.random.fold_in(seed, 0))
        frames = reader.log_mel(waves)
        frames = of_another_throat(frames, self.throat, tf.random.fold_in(seed, 1))
        frames = of_another_microphone(frames, self.microphone, tf.random.fold_in(seed, 2))
        inputs = reader.normalized(frames, reader.frames_of(lengths))
        seed = tf.random.fold_in(seed, 3)
        frames = with_gaps(inputs["frames"], inputs["lengths"], seed=seed, **self.gaps)
        return inputs | {"frames": frames}

    def steps_of_epoch(self, examples):
        return super().steps_of_epoch(examples) + len(BUCKETS)  # the last of each is not full

    def _faster(self, example, seed):
        samples, label = example
        wave = at_another_speed(as_floats(samples), self.speed, seed)
        return wave, tf.size(wave), label

    def for_card(self):
        """Returns what the card says of the data, and how the weights were chosen."""
        data = {
            "name": "Free Spoken Digit Dataset",
            "language": "en",
            "source": "https://github.com/Jakobovski/free-spoken-digit-dataset (TFDS spoken_digit "
            "1.0.9: 3,000 recordings, 50 of each digit by each of six speakers; numbers 0 to 4 are "
            "the test, 5 to 9 for validation, 10 to 49 for training)",
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
            "chosen_by": "the highest accuracy on 300 recordings held out of train, over epochs",
        }
