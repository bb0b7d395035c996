"""Training of text classifiers on the reviews of IMDB."""

import dataclasses
from typing import ClassVar

import numpy as np
import tensorflow as tf

from zoo.learning.texts import flat
from zoo.loading import load
from zoo.training.classifiers import ClassifierRecipe
from zoo.training.evaluation import evaluate_classifier
from zoo.training.masked import DATA

LABELS = ["negative", "positive"]
CHUNKS = (2, 4, 8)  # that texts are padded to in training
BEGIN = "begin.weights.h5"  # of the job
REVIEWS_AT_ONCE = 32  # in evaluation: a batch of the longest ones takes a gigabyte
USE = "Classifying an English film review of any length as positive or negative."
LIMITS = (
    "It knows only film reviews from before 2011. It labels every text positive or negative, even "
    "a recipe, and is poor at irony and at praise for what another film did better."
)


@dataclasses.dataclass(frozen=True)
class ReviewsRecipe(ClassifierRecipe):
    """Training of a classifier of reviews.

    Attributes:
        begin_with: Name of a trained text encoder whose weights and tokenizer it begins with.
        hidden: Share of masked tokens, different ones in each epoch.
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
    test_splits: ClassVar = ("validation",)

    def load(self, split, data_dir=None):
        """Returns a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.imdb import load_imdb

        return load_imdb(split, data_dir)

    def make_model(self, dtype):
        return load(self.begin_with, dtype=dtype, labels=LABELS, **self.overrides)

    def make_job(self, model, examples, folder):
        """Returns the `zoo.learning.job.Job` of a run, and its arrays: it begins with the model."""
        job, arrays = super().make_job(model, examples, folder)
        folder.mkdir(parents=True, exist_ok=True)
        model.core.save_weights(folder / BEGIN)
        return dataclasses.replace(job, begin_with=BEGIN), arrays

    def lessons(self, model, examples):
        """Returns reviews in chunks, with different tokens hidden in each epoch."""
        tokenizer, length = model.tokenizer, model.core.config.max_length
        arrays = tokens_of(tokenizer, examples)
        options = {
            "max_length": length,
            "hidden": self.hidden,
            "pad_id": tokenizer.pad_id,
            "start_id": tokenizer.start_id,
            "end_id": tokenizer.end_id,
            "mask_id": tokenizer.mask_id,
            "lengths": [number * length for number in CHUNKS],
        }
        batches = -(-len(arrays["labels"]) // self.batch_size)  # the last is filled up
        return "texts", options, arrays, batches * self.batch_size

    def evaluate(self, model, examples):
        """Returns every metric of a model on a data set of (text, label)."""
        return evaluate_classifier(model, examples, REVIEWS_AT_ONCE)

    def for_card(self):
        """Returns the entries of the card on the data, and on how the weights were chosen."""
        return {
            "variant": "film reviews",
            "data": DATA,
            "use": USE,
            "limits": LIMITS,
            "call": 'classify("A film to fall in love with.")',
            "chosen_by": "the last epoch is kept",
        }


def tokens_of(tokenizer, examples):
    """Returns the arrays of `zoo.learning.texts.LabelledTexts`, of a data set."""
    batches = examples.batch(256).map(
        lambda texts, labels: (tokenizer.tokenize(texts), labels), tf.data.AUTOTUNE
    )
    texts, names = [], []
    for ids, labels in batches:
        texts += np.split(ids.values.numpy(), ids.row_splits[1:-1])
        names += labels.numpy().tolist()
    return flat(texts, names)
