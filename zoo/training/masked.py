"""Pretraining of text encoders on masked tokens, on the reviews of IMDB."""

import dataclasses
import pathlib
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from zoo.learning.job import Job, learned
from zoo.learning.masked import steps_of_epoch
from zoo.loading import build
from zoo.readers.text import Tokenizer
from zoo.training import runs
from zoo.training.evaluation import evaluate_masked, masked_quality

LINE_BREAK = "<br />"  # of HTML, which the reviews have
USE = (
    "Filling in masked words in texts about films, and fine-tuning: the encoder knows the English "
    "of reviews, so zoo.load(NAME, labels=[...]) can learn a new task from few of them."
)
LIMITS = (
    "It knows only English film reviews from before 2011, in lowercase, and knows the world only "
    "as they describe it. It repeats their judgments and prejudices."
)
CITATION = (
    "Maas et al. 2011, Learning Word Vectors for Sentiment Analysis "
    "(https://aclanthology.org/P11-1015)"
)
DATA = {
    "name": "IMDB reviews",
    "language": "en",
    "source": "https://ai.stanford.edu/~amaas/data/sentiment (TFDS imdb_reviews 1.0.0, plain_text: "
    "of the 25,000 reviews of the train split, the last 2,500 are for validation, and 22,484 "
    "others, without duplicates of these, are for training)",
    "terms": "The reviews belong to their authors; the collection is offered for research, with a "
    "request to cite the paper.",
    "citation": CITATION,
}


@dataclasses.dataclass(frozen=True)
class MaskedRecipe:
    """Pretraining of a masked language model on texts.

    Attributes:
        architecture: Name of the architecture.
        overrides: Arguments of the model that differ from the defaults of the architecture.
        vocabulary_size: Number of tokens.
        told: Share of the tokens to predict. Of these, 80% become masks, 10% random tokens, and 10%
            stay as they are.
        epochs: Number of times that each token is seen.
        batch_size: Number of windows of `max_length` tokens per batch, at random positions of the
            concatenated texts.
        learning_rate: Peak of the cosine schedule, after `warmup_steps`.
        average_momentum: Momentum of the moving average of the weights, which is saved.
        dtype: Dtype policy of the computation in training.
        seed: Seed of everything random.
    """

    architecture: str
    overrides: dict = dataclasses.field(default_factory=dict)
    vocabulary_size: int = 10_000
    told: float = 0.2
    epochs: int = 4
    batch_size: int = 64
    learning_rate: float = 3e-3
    warmup_steps: int = 200
    average_momentum: float = 0.998
    dtype: str = "mixed_bfloat16"
    seed: int = 1

    splits: ClassVar = ("train", "validation")
    measured_splits: ClassVar = ("validation",)
    test_splits: ClassVar = ("validation",)

    def load(self, split, data_dir=None):
        """Returns a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.imdb import load_imdb

        return load_imdb(split, data_dir)

    def train(self, train_examples, validation_examples, run_dir):
        """Trains a model; restarted after a crash, it resumes after the last finished epoch.

        Args:
            train_examples, validation_examples: Data sets of (text, label); the
                latter is not used for model selection.
            run_dir: Folder of the run: of the tokenizer, and of its job, `learning`, see
                `zoo.learning`.

        Returns:
            The trained `MaskFiller` in float32, with the averaged weights of the last epoch.
        """
        run_dir = pathlib.Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        tokenizer = runs.tokenizer(
            run_dir / "tokenizer.json",
            (text.decode() for text, _ in train_examples.as_numpy_iterator()),
            self.vocabulary_size,
            Tokenizer,
            tokens=[LINE_BREAK],
        )
        trained = build(self.architecture, tokenizer, "float32", **self.overrides)
        weights = learned(run_dir / "learning", lambda: self.make_job(trained, train_examples))
        trained.core.load_weights(weights)
        return trained

    def make_job(self, model, examples):
        """Returns the `zoo.learning.job.Job` of a run, and its arrays.

        Args:
            model: The `MaskFiller` with fresh weights.
            examples: Data set of (text, label).
        """
        tokenizer, length = model.tokenizer, model.core.config.max_length
        stream = stream_of(tokenizer, examples)
        options = {
            "batch_size": self.batch_size,
            "length": length,
            "told": self.told,
            "vocabulary_size": tokenizer.vocabulary_size,
            "start_id": tokenizer.start_id,
            "end_id": tokenizer.end_id,
            "mask_id": tokenizer.mask_id,
        }
        steps = steps_of_epoch(len(stream), self.batch_size, length)
        job = Job(
            self.architecture,
            model.core.get_config(),
            "masked",
            options,
            keras.optimizers.serialize(self.make_optimizer(steps)),
            self.epochs,
            dtype=self.dtype,
            seed=self.seed,
        )
        return job, {"tokens": stream}

    def make_optimizer(self, steps_per_epoch):
        """Returns the optimizer, which averages the weights."""
        return keras.optimizers.Muon(
            runs.cosine(self.learning_rate, self.epochs * steps_per_epoch, self.warmup_steps),
            adam_beta_2=0.98,
            weight_decay=0.01,
            adam_weight_decay=0.0,
            **runs.averaging(self.average_momentum),
        )

    def evaluate(self, model, examples):
        """Returns every metric of a model on a data set of (text, label)."""
        return evaluate_masked(model, examples.map(lambda text, _: text))

    def quality(self, scores, split, model):
        """Returns the entries of the card for the results of `evaluate`."""
        return masked_quality(scores, split)

    def for_card(self):
        """Returns the entries of the card on the data, and on how the weights were chosen."""
        return {
            "variant": "film reviews",
            "data": DATA,
            "use": USE,
            "limits": LIMITS,
            "call": 'fill_mask("The film was [MASK].")',
            "chosen_by": "the last epoch is kept",
        }


def stream_of(tokenizer, examples):
    """Returns the tokens of all texts, each with the end token after it, as a uint16 vector."""

    def tokenize(texts, _):
        ids = tokenizer.tokenize(texts)
        ends = tf.fill([ids.nrows(), 1], tokenizer.end_id)
        return tf.concat([ids, ends], axis=1).flat_values

    batches = examples.batch(256).map(tokenize, num_parallel_calls=tf.data.AUTOTUNE)
    return np.concatenate([batch.astype("uint16") for batch in batches.as_numpy_iterator()])
