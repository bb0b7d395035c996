"""The detailed results of `classify` and `transcribe` for sounds, and their plots."""

import textwrap
from typing import Any, NamedTuple

import numpy as np

from keras_attention.plotting import new_figure
from zoo.decoding.base import require
from zoo.tasks.passages import block_diagonal
from zoo.tasks.result_parts import (
    OF_ATTENTION,
    hypothesis_log_probs,
    joined,
    looks,
    require_entry,
    without_files,
)

LONGEST_TITLE = 80  # characters


class SoundClasses(NamedTuple):
    """The detailed result of `classify` for sounds, with an entry for each sound.

    Attributes:
        labels: List of `str`, the best label of each; or of lists of `str`, all labels of each.
        probabilities: float32 array (sounds × labels of the model); rows sum to 1 if labels are
            mutually exclusive.
        attention: List of float32 arrays (tokens,), the contribution of each time step to the
            answer, by attention rollout; each sums to 1. `None` unless requested.
        heads: List of float32 arrays (blocks × heads × tokens), the same for each head alone, or
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

    def __repr__(self):
        return without_files(self)

    @classmethod
    def of(cls, labels, probabilities, rows, sounds, reader):
        """Makes the result from the outputs of `Classifier.respond` for each sound."""
        if not rows or "attention" not in rows[0]:
            return cls(labels, probabilities, None, None, sounds, reader)
        attention = [row["attention"][: row["tokens"]] for row in rows]
        heads = [row["heads"][..., : row["tokens"]] for row in rows]
        return cls(labels, probabilities, attention, heads, sounds, reader)

    def spectrogram(self, position=0):
        """Returns the spectrogram of a sound, float32 (frames × bands).

        It is what the model gets or, of a model of samples, that of a `zoo.SoundReader`.
        """
        require_entry(self.sounds, position)
        return _spectrogram(self.reader, self.sounds[position])

    def plot(self, position=0, layer=None):
        """Plots the spectrogram of a sound, and below it the contribution of each time step.

        Args:
            position: Index of the sound.
            layer: Index of a block whose heads to show; by default all blocks together, by rollout.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            ValueError: If the result holds no attention, or there is no such sound or block.
        """
        require(self.attention is not None, OF_ATTENTION, attention=None)
        require_entry(self.labels, position)
        titles, rows = looks(self, position, layer, "attention")
        title = f"{joined(self.labels[position])}, {self.probabilities[position].max():.1%}"
        return _heard(self.spectrogram(position), self.reader, rows, titles, title)


class Transcription(NamedTuple):
    """The result of `transcribe(..., return_attention=True)`, with an entry for each sound.

    Attributes:
        texts: List of `str`, the texts.
        tokens: List of lists of `str`, the pieces of each text.
        attention: List of float32 arrays (tokens × times), what each token attends to. A time step
            is two frames of the reader, 0.02 seconds; a row sums to 1 minus the attention to the
            silence after the sound. It is 0 outside the window of the token.
        log_probs: float32 array, the log-probability of each text. With `num_return_sequences`
            above 1 it is (sounds × texts), like `texts`; tokens and attention are those of the best
            ones.
        sounds: List of lists of `bytes`, the windows of each sound as WAV files.
        reader: The `SpeechReader` of the model.
    """

    texts: list
    tokens: list
    attention: list
    log_probs: np.ndarray
    sounds: list
    reader: Any

    def __repr__(self):
        return without_files(self)

    @classmethod
    def of(cls, texts, rows, sounds, reader, tokenizer):
        """Makes the result from the outputs of `Transcriber.answer` for each window of a sound."""
        tokens, attention = [], []
        for of_sound, windows in zip(rows, sounds, strict=True):
            ids = [row["token_ids"][0] for row in of_sound]
            ids = [each[each != tokenizer.pad_id] for each in ids]
            tokens += tokenizer.pieces([np.concatenate(ids)])
            frames = reader.read(windows)[0]["lengths"].numpy()
            times = -(-frames // 2)
            maps = [
                row["attention"][0, : len(each), :time]
                for row, each, time in zip(of_sound, ids, times, strict=True)
            ]
            attention.append(block_diagonal(maps))
        log_probs = hypothesis_log_probs([sum(row["log_prob"] for row in each) for each in rows])
        return cls(texts, tokens, attention, log_probs, sounds, reader)

    def spectrogram(self, position=0):
        """Returns the spectrogram of a sound as the model gets it, float32 (frames × bands)."""
        require_entry(self.sounds, position)
        heard, _ = self.reader.read(self.sounds[position])
        windows = zip(heard["frames"].numpy(), heard["lengths"].numpy(), strict=True)
        return np.concatenate([frames[:length] for frames, length in windows])

    def plot(self, position=0):
        """Plots the spectrogram of a sound, and below it the times that each token attends to.

        Args:
            position: Index of the sound.

        Returns:
            The `matplotlib.figure.Figure`.
        """
        require_entry(self.texts, position)
        names, rows = self.tokens[position], self.attention[position]
        text = self.texts[position]
        title = text if isinstance(text, str) else text[0]
        return _heard(self.spectrogram(position), self.reader, rows, names, title)


class Recognition(NamedTuple):
    """The result of `Recognizer.transcribe(..., return_attention=True)`, an entry for each sound.

    Attributes:
        texts: List of `str`, the texts.
        tokens: List of lists of `str`, the pieces of each text.
        seconds: List of float32 arrays (tokens,), when each token begins.
        attention: List of float32 arrays (tokens × times), the times that each token attended to,
            by attention rollout; each row sums to 1.
        sounds: List of `bytes`, the sounds as WAV files.
        reader: The `SoundReader` of the model.
    """

    texts: list
    tokens: list
    seconds: list
    attention: list
    sounds: list
    reader: Any

    def __repr__(self):
        return without_files(self)

    @classmethod
    def of(cls, texts, rows, sounds, reader, tokenizer):
        """Makes the result from the outputs of `Recognizer.respond` for each sound."""
        kept = [row["token_ids"] != tokenizer.pad_id for row in rows]
        pairs = list(zip(rows, kept, strict=True))
        tokens = tokenizer.pieces([row["token_ids"][those] for row, those in pairs])
        seconds = [row["seconds"][those] for row, those in pairs]
        attention = [row["attention"][those][:, : row["times"]] for row, those in pairs]
        return cls(texts, tokens, seconds, attention, sounds, reader)

    def spectrogram(self, position=0):
        """Returns the spectrogram of a sound, float32 (frames × bands).

        It is what the model gets or, of a model of samples, that of a `zoo.SoundReader`.
        """
        require_entry(self.sounds, position)
        return _spectrogram(self.reader, self.sounds[position])

    def plot(self, position=0):
        """Plots the spectrogram of a sound, and below it the times that each token attended to.

        Args:
            position: Index of the sound.

        Returns:
            The `matplotlib.figure.Figure`.
        """
        require_entry(self.texts, position)
        names, rows = self.tokens[position], self.attention[position]
        frames, title = self.spectrogram(position), self.texts[position]
        return _heard(frames, self.reader, rows, names, title)


def _spectrogram(reader, sound):
    return reader.drawn.read([sound])[0]["frames"][0].numpy()


def _heard(frames, reader, rows, names, title):
    """Returns a figure of a spectrogram, with rows of weights over the same times below it."""
    seconds = len(frames) * reader.drawn.hop
    figure = new_figure((min(3.0 + 6.0 * seconds, 16.0), 3.0 + min(0.4 * len(rows), 30.0)))
    above, below = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [5, max(1, len(rows))]}
    )
    corners = {"aspect": "auto", "extent": (0.0, seconds, 0.0, 1.0), "interpolation": "nearest"}
    hertz = [0, round(reader.rate / 2)]
    above.imshow(frames.T, origin="lower", cmap="magma", **corners)
    above.set_yticks([0.0, 1.0], [f"{each} Hz" for each in hertz])
    # parse_math=False, because a text may have dollar signs.
    title = textwrap.shorten(title, LONGEST_TITLE, placeholder=" …")
    above.set_title(title, parse_math=False)
    below.imshow(rows, cmap="Blues", vmin=0.0, **corners)
    below.set_yticks(1.0 - (np.arange(len(rows)) + 0.5) / len(rows), names, parse_math=False)
    below.set_xlabel("seconds")
    return figure
