"""Masks of sparse transformers: Longformer and BigBird, named compositions of other masks."""

import keras

from keras_attention.masks._arguments import integer, odd
from keras_attention.masks.base import Mask
from keras_attention.masks.blocks import RandomBlocks
from keras_attention.masks.patterns import GlobalTokens
from keras_attention.masks.windows import Dilated, SlidingWindow


class _Composition(Mask):
    """A composition of masks with its own name and config."""

    def tile(self, query_positions, key_positions):
        return self.mask.tile(query_positions, key_positions)

    @property
    def longest_tile(self):
        return self.mask.longest_tile

    def may_see(self, queries, keys):
        return self.mask.may_see(queries, keys)

    def sees_all(self, queries, keys):
        return self.mask.sees_all(queries, keys)


@keras.saving.register_keras_serializable(package="keras_attention")
class Longformer(_Composition):
    """Longformer: a window, possibly with gaps, and global tokens.

        Dilated(window / 2, window / 2, dilation) | GlobalTokens(num_global_tokens)

    Paper: Beltagy et al. 2020, Longformer: The Long-Document Transformer, section 3.1
    (https://arxiv.org/abs/2004.05150). The defaults are those of its base model, whose global
    tokens also have projections of their own: see `LongformerAttention`.

    Args:
        window: Even number of keys that a query sees besides its own position, half on each side.
        num_global_tokens: Number of tokens at the start that see, and are seen by, all tokens.
        dilation: Distance between neighboring keys of the window. 1 leaves no gaps.

    Raises:
        ValueError: If an argument is too small or not an integer, or `window` is odd.

    Example:

    >>> Longformer(window=2, num_global_tokens=1)(4, 4)[0, 0].numpy().astype(int).tolist()
    [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 1, 1]]
    """

    def __init__(self, window=512, num_global_tokens=1, dilation=1):
        hint = "Half of it is on each side."
        self.window = integer(self, "window", window, 2, hint)
        if self.window % 2:
            raise ValueError(
                f"`window` of Longformer must be even. Received: window={window}. {hint} For two "
                "different sides, use SlidingWindow(left, right) | GlobalTokens(positions)."
            )
        hint = "0 leaves out the global tokens."
        self.num_global_tokens = integer(self, "num_global_tokens", num_global_tokens, 0, hint)
        self.mask = Dilated(self.window // 2, self.window // 2, dilation)
        self.dilation = self.mask.dilation
        if self.num_global_tokens:
            self.mask = self.mask | GlobalTokens(self.num_global_tokens)

    def get_config(self):
        return {
            "window": self.window,
            "num_global_tokens": self.num_global_tokens,
            "dilation": self.dilation,
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class BigBird(_Composition):
    """BigBird: a window, global tokens and random blocks, all defined on blocks of positions.

        SlidingWindow(window // 2, window // 2, block_size) | GlobalTokens(num_global * block_size)
            | RandomBlocks(block_size, num_random, seed, window, num_global, length, num_last)

    Paper: Zaheer et al. 2020, Big Bird: Transformers for Longer Sequences, section 2
    (https://arxiv.org/abs/2007.14062). The defaults are those of its base model.

    Args:
        block_size: Number of positions in a block.
        window: Odd number of key blocks that a query block sees, with its own in the middle.
        num_global: Number of blocks at the start that see, and are seen by, all blocks.
        num_random: Number of key blocks drawn for each query block besides those of the window and
            the global ones.
        seed: Integer seed of the random blocks.
        length: Length of the longest sequence. Without it, random blocks are only drawn to the
            left, as decoders need; encoders should pass it. See `RandomBlocks`.
        num_last: Number of blocks at the end of a sequence of `length` that see, and are seen by,
            all blocks. The paper's base model and Hugging Face have one global block at each end:
            `num_global=1, num_last=1`. Needs `length`; the end of a shorter sequence is not global.

    Raises:
        ValueError: If an argument is too small or not an integer, `window` is even, or `num_last`
            is given without `length`.

    Example:

    >>> mask = BigBird(block_size=2, window=1, num_global=1, num_random=1, length=8)
    >>> mask(8, 8)[0, 0].numpy()[::2, ::2].sum(axis=1).tolist()
    [4, 3, 3, 3]
    """

    def __init__(
        self,
        block_size=64,
        window=3,
        num_global=2,
        num_random=3,
        seed=0,
        length=None,
        num_last=0,
    ):
        hint = "It counts the positions of a block."
        self.block_size = integer(self, "block_size", block_size, 1, hint)
        self.window = odd(self, "window", window)
        hint = "It counts blocks; 0 leaves them out."
        self.num_global = integer(self, "num_global", num_global, 0, hint)
        self.num_random = integer(self, "num_random", num_random, 0, hint)
        self.seed = integer(self, "seed", seed, 0, "The same seed draws the same blocks.")
        hint = "It counts positions; None allows any length and draws to the left only."
        self.length = None if length is None else integer(self, "length", length, 1, hint)
        hint = "It counts blocks; 0 leaves them out."
        self.num_last = integer(self, "num_last", num_last, 0, hint)
        if self.num_last and self.length is None:
            raise ValueError(
                "`num_last` of BigBird needs `length`: a mask does not know where a sequence ends. "
                f"Received: num_last={num_last}, length=None."
            )
        self.mask = SlidingWindow(self.window // 2, self.window // 2, self.block_size)
        ends = self._global_positions()
        if ends:
            self.mask = self.mask | GlobalTokens(ends)
        if self.num_random:
            self.mask = self.mask | RandomBlocks(
                self.block_size,
                self.num_random,
                self.seed,
                self.window,
                self.num_global,
                self.length,
                self.num_last,
            )

    def _global_positions(self):
        """Returns the positions of the global blocks, as an argument of `GlobalTokens`."""
        first = self.num_global * self.block_size
        if not self.num_last:
            return first
        blocks = -(-self.length // self.block_size)
        last = range(max(blocks - self.num_last, 0) * self.block_size, blocks * self.block_size)
        return sorted({*range(first), *last})

    def get_config(self):
        return {
            "block_size": self.block_size,
            "window": self.window,
            "num_global": self.num_global,
            "num_random": self.num_random,
            "seed": self.seed,
            "length": self.length,
            "num_last": self.num_last,
        }
