"""Plots of attention. Needs matplotlib, which is only imported when something is drawn."""

import math
import textwrap

import numpy as np
from keras import ops

from keras_attention._checks import require_positive_integers

MAX_INCHES = 30.0
FONT_SIZE, TITLE_SIZE = 10, 12  # points, where there is room
LINE = 36  # letters in a line of a long label
LETTER = 0.6 / 72  # inches, the mean width of a letter for each point of its size


def plot_alignment(attention, source_tokens, target_tokens, title=None):
    """Plots attention weights as a heat map: rows are target tokens, columns are source tokens.

    Args:
        attention: Array (target tokens × source tokens) of weights from 0 to 1.
        source_tokens: List of `str`, the labels of the columns.
        target_tokens: List of `str`, the labels of the rows.
        title: Title of the figure.

    Returns:
        The `matplotlib.figure.Figure`. It is not displayed or registered with pyplot.

    Raises:
        ValueError: If the labels do not match the shape of the weights.
        ImportError: If matplotlib is not installed.

    Example:

    >>> figure = plot_alignment(np.eye(2), ["two", "dogs"], ["zwei", "Hunde"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['zwei', 'Hunde']
    """
    attention = _numbers(attention)
    rows, columns = _require_labels(attention.shape, source_tokens, target_tokens)
    beside, above = _extra(source_tokens, target_tokens)
    width, cell_width = _fit(1.8 + beside, 0.36, columns)
    title = wrapped(title or "", width)
    height, cell_height = _fit(1.4 + above + 0.2 * _lines([title]), 0.3, rows)
    figure = new_figure((width, height))
    axes = figure.add_subplot()
    image = _draw(axes, attention, source_tokens, target_tokens, cell_width, cell_height)
    figure.colorbar(image, ax=axes, label="attention weight", shrink=0.8)
    if title:
        figure.suptitle(title, parse_math=False)
    return figure


def plot_heads(attention, source_tokens, target_tokens, titles=None):
    """Plots the weights of several heads side by side, each as in `plot_alignment`.

    Args:
        attention: Array (heads × target tokens × source tokens) of weights from 0 to 1.
        source_tokens, target_tokens: As for `plot_alignment`.
        titles: List of `str`, one for each head. By default, heads are numbered.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: If the labels or the titles do not match the shape of the weights.
        ImportError: If matplotlib is not installed.

    Example:

    >>> figure = plot_heads(np.ones((2, 1, 2)) / 2, ["two", "dogs"], ["zwei"])
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['head 0', 'head 1']
    """
    attention = _numbers(attention)
    if attention.ndim != 3 or not len(attention):
        raise ValueError(
            "`attention` must have at least one head: (heads × target tokens × source tokens). "
            f"Received: shape {attention.shape}. For a single matrix, use `plot_alignment`."
        )
    rows, columns = _require_labels(attention.shape[1:], source_tokens, target_tokens)
    heads = len(attention)
    titles = [f"head {number}" for number in range(heads)] if titles is None else titles
    if len(titles) != heads:
        raise ValueError(
            f"`titles` must have one title for each head, here {heads}. Received: {len(titles)}."
        )
    across = math.ceil(math.sqrt(heads))
    down = math.ceil(heads / across)
    beside, above = _extra(source_tokens, target_tokens)
    width, cell_width = _fit(across * 1.4 + beside, 0.22, across * columns)
    # On a page, a wide figure is scaled down together with its titles.
    title_size = max(TITLE_SIZE, width)
    titles = [wrapped(title, (width - beside) / across, title_size) for title in titles]
    of_head = 1.0 + title_size / 60 * _lines(titles)
    height, cell_height = _fit(down * of_head + above, 0.2, down * rows)
    figure = new_figure((width, height))
    grid = list(figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flat)
    for axes, weights, title in zip(grid[:heads], attention, titles, strict=True):
        image = _draw(axes, weights, source_tokens, target_tokens, cell_width, cell_height)
        # Columns are labeled at the top, so shared labels belong to the first row.
        axes.tick_params(axis="x", labeltop=axes.get_subplotspec().is_first_row())
        axes.set_title(title, fontsize=title_size, parse_math=False)
    for axes in grid[heads:]:
        axes.remove()
    figure.colorbar(image, ax=figure.axes, label="attention weight", shrink=0.8)
    return figure


