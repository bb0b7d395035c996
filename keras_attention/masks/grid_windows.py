"""Masks of images: windows of a grid, which may be shifted."""

import keras
from keras import ops

from keras_attention._checks import pair_of_integers
from keras_attention.masks._grid import Grid


@keras.saving.register_keras_serializable(package="keras_attention")
class GridWindows(Grid):
    """An image is divided into windows, and a query sees the keys of its own window.

    $$ visible(q, k) = [\\lfloor (row_k - s) / w \\rfloor = \\lfloor (row_q - s) / w \\rfloor]
       \\cdot [\\lfloor (column_k - s) / w \\rfloor = \\lfloor (column_q - s) / w \\rfloor] $$

    for windows of `w` rows and columns and the shift `s`. Positions count the patches of the grid
    row by row; those behind its end see nothing and are seen by none.

    Paper: Liu et al. 2021, Swin Transformer: Hierarchical Vision Transformer using Shifted Windows,
    section 3.2 (https://arxiv.org/abs/2103.14030). Its blocks alternate between windows without a
    shift and windows that are shifted by half. It moves the image cyclically and hides what only
    the shift made neighbors; here nothing is moved, the windows at the edges are just smaller.

    Args:
        grid: Rows and columns of the grid, or one number for both.
        window: Rows and columns of a window, or one number for both. If they do not divide the
            grid, the last windows are smaller. Swin pads the grid instead, with zeros that are
            seen.
        shift: How many rows and columns later the windows begin, less than those of a window.
        num_prefix_tokens: Number of tokens in front of the grid that see, and are seen by, all
            tokens, such as a class token and registers.

    Raises:
        ValueError: If an argument is too small or not an integer, or the shift is not smaller than
            the window.

    Example:

    >>> mask = GridWindows(grid=(2, 4), window=2, shift=(0, 1))
    >>> mask(8, 8)[0, 0, 1].numpy().astype(int).reshape(2, 4).tolist()
    [[0, 1, 1, 0], [0, 1, 1, 0]]

    Attention over rows and columns:

    >>> from keras_attention import MultiHeadAttention
    >>> images = np.ones((1, 8, 8, 6))
    >>> layer = MultiHeadAttention(num_heads=2, key_dim=3, mask=GridWindows(grid=8, window=4))
    >>> tuple(layer(images, images).shape)
    (1, 8, 8, 6)
    """

    def __init__(self, grid, window, shift=(0, 0), num_prefix_tokens=0):
        super().__init__(grid, window, num_prefix_tokens)
        self.shift = pair_of_integers("GridWindows", "shift", shift, least=0)
        if any(shift >= size for shift, size in zip(self.shift, self.window, strict=True)):
            raise ValueError(
                "`shift` of GridWindows must be smaller than `window`. Received: "
                f"shift={shift!r}, window={window!r}. The blocks of Swin shift by half of a window."
            )

    def _near(self, axis, query, key):
        return ops.equal(self._window_of(axis, query), self._window_of(axis, key))

    def _any_near(self, axis, queries, keys):
        (first_query, last_query), (first_key, last_key) = self._windows_of(axis, queries, keys)
        return (first_query <= last_key) & (first_key <= last_query)

    def _all_near(self, axis, queries, keys):
        (first_query, last_query), (first_key, last_key) = self._windows_of(axis, queries, keys)
        return (last_query <= first_key) & (last_key <= first_query)

    def _windows_of(self, axis, *ranges):
        return [[self._window_of(axis, place) for place in each] for each in ranges]

    def _window_of(self, axis, place):
        return (place - self.shift[axis]) // self.window[axis]

    def get_config(self):
        return {
            "grid": self.grid,
            "window": self.window,
            "shift": self.shift,
            "num_prefix_tokens": self.num_prefix_tokens,
        }
