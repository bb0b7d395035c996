"""The task of scoring: texts or pairs of texts in, a number for each out."""

import functools
from collections.abc import Iterable
from typing import overload

import keras
import numpy as np
import tensorflow as tf

from zoo.data.batching import examples_of
from zoo.data.labels import numbered, weighed, with_weights
from zoo.tasks.encoding import EncodingTask
from zoo.tasks.padding import own_padding_of
from zoo.tasks.text_readers import pair_reader


@keras.saving.register_keras_serializable(package="zoo")
class Scorer(EncodingTask):
    """A regression model, which scores texts, together with its preprocessing.

    `score`, `fit` and `evaluate` take texts, or pairs of texts, such as a question and a passage
    that may answer it.

    Args:
        core: A model that returns numbers `(batch, 1)`, such as
            `zoo.models.text_encoder.TextEncoder(head="score")`.
        tokenizer: The tokenizer.
    """

    task_name = "scoring"
    task_method = "score"

    def __init__(self, core, tokenizer, **kwargs):
        super().__init__(core, tokenizer, pair_reader(core, tokenizer), **kwargs)

    @classmethod
    def decides(cls, tokenizer=None, **settings):
        return {**super().decides(tokenizer), **own_padding_of(tokenizer)}

    # ----------------------------------------------------------------------------------- training

    def usual_loss(self):
        """Returns the mean squared error."""
        return keras.losses.MeanSquaredError()

    def usual_metrics(self):
        return [keras.metrics.MeanAbsoluteError("mean_absolute_error")]

    data_options = ("sample_weight",)

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0, sample_weight=None):
        """Turns texts with numbers into batches for Keras.

        Args:
            x: A list of texts or pairs as `score` takes them, or a `tf.data.Dataset` of (text,
                number) or ((text, other), number), which may end with a weight in the loss.
            y: If `x` is a list: the number for each entry.
            batch_size: Number of texts per batch. Defaults to 64.
            shuffle: Whether to shuffle lists; a data set is not shuffled.
            seed: Seed of the shuffling.
            sample_weight: If `x` is a list: the weight of each entry in the loss, `(entries,)`.

        Returns:
            A data set of `(inputs, numbers, weights)`.

        Raises:
            ValueError: If `x`, `y` or `sample_weight` has another form.
        """
        make = functools.partial(with_weights, make=numbered)
        examples = examples_of(self.reader, x, y, "text", make, shuffle, seed, sample_weight)
        batches = self.reader.batched(examples, batch_size or self.usual_batch_size)
        return batches.map(_weighted).prefetch(tf.data.AUTOTUNE)

    # ------------------------------------------------------------------------------------ scoring

    @overload
    def score(self, texts: str, batch_size: int = 32) -> float: ...
    @overload
    def score(self, texts: Iterable[str | tuple[str, str]], batch_size: int = 32) -> np.ndarray: ...
    def score(self, texts, batch_size=32):
        """Returns the score of a text, or of each text or pair in a list.

        Args:
            texts: A `str`, a list of `str`, or a list of pairs of `str`.
            batch_size: Number of texts to process at a time.

        Returns:
            A `float` for a `str`, a float32 array for a list.

        Raises:
            ValueError: If an input is not a text or a pair of texts.
        """
        requests, is_one = self.reader.requests(texts)
        rows = self._answers(requests, batch_size)
        scores = np.array([row["score"] for row in rows], "float32")
        return float(scores[0]) if is_one else scores

    def respond(self, requests):
        """Returns a dictionary of `score`, float32 `(batch,)`, in the graph."""
        inputs, _ = self.reader.read(requests)
        return {"score": self.core(inputs, training=False)[:, 0]}

    def named(self, outputs):
        return {"score": outputs[:, 0]}

    def endpoints(self):
        return {**super().endpoints(), "pairs": self._endpoint_of_pairs()}


def _weighted(inputs, numbers):
    return inputs, *weighed(numbers)
