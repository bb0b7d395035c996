"""Plots of masks. Needs matplotlib, which is only imported when something is drawn."""

import numpy as np
from keras import ops

from keras_attention._checks import require_positive_integers
from keras_attention.plotting import new_figure

MAX_INCHES = 12.0
LONGEST_WITH_GRID = 48  # grid lines between more squares would hide them


def draw(mask, query_length, key_length=None, ax=None):
    """Draws a mask and returns the figure; see `Mask.plot` for the arguments."""
    key_length = query_length if key_length is None else key_length
    owner = f"the plot of {type(mask).__name__}"
    require_positive_integers(owner, query_length=query_length, key_length=key_length)
    visible = ops.convert_to_numpy(mask(query_length, key_length))[0, 0]
    visible = np.broadcast_to(visible, (query_length, key_length))
    axes = _new_axes(query_length, key_length) if ax is None else ax
    first, last = key_length - query_length, key_length  # positions of the queries
    axes.imshow(
        visible,
        cmap="Blues",
        vmin=-0.05,  # hidden pairs are not quite white, so that the squares can be counted
        vmax=1.25,
        extent=(-0.5, key_length - 0.5, last - 0.5, first - 0.5),
        interpolation="nearest",
    )
    axes.set_xlabel("key position")
    axes.set_ylabel("query position")
    axes.set_title(repr(mask).replace("()", ""), parse_math=False, wrap=True)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if max(query_length, key_length) <= LONGEST_WITH_GRID:
        axes.set_xticks(np.arange(key_length + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(first, last + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=0.8)
        axes.tick_params(which="minor", length=0)
    return axes.figure


def _new_axes(query_length, key_length):
    longest = max(query_length, key_length)
    inches = min(2.0 + 0.2 * longest, MAX_INCHES)
    size = [max(inches * length / longest, 2.0) for length in (key_length, query_length)]
    return new_figure((size[0] + 0.6, size[1] + 0.8)).add_subplot()
