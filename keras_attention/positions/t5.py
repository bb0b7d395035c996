"""A learned bias for each bucket of distances."""

import keras
import numpy as np
from keras import ops

from keras_attention._checks import require_positive_integers
from keras_attention.positions.base import Position, relative


@keras.saving.register_keras_serializable(package="keras_attention")
class T5Bias(Position):
    """T5's relative position bias: a learned bias for each head and bucket of distances.

    $$ bias_h(q, k) = b_{h, bucket(k - q)} $$

    Half of the buckets hold one distance each, `0, 1, 2, …`. The other half hold ranges that grow
    geometrically up to `max_distance`; the last one also holds everything beyond.

    Paper: Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified
    Text-to-Text Transformer, section 2.1 (https://arxiv.org/abs/1910.10683).

    T5 shares the biases among its layers: pass the same object to all of them. Files preserve the
    sharing, but `keras.models.clone_model` does not. T5 uses `score="dot"`, which leaves the
    scaling to the initializer. Weights `num_buckets` per head.

    Args:
        num_buckets: Number of buckets.
        max_distance: The distance from which on all keys share a bucket.
        bidirectional: Whether keys after the query have separate buckets, half of all. `False` is
            for causal attention: keys after the query then count as distance 0.
        embeddings_initializer: Initializer of the biases.

    Raises:
        ValueError: If a number is out of range, or the buckets cannot be divided up.

    Example:

    >>> position = T5Bias(num_buckets=4, max_distance=8, bidirectional=False)
    >>> position.build(heads=(2,), size=64)
    >>> tuple(position.bias(None, np.arange(3), np.arange(5)).shape)
    (2, 3, 5)
    >>> [bucket(-distance, 4, 8, False) for distance in range(9)]
    [0, 1, 2, 2, 3, 3, 3, 3, 3]
    """

    def __init__(
        self,
        num_buckets=32,
        max_distance=128,
        bidirectional=True,
        embeddings_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_positive_integers("T5Bias", num_buckets=num_buckets, max_distance=max_distance)
        fewest = 4 if bidirectional else 2
        if num_buckets < fewest or (bidirectional and num_buckets % 2):
            raise ValueError(
                f"`num_buckets` of T5Bias must be at least {fewest}, and even when bidirectional: "
                "half of them are for the keys after the query. Received: "
                f"num_buckets={num_buckets}, bidirectional={bidirectional}."
            )
        exact = num_buckets // fewest
        if max_distance <= exact:
            raise ValueError(
                f"`max_distance` of T5Bias must be above {exact}, the number of distances with a "
                f"bucket of their own. Received: num_buckets={num_buckets}, "
                f"max_distance={max_distance}. Use fewer buckets or a larger distance."
            )
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, heads, size):
        super().build(heads, size)
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(*self.heads, self.num_buckets),
            initializer=self.embeddings_initializer,
            autocast=False,  # float32 even in mixed precision
        )
        buckets = [
            bucket(distance, self.num_buckets, self.max_distance, self.bidirectional)
            for distance in range(-self.max_distance, self.max_distance + 1)
        ]
        self.buckets = np.array(buckets, "int32")  # of the distances starting at -max_distance

    def bias(self, features, query_positions, key_positions):
        of_distance = ops.take(self.embeddings, self.buckets, axis=-1)
        tile = relative(query_positions, key_positions, self.max_distance)
        return ops.cast(ops.take(of_distance, tile, axis=-1), "float32")

    def get_config(self):
        return {
            **super().get_config(),
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }


def bucket(distance, num_buckets, max_distance, bidirectional):
    """Returns the bucket of a key at a distance after the query, or before it if negative.

    After the `e` distances with separate buckets there are `r` ranges. Distance `n` is in range
    number `floor(r · log(n / e) / log(max_distance / e))`. It is computed with integers, because a
    logarithm could be rounded to the wrong side.
    """
    first = 0
    if bidirectional:
        num_buckets //= 2
        first = num_buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = num_buckets // 2
    if distance < exact:
        return first + distance
    ranges = num_buckets - exact
    step = 0  # as long as (distance / exact) ** ranges >= (max_distance / exact) ** (step + 1)
    while step + 1 < ranges and (
        distance**ranges * exact ** (step + 1) >= exact**ranges * max_distance ** (step + 1)
    ):
        step += 1
    return first + exact + step