def plot_caption(image, words, attention, columns=5, title=None):
    """Plots an image, and a copy for each word of its caption that shows what the word attends to.

    Regions that a word attends to stay bright, and the rest of the image is darkened. A ring marks
    the largest weight, with its value next to it: brightness is relative to that weight, so that
    place is equally bright for a weight of 0.05 and a weight of 1. The weights are smoothly
    upsampled to the size of the image.

    Paper: Xu et al. 2015, Show, Attend and Tell: Neural Image Caption Generation with Visual
    Attention (https://arxiv.org/abs/1502.03044).

    Args:
        image: Array (height × width × 3), integers from 0 to 255 or floats from 0 to 1.
        words: List of `str`, the caption.
        attention: Array (words × rows × columns) of weights: for each word, a grid that covers the
            whole image. A square grid may also be given as (words × positions), row by row.
        columns: Number of images per row.
        title: Title of the figure.

    Returns:
        The `matplotlib.figure.Figure`. It is not displayed or registered with pyplot.

    Raises:
        ValueError: If the attention does not match the words, or the image is not a valid image.
        ImportError: If matplotlib is not installed.

    Example:

    >>> photo, looks = np.zeros((60, 80, 3), "uint8"), np.eye(49)[:2]
    >>> figure = plot_caption(photo, ["two", "dogs"], looks)
    >>> [axes.get_title() for axes in figure.axes]
    ['', 'two', 'dogs']
    """
    require_positive_integers("plot_caption", columns=columns)
    image = _require_image(image)
    grids = _require_grids(attention, words)
    pictures = 1 + len(words)
    across = min(columns, pictures)
    down = math.ceil(pictures / across)
    height, width, _ = image.shape
    title = wrapped(title or "", across * 2.0)
    words = [wrapped(word, 1.9) for word in words]
    of_row = 2.0 * height / width + 0.1 + 0.2 * max(_lines(words), 1)
    inches = across * 2.0, down * of_row + (0.2 + 0.2 * _lines([title]) if title else 0.0)
    figure = new_figure([min(each, MAX_INCHES) for each in inches])
    places = figure.subplots(down, across, squeeze=False).flat
    for axes in places:
        axes.set_axis_off()
    for axes in places[:pictures]:
        axes.imshow(image)
    for axes, word, grid in zip(places[1:pictures], words, grids, strict=True):
        axes.set_title(word, parse_math=False)
        _darken(axes, grid, width, height)
    if title:
        figure.suptitle(title, parse_math=False)
    return figure


def _numbers(attention):
    """Returns weights as a float32 array, also those of PyTorch that have a gradient."""
    return np.asarray(ops.convert_to_numpy(attention), dtype="float32")


def _require_image(image):
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[-1] != 3:
        raise ValueError(
            "`image` must be one image of three colors, height × width × 3. Received: shape "
            f"{image.shape}."
        )
    if image.dtype.kind == "f" and image.max() > 1.0:
        raise ValueError(
            f"Floats in `image` must be from 0 to 1. Received: a maximum of {image.max():.4g}. "
            "Divide it by 255, or give integers."
        )
    return image


def _require_grids(attention, words):
    """Returns the attention as (words × rows × columns)."""
    attention = _numbers(attention)
    grids = attention
    if attention.ndim == 2:
        side = math.isqrt(attention.shape[1])
        grids = attention.reshape(-1, side, side) if side**2 == attention.shape[1] else attention
    if grids.ndim != 3 or len(grids) != len(words):
        raise ValueError(
            "`attention` must have a grid for each word: (words × rows × columns), or "
            f"(words × positions) of a square grid, with {len(words)} words. Received: shape "
            f"{attention.shape}."
        )
    return grids


