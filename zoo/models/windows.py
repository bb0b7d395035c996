"""A Transformer block whose attention stays inside the windows of an image, as in Swin."""

import math

import keras
import numpy as np
from keras import ops

from keras_attention import EncoderBlock


@keras.saving.register_keras_serializable(package="zoo")
class WindowBlock(EncoderBlock):
    """A block for images of any size, each of whose patches attends to those of its window.

    Paper: Liu et al. 2021, Swin Transformer: Hierarchical Vision Transformer using Shifted Windows,
    section 3.2 (https://arxiv.org/abs/2103.14030). As there, the image is filled up with zeros to
    whole windows after the normalization, and these zeros are attended to. A shift moves the image
    cyclically; patches that only this made neighbors do not see each other.

    Windows are attended to one by one, at a cost linear in the number of patches. What the mask
    `keras_attention.masks.GridWindows` leaves of the attention over a whole grid is the same if
    windows divide the grid.

    Args:
        position: A `GridBias` whose grid, a square, is one window. A smaller image, or one of the
            same size, is divided into windows of its shorter side, without a shift.
        shift: How many rows and columns later the windows begin.
        **kwargs: As for `EncoderBlock`.

    Call arguments:
        x: Tensor `(batch, rows, columns, size)`; rows and columns are known.
        return_attention_scores, training: As for `EncoderBlock`.

    Output shape:
        That of `x`; with `return_attention_scores` also the weights before dropout, float32
        `(batch, windows, num_heads, patches, patches)`.

    Raises:
        ValueError: If `position` is for a grid that is no square, or for more than one window.

    Example:

    >>> from keras_attention.positions import GridBias
    >>> block = WindowBlock(num_heads=2, hidden=16, position=GridBias(4), shift=2)
    >>> output, weights = block(np.ones((1, 8, 10, 6)), return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((1, 8, 10, 6), (1, 6, 2, 16, 16))
    """

    def __init__(self, *args, position, shift=0, **kwargs):
        super().__init__(*args, position=position, **kwargs)
        self.shift = shift
        rows, columns = self.position.grid
        if rows != columns or self.position.window not in (None, self.position.grid):
            raise ValueError(
                "`position` of WindowBlock must be a GridBias of a square, one window. Received: "
                f"grid={self.position.grid}, window={self.position.window}. Pass "
                f"position=GridBias({rows})."
            )

    def call(self, x, return_attention_scores=False, training=None):
        self._require_sequences(x.shape)
        grid = tuple(x.shape[1:3])
        window, shift = self._of_grid(grid)
        windows = cut(self._before("attention", x), window, shift)
        mask = neighbors(grid, window, shift)
        places = places_of_part(window, *self.position.grid)
        if places is not None:  # so that pairs of patches have the biases of their distances
            windows, mask = filled_up_windows(windows, places, self.position.grid)
        context = self.attention(
            windows,
            windows,
            attention_mask=mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        context, weights = context if return_attention_scores else (context, None)
        if places is not None:
            context = ops.take(context, places, axis=2)
        if places is not None and weights is not None:
            weights = ops.take(ops.take(weights, places, axis=3), places, axis=4)
        context = joined(context, grid, window, shift)
        attended = self._after("attention", x, context, training)
        x = self._feed_forward(attended, training, x)
        return (x, weights) if return_attention_scores else x

    def weights_of_grid(self, weights, grid):
        """Returns the weights of all pairs of patches, 0 for those in different windows.

        Args:
            weights: Weights that a call returned.
            grid: Rows and columns of its image.

        Returns:
            float32 `(batch, num_heads, patches, patches)` for the patches of the grid, row by row.
            What goes to the zeros around them is left out.
        """
        window, shift = self._of_grid(grid)
        patches, heads = math.prod(grid), weights.shape[2]
        keys = ops.reshape(ops.eye(patches), (1, *grid, patches))
        keys = cut(keys, window, shift)[:, :, None]  # (1, windows, 1, patches of one, patches)
        whole = ops.transpose(ops.matmul(weights, keys), (0, 1, 3, 2, 4))
        whole = ops.reshape(whole, (*ops.shape(whole)[:3], heads * patches))
        whole = joined(whole, grid, window, shift)  # (batch, rows, columns, heads · patches)
        whole = ops.reshape(whole, (-1, patches, heads, patches))
        return ops.transpose(whole, (0, 2, 1, 3))

    def _of_grid(self, grid):
        """Returns the size of the windows of a grid, and their shift."""
        window, _ = self.position.grid
        return (window, self.shift) if min(grid) > window else (min(grid), 0)

    def _make_attention(self, *args, **arguments):
        return super()._make_attention(*args, attention_axes=2, **arguments)

    def _require_sequences(self, x):
        if len(x) != 4:
            raise ValueError(
                f"{type(self).__name__} needs x of shape (batch, rows, columns, size). Received: x "
                f"of shape {tuple(x)}."
            )

    def get_config(self):
        return {**super().get_config(), "shift": self.shift}


def filled_up(x, multiple):
    """Adds zeros below and to the right of images, up to a multiple of rows and columns.

    Args:
        x: Tensor `(batch, rows, columns, size)`.
        multiple: The number whose multiples rows and columns should be.
    """
    below, right = (-side % multiple for side in x.shape[1:3])
    return ops.pad(x, [(0, 0), (0, below), (0, right), (0, 0)]) if below or right else x


def cut(x, window, shift=0):
    """Cuts images into windows.

    Args:
        x: Tensor `(batch, rows, columns, size)`.
        window: Rows and columns of a window. Windows at the edges are filled up with zeros.
        shift: Where windows begin; the last ones continue at the opposite edge.

    Returns:
        Tensor `(batch, windows, window², size)`, windows and their patches row by row.
    """
    x = filled_up(x, window)
    x = _moved(x, shift)
    *_, rows, columns, size = x.shape
    rows, columns = rows // window, columns // window
    x = ops.reshape(x, (-1, rows, window, columns, window, size))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))
    return ops.reshape(x, (-1, rows * columns, window**2, size))


