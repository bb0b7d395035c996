"""Training of classifiers of pictures on MNIST."""

import dataclasses
import pathlib
from typing import ClassVar

import keras
import tensorflow as tf

from zoo.catalog import build
from zoo.data.warps import warped
from zoo.metrics.crossentropy import TokenCrossentropy
from zoo.readers.image_reader import ImageReader
from zoo.training import runs
from zoo.training.evaluation import classifier_quality, evaluate_classifier

LABELS = list("0123456789")
SHUFFLED_IMAGES = 10_000
USE = "Telling which digit a small grey picture shows, one digit in white on black, centred."
LIMITS = (
    "It knows digits alone: whatever else a picture shows, it names a digit. Dark ink on white "
    "paper must be inverted first."
)


@dataclasses.dataclass(frozen=True)
class DigitsRecipe:
    """Training of a classifier of the digits of MNIST.

    Attributes:
        architecture: Name of the architecture.
        overrides: Arguments of the model that differ from the architecture's own.
        epochs, batch_size: As for `Classifier.fit`.
        learning_rate: Where the cosine schedule begins, after `warmup_steps`.
        weight_decay: Decay of all matrices.
        label_smoothing: As for `TokenCrossentropy`.
        average_momentum: Momentum of the moving average of the weights, which is what is kept.
        warps: Arguments of `zoo.data.warps.warped` that differ from its own.
        dtype: Policy of the computation in training.
        seed: Seed of everything random.
    """

    architecture: str
    overrides: dict = dataclasses.field(default_factory=dict)
    epochs: int = 20
    batch_size: int = 128
    learning_rate: float = 2e-3
    warmup_steps: int = 400
    weight_decay: float = 0.05
    label_smoothing: float = 0.1
    average_momentum: float = 0.998
    warps: dict = dataclasses.field(default_factory=dict)
    dtype: str = "mixed_bfloat16"
    seed: int = 1

    splits: ClassVar = ("train", "validation")
    measured_splits: ClassVar = ("validation", "test")

    def load(self, split, data_dir=None):
        """Returns a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.mnist import load_mnist

        return load_mnist(split, data_dir)

    def train(self, train_images, validation_images, run_dir):
        """Trains a model; started again after a crash, it goes on with the last finished epoch.

        Args:
            train_images, validation_images: Data sets of (uint8 `(28, 28, 1)`, digit).
            run_dir: Folder for checkpoints, TensorBoard logs and `history.csv`.

        Returns:
            The trained `Classifier` in float32, with the averaged weights of the epoch that had the
            highest accuracy on the validation images.
        """
        run_dir = pathlib.Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(self.seed)
        model = self._build(self.dtype)
        steps = -(-int(train_images.cardinality()) // self.batch_size)
        model.compile(
            optimizer=self.make_optimizer(steps),
            loss=TokenCrossentropy(self.label_smoothing),
        )
        done = runs.restore(model, run_dir)
        model.fit(
            self._lessons(model.reader, train_images, self.seed + done),
            initial_epoch=done,
            epochs=self.epochs,
            validation_data=validation_images.cache(),
            batch_size=500,
            verbose=2,
            callbacks=runs.callbacks(run_dir, "val_accuracy", "max"),
        )
        trained = self._build("float32")
        trained.load_weights(run_dir / runs.BEST)
        return trained

    def _lessons(self, reader, images, seed):
        """Returns batches of warped pictures, others in each epoch."""
        images = images.cache().shuffle(SHUFFLED_IMAGES, seed=seed).batch(self.batch_size)
        seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).batch(2)

        def lesson(examples, seeds):
            pixels, labels = examples
            pixels = warped(pixels, seed=seeds % tf.int32.max, **self.warps)
            labels = tf.cast(labels, tf.int32)
            return reader.scale(pixels), labels, tf.ones_like(labels, tf.float32)

        return tf.data.Dataset.zip(images, seeds).map(lesson).prefetch(2)

    def evaluate(self, model, images):
        """Returns every metric of a model on a data set of pictures and digits."""
        return evaluate_classifier(model, images)

    def quality(self, scores, split, model):
        """Returns what the card says of the results of `evaluate`."""
        return classifier_quality(scores, split)

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

    def make_optimizer(self, steps_per_epoch):
        optimizer = keras.optimizers.AdamW(
            runs.cosine(self.learning_rate, self.epochs * steps_per_epoch, self.warmup_steps),
            weight_decay=self.weight_decay,
            global_clipnorm=1.0,
            use_ema=True,
            ema_momentum=self.average_momentum,
            ema_overwrite_frequency=None,
        )
        optimizer.exclude_from_weight_decay(var_names=["gamma", "beta", "bias"])
        return optimizer

    def _build(self, dtype):
        reader = ImageReader(size=28, channels=1, mean=0.1307, deviation=0.3081)
        return build(self.architecture, None, dtype, reader=reader, labels=LABELS, **self.overrides)
