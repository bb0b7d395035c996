"""Exact attention in memory linear in length, computed tile by tile, and again for the gradient.

Only the scores of one tile of queries and one tile of keys exist at a time. In the forward pass,
each row keeps the running sums of its normalizer (Milakov and Gimelshein 2018,
https://arxiv.org/abs/1805.02867; Rabe and Staats 2021, https://arxiv.org/abs/2112.05682). In the
backward pass, every tile is recomputed (Dao et al. 2022, https://arxiv.org/abs/2205.14135). Tiles
that the mask hides completely are skipped.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_attention._backend import TileList, custom_gradient, pullback, shape_of
from keras_attention._products import matmul
from keras_attention.compute.online import ONLINE
from keras_attention.compute.tiles import Grid


class Pair(NamedTuple):
    """A tile of queries and a tile of keys."""

    row: Any  # which tile of queries
    column: Any  # which tile of keys
    visible: Any  # which pairs are visible, or None for all
    drop: Any  # the dropout of this tile of weights


class Tensors(NamedTuple):
    """What the context depends on, cut into tiles."""

    queries: list  # of (query_tiles, batch, *heads, query_tile, size)
    key: Any  # (key_tiles, batch, *heads, key_tile, size)
    value: Any  # (key_tiles, batch, *heads, key_tile, value_size)
    weights: list  # those of the scoring, whole


def attend_in_tiles(
    queries, key, value, *, scoring, normalizer, mask=None, dropout=None, start=None
):
    """Computes attention without holding the scores of all pairs at once.

    Args:
        As for `keras_attention.compute.context_and_weights`.

    Returns:
        The context `(batch, *heads, query_length, value_size)`, in the dtype of `value`.
    """
    longest_tile = None if mask is None else mask.longest_tile
    grid = Grid(queries[0], key, scoring.pair_size, longest_tile, start)
    tiles = _Tiles(grid, scoring, ONLINE[type(normalizer)], mask, dropout)

    @custom_gradient
    def compute(key, value, *others):
        tensors = Tensors(
            [grid.query_tiles(query) for query in others[: len(queries)]],
            grid.key_tiles(key),
            grid.key_tiles(value),
            list(others[len(queries) :]),
        )
        context, normalization = tiles.forward(tensors)

        def gradient(*arguments, upstream=None):
            upstream = grid.query_tiles(arguments[0] if upstream is None else upstream)
            found = tiles.backward(tensors, context, normalization, upstream)
            of_queries = [grid.join_queries(query) for query in found.queries]
            return (
                grid.join_keys(found.key),
                grid.join_keys(found.value),
                *of_queries,
                *found.weights,
            )

        return grid.join_queries(context), gradient

    tensors = [ops.cast(tensor, "float32") for tensor in (key, value, *queries)]
    return ops.cast(compute(*tensors, *scoring.weights()), value.dtype)


class _Tiles:
    """Processes the tiles of one call, forward and backward."""

    def __init__(self, grid, scoring, online, mask, dropout):
        self.grid, self.scoring, self.online, self.mask = grid, scoring, online, mask
        self.pairs, self.count = grid.pairs(mask)
        self.dropout = None if dropout is None else dropout.for_tiles()

    def forward(self, tensors):
        """Returns the context and the normalization constants of each tile of queries."""

        def step(index, *sums):
            pair = self._pair(index)
            scores = self._scores(pair)(*self._inputs(tensors, pair))
            sums = [TileList(each) for each in sums]
            of_row = self.online.add(
                [each.read(pair.row) for each in sums],
                scores,
                pair.visible,
                tensors.value[pair.column],
                pair.drop,
            )
            return [each.write(pair.row, new).state for each, new in zip(sums, of_row, strict=True)]

        context_shape = *shape_of(tensors.queries[0])[:-1], shape_of(tensors.value)[-1]
        start = self.online.start(ops.zeros(context_shape, "float32"))
        sums = self._loop(step, [TileList.unstack(each).state for each in start])
        return self.online.finish([TileList(each).stack() for each in sums])

    def backward(self, tensors, context, normalization, upstream):
        """Returns the gradients of the `Tensors`, given the gradient of the context."""
        mean = ops.sum(upstream * context, axis=-1, keepdims=True)
        number_of_queries = len(tensors.queries)

        def step(index, *sums):
            pair = self._pair(index)
            row, column = pair.row, pair.column
            scores, gradients_of = pullback(self._scores(pair), *self._inputs(tensors, pair))
            weights = self.online.weights(scores, pair.visible, normalization[row])
            of_weights = pair.drop(matmul(upstream[row], tensors.value[column], transpose_b=True))
            of_value = matmul(pair.drop(weights), upstream[row], transpose_a=True)
            of_scores = self.online.gradient(
                weights, of_weights, mean[row], pair.visible, normalization[row]
            )
            found = gradients_of(of_scores)
            of_tiles = [*found[: number_of_queries + 1], of_value]
            places = [row] * number_of_queries + [column, column]
            tiles = sums[: len(of_tiles)]
            added = zip(tiles, places, of_tiles, strict=True)
            whole = zip(sums[len(tiles) :], found[number_of_queries + 1 :], strict=True)
            return [_added(*each) for each in added] + [total + new for total, new in whole]

        tiled = [ops.zeros_like(each) for each in (*tensors.queries, tensors.key, tensors.value)]
        whole = [ops.zeros_like(each) for each in tensors.weights]
        sums = self._loop(step, [TileList.unstack(each).state for each in tiled] + whole)
        *queries, key, value = (TileList(each).stack() for each in sums[: len(tiled)])
        return Tensors(queries, key, value, sums[len(tiled) :])

    def _loop(self, step, start):
        """Calls `step(index, *variables)` for each pair of tiles that is not skipped."""
        _, *variables = ops.while_loop(
            lambda index, *variables: index < self.count,
            lambda index, *variables: (index + 1, *step(index, *variables)),
            (ops.convert_to_tensor(0, "int32"), *start),
        )
        return variables

    def _pair(self, index):
        number = ops.take(self.pairs, index)
        row, column = number // self.grid.num_key_tiles, number % self.grid.num_key_tiles

        def drop(weights):
            return weights if self.dropout is None else self.dropout(weights, number)

        return Pair(row, column, self.grid.visible(self.mask, row, column), drop)

    def _inputs(self, tensors, pair):
        """Returns the tiles and weights that the scores of a pair depend on."""
        queries = [query[pair.row] for query in tensors.queries]
        return [*queries, tensors.key[pair.column], *tensors.weights]

    def _scores(self, pair):
        """Returns the scores of a pair as a function of its `_inputs`."""
        positions = self.grid.positions(pair.row, pair.column)

        def scores(*inputs):
            number = len(inputs) - len(self.scoring.variables)
            *queries, key = inputs[:number]
            return self.scoring(queries, key, *positions, inputs[number:])

        return scores


def _added(tiles, place, tile):
    tiles = TileList(tiles)
    return tiles.write(place, tiles.read(place) + tile).state
