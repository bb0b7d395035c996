"""Sounds with labels, as samples."""

import keras
import numpy as np

from zoo.learning.batches import by_length
from zoo.learning.hearing import Hearing


class Sounds(keras.utils.PyDataset):
    """Batches of sounds of similar length, which the `lens` augments anew in each epoch.

    All batches have the same size: the last one is filled up with sounds of weight 0.

    Args:
        arrays: `samples`, int16, all sounds concatenated, and `lengths` and `labels` `(sounds,)`;
            see `one_after_the_other`.
        batch_size: Number of sounds per batch.
        hearing: Arguments of `Hearing`.
        lengths: Samples that sounds are padded to, increasing; longer sounds are cut.
        passes: Number of times that each sound occurs in an epoch.
        seed: Seed of the order and of the augmentation.
    """

    def __init__(self, arrays, batch_size, hearing, lengths, passes=1, seed=1):
        super().__init__()
        self.samples, self.labels = arrays["samples"], arrays["labels"].astype("int32")
        ends = np.cumsum(arrays["lengths"].astype("int64"))
        self.first = np.concatenate([[0], ends[:-1]])
        self.batch_size, self.lengths, self.passes = batch_size, tuple(lengths), passes
        self.sizes = np.minimum(arrays["lengths"], self.lengths[-1]).astype("int32")
        self.lens = Hearing(**hearing, seed=seed)
        self.draws = np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, number):
        rows, length = self.batches[number]
        weights = (np.arange(self.batch_size) < len(rows)).astype("float32")
        rows = np.resize(rows, self.batch_size)
        samples = np.zeros((self.batch_size, length), "int16")
        for place, row in enumerate(rows):
            first, size = self.first[row], self.sizes[row]
            samples[place, :size] = self.samples[first : first + size]
        return {"samples": samples, "lengths": self.sizes[rows]}, self.labels[rows], weights

    def on_epoch_end(self):
        """Draws a new order of all sounds."""
        count = len(self.labels)
        rows = np.concatenate([self.draws.permutation(count) for _ in range(self.passes)])
        places = np.searchsorted(self.lengths, self.sizes[rows])
        batches = by_length(rows, places, len(self.lengths), self.batch_size, self.draws)
        self.batches = [(rows, self.lengths[place]) for rows, place in batches]


def one_after_the_other(sounds):
    """Returns the arrays of `Sounds`.

    Args:
        sounds: List of (int16 `(samples,)`, label).
    """
    waves, labels = zip(*sounds, strict=True)
    return {
        "samples": np.concatenate(waves).astype("int16"),
        "lengths": np.array([len(wave) for wave in waves], "int32"),
        "labels": np.array(labels, "int32"),
    }
