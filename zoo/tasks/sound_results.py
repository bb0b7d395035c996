"""What `classify` returns of sounds besides labels, and its picture."""

from typing import Any, NamedTuple

import numpy as np

from keras_attention.plotting import new_figure
from zoo.decoding.base import require
from zoo.tasks.results import joined, looks


class SoundClasses(NamedTuple):
    """What `classify` returns of sounds besides labels, an entry for each sound.

    Attributes:
        labels: List of `str`, the best label of each; or of lists of `str`, all labels of each.
        probabilities: float32 array (sounds × labels of the model); rows sum to 1 where labels
            exclude each other.
        attention: List of float32 arrays (tokens,), from when of the sound the answer came, by
            attention rollout; each sums to 1. `None` unless asked for.
        heads: List of float32 arrays (blocks × heads × tokens), the same of each head alone, or
            `None`.
        sounds: List of `bytes`, the sounds as WAV files.
        reader: The `SoundReader` of the model.
    """

    labels: list
    probabilities: np.ndarray
    attention: list | None
    heads: list | None
    sounds: list
    reader: Any

    @classmethod
    def of(cls, labels, probabilities, rows, sounds, reader):
        """Returns the result of what `Classifier.respond` gave for each sound."""
        if not rows or "attention" not in rows[0]:
            return cls(labels, probabilities, None, None, sounds, reader)
        attention = [row["attention"][: row["tokens"]] for row in rows]
        heads = [row["heads"][..., : row["tokens"]] for row in rows]
        return cls(labels, probabilities, attention, heads, sounds, reader)

    def spectrogram(self, position=0):
        """Returns what the model hears of a sound, float32 (frames × bands), normalized."""
        frames = self.reader.read([self.sounds[position]])[0]["frames"]
        return frames[0].numpy()

    def plot(self, position=0, layer=None):
        """Draws the spectrogram of a sound, and below it from when the answer came.

        Args:
            position: Which sound.
            layer: A block, to see each of its heads; by default all blocks together, by rollout.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            ValueError: If the result holds no attention, or there is no such block.
        """
        require(self.attention is not None, "a result of return_attention=True", attention=None)
        titles, rows = looks(self, position, layer, "attention")
        frames = self.spectrogram(position)
        seconds = len(frames) * self.reader.hop
        figure = new_figure((min(3.0 + 6.0 * seconds, 16.0), 3.0 + 0.4 * len(rows)))
        grid = {"height_ratios": [5, max(1, len(rows))]}
        above, below = figure.subplots(2, 1, sharex=True, gridspec_kw=grid)
        corners = {"aspect": "auto", "extent": (0.0, seconds, 0.0, 1.0), "interpolation": "nearest"}
        hertz = [0, round(self.reader.rate / 2)]
        above.imshow(frames.T, origin="lower", cmap="magma", **corners)
        above.set_yticks([0.0, 1.0], [f"{each} Hz" for each in hertz])
        above.set_title(
            f"{joined(self.labels[position])}, {self.probabilities[position].max():.1%}"
        )
        below.imshow(rows, cmap="Blues", vmin=0.0, **corners)
        places = 1.0 - (np.arange(len(rows)) + 0.5) / len(rows)
        below.set_yticks(places, titles)
        below.set_xlabel("seconds")
        return figure
