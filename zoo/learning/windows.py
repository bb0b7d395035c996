"""Windows at random positions of a stream of tokens."""

import keras
import numpy as np


class Windows(keras.utils.PyDataset):
    """Batches of windows of a text; an epoch has as many as cover it about once.

    Args:
        arrays: `tokens`, a vector, and optionally `unlabelled`, another one: then half of each
            batch are windows of the latter with labels of -1, which the teachers replace.
        batch_size: Number of windows per batch.
        context_length: Number of tokens that the model sees.
        seed: Seed of the positions.

    Raises:
        ValueError: If a text is too short for a window and the token after it.
    """

    lens = None

    def __init__(self, arrays, batch_size, context_length, seed=1):
        super().__init__()
        names = [name for name in ("tokens", "unlabelled") if name in arrays]
        for name in names:
            if len(arrays[name]) <= context_length:
                raise ValueError(
                    f"`{name}` of Windows must have more than context_length={context_length} "
                    f"tokens. Received: {len(arrays[name])}. Take a longer text or shorter windows."
                )
        self.streams = [arrays[name] for name in names]
        self.batch_size, self.length = batch_size, context_length
        self.seed, self.epoch = seed, 0

    def __len__(self):
        return max(1, round(len(self.streams[0]) / (self.batch_size * self.length)))

    def __getitem__(self, number):
        draws = np.random.default_rng((self.seed, self.epoch, number))
        rows = self.batch_size // len(self.streams)
        windows = []
        for stream in self.streams:
            first = draws.integers(len(stream) - self.length, size=(rows, 1))
            windows.append(stream[first + np.arange(self.length + 1)].astype("int32"))
        tokens = np.concatenate(windows)
        inputs, labels = tokens[:, :-1], tokens[:, 1:].copy()
        labels[rows:] = -1
        return inputs, labels, np.ones(labels.shape, "float32")

    def on_epoch_end(self):
        self.epoch += 1
