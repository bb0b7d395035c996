"""Pictures of attention. Needs matplotlib, imported when something is drawn."""

import math

import numpy as np

MAX_INCHES = 30.0


def plot_alignment(attention, source_tokens, target_tokens, title=None):
    """Draws attention weights as a heat map: a row for each target token, a column for each source.

    Args:
        attention: Array (target tokens × source tokens) of weights from 0 to 1.
        source_tokens: List of `str`, the labels of the columns.
        target_tokens: List of `str`, the labels of the rows.
        title: Title of the picture.

    Returns:
        The `matplotlib.figure.Figure`; it is not shown, and belongs to no pyplot window.

    Raises:
        ValueError: If the labels do not fit the shape of the weights.
        ImportError: If matplotlib is not installed.

    Example:

    >>> figure = plot_alignment(np.eye(2), ["two", "dogs"], ["zwei", "Hunde"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['zwei', 'Hunde']
    """
    attention = np.asarray(attention, dtype="float32")
    rows, columns = _require_labels(attention.shape, source_tokens, target_tokens)
    size = min(1.8 + 0.36 * columns, MAX_INCHES), min(1.4 + 0.3 * rows, MAX_INCHES)
    figure = _figure(size)
    axes = figure.add_subplot()
    image = _draw(axes, attention, source_tokens, target_tokens)
    figure.colorbar(image, ax=axes, label="attention weight", shrink=0.8)
    if title:
        axes.set_title(title)
    return figure


def plot_heads(attention, source_tokens, target_tokens, titles=None):
    """Draws the weights of several heads side by side, each as `plot_alignment` does.

    Args:
        attention: Array (heads × target tokens × source tokens) of weights from 0 to 1.
        source_tokens, target_tokens: As for `plot_alignment`.
        titles: List of `str`, one for each head. By default they are numbered.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: If the labels do not fit the shape of the weights.
        ImportError: If matplotlib is not installed.

    Example:

    >>> figure = plot_heads(np.ones((2, 1, 2)) / 2, ["two", "dogs"], ["zwei"])
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['head 0', 'head 1']
    """
    attention = np.asarray(attention, dtype="float32")
    rows, columns = _require_labels(attention.shape[1:], source_tokens, target_tokens)
    heads = len(attention)
    across = math.ceil(math.sqrt(heads))
    down = math.ceil(heads / across)
    inches = across * (1.4 + 0.22 * columns), down * (1.2 + 0.2 * rows)
    figure = _figure([min(each, MAX_INCHES) for each in inches])
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flat
    titles = titles or [f"head {number}" for number in range(heads)]
    for axes, weights, title in zip(grid, attention, titles, strict=False):
        image = _draw(axes, weights, source_tokens, target_tokens)
        axes.set_title(title)
    for axes in list(grid)[heads:]:
        axes.remove()
    figure.colorbar(image, ax=figure.axes, label="attention weight", shrink=0.8)
    return figure


def _require_labels(shape, source_tokens, target_tokens):
    expected = len(target_tokens), len(source_tokens)
    if shape != expected:
        raise ValueError(
            "`attention` must have a row for each target token and a column for each source token, "
            f"{expected}. Received: shape {shape}. Several heads are for `plot_heads`."
        )
    return expected


def _figure(size):
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'Drawing needs matplotlib: pip install "keras-attention-zoo[plot]"'
        ) from error
    return Figure(figsize=size, layout="constrained")


def _draw(axes, attention, source_tokens, target_tokens):
    """Draws one heat map, and returns its image."""
    rows, columns = attention.shape
    image = axes.imshow(attention, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    # Without parse_math a token such as "$$" would be taken for a formula.
    slanted = {"rotation": 60, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks(range(columns), source_tokens, parse_math=False, **slanted)
    axes.set_yticks(range(rows), target_tokens, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    return image
