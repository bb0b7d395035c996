"""Masks of random blocks."""

import hashlib

import keras
import numpy as np
from keras import ops

from keras_attention.masks._arguments import integer, is_static, odd
from keras_attention.masks.base import Mask

# A prime below 2^15, so that products fit int32 on every backend (up to 2^16 blocks per part), and
# modulo which cubing is a bijection.
PRIME = 32717
ROUNDS = 3


@keras.saving.register_keras_serializable(package="keras_attention")
class RandomBlocks(Mask):
    """Each block of queries sees a fixed random selection of other blocks of keys.

    $$ visible(q, k) = [\\lfloor k / b \\rfloor \\in draws(\\lfloor q / b \\rfloor)] $$

    Paper: Zaheer et al. 2020, Big Bird: Transformers for Longer Sequences, section 2
    (https://arxiv.org/abs/2007.14062).

    The candidate blocks are divided into `num_blocks` parts of equal size, and an integer hash of
    (seed, query block, part) picks one block from each part. This gives exactly `num_blocks`
    different blocks, or all if there are fewer, the same on every backend, without an array of
    pairs.

    Without a `length`, a block draws from the blocks before it, since only they exist at every
    length: a step with a cache then sees what the full forward pass saw. With a `length`, it draws
    from all blocks of a sequence of that length, on both sides, as needed in an encoder; the first
    block then counts as a neighbor of the last.

    Args:
        block_size: Number of positions in a block.
        num_blocks: Number of key blocks drawn for each query block.
        seed: Integer seed of the draws.
        window: Odd number of blocks around the query block that are not drawn, because a window
            already shows them. 1 only excludes the query block itself.
        num_global: Number of blocks at the start that are not drawn, because they are global.
        length: Length of the longest sequence, or `None`.
        num_last: Number of blocks at the end of a sequence of `length` that are not drawn.

    Raises:
        ValueError: If an argument is too small or not an integer, or `window` is even.

    Example:

    >>> RandomBlocks(block_size=1, num_blocks=1)(4, 4)[0, 0].numpy().sum(axis=1).tolist()
    [0, 1, 1, 1]
    """

    def __init__(
        self, block_size, num_blocks, seed=0, window=1, num_global=0, length=None, num_last=0
    ):
        hint = "A block is at least one position long."
        self.block_size = integer(self, "block_size", block_size, 1, hint)
        self.longest_tile = self.block_size
        hint = "If you want no random blocks, omit the mask."
        self.num_blocks = integer(self, "num_blocks", num_blocks, 1, hint)
        self.seed = integer(self, "seed", seed, 0, "The same seed draws the same blocks.")
        self.window = odd(self, "window", window)
        hint = "It counts the blocks at the start that are not drawn."
        self.num_global = integer(self, "num_global", num_global, 0, hint)
        hint = "It counts positions; None allows any length and draws to the left only."
        self.length = None if length is None else integer(self, "length", length, 1, hint)
        hint = "It counts the blocks at the end that are not drawn."
        self.num_last = integer(self, "num_last", num_last, 0, hint)

    def tile(self, query_positions, key_positions):
        key_blocks = key_positions[None, :] // self.block_size
        visible = False
        for drawn, exists in self._draws(query_positions[:, None] // self.block_size):
            visible = visible | (ops.equal(drawn, key_blocks) & exists)
        return visible[None, None]

    def may_see(self, queries, keys):
        (first_query, last_query), (first_key, last_key) = (
            (first // self.block_size, last // self.block_size) for first, last in (queries, keys)
        )

        def see(step, seen):
            for drawn, exists in self._draws(first_query + step):
                is_drawn = (first_key <= drawn) & (drawn <= last_key) & exists
                seen = seen | (is_drawn & (first_query + step <= last_query))
            return step + 1, seen

        nobody = (first_query > last_query) & (first_key > last_key)
        if is_static(queries, keys):
            step, seen = 0, nobody
            while step <= np.max(last_query - first_query):
                step, seen = see(step, seen)
            return seen
        steps = ops.max(last_query - first_query)
        start = ops.convert_to_tensor(0, "int32"), nobody
        return ops.while_loop(lambda step, _: step <= steps, see, start)[1]

    def _draws(self, block):
        """Yields the key block and whether it exists, `(drawn, exists)`, for each draw."""
        near = self.window // 2
        own = block - self.num_global
        if self.length is None:
            count = own - near
        else:  # a ring, so that every block has the same number of blocks to draw from
            blocks = -(-self.length // self.block_size)
            ring = max(blocks - self.num_global - self.num_last, 1)
            count = max(ring - 2 * near - 1, 0)
        for number in range(self.num_blocks):
            start = count * number // self.num_blocks
            size = count * (number + 1) // self.num_blocks - start
            drawn = own - near - 1 - start - self._hash(block, number) * size // PRIME
            drawn = drawn if self.length is None else drawn % ring
            yield drawn + self.num_global, size > 0

    def _hash(self, block, number):
        """Integers from 0 to `PRIME - 1`: rounds of adding a constant and cubing."""
        constants = hashlib.sha256(f"{self.seed} {number}".encode()).digest()
        for index in range(ROUNDS):
            constant = int.from_bytes(constants[2 * index : 2 * index + 2], "little")
            block = (block + constant) % PRIME
            block = block * block % PRIME * block % PRIME
        return block

    def get_config(self):
        return {
            "block_size": self.block_size,
            "num_blocks": self.num_blocks,
            "seed": self.seed,
            "window": self.window,
            "num_global": self.num_global,
            "length": self.length,
            "num_last": self.num_last,
        }