def _darken(axes, grid, width, height):
    """Darkens an image where a grid of weights is small, and labels the largest weight."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patheffects import withStroke

    veil = LinearSegmentedColormap.from_list("veil", [(0, 0, 0, 0.85), (0, 0, 0, 0)])
    # Each pixel of the image is one unit wide and centered on an integer.
    extent = -0.5, width - 0.5, height - 0.5, -0.5
    options = {"vmin": 0.0, "vmax": 1.0, "extent": extent, "interpolation": "bilinear"}
    axes.imshow(_upsample(grid), cmap=veil, **options)
    row, column = np.unravel_index(grid.argmax(), grid.shape)
    rows, columns = grid.shape
    peak = (column + 0.5) * width / columns - 0.5, (row + 0.5) * height / rows - 0.5
    outline = [withStroke(linewidth=2.5, foreground="black")]
    ring = {"markersize": 9, "markerfacecolor": "none", "markeredgecolor": "white"}
    axes.plot(*peak, "o", path_effects=outline, **ring)
    is_left = peak[0] < width / 2
    axes.annotate(
        f"{grid.max():.2f}",
        peak,
        xytext=(8 if is_left else -8, 0),
        textcoords="offset points",
        ha="left" if is_left else "right",
        va="center",
        color="white",
        fontsize=8,
        path_effects=outline,
    )


def _upsample(grid, factor=16):
    """Upsamples a grid of weights by Gaussians around its cells, and scales the maximum to 1."""
    for _ in range(2):
        cells = np.arange(len(grid))
        pixels = (np.arange(factor * len(grid)) + 0.5) / factor - 0.5
        near = np.exp(-((pixels[:, None] - cells) ** 2) / (2 * 0.6**2))
        grid = (near @ grid / near.sum(axis=1, keepdims=True)).T
    return grid / max(grid.max(), np.finfo("float32").tiny)


def _require_labels(shape, source_tokens, target_tokens):
    expected = len(target_tokens), len(source_tokens)
    if shape != expected:
        hint = " For several heads, use `plot_heads`." if len(shape) > 2 else ""
        raise ValueError(
            "`attention` must have a row for each target token and a column for each source token, "
            f"{expected}. Received: shape {shape}.{hint}"
        )
    return expected


def new_figure(size):
    """Returns a `matplotlib.figure.Figure` that is not registered with pyplot.

    Args:
        size: Width and height in inches.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'Drawing needs matplotlib: pip install "keras-attention-zoo[plot]"'
        ) from error
    return Figure(figsize=size, layout="constrained")


def wrapped(title, inches, size=TITLE_SIZE):
    """Returns a title in lines that fit a width.

    Args:
        title: `str`.
        inches: The width.
        size: Size of the letters, in points.

    Example:

    >>> wrapped("Two dogs play in the snow", inches=1.5).split("\\n")
    ['Two dogs play', 'in the snow']
    """
    return textwrap.fill(title, max(8, int(inches / (LETTER * size))))


def _lines(texts):
    """Returns the largest number of lines of a text."""
    return max((len(text.splitlines()) for text in texts), default=0)


def _extra(source_tokens, target_tokens):
    """Returns the inches beside and above the cells that labels need beyond eight letters each."""
    source, target = (
        LETTER * FONT_SIZE * max([0, *(len(line) - 8 for line in "\n".join(tokens).splitlines())])
        for tokens in (source_tokens, target_tokens)
    )
    return target + source / 2, source  # slanted by 60 degrees


def _fit(fixed, cell, count):
    """Returns the inches of cells with what surrounds them, at most `MAX_INCHES`, and of a cell."""
    cell = min(cell, max(MAX_INCHES - fixed, 1.0) / max(count, 1))
    return min(fixed + max(cell * count, 0.8), MAX_INCHES), cell  # the color bar has a label


def _draw(axes, attention, source_tokens, target_tokens, cell_width, cell_height):
    """Draws one heat map and returns its image."""
    rows, columns = attention.shape
    image = axes.imshow(attention, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    # parse_math=False here and for titles, because "$$" would be parsed as a formula.
    axes.set_xticks(range(columns), source_tokens, parse_math=False)
    for tick, token in zip(axes.xaxis.get_major_ticks(), source_tokens, strict=True):
        if len(token) > 2:  # short labels fit, and a slanted "▁" would look like "/"
            tick.label2.set(rotation=60, ha="left", rotation_mode="anchor")  # label2 is at the top
    axes.set_yticks(range(rows), target_tokens, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    # Many labels are small rather than on top of each other.
    axes.tick_params(axis="x", labelsize=min(FONT_SIZE, 50 * cell_width))
    axes.tick_params(axis="y", labelsize=min(FONT_SIZE, 50 * cell_height))
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=min(1.5, 8 * cell_width, 8 * cell_height))
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    return image
