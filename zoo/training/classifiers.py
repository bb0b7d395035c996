"""The base class of recipes for classifiers."""

import dataclasses
import pathlib
from typing import ClassVar

import keras

from zoo.learning.job import Job, learned
from zoo.training import runs
from zoo.training.evaluation import classifier_quality, evaluate_classifier

DIGITS = list("0123456789")


@dataclasses.dataclass(frozen=True)
class ClassifierRecipe:
    """Training of a classifier. A subclass defines the data and their augmentation.

    Attributes:
        architecture: Name of the architecture.
        overrides: Arguments of the model that differ from the defaults of the architecture.
        epochs, batch_size: As for `Classifier.fit`.
        learning_rate: Peak of the cosine schedule, after `warmup_steps`.
        weight_decay: Weight decay of all matrices.
        label_smoothing: As for `TokenCrossentropy`.
        average_momentum: Momentum of the moving average of the weights, which is saved.
        dtype: Dtype policy of the computation in training.
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

    def train(self, train_examples, validation_examples, run_dir):
        """Trains a model; restarted after a crash, it resumes after the last finished epoch.

        Args:
            train_examples, validation_examples: Data sets of (input, label); the
                latter is not used for model selection.
            run_dir: Folder of the run; its job is in `learning`, see `zoo.learning`.

        Returns:
            The trained `Classifier` in float32, with the averaged weights of the last epoch.
        """
        folder = pathlib.Path(run_dir) / "learning"
        keras.utils.set_random_seed(self.seed)
        trained = self.make_model("float32")
        weights = learned(folder, lambda: self.make_job(trained, train_examples, folder))
        trained.core.load_weights(weights)
        return trained

    def make_model(self, dtype):
        """Returns a `Classifier` with fresh weights."""
        raise NotImplementedError

    def make_job(self, model, examples, folder):
        """Returns the `zoo.learning.job.Job` of a run, and its arrays.

        Args:
            model: What `make_model` returns.
            examples: Data set of (input, label).
            folder: Folder of the job.
        """
        data, options, arrays, number = self.lessons(model, examples)
        job = Job(
            self.architecture,
            model.core.get_config(),
            data,
            {"batch_size": self.batch_size, **options},
            keras.optimizers.serialize(self.make_optimizer(number // self.batch_size)),
            self.epochs,
            label_smoothing=self.label_smoothing,
            dtype=self.dtype,
            seed=self.seed,
        )
        return job, arrays

    def lessons(self, model, examples):
        """Returns the kind of the data of a job, its options and arrays, and how many examples."""
        raise NotImplementedError

    def make_optimizer(self, steps_per_epoch):
        """Returns the optimizer, which averages the weights."""
        return keras.optimizers.AdamW(
            runs.cosine(self.learning_rate, self.epochs * steps_per_epoch, self.warmup_steps),
            weight_decay=self.weight_decay,
            **runs.averaging(self.average_momentum),
        )

    def evaluate(self, model, examples):
        """Returns every metric of a model on a data set of (input, digit)."""
        return evaluate_classifier(model, examples)

    def quality(self, scores, split, model):
        """Returns the entries of the card for the results of `evaluate`."""
        return classifier_quality(scores, split)


def count(examples):
    """Returns the number of examples of a data set, which counts them if it must."""
    number = int(examples.cardinality())
    return number if number >= 0 else sum(1 for _ in examples)
