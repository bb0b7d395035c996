"""Exact attention in memory linear in length: tile by tile, and once more for the gradient.

The scores of one tile of queries and one of keys are all that exists at a time. Forward, each row
keeps what its normalizer has added up so far (Milakov and Gimelshein 2018,
https://arxiv.org/abs/1805.02867; Rabe and Staats 2021, https://arxiv.org/abs/2112.05682). Backward,
every tile is computed once more (Dao et al. 2022, https://arxiv.org/abs/2205.14135). Tiles where
the mask lets nobody see anybody are left out.
"""

import keras
from keras import ops

from keras_attention.compute._backend import TileList, pullback
from keras_attention.compute.online import ONLINE
from keras_attention.compute.tiles import Grid


def attend(queries, key, value, *, scoring, normalizer, mask=None, dropout=None, start=None):
    """Computes attention without ever holding the scores of all pairs.

    Args:
        As for `keras_attention.compute.attend`.

    Returns:
        The context `(batch, *heads, query_length, value_size)`, in the dtype of `value`.
    """
    grid = Grid(queries[0], key, scoring.pair_size, start)
    online = ONLINE[type(normalizer)]
    pairs, count = grid.pairs(mask)
    tile_dropout = None if dropout is None else dropout.for_tiles()

    def look_up(index):
        """Returns the tiles of a pair: which queries, which keys, who sees whom, what is dropped."""
        pair = ops.take(pairs, index)
        row, column = pair // grid.num_key_tiles, pair % grid.num_key_tiles
        drop = _keep if tile_dropout is None else lambda weights: tile_dropout(weights, pair)
        return row, column, grid.visible(mask, row, column), drop

    def scores_of(row, column):
        """Returns the function that scores a pair of tiles."""
        positions = grid.positions(row, column)

        def scores(*tensors):
            queries, key, weights = tensors[: len(queries_)], tensors[len(queries_)], tensors[len(queries_) + 1 :]
            return scoring(queries, key, *positions, weights)

        return scores

    queries_ = queries

    @ops.custom_gradient
    def compute(value, key, *others):
        queries, weights = others[: len(queries_)], others[len(queries_) :]
        queries = [grid.query_tiles(each) for each in queries]
        key, value = grid.key_tiles(key), grid.key_tiles(value)

        def inputs_of(row, column):
            return [*(each[row] for each in queries), key[column], *weights]

        def forward(index, *sums):
            row, column, visible, drop = look_up(index)
            scores = scores_of(row, column)(*inputs_of(row, column))
            sums = [TileList(each) for each in sums]
            of_row = [each.read(row) for each in sums]
            of_row = online.add(of_row, scores, visible, value[column], drop)
            written = [each.write(row, new) for each, new in zip(sums, of_row, strict=True)]
            return index + 1, *(each.state for each in written)

        like = ops.zeros((*ops.shape(queries[0])[:-1], ops.shape(value)[-1]), "float32")
        start = [TileList.unstack(each).state for each in online.start(like)]
        _, *sums = _loop(count, forward, start)
        context, normalization = online.finish([TileList(each).stack() for each in sums])

        def gradient(*arguments, upstream=None):
            upstream = grid.query_tiles(arguments[0] if upstream is None else upstream)
            mean = ops.sum(upstream * context, axis=-1, keepdims=True)

            def backward(index, *gradients):
                row, column, visible, drop = look_up(index)
                scores, pull = pullback(scores_of(row, column), *inputs_of(row, column))
                weights = online.weights(scores, visible, normalization[row])
                of_context = upstream[row]
                of_weights = drop(ops.matmul(of_context, _transposed(value[column])))
                of_value = ops.matmul(_transposed(drop(weights)), of_context)
                of_scores = online.gradient(
                    weights, of_weights, mean[row], visible, normalization[row]
                )
                places = [column] + [row] * len(queries) + [column]
                of_queries_and_key = pull(of_scores)
                found = [of_value, *of_queries_and_key]
                tiled = [
                    _added(total, place, new)
                    for total, place, new in zip(gradients, places, found, strict=False)
                ]
                whole = [
                    total + new
                    for total, new in zip(
                        gradients[len(places) :], found[len(places) :], strict=True
                    )
                ]
                return index + 1, *tiled, *whole

            tiled = [TileList.unstack(ops.zeros_like(each)).state for each in (value, *queries, key)]
            whole = [ops.zeros_like(each) for each in weights]
            _, *found = _loop(count, backward, [*tiled, *whole])
            found = [TileList(each).stack() for each in found[: len(tiled)]] + found[len(tiled) :]
            of_value, *of_queries = found[: len(queries) + 1]
            of_key, *of_weights = found[len(queries) + 1 :]
            return (
                grid.join_keys(of_value),
                grid.join_keys(of_key),
                *(grid.join_queries(each) for each in of_queries),
                *of_weights,
            )

        return grid.join_queries(context), gradient

    tensors = [ops.cast(each, "float32") for each in (value, key, *queries)]
    return ops.cast(compute(*tensors, *scoring.weights()), value.dtype)


def _loop(count, body, start):
    start = (ops.convert_to_tensor(0, "int32"), *start)
    return ops.while_loop(lambda index, *_: index < count, body, start)


def _keep(weights):
    return weights


def _transposed(x):
    return ops.swapaxes(x, -1, -2)


def _added(tiles, place, tile):
    tiles = TileList(tiles)
    return tiles.write(place, tiles.read(place) + tile).state