def joined(x, grid, window, shift=0):
    """Returns images whose windows these are: the inverse of `cut`.

    Args:
        x: Tensor `(batch, windows, window², size)`.
        grid: Rows and columns of the images.
        window, shift: As for `cut`.
    """
    rows, columns = (-(-side // window) for side in grid)
    x = ops.reshape(x, (-1, rows, columns, window, window, x.shape[-1]))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))
    x = ops.reshape(x, (-1, rows * window, columns * window, x.shape[-1]))
    return _moved(x, -shift)[:, : grid[0], : grid[1]]


def places_of_part(part, rows, columns):
    """Returns the places of a square in the upper left of a window; `None` for all of it.

    Args:
        part: Rows and columns of the square.
        rows, columns: Those of the window.
    """
    if part == rows == columns:
        return None
    return np.arange(rows * columns).reshape(rows, columns)[:part, :part].ravel()


def filled_up_windows(windows, places, grid):
    """Fills up windows of images that are smaller than a window.

    Args:
        windows: Tensor `(batch, windows, part², size)`.
        places: The places of their patches in whole windows, as of `places_of_part`.
        grid: Rows and columns of a whole window.

    Returns:
        `(windows, mask)`: the whole windows, `(batch, windows, rows · columns, size)`, zeros in
        other places, and the mask that hides these from all.
    """
    part, size = math.isqrt(len(places)), windows.shape[-1]
    missing = [(0, side - part) for side in grid]
    x = ops.reshape(windows, (-1, windows.shape[1], part, part, size))
    x = ops.pad(x, [(0, 0), (0, 0), *missing, (0, 0)])
    number = math.prod(grid)
    mask = np.broadcast_to(np.isin(np.arange(number), places), (1, 1, 1, number, number))
    return ops.reshape(x, (-1, windows.shape[1], number, size)), mask


def neighbors(grid, window, shift):
    """Returns which patches of a window are neighbors in the image, and not only since it moved.

    Args:
        grid, window, shift: As for `joined`.

    Returns:
        Boolean array `(1, windows, 1, window², window²)`; `None` for all if there is no shift.
    """
    if not shift:
        return None
    rows, columns = (_same_side(-(-side // window) * window, window, shift) for side in grid)
    pairs = rows[:, None, :, None, :, None] & columns[None, :, None, :, None, :]
    return pairs.reshape(1, len(rows) * len(columns), 1, window**2, window**2)


def _same_side(length, window, shift):
    """Returns for each window along an axis which pairs of its places come from the same edge."""
    is_from_start = np.arange(length).reshape(-1, window) >= length - shift
    return is_from_start[:, :, None] == is_from_start[:, None, :]


def _moved(x, shift):
    """Moves images up and to the left by a shift, cyclically."""
    return ops.roll(x, (-shift, -shift), axis=(1, 2)) if shift else x
