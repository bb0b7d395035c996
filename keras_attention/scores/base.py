"""The contract of every score: how well does a key answer a query?"""

import keras
from keras import ops

from keras_attention.masks import positions


@keras.saving.register_keras_serializable(package="keras_attention")
class Score(keras.layers.Layer):
    """Base class of all scores. A score turns queries and keys into logits, in two phases.

    1. `prepare_query` and `prepare_key` do what is linear in length and hold the weights
       (projections, norms). A decoder prepares its keys once per source, a cache keeps them.
    2. `pairwise` compares any tile of prepared queries with any tile of prepared keys, and does
       nothing else.

    A new score overrides what it needs of `build`, `prepare_query`, `prepare_key`, and `pairwise`,
    and gets masking, heads and every way of computing attention from there. Where a query or a key
    stands is known when it is prepared: keys stand at `0 … key_length - 1`, and queries are aligned
    to the end, as `keras_attention.masks.positions` has it.

    Queries and keys have the shape `(batch, length, size)`, or `(batch, heads, length, size)`
    inside multi-head attention. Each head then has its own weights: `self.heads` is the shape of
    the axes between batch and length, `()` or `(heads,)`, and every weight begins with it.

    Class attributes:
        pair_size: How many numbers `pairwise` holds for one pair of query and key: 1 if it is a
            matrix product; by default as many as a key has, which is on the safe side.
        uses_query, uses_key: Whether the logits depend on what stands in the query and in the key,
            not on their positions alone. What is not used, `MultiHeadAttention` does not project:
            `prepare_query` or `prepare_key` gets it as it came, `(batch, 1, length, size)`.
        uses_positions: Whether the logits depend on where a query or a key stands; by default they
            may, which is on the safe side.

    Call arguments:
        query: Tensor of shape `(batch, *heads, query_length, query_size)`.
        key: Tensor of shape `(batch, *heads, key_length, key_size)`.

    Output shape:
        `(batch, *heads, query_length, key_length)`: the logits of every pair.

    Example:

    A score of one's own, the negative Manhattan distance:

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
    uses_positions = True

    @property
    def per_head(self):
        """Whether it has weights of each head, so that it goes with so many heads only."""
        return bool(self.weights)

    @property
    def pairwise_weights(self):
        """The weights that `pairwise` uses; by default all, which is on the safe side."""
        return self.weights

    def build(self, query_shape, key_shape):
        self.heads = tuple(query_shape[1:-2])
        self.pair_size = self.pair_size or key_shape[-1]

    def prepare_query(self, query, positions):
        """Does everything about the queries that does not depend on a key.

        Args:
            query: Tensor `(batch, *heads, query_length, query_size)`.
            positions: int32 `(query_length,)`, where the queries stand.
        """
        return query

    def prepare_key(self, key, positions):
        """Does everything about the keys that does not depend on a query.

        Args:
            key: Tensor `(batch, *heads, key_length, key_size)`.
            positions: int32 `(key_length,)`, where the keys stand.
        """
        return key

    def pairwise(self, query, key):
        """Returns the logits `(..., query_tile, key_tile)` of prepared queries and keys."""
        raise NotImplementedError(f"{type(self).__name__} must implement `pairwise(query, key)`.")

    def call(self, query, key):
        of_query, of_key = positions(ops.shape(query)[-2], ops.shape(key)[-2])
        return self.pairwise(self.prepare_query(query, of_query), self.prepare_key(key, of_key))

    def require_equal_sizes(self, query_shape, key_shape):
        """Raises a `ValueError` unless queries and keys have the same number of features."""
        if query_shape[-1] != key_shape[-1]:
            raise ValueError(
                f"The score {type(self).__name__} needs queries and keys of the same size. "
                f"Received: query shape {tuple(query_shape)}, key shape {tuple(key_shape)}. "
                "Use score='general' or score='additive', which take different sizes, or project "
                "one of the two with keras.layers.Dense first."
            )
