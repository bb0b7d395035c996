"""Masks by distance: contiguous and dilated windows."""

import keras
from keras import ops

from keras_attention.masks._arguments import integer
from keras_attention.masks.base import Mask


@keras.saving.register_keras_serializable(package="keras_attention")
class SlidingWindow(Mask):
    """A query sees the keys around its own position.

    $$ visible(q, k) = [-left \\le \\lfloor k / b \\rfloor - \\lfloor q / b \\rfloor \\le right] $$

    with `b = block_size`, 1 by default.

    Paper: Beltagy et al. 2020, Longformer: The Long-Document Transformer, section 3.1
    (https://arxiv.org/abs/2004.05150); in blocks: Zaheer et al. 2020, Big Bird: Transformers for
    Longer Sequences, section 2 (https://arxiv.org/abs/2007.14062).

    Args:
        left, right: How far a query sees to each side, besides its own position; `None` for no
            limit. `SlidingWindow(None, 0)` is `Causal()`.
        block_size: Number of positions in a block. `left` and `right` count blocks.

    Raises:
        ValueError: If an argument is negative or not an integer, or if neither side has a limit.

    Example:

    >>> SlidingWindow(left=1, right=0)(3, 3)[0, 0].numpy().astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    def __init__(self, left, right, block_size=1):
        if left is None and right is None:
            raise ValueError(
                "SlidingWindow needs a limit on at least one side. Received: left=None, "
                "right=None, which hides nothing. Omit the mask, or give `left` or `right`."
            )
        self.left, self.right = _reach(self, left, right)
        hint = "A block is at least one position long."
        self.block_size = integer(self, "block_size", block_size, 1, hint)

    def tile(self, query_positions, key_positions):
        blocks = key_positions[None, :] // self.block_size
        distance = blocks - query_positions[:, None] // self.block_size
        return _meets(distance, distance, self.left, self.right)[None, None]

    def may_see(self, queries, keys):
        return _meets(*self._distances(queries, keys), self.left, self.right)

    def sees_all(self, queries, keys):
        smallest, largest = self._distances(queries, keys)
        return _meets(largest, smallest, self.left, self.right)

    def _distances(self, queries, keys):
        """The smallest and the largest distance between the blocks of a key and a query."""
        size = self.block_size
        return keys[0] // size - queries[1] // size, keys[1] // size - queries[0] // size

    def get_config(self):
        return {"left": self.left, "right": self.right, "block_size": self.block_size}


@keras.saving.register_keras_serializable(package="keras_attention")
class Dilated(Mask):
    """A dilated window: a query sees every `dilation`-th key around its own position.

    $$ visible(q, k) = [-left \\le (k - q) / dilation \\le right] \\cdot [dilation \\mid k - q] $$

    Paper: Beltagy et al. 2020, Longformer: The Long-Document Transformer, section 3.1
    (https://arxiv.org/abs/2004.05150). Without limits, this is one of the two parts of the strided
    attention of Child et al. 2019, section 4.3 (https://arxiv.org/abs/1904.10509); the other is a
    `SlidingWindow`.

    Args:
        left, right: Number of keys that a query sees on each side, besides its own position; `None`
            for no limit. The farthest key to the left is `left * dilation` away.
        dilation: Distance between neighboring keys of the window. 1 leaves no gaps.

    Raises:
        ValueError: If an argument is negative or not an integer, or `dilation` is 0.

    Example:

    >>> Dilated(left=1, right=0, dilation=2)(4, 4)[0, 0].numpy().astype(int).tolist()
    [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]
    """

    def __init__(self, left, right, dilation):
        self.left, self.right = _reach(self, left, right)
        self.dilation = integer(self, "dilation", dilation, 1, "1 leaves no gaps.")

    def tile(self, query_positions, key_positions):
        distance = key_positions[None, :] - query_positions[:, None]
        steps = distance // self.dilation
        is_step = ops.equal(distance % self.dilation, 0)
        return (is_step & _meets(steps, steps, self.left, self.right))[None, None]

    def may_see(self, queries, keys):
        first = -((queries[1] - keys[0]) // self.dilation)  # the smallest whole number of steps
        last = (keys[1] - queries[0]) // self.dilation
        return (first <= last) & _meets(first, last, self.left, self.right)

    def get_config(self):
        return {"left": self.left, "right": self.right, "dilation": self.dilation}


def _reach(mask, left, right):
    hint = "It counts keys on one side; None means no limit."
    reach = {"left": left, "right": right}
    return [
        None if value is None else integer(mask, name, value, 0, hint)
        for name, value in reach.items()
    ]


def _meets(smallest, largest, left, right):
    """Whether the range from `smallest` to `largest` overlaps the range from -left to right."""
    meets = True
    if left is not None:
        meets = largest >= -left
    if right is not None:
        meets = meets & (smallest <= right)
    return meets
