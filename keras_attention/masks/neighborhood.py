"""Masks of images: the nearest rows and columns of a grid."""

import keras
from keras import ops

from keras_attention._checks import pair_of_integers
from keras_attention.masks._grid import Grid, clip


@keras.saving.register_keras_serializable(package="keras_attention")
class Neighborhood(Grid):
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
        first = clip(first, 0, size // step - window)  # some queries have one more place to go
        last = clip(last, 0, -(-size // step) - window) + window - 1
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
        return clip(place // step - window // 2, 0, steps - window)

    def get_config(self):
        return {
            "grid": self.grid,
            "window": self.window,
            "dilation": self.dilation,
            "num_prefix_tokens": self.num_prefix_tokens,
        }
