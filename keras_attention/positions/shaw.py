"""Learned vectors for relative positions, with which queries are compared."""

import math

import keras
from keras import ops

from keras_attention._checks import require_positive_integers
from keras_attention._products import matmul
from keras_attention.positions.base import Position, looked_up, relative


@keras.saving.register_keras_serializable(package="keras_attention")
class Shaw(Position):
    """Relative positions as keys: queries are also compared with a vector for each distance.

    $$ bias(q_i, k_j) = q_i^T a_{clip(j - i)} / \\sqrt{d}, \\quad
       clip(n) = \\max(-D, \\min(n, D)) $$

    Paper: Shaw et al. 2018, Self-Attention with Relative Position Representations, equation 5
    (https://arxiv.org/abs/1803.02155).

    The paper also adds vectors to the values. They are omitted here, as its Table 3 shows no gain
    from them. All heads share the vectors, as in the paper. Each query is compared with all
    `2 · D + 1` vectors once, so no array of size `Tq · Tk · d` is needed. Weights
    `(2 · D + 1) · d`.

    Args:
        max_distance: `D`. All keys that are farther away share the vector of this distance.
        embeddings_initializer: Initializer of the vectors.

    Raises:
        ValueError: If `max_distance` is not a positive integer.

    Example:

    >>> position = Shaw(max_distance=2)
    >>> position.build(heads=(4,), size=8)
    >>> features = position.features(np.ones((1, 4, 3, 8), "float32"))
    >>> tuple(features.shape), tuple(position.bias(features, np.arange(3), np.arange(6)).shape)
    ((1, 4, 3, 5), (1, 4, 3, 6))
    """

    per_head = False

    def __init__(self, max_distance=16, embeddings_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        require_positive_integers("Shaw", max_distance=max_distance)
        self.max_distance = max_distance
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, heads, size):
        super().build(heads, size)
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(2 * self.max_distance + 1, size),
            initializer=self.embeddings_initializer,
            autocast=False,  # float32 even in mixed precision
        )

    def features(self, query):
        vectors = ops.cast(self.embeddings, "float32") / math.sqrt(self.size)
        return matmul(ops.cast(query, "float32"), ops.transpose(vectors))

    def bias(self, features, query_positions, key_positions):
        tile = relative(query_positions, key_positions, self.max_distance)
        return looked_up(features, tile)

    def get_config(self):
        return {
            **super().get_config(),
            "max_distance": self.max_distance,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
