"""The base class of masks of images: rules for rows and columns of a grid."""

import functools
import itertools
import operator

import numpy as np
from keras import ops

from keras_attention._checks import pair_of_integers
from keras_attention.masks._arguments import integer
from keras_attention.masks.base import Mask
from keras_attention.masks.patterns import GlobalTokens

ROWS, COLUMNS = 0, 1


class Grid(Mask):
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
        first, last = (clip(place, 0, rows * columns - 1) for place in (first, last))
        top, bottom = first // columns, last // columns
        end_of_top = clip(last - top * columns, 0, columns - 1)
        yield exists, (top, top), (first % columns, end_of_top)
        yield exists & (top < bottom), (bottom, bottom), (0, last % columns)
        yield exists & (top + 1 < bottom), (top + 1, bottom - 1), (0, columns - 1)


def clip(place, low, high):
    """Returns a number, array or tensor that is at least `low` and at most `high`."""
    if ops.is_tensor(place) or ops.is_tensor(high):
        return ops.minimum(ops.maximum(place, low), high)
    if isinstance(place, np.ndarray):
        return np.clip(place, low, high)
    return min(max(place, low), high)
