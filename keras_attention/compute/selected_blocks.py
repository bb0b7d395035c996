"""Attention of each query to a few blocks of keys: its own, and those whose mean fits it best.

Blocks are cut from the visible keys only, so that padding anywhere changes nothing: the rank of a
key counts the visible keys before it, and the rank of a query is that of the last visible key up to
its position. Heads that share keys form one sequence of rows.

Pairs of a row and a block are sorted by block and cut into tiles, each of which compares some rows
with the keys of a single block. A softmax over all blocks of a row combines what its tiles found.
"""

import math

from keras import ops

from keras_attention._backend import larger, shape_of
from keras_attention._products import matmul
from keras_attention.compute.partial import LOWEST, combined, sums_of, take_rows
from keras_attention.normalizers import Softmax

ROWS_A_STEP = 512  # number of rows that are compared with the means of all blocks at a time


class SelectedBlocks:
    """The blocks that each query of a call attends to.

    Args:
        query: Tensor `(batch, heads, query_length, size)`.
        key: Tensor `(batch, key_heads, key_length, size)`, where `key_heads` divides `heads`.
        mask: Boolean `(batch, key_length)` or `None`.
        query_mask: Boolean `(batch, query_length)` or `None`.
        block_size: Number of keys in a block.
        num_blocks: Number of blocks that a query attends to.
        causal: Whether to hide later keys, and the blocks after that of the query.
        start: Position of the first query; by default, the last query has the position of the last
            key.
    """

    def __init__(
        self, query, key, mask=None, query_mask=None, *, block_size, num_blocks, causal, start=None
    ):
        query, key = ops.cast(query, "float32"), ops.cast(key, "float32")
        self.shape, self.key_shape = shape_of(query), shape_of(key)
        batch, heads, query_length, size = self.shape
        _, key_heads, key_length, _ = self.key_shape
        self.sequences, self.rows = batch * key_heads, heads // key_heads * query_length
        is_known = isinstance(key_length, int)
        self.block_size = min(block_size, max(key_length, 1)) if is_known else block_size
        self.number = larger(-(-key_length // self.block_size), 1)  # of blocks
        self.num_blocks, self.causal, self.mask = num_blocks, causal, mask

        visible = ops.ones((1, key_length), "int32") if mask is None else ops.cast(mask, "int32")
        self.ranks = ops.cumsum(visible, axis=1) - 1  # (batch or 1, key_length)
        self.count = self._of_keys(ops.sum(visible, axis=1, keepdims=True))  # (sequences, 1)
        before = ops.pad(self.ranks, [(0, 0), (1, 0)], constant_values=-1)
        start = key_length - query_length if start is None else start
        positions = ops.arange(query_length, dtype="int32") + start
        places = ops.take(before, ops.clip(positions + 1, 0, key_length), axis=1)
        self.places = self._of_queries(places)  # (sequences, rows)

        self.query = ops.reshape(query / math.sqrt(size), (self.sequences, self.rows, size))
        self.key = self._in_blocks(key)
        shown = None if query_mask is None else self._of_queries(query_mask)
        self.chosen = self._choose(shown)  # (sequences, rows, num_blocks), `number` for none

    def attend(self, value):
        """Returns the context `(batch, heads, query_length, value_dim)`, float32.

        Args:
            value: Tensor `(batch, key_heads, key_length, value_dim)`.
        """
        value = self._in_blocks(ops.cast(value, "float32"))
        pairs = ops.reshape(self.chosen, (self.sequences, self.rows * self.num_blocks))
        tile = tile_size(self.rows * self.num_blocks, self.number, self.block_size)
        rows, blocks, slots = in_tiles(pairs, self.number, tile)
        rows = ops.minimum(rows // self.num_blocks, self.rows - 1)
        tiles = shape_of(blocks)[1]
        query = take_rows(self.query, rows)
        query = ops.reshape(query, (self.sequences, tiles, tile, query.shape[-1]))
        key, value = (self._of_tiles(x, blocks) for x in (self.key, value))

        ranks = blocks[..., None] * self.block_size + self._inside()  # (…, tiles, block_size)
        meets = (ranks < self.count[..., None])[:, :, None]
        if self.causal:
            places = ops.take_along_axis(self.places, rows, axis=1)
            places = ops.reshape(places, (self.sequences, tiles, tile, 1))
            meets = meets & (ranks[:, :, None] <= places)
        sums = sums_of(matmul(query, key, transpose_b=True), meets, value)
        sums = ops.reshape(sums, (self.sequences, tiles * tile, sums.shape[-1]))
        slots = ops.reshape(slots, (self.sequences, self.rows, self.num_blocks))
        parts = [take_rows(sums, slots[..., part]) for part in range(self.num_blocks)]
        context, total = combined(ops.stack(parts))
        context = context / ops.where(total > 0.0, total, 1.0)
        return ops.reshape(context, (*self.shape[:-1], context.shape[-1]))

    def weights(self, key):
        """Returns the weights that give the same context, in quadratic time and memory.

        Args:
            key: As for the constructor.

        Returns:
            Tensor `(batch, heads, query_length, key_length)`, float32.
        """
        ranks = self._of_keys(self.ranks)[:, None, :]
        seen = ops.any(self.chosen[..., None] == (ranks // self.block_size)[:, :, None], axis=2)
        if self.causal:
            seen = seen & (ranks <= self.places[..., None])
        if self.mask is not None:
            seen = seen & self._of_keys(self.mask)[:, None]
        key = ops.reshape(ops.cast(key, "float32"), (self.sequences, *self.key_shape[2:]))
        weights = Softmax()(matmul(self.query, key, transpose_b=True), seen)
        return ops.reshape(weights, (*self.shape[:-1], self.key_shape[2]))

    def _choose(self, shown):
        own = ops.maximum(self.places, 0) // self.block_size
        chosen = own[..., None]
        if self.num_blocks > 1:
            chosen = ops.concatenate([chosen, self._best_others(own)], axis=-1)
        return chosen if shown is None else ops.where(shown[..., None], chosen, self.number)

    def _best_others(self, own):
        """Returns the blocks whose means have the largest products with each row, and no gradient.

        Args:
            own: The block of each row, which does not count.
        """
        others = self.num_blocks - 1
        numbers = ops.arange(self.number + others, dtype="int32")  # there may be fewer blocks
        means = ops.pad(self._means(), [(0, 0), (0, others), (0, 0)])
        is_block = (numbers * self.block_size < self.count)[:, None]

        def best(query, own):
            is_other = numbers < own[..., None] if self.causal else numbers != own[..., None]
            gates = matmul(query, means, transpose_b=True)
            gates = ops.where(is_block & is_other, gates, LOWEST)
            gates, blocks = ops.top_k(gates, others)
            return ops.where(gates > LOWEST, ops.cast(blocks, "int32"), self.number)

        query = ops.stop_gradient(self.query)
        if isinstance(self.rows, int) and self.rows <= ROWS_A_STEP:
            return best(query, own)
        steps = -(-self.rows // ROWS_A_STEP)

        def cut(x):
            """(sequences, rows, size) -> (steps, sequences, rows of a step, size)."""
            x = ops.pad(x, [(0, 0), (0, steps * ROWS_A_STEP - self.rows), (0, 0)])
            x = ops.reshape(x, (self.sequences, steps, ROWS_A_STEP, x.shape[-1]))
            return ops.swapaxes(x, 0, 1)

        found = ops.map(
            lambda each: best(each[0], each[1][..., 0]), (cut(query), cut(own[..., None]))
        )
        found = ops.reshape(
            ops.swapaxes(found, 0, 1), (self.sequences, steps * ROWS_A_STEP, others)
        )
        return found[:, : self.rows]

    def _means(self):
        """Returns the means of the visible keys of each block, `(sequences, number, size)`."""
        first = ops.arange(self.number, dtype="int32") * self.block_size
        sizes = ops.clip(self.count - first, 0, self.block_size)  # (sequences, number)
        key = ops.stop_gradient(self.key)
        if self.mask is not None:
            key = ops.where((self._inside() < sizes[..., None])[..., None], key, 0.0)
        return ops.sum(key, axis=2) / ops.cast(ops.maximum(sizes, 1), "float32")[..., None]

    def _inside(self):
        return ops.arange(self.block_size, dtype="int32")

    def _in_blocks(self, x):
        """(batch, key_heads, key_length, size) -> (sequences, number, block_size, size)."""
        length, size = shape_of(x)[2:]
        x = ops.reshape(x, (self.sequences, length, size))
        if self.mask is not None:  # move visible keys to the front
            order = ops.arange(length, dtype="int32")
            order = ops.argsort(ops.where(self.mask, order, order + length), axis=1)
            x = take_rows(x, self._of_keys(ops.cast(order, "int32")))
        x = ops.pad(x, [(0, 0), (0, self.number * self.block_size - length), (0, 0)])
        return ops.reshape(x, (self.sequences, self.number, self.block_size, size))

    def _of_tiles(self, x, blocks):
        """(sequences, number, block_size, size) -> (sequences, tiles, block_size, size)."""
        _, tiles = shape_of(blocks)
        shape = self.sequences, self.number, self.block_size * x.shape[-1]
        taken = take_rows(ops.reshape(x, shape), ops.minimum(blocks, self.number - 1))
        return ops.reshape(taken, (self.sequences, tiles, self.block_size, x.shape[-1]))

    def _of_keys(self, x):
        """(batch or 1, n) -> (sequences, n)."""
        number = shape_of(x)[1]
        x = ops.broadcast_to(x[:, None], (*self.key_shape[:2], number))
        return ops.reshape(x, (self.sequences, number))

    def _of_queries(self, x):
        """(batch or 1, query_length) -> (sequences, rows)."""
        return ops.reshape(
            ops.broadcast_to(x[:, None], self.shape[:3]), (self.sequences, self.rows)
        )


def tile_size(pairs, number, block_size):
    """Returns how many rows are compared with a block at a time.

    Each block may leave one tile almost empty, so a step, which has few rows, gets small tiles.

    Args:
        pairs: Number of pairs of a row and a block.
        number: Number of blocks.
        block_size: Number of keys in a block.
    """
    if not isinstance(pairs, int) or not isinstance(number, int):
        return block_size
    return min(max(pairs // number, 1), block_size)


def in_tiles(blocks, number, tile):
    """Sorts pairs by block, and cuts them into tiles of a single block.

    Args:
        blocks: The block of each pair, int32 `(sequences, pairs)`; `number` for none.
        number: Number of blocks.
        tile: Number of pairs in a tile.

    Returns:
        `(pairs, blocks, slots)`: the pair in each slot, `(sequences, tiles · tile)`, where those
        that are not below the number of pairs only fill up a tile; the block of each tile; and the
        slot of each pair.
    """
    sequences, pairs = shape_of(blocks)
    first = ops.arange(sequences, dtype="int32")[:, None] * (number + 1)
    counts = ops.segment_sum(
        ops.ones((sequences * pairs,), "int32"),
        ops.reshape(blocks + first, (sequences * pairs,)),
        sequences * (number + 1) + 1,  # Keras takes 0 segments for an unknown number on PyTorch
    )
    counts = ops.reshape(counts[:-1], (sequences, number + 1))[:, :number]
    is_missing = ops.arange(tile - 1, dtype="int32") < (-counts % tile)[..., None]
    fill = ops.where(is_missing, ops.arange(number, dtype="int32")[:, None], number)
    fill = ops.reshape(fill, (sequences, number * (tile - 1)))
    tiles = -(-(pairs + number * (tile - 1)) // tile)
    rest = tiles * tile - pairs - number * (tile - 1)
    entries = ops.concatenate([blocks, fill], axis=1)
    entries = ops.pad(entries, [(0, 0), (0, rest)], constant_values=number)
    order = ops.cast(ops.argsort(entries, axis=1), "int32")
    slots = ops.cast(ops.argsort(order, axis=1), "int32")[:, :pairs]
    first = ops.reshape(order, (sequences, tiles, tile))[..., 0]
    return order, ops.take_along_axis(entries, first, axis=1), slots
