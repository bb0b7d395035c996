"""Training of classifiers of texts on the reviews of IMDB."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from zoo.loading import load
from zoo.training import runs
from zoo.training.classifiers import ClassifierRecipe
from zoo.training.masked import DATA

LABELS = ["negative", "positive"]
SHUFFLED_TEXTS, SHUFFLED_BATCHES = 5000, 50
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
    examples_of_validation: ClassVar = 64

    def load(self, split, data_dir=None):
        """Returns a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.imdb import load_imdb

        return load_imdb(split, data_dir)

    def make_model(self, dtype):
        return load(self.begin_with, dtype=dtype, labels=LABELS, **self.overrides)

    def lessons(self, reader, examples, seed):
        """Returns batches of texts of similar length, with other tokens hidden in each epoch."""
        texts = examples.cache().shuffle(SHUFFLED_TEXTS, seed=seed)
        batches = reader.batched(texts, self.batch_size)
        batches = batches.shuffle(SHUFFLED_BATCHES, seed=seed)  # of different lengths
        tokenizer = reader.tokenizer
        special = tf.constant([tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id])

        def lesson(examples, seeds):
            ids, labels = examples
            dice = tf.random.stateless_uniform(tf.shape(ids), seeds)
            is_hidden = (dice < self.hidden) & tf.reduce_all(ids[..., None] != special, axis=-1)
            labels = tf.cast(labels, tf.int32)
            ids = tf.where(is_hidden, tokenizer.mask_id, ids)
            return ids, labels, tf.ones_like(labels, tf.float32)

        return tf.data.Dataset.zip(batches, runs.seeds(seed)).map(lesson).prefetch(2)

    def for_card(self):
        """Returns what the card says of the data, and how the weights were chosen."""
        return {
            "variant": "reviews of films",
            "data": DATA,
            "use": USE,
            "limits": LIMITS,
            "call": 'classify("A film to fall in love with.")',
            "chosen_by": "the highest accuracy on 2,500 reviews held out of train, over epochs",
        }
