"""What the recipes of classifiers have in common."""

import dataclasses
import pathlib
from typing import ClassVar

import keras

from zoo.losses import TokenCrossentropy
from zoo.training import runs
from zoo.training.evaluation import classifier_quality, evaluate_classifier

DIGITS = list("0123456789")


@dataclasses.dataclass(frozen=True)
class ClassifierRecipe:
    """Training of a classifier. A subclass says of what, and how its examples differ each time.

    Attributes:
        architecture: Name of the architecture.
        overrides: Arguments of the model that differ from the architecture's own.
        epochs, batch_size: As for `Classifier.fit`.
        learning_rate: Where the cosine schedule begins, after `warmup_steps`.
        weight_decay: Decay of all matrices.
        label_smoothing: As for `TokenCrossentropy`.
        average_momentum: Momentum of the moving average of the weights, which is what is kept.
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
    dtype: str = "mixed_bfloat16"
    seed: int = 1

    splits: ClassVar = ("train", "validation")
    measured_splits: ClassVar = ("validation", "test")
    test_splits: ClassVar = ("test",)
    examples_of_validation: ClassVar = 500  # a batch
    monitored: ClassVar = ("val_accuracy", "max")  # what is kept is best by it

    def train(self, train_examples, validation_examples, run_dir):
        """Trains a model; started again after a crash, it goes on with the last finished epoch.

        Args:
            train_examples, validation_examples: Data sets of (input, digit).
            run_dir: Folder for checkpoints, TensorBoard logs and `history.csv`.

        Returns:
            The trained `Classifier` in float32, with the averaged weights of the epoch that had the
            best `monitored` on the validation examples, the first of equals.
        """
        run_dir = pathlib.Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(self.seed)
        model = self.make_model(self.dtype)
        model.compile(
            optimizer=self.make_optimizer(self.steps_of_epoch(train_examples)),
            loss=self.make_loss(),
        )
        done = runs.restore(model, run_dir)
        model.fit(
            self.lessons(model.reader, train_examples, self.seed + done),
            initial_epoch=done,
            epochs=self.epochs,
            validation_data=validation_examples.cache(),
            batch_size=self.examples_of_validation,
            verbose=2,
            callbacks=runs.callbacks(run_dir, *self.monitored),
        )
        trained = self.make_model("float32")
        trained.load_weights(run_dir / runs.BEST)
        return trained

    def make_model(self, dtype):
        """Returns a `Classifier` with fresh weights."""
        raise NotImplementedError

    def make_loss(self):
        """Returns what the model learns by."""
        return TokenCrossentropy(self.label_smoothing)

    def lessons(self, reader, examples, seed):
        """Returns batches of (inputs, digits, weights), other ones in each epoch."""
        raise NotImplementedError

    def steps_of_epoch(self, examples):
        """Returns the number of batches that `lessons` makes of examples, at most."""
        return -(-count(examples) // self.batch_size)

    def make_optimizer(self, steps_per_epoch):
        """Returns the optimizer, which averages the weights."""
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

    def evaluate(self, model, examples):
        """Returns every metric of a model on a data set of (input, digit)."""
        return evaluate_classifier(model, examples)

    def quality(self, scores, split, model):
        """Returns what the card says of the results of `evaluate`."""
        return classifier_quality(scores, split)


def count(examples):
    """Returns the number of examples of a data set, which counts them if it must."""
    number = int(examples.cardinality())
    return number if number >= 0 else sum(1 for _ in examples)
