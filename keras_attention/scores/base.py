"""The base class of scores: how well a key matches a query."""

import keras

from keras_attention._backend import shape_of
from keras_attention._checks import fits
from keras_attention._layer import as_floats
from keras_attention._products import matmul
from keras_attention.masks import positions


@keras.saving.register_keras_serializable(package="keras_attention")
class Score(keras.layers.Layer):
    """Base class of all scores. A score turns queries and keys into logits, in two phases.

    1. `prepare_query` and `prepare_key` do everything that is linear in length and use the weights
       (projections, norms). A decoder prepares its keys once per source, and a cache stores them.
    2. `pairwise` compares any tile of prepared queries with any tile of prepared keys, and does
       nothing else.

    A custom score overrides what it needs of `build`, `prepare_query`, `prepare_key`, and
    `pairwise`. Masking, heads and all implementations of attention then work with it. Positions are
    known when queries and keys are prepared: keys have positions `0 … key_length - 1`, and queries
    are aligned to the end, as in `keras_attention.masks.positions`.

    Queries and keys have the shape `(batch, length, size)`, or `(batch, heads, length, size)`
    inside multi-head attention. Each head then has its own weights: `self.heads` is the shape of
    the axes between batch and length, `()` or `(heads,)`, and the shape of every weight begins with
    it.

    Class attributes:
        pair_size: Number of values that `pairwise` holds for one pair of query and key: 1 for a
            matrix product. Defaults to the size of a key, which is safe.
        uses_query, uses_key: Whether the logits depend on the contents of the query and the key,
            not only on their positions. `MultiHeadAttention` does not project unused inputs:
            `prepare_query` or `prepare_key` gets them unchanged, as `(batch, 1, length, size)`.
        key_is_vector: Whether a prepared key is a vector to which another may be added, as
            `keras_attention.Coverage` does. Defaults to `True`.
        uses_positions: Whether the logits depend on the position of a query or a key. Defaults to
            `True`, which is safe.

    Call arguments:
        query: Tensor of shape `(batch, *heads, query_length, query_size)`.
        key: Tensor of shape `(batch, *heads, key_length, key_size)`.

    Output shape:
        `(batch, *heads, query_length, key_length)`: the logits of every pair.

    Example:

    A custom score, the negative Manhattan distance:

    >>> from keras import ops
    >>> class Manhattan(Score):
    ...     def pairwise(self, query, key):
    ...         return -ops.sum(ops.abs(query[..., :, None, :] - key[..., None, :, :]), axis=-1)
    >>> tuple(Manhattan()(ops.ones((2, 3, 8)), ops.zeros((2, 5, 8))).shape)
    (2, 3, 5)
    """

    pair_size = None
    uses_query = True
    uses_key = True
    key_is_vector = True
    uses_positions = True

    @property
    def per_head(self):
        """Whether it has weights for each head, which fix the number of heads."""
        return bool(self.weights)

    @property
    def pairwise_weights(self):
        """The weights that `pairwise` uses. Defaults to all weights, which is safe."""
        return self.weights

    def build(self, query_shape, key_shape):
        self.heads = tuple(query_shape[1:-2])
        self.pair_size = self.pair_size or key_shape[-1]

    def prepare_query(self, query, positions):
        """Performs all computations on the queries that do not depend on a key.

        Args:
            query: Tensor `(batch, *heads, query_length, query_size)`.
            positions: int32 `(query_length,)`, the positions of the queries; may be `None` if the
                score does not use positions.
        """
        return query

    def prepare_key(self, key, positions):
        """Performs all computations on the keys that do not depend on a query.

        Args:
            key: Tensor `(batch, *heads, key_length, key_size)`.
            positions: int32 `(key_length,)`, the positions of the keys; may be `None` as well.
        """
        return key

    def pairwise(self, query, key):
        """Returns the logits `(..., query_tile, key_tile)` of prepared queries and keys."""
        raise NotImplementedError(f"{type(self).__name__} must implement `pairwise(query, key)`.")

    def call(self, query, key):
        query, key = (as_floats(x, self.compute_dtype) for x in (query, key))
        of_query, of_key = positions(shape_of(query)[-2], shape_of(key)[-2])
        return logits(self, self.prepare_query(query, of_query), self.prepare_key(key, of_key))

    def _described(self):
        return f"score {type(self).__name__}"

    def require_equal_sizes(self, query_shape, key_shape):
        """Raises a `ValueError` unless queries and keys have the same number of features."""
        if query_shape[-1] != key_shape[-1]:
            raise ValueError(
                f"The score {type(self).__name__} needs queries and keys of the same size. "
                f"Received: query shape {tuple(query_shape)}, key shape {tuple(key_shape)}. "
                "Use score='general' or score='additive', which take different sizes, or project "
                "one of the two with keras.layers.Dense first."
            )


class MatrixProduct(Score):
    """Base class of scores whose `pairwise` is the matrix product of prepared queries and keys."""

    pair_size = 1

    @property
    def pairwise_weights(self):
        return []

    def pairwise(self, query, key):
        return matmul(query, key, transpose_b=True)


def logits(score, query, key):
    """Returns the logits `(..., query_tile, key_tile)` of prepared queries and keys.

    Raises:
        ValueError: If `pairwise` of the score returns another shape.
    """
    pairs = score.pairwise(query, key)
    fronts = zip(query.shape[:-2], key.shape[:-2], strict=True)
    front = (of_key if of_query == 1 else of_query for of_query, of_key in fronts)
    shape, expected = getattr(pairs, "shape", None), (*front, query.shape[-2], key.shape[-2])
    if shape is None or not fits(shape, expected):
        raise ValueError(
            f"The {score._described()} must return logits of the shape (batch, *heads, queries, "
            f"keys) = {expected}. Received: "
            f"{'no tensor' if shape is None else f'shape {tuple(shape)}'}, for queries "
            f"{tuple(query.shape)} and keys {tuple(key.shape)}. Sum over features only, and let "
            "keras.ops broadcast query[..., :, None, :] with key[..., None, :, :]."
        )
    return pairs
