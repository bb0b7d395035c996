"""Pictures of attention. Needs matplotlib, imported when something is drawn."""

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
    expected = len(target_tokens), len(source_tokens)
    if attention.shape != expected:
        raise ValueError(
            "`attention` must have a row for each target token and a column for each source token, "
            f"{expected}. Received: shape {attention.shape}. For several heads, plot them one by "
            "one or their mean."
        )
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'Drawing needs matplotlib: pip install "keras-attention-zoo[plot]"'
        ) from error
    rows, columns = expected
    size = min(1.8 + 0.36 * columns, MAX_INCHES), min(1.4 + 0.3 * rows, MAX_INCHES)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
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
    figure.colorbar(image, ax=axes, label="attention weight", shrink=0.8)
    if title:
        axes.set_title(title)
    return figure
