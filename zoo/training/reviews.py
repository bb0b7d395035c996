"""Training of classifiers of texts on the reviews of IMDB."""

import dataclasses
import pathlib
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from zoo.learning.job import Job, learned
from zoo.learning.reviews import flat
from zoo.loading import load
from zoo.training.classifiers import ClassifierRecipe
from zoo.training.masked import DATA

LABELS = ["negative", "positive"]
CHUNKS = (2, 4, 8)  # that texts are padded to in training
ENCODER = "encoder.weights.h5"
USE = "Telling whether an English review of a film praises or pans it, whole reviews of any length."
LIMITS = (
    "It knows reviews of films from before 2011 alone, calls every text positive or negative, a "
    "recipe too, and is poor at irony and at praise for what another film did better."
)


@dataclasses.dataclass(frozen=True)
class ReviewsRecipe(ClassifierRecipe):
    """Training of a classifier of reviews.

    Attributes:
        begin_with: Name of a trained text encoder whose weights and tokenizer it begins with.
        hidden: Share of the tokens that are masks, others in each epoch.
        others: As for `ClassifierRecipe`.
    """

    begin_with: str = "text_encoder_masked_imdb"
    hidden: float = 0.1
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 1e-3
    warmup_steps: int = 200
    label_smoothing: float = 0.05

    measured_splits: ClassVar = ("validation",)

    def load(self, split, data_dir=None):
        """Returns a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.imdb import load_imdb

        return load_imdb(split, data_dir)

    def train(self, train_examples, validation_examples, run_dir):
        """Trains a model; started again after a crash, it goes on with the last finished epoch.

        Args:
            train_examples, validation_examples: Data sets of (text, label); nothing is chosen by
                the latter.
            run_dir: Folder of the run; its job is in `learning`, see `zoo.learning`.

        Returns:
            The trained `Classifier` in float32, with the averaged weights of the last epoch.
        """
        folder = pathlib.Path(run_dir) / "learning"
        trained = self.make_model("float32")

        def make():
            core = load(self.begin_with, dtype="float32").core
            folder.mkdir(parents=True, exist_ok=True)
            core.save_weights(folder / ENCODER)
            return self.make_job(trained, train_examples, core, ENCODER)

        trained.core.load_weights(learned(folder, make))
        return trained

    def make_model(self, dtype):
        return load(self.begin_with, dtype=dtype, labels=LABELS, **self.overrides)

    def make_job(self, model, examples, encoder, weights):
        """Returns the `zoo.learning.job.Job` of a run, and its arrays.

        Args:
            model: The `Classifier`.
            examples: Data set of (text, label).
            encoder: The core that it begins with.
            weights: File of the weights of that, as the folder of the job sees it.
        """
        tokenizer, length = model.tokenizer, model.core.config.max_length
        arrays = tokens_of(tokenizer, examples)
        options = {
            "batch_size": self.batch_size,
            "max_length": length,
            "hidden": self.hidden,
            "pad_id": tokenizer.pad_id,
            "start_id": tokenizer.start_id,
            "end_id": tokenizer.end_id,
            "mask_id": tokenizer.mask_id,
            "lengths": [number * length for number in CHUNKS],
        }
        steps = -(-len(arrays["labels"]) // self.batch_size)
        job = Job(
            self.architecture,
            model.core.get_config(),
            "texts",
            options,
            keras.optimizers.serialize(self.make_optimizer(steps)),
            self.epochs,
            label_smoothing=self.label_smoothing,
            encoder={
                "architecture": encoder.architecture,
                "config": encoder.get_config(),
                "weights": weights,
            },
            dtype=self.dtype,
            seed=self.seed,
        )
        return job, arrays

    def for_card(self):
        """Returns what the card says of the data, and how the weights were chosen."""
        return {
            "variant": "reviews of films",
            "data": DATA,
            "use": USE,
            "limits": LIMITS,
            "call": 'classify("A film to fall in love with.")',
            "chosen_by": "the last epoch is kept",
        }


def tokens_of(tokenizer, examples):
    """Returns the arrays of `zoo.learning.reviews.LabelledTexts`, of a data set."""
    batches = examples.batch(256).map(
        lambda texts, labels: (tokenizer.tokenize(texts), labels), tf.data.AUTOTUNE
    )
    texts, names = [], []
    for ids, labels in batches:
        texts += np.split(ids.values.numpy(), ids.row_splits[1:-1])
        names += labels.numpy().tolist()
    return flat(texts, names)
