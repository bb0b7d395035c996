"""The contract of every position inside attention: how do the places of two tokens count?"""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_attention")
class Position(keras.layers.Layer):
    """Base class of all positions that act inside the heads of attention.

    A position does one of two things, both on any tile of (query, key) pairs:

    1. `rotate` changes queries and keys before they are compared, by where they stand.
    2. `bias` is added to the logits of the pairs. What it needs of the queries besides where they
       stand is made once by `features`.

    Queries and keys have the shape `(batch, length, size)`, or `(batch, heads, length, size)`
    inside multi-head attention. `self.heads` is the shape of the axes between batch and length,
    `()` or `(heads,)`, and `self.size` is the size of one head. Vectors of positions may hold any
    integers in any order, so that the keys of a cache or of a tile keep their places.

    Class attributes:
        per_head: Whether it may hold something of its own for each head, as is assumed: layers with
            other numbers of heads then cannot share it.

    Example:

    A position of one's own, by which the keys from a distance of 3 on lose one unit:

    >>> from keras import ops
    >>> class Near(Position):
    ...     def bias(self, features, query_positions, key_positions):
    ...         distance = ops.abs(key_positions[None, :] - query_positions[:, None])
    ...         return -ops.cast(distance >= 3, "float32")
    >>> Near().bias(None, np.array([5]), np.array([1, 3, 5])).numpy().tolist()
    [[-1.0, -0.0, -0.0]]
    """

    per_head = True

    @property
    def uses_query(self):
        """Whether it makes something of the contents of queries: whether it has `features`."""
        return type(self).features is not Position.features

    def build(self, heads, size):
        """Creates the weights.

        Args:
            heads: Shape of the axes between batch and length, `()` or `(heads,)`.
            size: Size of the queries and keys of one head.
        """
        self.heads = tuple(heads)
        self.size = size

    def rotate(self, x, positions):
        """Returns queries or keys that know where they stand.

        Args:
            x: Tensor `(batch, *heads, length, size)`.
            positions: int32 `(length,)`, where they stand.

        Returns:
            A tensor of the same shape and dtype.
        """
        return x

    def features(self, query):
        """Returns what the bias needs of the queries: `(batch, *heads, query_length, n)` or `None`.

        Args:
            query: Tensor `(batch, *heads, query_length, size)`, projected, but not yet prepared
                by the score.
        """

    def bias(self, features, query_positions, key_positions):
        """Returns what is added to the logits of a tile of pairs, or `None`.

        Args:
            features: What `features` returned, of the queries of this tile.
            query_positions: int32 `(query_tile,)`, where the queries stand.
            key_positions: int32 `(key_tile,)`, where the keys stand.

        Returns:
            A float32 tensor that broadcasts to `(batch, *heads, query_tile, key_tile)`, or `None`.
        """


def relative(query_positions, key_positions, max_distance):
    """Returns how far each key stands after each query, from 0 for `-max_distance` or less on.

    Args:
        query_positions, key_positions: int32 `(query_tile,)` and `(key_tile,)`.
        max_distance: All keys that are farther away count as if they stood there.

    Returns:
        int32 `(query_tile, key_tile)` between 0 and `2 · max_distance`.
    """
    after = ops.cast(key_positions[None, :] - query_positions[:, None], "int32")
    return ops.clip(after, -max_distance, max_distance) + max_distance
