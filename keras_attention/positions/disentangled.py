"""Disentangled attention: contents are also compared with distances, in both directions."""

import math

import keras
import numpy as np
from keras import ops

from keras_attention._checks import (
    is_positive_integer,
    is_positive_number,
    require_positive_integers,
)
from keras_attention._products import matmul, transposed
from keras_attention._registry import serialize
from keras_attention.positions.base import Position, looked_up, relative


@keras.saving.register_keras_serializable(package="keras_attention")
class DistanceEmbedding(keras.layers.Layer):
    """Learned vectors of the distances between tokens, for `Disentangled`.

    Without `num_buckets`, each of the `2 · D` distances `n = i - j` of a query from a key has a
    vector of its own. With `B` buckets, distances up to `m = B / 4` have, and farther ones share
    those of buckets that grow geometrically:

    $$ bucket(n) = sign(n)
       (m + \\lceil (m - 1) \\frac{\\log(|n| / m)}{\\log((D - 1) / m)} \\rceil) $$

    Paper: He et al. 2021, DeBERTa, section 3.1 (https://arxiv.org/abs/2006.03654); the buckets are
    those of its versions 2 and 3 (https://github.com/microsoft/DeBERTa).

    DeBERTa shares the vectors among its layers: pass the same object to all their positions. Files
    preserve the sharing, but `keras.models.clone_model` does not. Weights `B · s` or `2 · D · s`.

    Args:
        max_distance: `D`. Keys that are farther away share the vectors of this distance.
        num_buckets: `B`, a multiple of 4, or `None` for a vector for each distance.
        epsilon: Epsilon of a layer normalization of the vectors, or `None` for none.
        embeddings_initializer: Initializer of the vectors.

    Raises:
        ValueError: If a number is out of range, or the buckets cannot be divided up.

    Example:

    >>> embedding = DistanceEmbedding(max_distance=16, num_buckets=8)
    >>> embedding.build(6)
    >>> tuple(embedding.vectors().shape)
    (8, 6)
    >>> embedding.buckets([0, 1, 2, 3, 15, 99, -1, -2, -3, -99]).tolist()
    [4, 5, 6, 7, 7, 7, 3, 2, 1, 0]
    """

    def __init__(
        self,
        max_distance=512,
        num_buckets=None,
        epsilon=None,
        embeddings_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        owner = "DistanceEmbedding"
        require_positive_integers(owner, max_distance=max_distance)
        is_multiple = is_positive_integer(num_buckets) and num_buckets % 4 == 0
        if num_buckets is not None and not is_multiple:
            raise ValueError(
                f"`num_buckets` of {owner} must be a positive multiple of 4, or None for a vector "
                f"for each distance. Received: num_buckets={num_buckets!r}."
            )
        if num_buckets is not None and max_distance <= num_buckets // 4 + 1:
            raise ValueError(
                f"`max_distance` of {owner} must be above {num_buckets // 4 + 1}: a quarter of the "
                f"buckets hold one distance each. Received: num_buckets={num_buckets}, "
                f"max_distance={max_distance}. Use fewer buckets or a larger distance."
            )
        if epsilon is not None and not is_positive_number(epsilon):
            raise ValueError(
                f"`epsilon` of {owner} must be a number above 0, the epsilon of the normalization, "
                f"or None for none. Received: {epsilon!r}."
            )
        self.max_distance = max_distance
        self.num_buckets = num_buckets
        self.epsilon = epsilon
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.norm = None
        if epsilon is not None:
            self.norm = keras.layers.LayerNormalization(epsilon=epsilon, dtype="float32")

    @property
    def num_vectors(self):
        return self.num_buckets or 2 * self.max_distance

    def build(self, size):
        """Creates the vectors.

        Args:
            size: Size of a vector.
        """
        self.size = size
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.num_vectors, size),
            initializer=self.embeddings_initializer,
            autocast=False,  # float32 even in mixed precision
        )
        if self.norm is not None:
            self.norm.build((self.num_vectors, size))
        offsets = np.arange(-self.max_distance, self.max_distance + 1)
        self.of_offsets = self.buckets(-offsets)  # of a key from a query, the negative distance

    def vectors(self):
        """Returns the vectors, float32 `(num_vectors, size)`."""
        vectors = ops.cast(self.embeddings, "float32")
        return vectors if self.norm is None else self.norm(vectors)

    def buckets(self, distances):
        """Returns the places of the vectors of distances of queries from keys, in NumPy."""
        distances, middle = np.asarray(distances), self.num_vectors // 2
        if self.num_buckets is not None:
            exact = self.num_buckets // 4
            logs = np.log(np.maximum(np.abs(distances), exact) / exact)
            # In this order, the ratio of the last distance is exactly 1.
            steps = np.ceil(logs / math.log((self.max_distance - 1) / exact) * (exact - 1))
            shared = np.sign(distances) * (exact + steps)
            distances = np.where(np.abs(distances) <= exact, distances, shared)
        return np.clip(distances + middle, 0, self.num_vectors - 1).astype("int32")

    def places(self, query_positions, key_positions):
        """Returns the places of the vectors of all pairs, int32 `(query_tile, key_tile)`."""
        tile = relative(query_positions, key_positions, self.max_distance)
        return ops.take(self.of_offsets, tile)

    def get_config(self):
        return {
            **super().get_config(),
            "max_distance": self.max_distance,
            "num_buckets": self.num_buckets,
            "epsilon": self.epsilon,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class Disentangled(Position):
    """Disentangled attention of DeBERTa: a query is compared with the distance of a key, and the
    key with the distance of the query.

    $$ logit(q_i, k_j) = \\frac{1}{\\sqrt{3}} (score(q_i, k_j) +
       \\frac{q_i^T W^K p_{δ(i, j)} + k_j^T W^Q p_{δ(i, j)}}{\\sqrt{d}}) $$

    `p` are the vectors of a `DistanceEmbedding`, and `δ(i, j)` is the place of the distance
    `i - j`. `W^Q` and `W^K` are the projections of the layer's own queries and keys, including
    their biases, as in versions 2 and 3; `Attention`, which has none, compares the vectors as they
    are. With `"scaled_dot"`, the sum of the three products is divided by `√(3 d)`.

    Paper: He et al. 2021, DeBERTa: Decoding-enhanced BERT with Disentangled Attention, equations 2
    to 4 (https://arxiv.org/abs/2006.03654). The paper writes `δ(j, i)` in the last term; this is
    what the authors' code computes.

    Queries and keys are compared with all vectors once, so no array of size `Tq · Tk · d` is
    needed. The keys of a `Memory` include these products. Time `O((Tq + Tk) B d)` in addition to
    that of the score, no weights other than those of the embedding.

    Each layer needs an object of its own, since it uses the projections of one; they can share
    one `embedding`.

    Args:
        embedding: A `DistanceEmbedding` or its config. Defaults to `DistanceEmbedding(512, 512)`,
            with the vectors of DeBERTa version 3.

    Raises:
        ValueError: If `embedding` is something else, the object is used in two multi-head layers,
            or queries and keys have different sizes.

    Example:

    >>> from keras_attention import MultiHeadAttention
    >>> position = Disentangled(DistanceEmbedding(max_distance=16))
    >>> layer = MultiHeadAttention(num_heads=2, key_dim=4, position=position)
    >>> x = np.ones((2, 5, 6))
    >>> tuple(layer(x, x).shape), [tuple(each.shape) for each in position.weights]
    ((2, 5, 6), [(32, 6)])
    """

    score_scale = 1.0 / math.sqrt(3.0)

    def __init__(self, embedding=None, **kwargs):
        super().__init__(**kwargs)
        if embedding is None:
            embedding = DistanceEmbedding(512, 512, dtype=self.dtype_policy)
        if isinstance(embedding, dict):
            embedding = keras.saving.deserialize_keras_object(embedding)
        if not isinstance(embedding, DistanceEmbedding):
            raise ValueError(
                "`embedding` of Disentangled must be a DistanceEmbedding, its config, or None. "
                f"Received: {embedding!r}."
            )
        self.embedding = embedding
        self._project_query = self._project_key = None

    def use_projections(self, query, key, query_size, key_size):
        if self._project_query not in (None, query):
            raise ValueError(
                "An object of Disentangled uses the projections of one multi-head layer. Received: "
                f"{self.name!r} in a second one. Give each layer an object of its own; they can "
                "share the vectors: Disentangled(embedding)."
            )
        if query_size != key_size:
            raise ValueError(
                "Disentangled projects its vectors like queries and like keys, which must have "
                f"the same size. Received: queries of size {query_size}, keys of size {key_size}."
            )
        self._project_query, self._project_key = query, key
        if not self.embedding.built:
            self.embedding.build(query_size)

    def build(self, heads, size):
        super().build(heads, size)
        if not self.embedding.built:
            self.embedding.build(size)
        self.num_key_features = self.embedding.num_vectors

    def features(self, query):
        return self._compared(query, self._project_key)

    def key_features(self, key):
        return self._compared(key, self._project_query)

    def bias(self, features, query_positions, key_positions):
        of_query, of_key = features
        places = self.embedding.places(query_positions, key_positions)
        to_distance = looked_up(of_query, places)
        from_distance = looked_up(of_key, ops.transpose(places))
        return to_distance + transposed(from_distance)

    def _compared(self, x, project):
        """Returns the products of queries or keys with all vectors, float32."""
        vectors = self.embedding.vectors()
        if project is not None:
            vectors = ops.cast(project(vectors[None]), "float32")[0]
        vectors = vectors / math.sqrt(3.0 * self.size)
        return matmul(ops.cast(x, "float32"), vectors, transpose_b=True)

    def get_config(self):
        return {**super().get_config(), "embedding": serialize(self.embedding)}
