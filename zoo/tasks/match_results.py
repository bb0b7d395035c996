"""What matching returns besides numbers: texts, images, and their plots."""

import textwrap
from typing import NamedTuple

import numpy as np

from keras_attention.plotting import LINE, MAX_INCHES, new_figure, wrapped
from zoo.readers.images import read_image


class Matches(NamedTuple):
    """What `match(..., return_matches=True)` returns.

    Attributes:
        similarities: float32 array (images × texts) of cosines.
        texts: List of `str`.
        images: List of `bytes`, the encoded images.
    """

    similarities: np.ndarray
    texts: list
    images: list

    def plot(self):
        """Plots the similarities: a row for each text, and above each column its image.

        Returns:
            The `matplotlib.figure.Figure`. It is not displayed or registered with pyplot.
        """
        columns, rows = self.similarities.shape
        labels = [textwrap.fill(text, LINE) for text in self.texts]
        lines = max((label.count("\n") + 1 for label in labels), default=1)
        height = max(0.4, 0.2 * lines)  # of a row
        width = 1.5 + 0.09 * max(map(len, "\n".join(labels).split("\n")))
        size = width + 1.1 * columns, 1.3 + height * rows
        figure = new_figure([min(each, MAX_INCHES) for each in size])
        ratios = [1.1, height * max(rows, 1)]
        places = figure.subplots(2, columns, squeeze=False, height_ratios=ratios)
        grid = places[1, 0].get_gridspec()
        for place in places[1]:
            place.remove()
        for place, image in zip(places[0], self.images, strict=True):
            place.imshow(read_image(image))
            place.set_axis_off()
        axes = figure.add_subplot(grid[1, :])
        values = self.similarities.T
        drawn = axes.imshow(values, cmap="viridis", aspect="auto")
        axes.set_xticks([])
        axes.set_yticks(range(rows))
        axes.set_yticklabels(labels, parse_math=False)
        middle = (values.min() + values.max()) / 2.0 if values.size else 0.0
        for row, column in np.ndindex(*values.shape):
            value = values[row, column]
            color = "white" if value < middle else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=color)
        figure.colorbar(drawn, ax=axes, label="similarity")
        return figure


class Findings(NamedTuple):
    """What `search` returns, the best image first.

    Attributes:
        text: `str`, the text that was searched for.
        names: List of the `pathlib.Path`s of the images; if a list was searched, of their indices.
        similarities: float32 array of cosines.
        images: List of `bytes`, the encoded images.
    """

    text: str
    names: list
    similarities: np.ndarray
    images: list

    def plot(self):
        """Plots the images side by side, with their similarities.

        Returns:
            The `matplotlib.figure.Figure`. It is not displayed or registered with pyplot.
        """
        width = min(2.2 * len(self.images), MAX_INCHES)
        title = wrapped(self.text, width)
        figure = new_figure((width, 2.7 + 0.2 * len(title.splitlines())))
        places = figure.subplots(1, len(self.images), squeeze=False)[0]
        for place, image, value in zip(places, self.images, self.similarities, strict=True):
            place.imshow(read_image(image))
            place.set_axis_off()
            place.set_title(f"{value:.2f}")
        figure.suptitle(title, parse_math=False)
        return figure
