"""Pretraining of encoders of texts on tokens behind masks, on the reviews of IMDB."""

import dataclasses
import pathlib
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from zoo.loading import build
from zoo.losses import TokenCrossentropy
from zoo.readers.text import Tokenizer
from zoo.tasks.masked import AS_MASK, AS_OTHER
from zoo.training import runs
from zoo.training.evaluation import evaluate_masked, masked_quality

LINE_BREAK = "<br />"  # of HTML, which the reviews have
USE = (
    "Filling gaps in texts on films, and beginning with: an encoder that knows the English of "
    "reviews learns a task of its own from few of them, zoo.load(NAME, labels=[...])."
)
LIMITS = (
    "It knows English reviews of films from before 2011 alone, in small letters, and what the "
    "world is like only as far as they tell. It repeats their judgements and prejudices."
)
CITATION = (
    "Maas et al. 2011, Learning Word Vectors for Sentiment Analysis "
    "(https://aclanthology.org/P11-1015)"
)
DATA = {
    "name": "IMDB reviews",
    "language": "en",
    "source": "https://ai.stanford.edu/~amaas/data/sentiment (TFDS imdb_reviews 1.0.0, plain_text: "
    "of the 25,000 reviews of train, the last 2,500 are for validation, and 22,484 others, without "
    "duplicates of these, for training)",
    "terms": "The reviews belong to their writers; the collection is offered for research, with a "
    "request for the citation.",
    "citation": CITATION,
}


