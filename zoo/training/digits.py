"""Training of classifiers of pictures on MNIST."""

import dataclasses

import numpy as np

from zoo.loading import build
from zoo.readers.image_reader import ImageReader
from zoo.training.classifiers import DIGITS, ClassifierRecipe

MEAN, DEVIATION = 0.1307, 0.3081  # of all pixels
USE = "Recognizing the digit in a small grayscale image: one centered digit, white on black."
LIMITS = (
    "It knows only digits and predicts one for any image. Dark ink on white paper must be inverted "
    "first."
)


@dataclasses.dataclass(frozen=True)
class DigitsRecipe(ClassifierRecipe):
    """Training of a classifier of the digits of MNIST.

    Attributes:
        warps: Arguments of `zoo.learning.warp.Warp` that differ from its own.
        others: As for `ClassifierRecipe`.
    """

    warps: dict = dataclasses.field(default_factory=dict)

    def load(self, split, data_dir=None):
        """Returns a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.mnist import load_mnist

        return load_mnist(split, data_dir)

    def make_model(self, dtype):
        reader = ImageReader(size=28, channels=1, mean=MEAN, deviation=DEVIATION)
        return build(self.architecture, None, dtype, reader=reader, labels=DIGITS, **self.overrides)

    def lessons(self, model, examples):
        """Returns pictures, which are warped differently in each epoch."""
        pixels, labels = zip(*examples.as_numpy_iterator(), strict=True)
        options = {"mean": MEAN, "deviation": DEVIATION, "warps": self.warps}
        arrays = {"pixels": np.stack(pixels), "labels": np.stack(labels)}
        return "pictures", options, arrays, len(labels)

    def for_card(self):
        """Returns the entries of the card on the data, and on how the weights were chosen."""
        data = {
            "name": "MNIST",
            "source": "http://yann.lecun.com/exdb/mnist (TFDS mnist: 60,000 training images, of "
            "which the last 5,000 are for validation, and 10,000 test images)",
            "terms": "CC BY-SA 3.0",
            "citation": "LeCun, Bottou, Bengio and Haffner 1998, Gradient-Based Learning Applied to"
            " Document Recognition (https://doi.org/10.1109/5.726791)",
        }
        return {
            "variant": "handwritten digits",
            "data": data,
            "use": USE,
            "limits": LIMITS,
            "call": 'classify("digit.png")',
            "chosen_by": "the last epoch is kept",
        }
