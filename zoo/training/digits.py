"""Training of classifiers of pictures on MNIST."""

import dataclasses

import tensorflow as tf

from zoo.data.warps import warped
from zoo.loading import build
from zoo.readers.image_reader import ImageReader
from zoo.training.classifiers import DIGITS, ClassifierRecipe

SHUFFLED_IMAGES = 10_000
USE = "Telling which digit a small grey picture shows, one digit in white on black, centred."
LIMITS = (
    "It knows digits alone: whatever else a picture shows, it names a digit. Dark ink on white "
    "paper must be inverted first."
)


@dataclasses.dataclass(frozen=True)
class DigitsRecipe(ClassifierRecipe):
    """Training of a classifier of the digits of MNIST.

    Attributes:
        warps: Arguments of `zoo.data.warps.warped` that differ from its own.
        others: As for `ClassifierRecipe`.
    """

    warps: dict = dataclasses.field(default_factory=dict)

    def load(self, split, data_dir=None):
        """Returns a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.mnist import load_mnist

        return load_mnist(split, data_dir)

    def make_model(self, dtype):
        reader = ImageReader(size=28, channels=1, mean=0.1307, deviation=0.3081)
        return build(self.architecture, None, dtype, reader=reader, labels=DIGITS, **self.overrides)

    def lessons(self, reader, examples, seed):
        """Returns batches of warped pictures, others in each epoch."""
        images = examples.cache().shuffle(SHUFFLED_IMAGES, seed=seed).batch(self.batch_size)
        seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).batch(2)

        def lesson(examples, seeds):
            pixels, labels = examples
            pixels = warped(pixels, seed=seeds % tf.int32.max, **self.warps)
            labels = tf.cast(labels, tf.int32)
            return reader.scale(pixels), labels, tf.ones_like(labels, tf.float32)

        return tf.data.Dataset.zip(images, seeds).map(lesson).prefetch(2)

    def for_card(self):
        """Returns what the card says of the data, and how the weights were chosen."""
        data = {
            "name": "MNIST",
            "source": "http://yann.lecun.com/exdb/mnist (TFDS mnist: 60,000 training images, of "
            "which the last 5,000 are for validation, and 10,000 test images)",
            "terms": "CC BY-SA 3.0",
            "citation": "LeCun, Bottou, Bengio and Haffner 1998, Gradient-Based Learning Applied to"
            " Document Recognition (https://doi.org/10.1109/5.726791)",
        }
        return {
            "variant": "digits",
            "data": data,
            "use": USE,
            "limits": LIMITS,
            "call": 'classify("digit.png")',
            "chosen_by": "the highest accuracy on 5,000 images held out of train, over epochs",
        }