@dataclasses.dataclass(frozen=True)
class MaskedRecipe:
    """Pretraining of a masked language model on texts.

    Attributes:
        architecture: Name of the architecture.
        overrides: Arguments of the model that differ from the architecture's own.
        vocabulary_size: Number of tokens.
        told: Share of the tokens that are to be told. Of these, 80 % are masks, 10 % random tokens,
            and 10 % stay.
        epochs: How often each token is seen.
        batch_size: Windows of `max_length` tokens a batch; they begin anywhere in the texts, which
            follow each other.
        learning_rate: Where the cosine schedule begins, after `warmup_steps`.
        average_momentum: Momentum of the moving average of the weights, which is what is kept.
        dtype: Policy of the computation in training.
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
        """Trains a model; started again after a crash, it goes on with the last finished epoch.

        Args:
            train_examples, validation_examples: Data sets of (text, label).
            run_dir: Folder for checkpoints, the tokenizer, TensorBoard logs and `history.csv`.

        Returns:
            The trained `MaskFiller` in float32, with the averaged weights of the epoch that had the
            lowest loss on the validation texts.
        """
        run_dir = pathlib.Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(self.seed)
        tokenizer = runs.tokenizer(
            run_dir / "tokenizer.json",
            (text.decode() for text, _ in train_examples.as_numpy_iterator()),
            self.vocabulary_size,
            Tokenizer,
            tokens=[LINE_BREAK],
        )
        core = build(self.architecture, tokenizer, self.dtype, **self.overrides).core
        length = core.config.max_length
        streams = [stream_of(tokenizer, each) for each in (train_examples, validation_examples)]
        steps = max(1, len(streams[0]) // (length * self.batch_size))
        model = OfPlaces(core)
        model.compile(optimizer=self.make_optimizer(steps), loss=TokenCrossentropy())
        model.build()
        done = runs.restore(model, run_dir)
        batches = [
            hidden_windows(stream, tokenizer, length, self.batch_size, self.told, seed)
            for stream, seed in zip(streams, (self.seed + done, self.seed), strict=True)
        ]
        held_out = batches[1].take(max(1, len(streams[1]) // (length * self.batch_size))).cache()
        model.fit(
            batches[0],
            steps_per_epoch=steps,
            initial_epoch=done,
            epochs=self.epochs,
            validation_data=held_out,
            shuffle=False,  # they are drawn
            verbose=2,
            callbacks=runs.callbacks(run_dir, "val_loss", "min"),
        )
        model.load_weights(run_dir / runs.BEST)
        trained = build(self.architecture, tokenizer, "float32", **self.overrides)
        runs.copy_weights(model, trained)
        return trained

    def make_optimizer(self, steps_per_epoch):
        """Returns the optimizer, which averages the weights."""
        return keras.optimizers.Muon(
            runs.cosine(self.learning_rate, self.epochs * steps_per_epoch, self.warmup_steps),
            adam_beta_2=0.98,
            weight_decay=0.01,
            adam_weight_decay=0.0,
            global_clipnorm=1.0,
            use_ema=True,
            ema_momentum=self.average_momentum,
            ema_overwrite_frequency=None,
        )

    def evaluate(self, model, examples):
        """Returns every metric of a model on a data set of (text, label)."""
        return evaluate_masked(model, examples.map(lambda text, _: text))

    def quality(self, scores, split, model):
        """Returns what the card says of the results of `evaluate`."""
        return masked_quality(scores, split)

    def for_card(self):
        """Returns what the card says of the data, and how the weights were chosen."""
        return {
            "variant": "reviews of films",
            "data": DATA,
            "use": USE,
            "limits": LIMITS,
            "call": 'fill_mask("The film was [MASK].")',
            "chosen_by": "the lowest loss on 2,500 reviews held out of train, over epochs",
        }


class OfPlaces(keras.Model):
    """A masked language model that gives logits for some places alone: the others cost nothing.

    Args:
        core: A `zoo.models.text_encoder.TextEncoder` with `head="masked"`.

    Call arguments:
        inputs: Dictionary of `token_ids`, int32 `(batch, length)`, and `places`, int32 `(batch,
            places)`.

    Output shape:
        `(batch, places, vocabulary_size)`, float32.
    """

    def __init__(self, core):
        super().__init__()
        self.core = core

    def build(self, input_shape=None):
        if not self.core.built:
            self.core.build()
        self.built = True

    def call(self, inputs, training=None):
        vectors, _ = self.core.encode(inputs["token_ids"], training=training)
        places = inputs["places"][..., None]
        vectors = ops.take_along_axis(vectors, places, axis=1)
        return ops.cast(self.core.tell(vectors), "float32")


def stream_of(tokenizer, examples):
    """Returns the tokens of all texts, each with the end token after it, as an int32 vector."""

    def tokenize(texts, _):
        ids = tokenizer.tokenize(texts)
        ends = tf.fill([ids.nrows(), 1], tokenizer.end_id)
        return tf.concat([ids, ends], axis=1).flat_values

    batches = examples.batch(256).map(tokenize, num_parallel_calls=tf.data.AUTOTUNE)
    return np.concatenate(list(batches.as_numpy_iterator()))


def hidden_windows(stream, tokenizer, length, batch_size, told, seed):
    """Returns batches of windows of a stream, with tokens to be told at places drawn anew.

    Args:
        stream: int32 vector of tokens.
        tokenizer: A tokenizer with a mask token.
        length: Tokens of a window, with the start token in front of it.
        batch_size: Windows a batch.
        told: Share of the tokens that are to be told.
        seed: Seed of everything random.

    Returns:
        A data set without end of `(inputs, labels, weights)`, as `OfPlaces` takes the inputs.
    """
    room = min(length - 1, len(stream))
    number = max(1, round(told * room))
    stream = tf.constant(stream, tf.int32)

    def windows(seed):
        seeds = tf.random.split(seed, 4)
        shape = [batch_size, room]
        first = tf.random.stateless_uniform(
            [batch_size, 1], seeds[0], 0, len(stream) - room + 1, tf.int32
        )
        labels = tf.gather(stream, first + tf.range(room))
        dice = tf.random.stateless_uniform(shape, seeds[1])
        dice = tf.where(labels == tokenizer.end_id, dice - 1.0, dice)  # it is told last
        places = tf.math.top_k(dice, number).indices
        is_told = tf.reduce_any(places[..., None] == tf.range(room), axis=1)
        dice = tf.random.stateless_uniform(shape, seeds[2])
        others = tf.random.stateless_uniform(
            shape, seeds[3], 0, tokenizer.vocabulary_size, tf.int32
        )
        ids = tf.where(is_told & (dice < AS_MASK + AS_OTHER), others, labels)
        ids = tf.where(is_told & (dice < AS_MASK), tokenizer.mask_id, ids)
        ids = tf.concat([tf.fill([batch_size, 1], tokenizer.start_id), ids], axis=1)
        inputs = {"token_ids": ids, "places": places + 1}
        labels = tf.gather(labels, places, batch_dims=1)
        return inputs, labels, tf.ones_like(labels, tf.float32)

    return runs.seeds(seed).map(windows, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)
