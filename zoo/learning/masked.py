"""Windows of a stream of tokens, some of which are hidden and must be predicted."""

import keras
import numpy as np
from keras import ops

AS_MASK, AS_OTHER = 0.8, 0.1  # shares of the tokens to predict; the rest stays unchanged


class OfPlaces(keras.Model):
    """A masked language model that computes logits for some positions only, to save time.

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


class MaskedWindows(keras.utils.PyDataset):
    """Batches of windows at random positions; an epoch has as many as cover the text about once.

    In each window, a share of the tokens, drawn anew each time, is to be predicted by `OfPlaces`.
    Of these, 80% become masks, 10% random tokens, and 10% stay unchanged. End tokens are chosen
    only if there are too few others.

    Args:
        arrays: `tokens`, a vector: texts that follow each other, each with its end token.
        batch_size: Number of windows per batch.
        length: Number of tokens in a window, including the start token in front.
        told: Share of the tokens to predict.
        vocabulary_size: Number of tokens, from which random ones are drawn.
        start_id, end_id, mask_id: Ids of special tokens.
        seed: Seed of everything random.
    """

    lens = None

    def __init__(
        self, arrays, batch_size, length, told, vocabulary_size, start_id, end_id, mask_id, seed=1
    ):
        super().__init__()
        self.stream = arrays["tokens"]
        self.batch_size = batch_size
        self.room = min(length - 1, len(self.stream))
        self.told = max(1, round(told * self.room))
        self.steps = steps_of_epoch(len(self.stream), batch_size, length)
        self.vocabulary_size = vocabulary_size
        self.start_id, self.end_id, self.mask_id = start_id, end_id, mask_id
        self.seed, self.epoch = seed, -1
        self.on_epoch_end()

    def __len__(self):
        return self.steps

    def __getitem__(self, number):
        draws = np.random.default_rng((self.seed, self.epoch, number))
        first = draws.integers(len(self.stream) - self.room + 1, size=(self.batch_size, 1))
        ids = self.stream[first + np.arange(self.room)].astype("int32")
        dice = draws.random(ids.shape, "float32") - (ids == self.end_id)
        last = self.room - self.told
        places = np.argpartition(dice, last, axis=1)[:, last:].astype("int32")
        labels = np.take_along_axis(ids, places, axis=1)
        dice = draws.random(labels.shape)
        others = draws.integers(self.vocabulary_size, size=labels.shape, dtype="int32")
        shown = np.where(dice < AS_MASK + AS_OTHER, others, labels)
        shown = np.where(dice < AS_MASK, self.mask_id, shown)
        np.put_along_axis(ids, places, shown, axis=1)
        starts = np.full((self.batch_size, 1), self.start_id, "int32")
        inputs = {"token_ids": np.concatenate([starts, ids], axis=1), "places": places + 1}
        return inputs, labels, np.ones(labels.shape, "float32")

    def on_epoch_end(self):
        self.epoch += 1


def steps_of_epoch(tokens, batch_size, length):
    """Returns the number of batches that `MaskedWindows` makes of a number of tokens."""
    return max(1, tokens // (batch_size * length))
