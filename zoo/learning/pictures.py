"""Pictures with labels, as pixels."""

import keras
import numpy as np
from keras import ops

from zoo.learning.warp import Warp


class Lens(keras.layers.Layer):
    """Warps pictures and scales them to the range that a model takes.

    Args:
        mean, deviation: As for `Pictures`.
        warp: The `Warp`.
    """

    def __init__(self, mean, deviation, warp):
        super().__init__(dtype="float32")
        self.mean, self.deviation, self.warp = mean, deviation, warp

    def call(self, pixels):
        return (self.warp(ops.cast(pixels, "float32") / 255.0) - self.mean) / self.deviation


class Pictures(keras.utils.PyDataset):
    """Batches of pictures, which the `lens` warps anew in each epoch.

    Args:
        arrays: `pixels`, uint8 `(pictures, rows, columns, channels)`, and `labels` `(pictures,)`.
        batch_size: Number of pictures per batch; an incomplete last batch is dropped.
        mean, deviation: How the lens normalizes pixels from 0 to 1, as for `zoo.ImageReader`.
        warps: Arguments of `Warp`.
        seed: Seed of the order and of the warps.
    """

    def __init__(self, arrays, batch_size, mean, deviation, warps, seed=1):
        super().__init__()
        self.pixels, self.labels = arrays["pixels"], arrays["labels"].astype("int32")
        self.batch_size = batch_size
        self.lens = Lens(mean, deviation, Warp(**warps, seed=seed, dtype="float32"))
        self.draws = np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return len(self.labels) // self.batch_size

    def __getitem__(self, number):
        rows = self.order[number * self.batch_size : (number + 1) * self.batch_size]
        return self.pixels[rows], self.labels[rows], np.ones(len(rows), "float32")

    def on_epoch_end(self):
        self.order = self.draws.permutation(len(self.labels))
