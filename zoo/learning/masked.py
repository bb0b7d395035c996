"""Windows of a stream of tokens, some of which are hidden and to be told."""

import keras
import numpy as np
from keras import ops

AS_MASK, AS_OTHER = 0.8, 0.1  # of the tokens that are to be told; the rest stays


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


class MaskedWindows(keras.utils.PyDataset):
    """Batches of windows that begin anywhere: as many an epoch as cover the text about once.

    A share of the tokens of each window are to be told, others each time, as `OfPlaces` takes them.
    Of these, 80 % are masks, 10 % random tokens, and 10 % stay. End tokens are told last.

    Args:
        arrays: `tokens`, a vector: texts that follow each other, each with its end token.
        batch_size: Windows a batch.
        length: Tokens of a window, with the start token in front of it.
        told: Share of the tokens that are to be told.
        vocabulary_size: Number of tokens, of which random ones are drawn.
        start_id, end_id, mask_id: Tokens that have a meaning.
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
    """Returns the number of batches of `MaskedWindows` of that many tokens."""
    return max(1, tokens // (batch_size * length))
