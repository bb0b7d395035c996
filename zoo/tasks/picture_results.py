"""The results of tasks on images: words or labels, attention, probabilities, and their plots."""

import os
import pathlib
from typing import NamedTuple

import numpy as np

from keras_attention.plotting import plot_caption
from zoo.decoding.base import require
from zoo.pages import attention_page, framed, picture_view, save_page
from zoo.readers.images import read_image
from zoo.tasks.result_parts import (
    OF_ATTENTION,
    first,
    joined,
    looks,
    require_entry,
    stacked_rows,
    without_files,
)

OF_CLASSIFIER = f"{OF_ATTENTION}; a Matcher returns none"


class Caption(NamedTuple):
    """The result of `caption(..., return_attention=True)`, with an entry for each image.

    Attributes:
        texts: List of `str`, the captions.
        words: List of lists of `str`, the words of each caption.
        attention: List of float32 arrays (words × rows × columns), the attention map of each word,
            which sums to 1.
        log_probs: float32 array, the log-probability of each caption. With
            `num_return_sequences` above 1 it is (images × captions), like `texts`; words and
            attention are those of the best ones.
        images: List of `bytes`, the encoded images.
    """

    texts: list[str]
    words: list[list[str]]
    attention: list[np.ndarray]
    log_probs: np.ndarray
    images: list[bytes]

    def __repr__(self):
        return without_files(self)

    def plot(self, position=0):
        """Plots one of the images once for each word, with the regions that the word attended to.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            ValueError: If there is no such image.
        """
        require_entry(self.texts, position)
        picture = read_image(self.images[position])
        return plot_caption(picture, self.words[position], self.attention[position])

    def save_html(self, path: str | os.PathLike[str], position: int = 0) -> pathlib.Path:
        """Writes an HTML page to explore the attention of each word, see `zoo.pages`.

        Args:
            path: Path of the file, which is self-contained.
            position: Index of the image.

        Returns:
            `pathlib.Path` of the file.
        """
        return save_page(path, self._page(position))

    def _page(self, position):
        require_entry(self.texts, position)
        weights, words = self.attention[position][None, None], self.words[position]
        view = picture_view("caption", weights, words, self.images[position])
        return attention_page("Caption", [view], first(self.texts[position]))

    def _repr_html_(self):
        return framed(self._page(0)) if self.texts else None


class PictureClasses(NamedTuple):
    """The detailed result of `classify` for images, with an entry for each image.

    Attributes:
        labels: List of `str`, the best label of each; or of lists of `str`, all labels of each.
        probabilities: float32 array (images × labels of the model); rows sum to 1 if labels are
            mutually exclusive.
        attention: float32 array (images × rows × columns), the contribution of each region to the
            answer, by attention rollout; a map sums to 1. `None` unless requested.
        heads: float32 array (images × blocks × heads × rows × columns), the same for each head
            alone, or `None`. For a Swin Transformer, both are of the blocks of the last stage.
        images: List of `bytes`, the encoded images.
    """

    labels: list
    probabilities: np.ndarray
    attention: np.ndarray | None
    heads: np.ndarray | None
    images: list[bytes]

    def __repr__(self):
        return without_files(self)

    @classmethod
    def of(cls, labels, probabilities, rows, images):
        """Makes the result from the outputs of `Classifier.respond` for each image."""
        attention, heads = (stacked_rows(rows, name) for name in ("attention", "heads"))
        return cls(labels, probabilities, attention, heads, images)

    def plot(self, position=0, layer=None):
        """Plots an image, and next to it the image with the regions that the model attended to.

        Args:
            position: Index of the image.
            layer: Index of a block whose heads to show; by default all blocks together, by rollout.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            ValueError: If the result holds no attention, or there is no such image or block.
        """
        require(self.attention is not None, OF_CLASSIFIER, attention=None)
        require_entry(self.labels, position)
        titles, maps = looks(self, position, layer, joined(self.labels[position]))
        return plot_caption(read_image(self.images[position]), titles, maps)

    def save_html(self, path: str | os.PathLike[str], position: int = 0) -> pathlib.Path:
        """Writes an HTML page to explore which regions the model attended to, see `zoo.pages`.

        Args:
            path: Path of the file, which is self-contained.
            position: Index of the image.

        Returns:
            `pathlib.Path` of the file.

        Raises:
            ValueError: If the result holds no attention, or there is no such image.
        """
        require(self.attention is not None, OF_CLASSIFIER, attention=None)
        return save_page(path, self._page(position))

    def _page(self, position):
        require_entry(self.labels, position)
        label, picture = joined(self.labels[position]), self.images[position]
        maps = {"all blocks": self.attention[position][None, None]}
        if self.heads is not None:
            maps["each head"] = self.heads[position]
        views = [
            picture_view(name, _brightest_is_one(each)[:, :, None], [label], picture)
            for name, each in maps.items()
        ]
        return attention_page("Classification", views, label)

    def _repr_html_(self):
        return None if self.attention is None else framed(self._page(0))


def _brightest_is_one(maps):
    """Scales maps to a maximum of 1, since small weights would have few levels."""
    return maps / np.maximum(maps.max(axis=(-2, -1), keepdims=True), 1e-12)
