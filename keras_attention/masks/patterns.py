"""Masks by position: causal, global tokens."""

import functools
import operator

import keras
import numpy as np

from keras_attention.masks._arguments import integer
from keras_attention.masks.base import Mask


@keras.saving.register_keras_serializable(package="keras_attention")
class Causal(Mask):
    """A query sees its own position and all earlier ones.

    $$ visible(q, k) = [k \\le q] $$

    Paper: Vaswani et al. 2017, Attention Is All You Need, section 3.2.3
    (https://arxiv.org/abs/1706.03762).

    Example:

    >>> Causal()(1, 4)[0, 0].numpy().tolist()
    [[True, True, True, True]]
    """

    def tile(self, query_positions, key_positions):
        return (key_positions[None, :] <= query_positions[:, None])[None, None]

    def may_see(self, queries, keys):
        return keys[0] <= queries[1]

    def sees_all(self, queries, keys):
        return keys[1] <= queries[0]


@keras.saving.register_keras_serializable(package="keras_attention")
class GlobalTokens(Mask):
    """Global tokens see all tokens and are seen by all tokens: whole rows and columns.

    $$ visible(q, k) = [q \\in global] \\lor [k \\in global] $$

    Paper: Beltagy et al. 2020, Longformer: The Long-Document Transformer, section 3.1
    (https://arxiv.org/abs/2004.05150).

    Args:
        positions: Number of tokens at the start, or a list of positions.

    Raises:
        ValueError: If there is no token, or a position is negative or not an integer.

    Example:

    >>> GlobalTokens(1)(3, 3)[0, 0].numpy().astype(int).tolist()
    [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
    """

    def __init__(self, positions):
        if isinstance(positions, list | tuple | np.ndarray):
            hint = "Positions count from the start, because a mask does not know the length."
            positions = [integer(self, "positions", place, 0, hint) for place in positions]
            if not positions:
                raise ValueError(
                    "`positions` of GlobalTokens must name at least one token. Received: none. "
                    "If you want no global tokens, omit the mask."
                )
            self.runs = _runs(positions)
        else:
            hint = "Give the number of tokens at the start, or a list of positions."
            positions = integer(self, "positions", positions, 1, hint)
            self.runs = [(0, positions - 1)]
        self.positions = positions

    def tile(self, query_positions, key_positions):
        rows = self._any(query_positions, query_positions)[:, None]
        return (rows | self._any(key_positions, key_positions)[None, :])[None, None]

    def may_see(self, queries, keys):
        return self._any(*queries) | self._any(*keys)

    def sees_all(self, queries, keys):
        return self._any(*queries[::-1]) | self._any(*keys[::-1])

    def _any(self, first, last):
        """Whether any run overlaps the range from `first` to `last`."""
        return functools.reduce(
            operator.or_, [(first <= end) & (start <= last) for start, end in self.runs]
        )

    def get_config(self):
        return {"positions": self.positions}


def _runs(positions):
    """Returns `(first, last)` of each run of consecutive positions in a list."""
    runs = []
    for position in sorted(positions):
        if runs and position <= runs[-1][1] + 1:
            runs[-1] = runs[-1][0], position
        else:
            runs.append((position, position))
    return runs
