"""Queries and keys cut into tiles, and the pairs of tiles that have to be computed."""

import keras
import numpy as np
from keras import ops

from keras_attention._backend import shape_of

# Number of values in the largest array of a tile: small enough for a processor's cache, large
# enough that the overhead of an operation is negligible.
NUMBERS_A_TILE = 2**20
SHORTEST_TILE = 16
LONGEST_TILE = 512


class Grid:
    """The tiles of one call: their positions, visible pairs, and which of them are needed.

    Lengths that are not a multiple of the tile are padded with zeros; the padded keys are hidden.

    Args:
        query: Tensor `(batch, *heads, query_length, size)`.
        key: Tensor `(batch, *heads, key_length, size)`.
        pair_size: Number of values that the score holds for one pair of query and key.
        longest_tile: Maximum number of queries or keys in a tile, or `None`.
        start: Position of the first query; by default, the last query has the position of the last
            key.
    """

    def __init__(self, query, key, pair_size, longest_tile=None, start=None):
        self.query_length, self.key_length = shape_of(query)[-2], shape_of(key)[-2]
        self.start = self.key_length - self.query_length if start is None else start
        self.lead = shape_of(query)[:-2]  # batch, *heads
        rows = [size for size in query.shape[:-2] if size is not None]
        self.query_tile, self.key_tile = tile_sizes(
            query.shape[-2],
            key.shape[-2],
            int(np.prod(rows)) * pair_size,
            LONGEST_TILE if longest_tile is None else max(longest_tile, SHORTEST_TILE),
        )
        self.num_query_tiles = -(-self.query_length // self.query_tile)
        self.num_key_tiles = -(-self.key_length // self.key_tile)

    def query_tiles(self, x):
        """Returns `(query_tiles, batch, *heads, query_tile, size)`."""
        return _cut(x, self.num_query_tiles, self.query_tile)

    def key_tiles(self, x):
        """Returns `(key_tiles, batch, *heads, key_tile, size)`."""
        return _cut(x, self.num_key_tiles, self.key_tile)

    def join_queries(self, tiles):
        """Joins the output of `query_tiles` into `(batch, *heads, query_length, size)`."""
        joined = self._join(tiles, self.num_query_tiles * self.query_tile)
        return joined[..., : self.query_length, :]

    def join_keys(self, tiles):
        """Joins the output of `key_tiles` into `(batch, *heads, key_length, size)`."""
        joined = self._join(tiles, self.num_key_tiles * self.key_tile)
        return joined[..., : self.key_length, :]

    def _join(self, tiles, length):
        # Sizes are taken from the inputs: TensorFlow loses them in a loop.
        return ops.reshape(ops.moveaxis(tiles, 0, -3), (*self.lead, length, tiles.shape[-1]))

    def positions(self, row, column):
        """Returns the positions of the queries and keys of a pair of tiles.

        The padding repeats the last position, so that every position can be looked up.
        """
        queries = ops.minimum(
            row * self.query_tile + ops.arange(self.query_tile, dtype="int32"),
            self.query_length - 1,
        )
        keys = ops.minimum(
            column * self.key_tile + ops.arange(self.key_tile, dtype="int32"), self.key_length - 1
        )
        return queries + self.start, keys

    def visible(self, mask, row, column):
        """Returns which pairs are visible, in a shape that broadcasts to that of the scores.

        `None` means that all pairs are visible.
        """
        visible = None
        if mask is not None:
            visible = visible_pairs(mask, self.positions(row, column), self.lead)
        if isinstance(self.key_length, int) and self.key_length % self.key_tile == 0:
            return visible
        places = column * self.key_tile + ops.arange(self.key_tile, dtype="int32")
        is_key = ops.reshape(places < self.key_length, (1,) * (len(self.lead) + 1) + (-1,))
        return is_key if visible is None else ops.logical_and(visible, is_key)

    def pairs(self, mask):
        """Returns the pairs of tiles that may contain visible pairs, and their number.

        Returns:
            `(pairs, count)`; only the first `count` entries of the int32 vector `pairs` are valid,
            and each entry is `row * key_tiles + column`.
        """
        total = self.num_query_tiles * self.num_key_tiles
        needed = True if mask is None else mask.may_see(*self._bounds())
        if needed is True:
            return ops.arange(total, dtype="int32"), total
        if isinstance(needed, np.ndarray):
            shape = self.num_query_tiles, self.num_key_tiles
            places = np.flatnonzero(np.broadcast_to(needed, shape)).astype("int32")
            count = len(places)
            # JAX traces a loop even if it never runs, and cannot index an empty array.
            return ops.convert_to_tensor(places if count else np.zeros(1, "int32")), count
        shape = self.num_query_tiles, self.num_key_tiles
        needed = ops.reshape(ops.cast(ops.broadcast_to(needed, shape), "int32"), (-1,))
        places = ops.arange(total, dtype="int32")
        order = ops.argsort(ops.where(needed == 1, places, total))  # needed pairs come first
        return ops.cast(order, "int32"), ops.sum(needed)

    def _bounds(self):
        """Returns the first and last positions of the tiles, in NumPy if lengths are known."""
        numbers = self.query_length, self.key_length, self.start
        is_static = all(isinstance(number, int) for number in numbers)
        arange, minimum = (np.arange, np.minimum) if is_static else (ops.arange, ops.minimum)
        first_query = arange(self.num_query_tiles, dtype="int32")[:, None] * self.query_tile
        last_query = minimum(first_query + self.query_tile, self.query_length) - 1
        first_key = arange(self.num_key_tiles, dtype="int32")[None, :] * self.key_tile
        last_key = minimum(first_key + self.key_tile, self.key_length) - 1
        queries = first_query + self.start, last_query + self.start
        return queries, (first_key, last_key)


def visible_pairs(mask, positions, lead):
    """Returns which pairs of queries and keys are visible, as booleans that broadcast to scores.

    Args:
        mask: A `Mask`.
        positions: The positions of the queries, and those of the keys.
        lead: Shape `(batch, *heads)` of the scores; sizes that are not integers are unknown.

    Raises:
        ValueError: If the mask does not return booleans, or has a different batch size or number
            of heads.
    """
    visible = mask.tile(*positions)
    dtype = keras.backend.standardize_dtype(visible.dtype)
    if dtype != "bool":
        raise ValueError(
            f"`tile` of the mask {mask!r} must return booleans, True where a query may see a key. "
            f"Received: dtype {dtype}. Return a comparison, such as key_positions <= "
            "query_positions; for an additive mask of 0 and -1e9, mask == 0."
        )
    own, whole = tuple(visible.shape), (*lead, 1)[:2]
    if len(own) != 4 or not all(map(_broadcasts, own[:2], whole)):
        raise ValueError(
            f"`tile` of the mask {mask!r} must return booleans (batch, heads, queries, keys), here "
            f"with batch {whole[0]} and heads {whole[1]}; any of them may be 1. Received: shape "
            f"{own}. A mask that holds data fits only one batch: pass it with the call instead."
        )
    return visible if len(lead) == 2 else ops.squeeze(visible, axis=1)


def _broadcasts(size, whole):
    are_known = isinstance(size, int) and isinstance(whole, int)
    return not are_known or size in (1, whole)


def tile_sizes(query_length, key_length, numbers_a_pair, longest_tile):
    """Returns the number of queries and keys in a tile.

    Args:
        query_length, key_length: Lengths, `None` if unknown.
        numbers_a_pair: Number of values per pair of query and key, over all heads and the batch.
        longest_tile: Maximum number of queries or keys in a tile.
    """
    side = int(np.sqrt(NUMBERS_A_TILE / max(numbers_a_pair, 1)))
    side = min(max(side, SHORTEST_TILE), LONGEST_TILE, longest_tile)
    side = 2 ** int(np.log2(side))
    return tuple(
        side if length is None else min(side, max(length, 1))
        for length in (query_length, key_length)
    )


def _cut(x, number, tile):
    """(batch, *heads, length, size) -> (number, batch, *heads, tile, size)."""
    lead, (length, size) = shape_of(x)[:-2], shape_of(x)[-2:]
    padding = [(0, 0)] * (len(x.shape) - 2) + [(0, number * tile - length), (0, 0)]
    padded = x if isinstance(length, int) and length == number * tile else ops.pad(x, padding)
    return ops.moveaxis(ops.reshape(padded, (*lead, number, tile, size)), -3, 0)
