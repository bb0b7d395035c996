"""What matching and search return besides numbers: texts, images, and their plots."""

import textwrap
from typing import NamedTuple

import numpy as np

from keras_attention.plotting import LINE, MAX_INCHES, new_figure, wrapped
from zoo.readers.images import read_image
from zoo.tasks.result_parts import without_files

LINES = 3  # of a text that was found, in a plot


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

        Raises:
            ValueError: If there is no image or no text.
        """
        columns, rows = self.similarities.shape
        if not self.similarities.size:
            raise ValueError(
                "A plot needs at least one image and one text. Received: Matches of "
                f"{columns} images and {rows} texts."
            )
        labels = [textwrap.fill(text, LINE) for text in self.texts]
        lines = max(label.count("\n") + 1 for label in labels)
        height = max(0.4, 0.2 * lines)  # of a row
        width = 1.5 + 0.09 * max(map(len, "\n".join(labels).split("\n")))
        size = width + 1.1 * columns, 1.3 + height * rows
        figure = new_figure([min(each, MAX_INCHES) for each in size])
        ratios = [1.1, height * rows]
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
        middle = (values.min() + values.max()) / 2.0
        if max(size) <= 2.0 * MAX_INCHES:  # smaller cells have no room for their numbers
            for row, column in np.ndindex(*values.shape):
                value = values[row, column]
                color = "white" if value < middle else "black"
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=color)
        figure.colorbar(drawn, ax=axes, label="similarity")
        return figure


class Findings(NamedTuple):
    """What `search` returns, the best entry first.

    Attributes:
        query: What was searched for: a `str`, or the `bytes` of an encoded image.
        names: List of the `pathlib.Path`s of the images in a folder; otherwise of the indices of
            the entries.
        similarities: float32 array of cosines.
        entries: List of what was found: texts, `str`, or encoded images, `bytes`; `None` if
            vectors were searched.

    Example:

    >>> texts = ["You can return it for 30 days.", "We ship within a day."]
    >>> found = Findings("Can I send it back?", [7, 2], np.array([0.71, 0.25]), texts)
    >>> [each.get_text() for each in found.plot().axes[0].get_yticklabels()]
    ['You can return it for 30 days.', 'We ship within a day.']
    """

    query: str | bytes
    names: list
    similarities: np.ndarray
    entries: list[str] | list[bytes] | None

    def __repr__(self):
        return without_files(self)

    def plot(self):
        """Plots images side by side, behind that of the query if it is one, with similarities.

        Texts, and the indices of vectors, get a bar for the similarity of each; of a long text,
        its beginning is shown.

        Returns:
            The `matplotlib.figure.Figure`. It is not displayed or registered with pyplot.
        """
        are_images = self.entries is not None and isinstance(self.entries[0], bytes)
        return self._plot_images() if are_images else self._plot_bars()

    def _plot_images(self):
        images, titles = self.entries, [f"{value:.2f}" for value in self.similarities]
        if isinstance(self.query, bytes):
            images, titles = [self.query, *images], ["query", *titles]
        width = min(2.2 * len(images), MAX_INCHES)
        title = self._title(width)
        figure = new_figure((width, 2.7 + 0.2 * len(title.splitlines())))
        places = figure.subplots(1, len(images), squeeze=False)[0]
        for place, image, above in zip(places, images, titles, strict=True):
            place.imshow(read_image(image))
            place.set_axis_off()
            place.set_title(above)
        figure.suptitle(title, parse_math=False)
        return figure

    def _plot_bars(self):
        entries = self.names if self.entries is None else self.entries
        how = {"max_lines": LINES, "placeholder": " …"}
        labels = [textwrap.fill(str(each), 2 * LINE, **how) for each in entries]
        lines = sum(max(2, label.count("\n") + 1) for label in labels)
        width = 4.0 + 0.08 * max(map(len, "\n".join(labels).split("\n")))
        title = self._title(width)
        height = 0.9 + 0.2 * (lines + len(title.splitlines()))
        figure = new_figure((width, min(height, MAX_INCHES)))
        axes = figure.add_subplot()
        axes.bar_label(axes.barh(range(len(labels)), self.similarities), fmt="%.2f", padding=2)
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.set_yticks(range(len(labels)))
        axes.set_yticklabels(labels, parse_math=False)
        axes.set_xlabel("similarity")
        figure.suptitle(title, parse_math=False)
        return figure

    def _title(self, width):
        return wrapped(self.query, width) if isinstance(self.query, str) else ""
