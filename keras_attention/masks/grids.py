"""Masks of images: windows and neighborhoods in a grid whose rows follow each other."""

import functools
import itertools
import operator

import keras
import numpy as np
from keras import ops

from keras_attention._checks import pair_of_integers
from keras_attention.masks._arguments import integer
from keras_attention.masks.base import Mask
from keras_attention.masks.patterns import GlobalTokens

ROWS, COLUMNS = 0, 1


class _Grid(Mask):
    """A rule for rows and the same for columns: a query sees a key that fits both.

    A subclass implements the rule for an axis: `_near` for a query and a key, and `_any_near` and
    `_all_near` for ranges of them, as `may_see` and `sees_all` do for positions.
    """

    def __init__(self, grid, window, num_prefix_tokens):
        owner = type(self).__name__
        self.grid = pair_of_integers(owner, "grid", grid)
        self.window = pair_of_integers(owner, "window", window)
        hint = "It counts the tokens in front of the grid; 0 means none."
        self.num_prefix_tokens = integer(self, "num_prefix_tokens", num_prefix_tokens, 0, hint)
        self.tokens = GlobalTokens(self.num_prefix_tokens) if self.num_prefix_tokens else None
        self.longest_tile = self.window[ROWS] * self.grid[COLUMNS]

    def tile(self, query_positions, key_positions):
        queries = query_positions[:, None] - self.num_prefix_tokens
        keys = key_positions[None, :] - self.num_prefix_tokens
        columns = self.grid[COLUMNS]
        visible = self._are_inside(queries, queries) & self._are_inside(keys, keys)
        visible = visible & self._near(ROWS, queries // columns, keys // columns)
        visible = visible & self._near(COLUMNS, queries % columns, keys % columns)
        return self._or_tokens(visible[None, None], "tile", query_positions, key_positions)

    def may_see(self, queries, keys):
        seen = [
            exist & self._any_near(ROWS, *rows) & self._any_near(COLUMNS, *columns)
            for exist, rows, columns in self._rectangles(queries, keys)
        ]
        return self._or_tokens(functools.reduce(operator.or_, seen), "may_see", queries, keys)

    def sees_all(self, queries, keys):
        seen = [
            (exist ^ True) | (self._all_near(ROWS, *rows) & self._all_near(COLUMNS, *columns))
            for exist, rows, columns in self._rectangles(queries, keys)
        ]
        before = self.num_prefix_tokens
        inside = [
            self._are_inside(first - before, last - before) for first, last in (queries, keys)
        ]
        return self._or_tokens(
            functools.reduce(operator.and_, [*inside, *seen]), "sees_all", queries, keys
        )

    def _are_inside(self, first, last):
        return (first >= 0) & (last < self.grid[ROWS] * self.grid[COLUMNS])

    def _or_tokens(self, answer, question, *positions):
        """Adds what the tokens in front of the grid see, and what sees them."""
        if self.tokens is None:
            return answer
        return answer | getattr(self.tokens, question)(*positions)

    def _rectangles(self, queries, keys):
        """Yields `(exist, rows, columns)` for each rectangle of queries with each of keys: whether
        there are such, and the ranges of their rows and columns, each a pair for queries and keys.
        """
        of_queries, of_keys = (list(self._parts(*positions)) for positions in (queries, keys))
        for (has_query, *of_query), (has_key, *of_key) in itertools.product(of_queries, of_keys):
            yield has_query & has_key, *zip(of_query, of_key, strict=True)

    def _parts(self, first, last):
        """Yields the rectangles that a range of positions consists of, its first row, its last row
        and those in between, as `(exists, rows, columns)`.
        """
        rows, columns = self.grid
        first, last = first - self.num_prefix_tokens, last - self.num_prefix_tokens
        exists = (first <= last) & (first < rows * columns) & (last >= 0)
        first, last = (_clip(place, 0, rows * columns - 1) for place in (first, last))
        top, bottom = first // columns, last // columns
        end_of_top = _clip(last - top * columns, 0, columns - 1)
        yield exists, (top, top), (first % columns, end_of_top)
        yield exists & (top < bottom), (bottom, bottom), (0, last % columns)
        yield exists & (top + 1 < bottom), (top + 1, bottom - 1), (0, columns - 1)


@keras.saving.register_keras_serializable(package="keras_attention")
class GridWindows(_Grid):
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


@keras.saving.register_keras_serializable(package="keras_attention")
class Neighborhood(_Grid):
    """A query of an image sees the nearest keys: the same number everywhere, also at the edges.

    $$ visible(q, k) = [0 \\le row_k - start(row_q) < w] \\cdot
       [0 \\le column_k - start(column_q) < w] $$

    $$ start(x) = \\max(0, \\min(x - (w - 1) / 2, n - w)) $$

    for `w` rows and columns of a grid of `n`. With dilation `d`, a query sees every `d`-th row and
    column, counted from its own. Positions count the patches of the grid row by row; those behind
    its end see nothing and are seen by none.

    Paper: Hassani et al. 2023, Neighborhood Attention Transformer, section 3.1
    (https://arxiv.org/abs/2204.07143); with dilation: Hassani and Shi 2022, Dilated Neighborhood
    Attention Transformer (https://arxiv.org/abs/2209.15001).

    Args:
        grid: Rows and columns of the grid, or one number for both.
        window: Odd numbers of rows and columns that a query sees, or one number for both.
        dilation: Distance between neighboring rows and columns of these, or one number for both. 1
            leaves no gaps.
        num_prefix_tokens: Number of tokens in front of the grid that see, and are seen by, all
            tokens, such as a class token and registers.

    Raises:
        ValueError: If an argument is too small or not an integer, `window` is even, or the grid is
            smaller than `window · dilation`.

    Example:

    >>> mask = Neighborhood(grid=(3, 4), window=3)
    >>> [mask(12, 12)[0, 0, query].numpy().astype(int).reshape(3, 4).tolist() for query in (0, 6)]
    [[[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0]], [[0, 1, 1, 1], [0, 1, 1, 1], [0, 1, 1, 1]]]
    """

    def __init__(self, grid, window, dilation=(1, 1), num_prefix_tokens=0):
        super().__init__(grid, window, num_prefix_tokens)
        self.dilation = pair_of_integers("Neighborhood", "dilation", dilation)
        if any(size % 2 == 0 for size in self.window):
            raise ValueError(
                f"`window` of Neighborhood must be odd. Received: window={window!r}. It counts "
                "rows and columns, with those of the query in the middle."
            )
        for size, number, step in zip(self.grid, self.window, self.dilation, strict=True):
            if size < number * step:
                raise ValueError(
                    "`grid` of Neighborhood must have at least window · dilation rows and columns. "
                    f"Received: grid={grid!r}, window={window!r}, dilation={dilation!r}. Use a "
                    "smaller window or dilation."
                )

    def _near(self, axis, query, key):
        step = self.dilation[axis]
        start, place = self._start(axis, query), key // step
        is_near = (start <= place) & (place < start + self.window[axis])
        return is_near & ops.equal(query % step, key % step)

    def _any_near(self, axis, queries, keys):
        size, window, step = self.grid[axis], self.window[axis], self.dilation[axis]
        first, last = (place // step - window // 2 for place in queries)
        first = _clip(first, 0, size // step - window)  # some queries have one more place to go
        last = _clip(last, 0, -(-size // step) - window) + window - 1
        is_near = (first <= keys[1] // step) & (keys[0] // step <= last)
        # Between the smallest and the largest distance, there is a multiple of the dilation.
        smallest = -((queries[1] - keys[0]) // step)
        return is_near & (smallest <= (keys[1] - queries[0]) // step)

    def _all_near(self, axis, queries, keys):
        window, step = self.window[axis], self.dilation[axis]
        first, last = (self._start(axis, place) for place in queries)
        are_near = (last <= keys[0] // step) & (keys[1] // step < first + window)
        if step == 1:
            return are_near
        # Two neighbors never fit both.
        are_single = (queries[0] >= queries[1]) & (keys[0] >= keys[1])
        return are_near & are_single & ((keys[0] - queries[0]) % step < 1)

    def _start(self, axis, place):
        """Returns the first row or column that is seen from one, in steps of the dilation."""
        step, window = self.dilation[axis], self.window[axis]
        steps = (self.grid[axis] - 1 - place % step) // step + 1
        return _clip(place // step - window // 2, 0, steps - window)

    def get_config(self):
        return {
            "grid": self.grid,
            "window": self.window,
            "dilation": self.dilation,
            "num_prefix_tokens": self.num_prefix_tokens,
        }


def _clip(place, low, high):
    """Returns a number, array or tensor that is at least `low` and at most `high`."""
    if ops.is_tensor(place) or ops.is_tensor(high):
        return ops.minimum(ops.maximum(place, low), high)
    if isinstance(place, np.ndarray):
        return np.clip(place, low, high)
    return min(max(place, low), high)
