"""The base class of positions inside attention: how the positions of two tokens affect it."""

import keras
from keras import ops

from keras_attention._backend import shape_of


@keras.saving.register_keras_serializable(package="keras_attention")
class Position(keras.layers.Layer):
    """Base class of all positions that act inside the heads of attention.

    A position does one of two things, both on any tile of (query, key) pairs:

    1. `rotate` changes queries and keys before they are compared, depending on their positions.
    2. `bias` is added to the logits of the pairs. If it depends on the contents of the queries,
       `features` computes what it needs, once; if it depends on those of the keys, `key_features`.

    Queries and keys have the shape `(batch, length, size)`, or `(batch, heads, length, size)`
    inside multi-head attention. `self.heads` is the shape of the axes between batch and length,
    `()` or `(heads,)`, and `self.size` is the size of one head. Vectors of positions may hold any
    integers in any order, so that the keys of a cache or of a tile keep their positions.

    Class attributes:
        per_head: Whether it may hold separate values for each head, `True` by default. Layers with
            different numbers of heads then cannot share it.
        score_scale: Factor of the scores to which the bias is added.
        num_key_features: Size of what `key_features` returns, known once it is built.

    Example:

    A custom position that subtracts 1 from the logits of keys at a distance of 3 or more:

    >>> from keras import ops
    >>> class Near(Position):
    ...     def bias(self, features, query_positions, key_positions):
    ...         distance = ops.abs(key_positions[None, :] - query_positions[:, None])
    ...         return -ops.cast(distance >= 3, "float32")
    >>> Near().bias(None, np.array([5]), np.array([1, 3, 5])).numpy().tolist()
    [[-1.0, -0.0, -0.0]]
    """

    per_head = True
    score_scale = 1.0
    num_key_features = 0

    @property
    def uses_query(self):
        """Whether it depends on the contents of queries, that is, overrides `features`."""
        return type(self).features is not Position.features

    @property
    def uses_key(self):
        """Whether it depends on the contents of keys, that is, overrides `key_features`."""
        return type(self).key_features is not Position.key_features

    def use_projections(self, query, key, query_size, key_size):
        """Receives the projections of multi-head attention, before `build`.

        Args:
            query, key: Functions of tensors `(batch, length, query_size)` and `(batch, length,
                key_size)` that return `(batch, heads, length, size)`.
            query_size, key_size: Sizes of the inputs.
        """
        return

    def build(self, heads, size):
        """Creates the weights.

        Args:
            heads: Shape of the axes between batch and length, `()` or `(heads,)`.
            size: Size of the queries and keys of one head.
        """
        self.heads = tuple(heads)
        self.size = size

    def rotate(self, x, positions):
        """Returns queries or keys with their positions encoded.

        Args:
            x: Tensor `(batch, *heads, length, size)`.
            positions: int32 `(length,)`, their positions.

        Returns:
            A tensor of the same shape and dtype.
        """
        return x

    def features(self, query):
        """Returns the input of `bias`: a tensor `(batch, *heads, query_length, n)` or `None`.

        Args:
            query: Tensor `(batch, *heads, query_length, size)`, projected, but not yet prepared
                by the score.
        """
        return

    def key_features(self, key):
        """Returns another input of `bias`, `(batch, *heads, key_length, num_key_features)`, or
        `None`.

        Args:
            key: Tensor `(batch, *heads, key_length, size)`, projected, but not yet prepared by the
                score.
        """
        return

    def bias(self, features, query_positions, key_positions):
        """Returns a bias to add to the logits of a tile of pairs, or `None`.

        Args:
            features: What `features` returned for the queries of this tile. If the position uses
                keys, a pair of it and of what `key_features` returned for the keys of this tile.
            query_positions: int32 `(query_tile,)`, the positions of the queries.
            key_positions: int32 `(key_tile,)`, the positions of the keys.

        Returns:
            A float32 tensor that broadcasts to `(batch, *heads, query_tile, key_tile)`, or `None`.
        """
        return


def relative(query_positions, key_positions, max_distance):
    """Returns the offset of each key from each query, clipped and shifted to start at 0.

    Args:
        query_positions, key_positions: int32 `(query_tile,)` and `(key_tile,)`.
        max_distance: Offsets are clipped to `-max_distance … max_distance`.

    Returns:
        int32 `(query_tile, key_tile)` between 0 and `2 · max_distance`.
    """
    after = ops.cast(key_positions[None, :] - query_positions[:, None], "int32")
    return ops.clip(after, -max_distance, max_distance) + max_distance


def looked_up(features, places):
    """Returns a feature for each pair.

    Args:
        features: Tensor `(batch, *heads, query_tile, n)`.
        places: int32 `(query_tile, key_tile)`, which of the features of a query belongs to a pair.

    Returns:
        Tensor `(batch, *heads, query_tile, key_tile)`.
    """
    *front, queries, number = shape_of(features)
    places = ops.arange(queries, dtype="int32")[:, None] * number + places
    flat = ops.reshape(features, (*front, queries * number))
    shape = (*front, *shape_of(places))  # for JAX, which drops an axis if all are empty
    return ops.reshape(ops.take(flat, places, axis=-1), shape)
