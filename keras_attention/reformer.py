"""Reformer: attention among positions that hash to the same bucket."""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import require_positive_integers
from keras_attention._one_sequence import WithinOneSequence
from keras_attention._products import matmul
from keras_attention.compute import lsh


@keras.saving.register_keras_serializable(package="keras_attention")
class ReformerAttention(WithinOneSequence):
    """Multi-head self-attention with locality-sensitive hashing and shared queries and keys.

    $$ head_i = \\sum_{j \\in P_i} softmax_j(q_i^T q_j / |q_j|) \\, v_j, \\quad
       P_i = \\bigcup_r \\{j \\ne i : h_r(q_j) = h_r(q_i)\\}, \\quad
       h_r(x) = argmax [x R_r; -x R_r] $$

    In each of `num_hashes` rounds, positions are sorted by bucket and cut into chunks of
    `2 · bucket_size`. A query sees the keys of its bucket that are in its own or the previous
    chunk. A pair that meets in several rounds counts once, and a query sees itself only if it sees
    no other key. Rounds are combined by their normalizers. With more rounds, the result comes
    closer to softmax attention over all keys except the query's own; up to `bucket_size` positions,
    it is equal.

    Queries, keys and values are one sequence: a position hidden by any padding mask is hidden
    everywhere. Time is `O(num_hashes · T · (bucket_size · d + log T))`, and memory is linear in
    `T`. The random rotations `R` are non-trainable weights shared by all heads.

    Paper: Kitaev et al. 2020, Reformer: The Efficient Transformer
    (https://arxiv.org/abs/2001.04451).

    Args:
        num_heads, key_dim, value_dim, output_dim: As for `MultiHeadAttention`.
        bucket_size: Number of positions per bucket; the actual average differs by at most half.
        num_hashes: Number of hashing rounds.
        max_buckets: Maximum number of buckets, an even number. Sequences longer than `bucket_size ·
            max_buckets` get larger buckets, but chunks of the same size.
        causal: Whether to always apply the causal mask.
        use_bias: As for `MultiHeadAttention`.
        seed: Integer seed of the rotations.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but query and value must have the same length, and `key` and
        `attention_mask` are not supported.

    Output shape:
        `(batch, length, output_dim)`; with `return_attention_scores` also the weights, float32
        `(batch, num_heads, length, length)`. They are meant for inspection and take quadratic time
        and memory.

    Raises:
        ValueError: If a size is not positive, a key is given, query and value differ in length, or
            a mask is not supported.

    Example:

    >>> layer = ReformerAttention(num_heads=2, key_dim=4, bucket_size=8, causal=True)
    >>> x = np.ones((2, 50, 8))
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 50, 50))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        output_dim: int | None = None,
        bucket_size: int = 64,
        num_hashes: int = 4,
        max_buckets: int = 256,
        causal: bool = False,
        use_bias: bool | Collection[str] = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        require_positive_integers(
            "ReformerAttention",
            bucket_size=bucket_size,
            num_hashes=num_hashes,
            max_buckets=max_buckets,
        )
        if max_buckets % 2:
            raise ValueError(
                f"`max_buckets` of {type(self).__name__} must be even, since buckets come in "
                f"pairs. Received: max_buckets={max_buckets}. Use {max_buckets + 1}."
            )
        self.bucket_size = bucket_size
        self.num_hashes = num_hashes
        self.max_buckets = max_buckets
        self.causal = causal
        self.seed = seed

    def build(self, query_shape, value_shape, key_shape=None):
        self._require_fitting_shapes(query_shape, value_shape, key_shape or value_shape)
        heads = self.num_heads
        self.query_projection = self._projection("query", heads * self.key_dim, query_shape)
        self.value_projection = self._projection("value", heads * self.value_dim, value_shape)
        self._build_output(query_shape)
        self.rotations = self.add_weight(
            name="rotations",
            shape=(self.num_hashes, self.key_dim, self.max_buckets // 2),
            initializer=lambda shape, dtype=None: _drawn(shape, self.seed),
            dtype="float32",
            autocast=False,
            trainable=False,
        )

    def redraw(self, seed=None):
        """Draws new random rotations, for example from time to time during training."""
        self.rotations.assign(_drawn(self.rotations.shape, seed))

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        use_causal_mask=False,
        training=None,
    ):
        self._require_possible(key, attention_mask, use_causal_mask)
        self._require_fitting_shapes(query.shape, value.shape, value.shape)
        length = shape_of(query)[1]
        visible = self._visible(query, value, query_mask, value_mask, key_mask)
        chunk = 2 * self.bucket_size
        if isinstance(length, int):
            chunk = min(chunk, max(length, 1))
        # Not `-length % chunk`: JAX could not tell that a symbolic length has a first chunk.
        padding = [(0, 0), (0, -(-length // chunk) * chunk - length)]  # at the end, hidden

        def pad(x):
            return ops.pad(self._ready(x, visible), [*padding, (0, 0)])

        query = self._project(self.query_projection, pad(query), self.key_dim)
        value = self._project(self.value_projection, pad(value), self.value_dim)
        visible = ops.cast(ops.pad(ops.cast(visible, "int32"), padding), "bool")
        buckets = self._hash(query, visible, length)
        causal = self.causal or use_causal_mask
        context = lsh.attend_in_buckets(query, value, buckets, visible, chunk, causal)
        output = self._merge(context[:, :, :length])
        if not return_attention_scores:
            return output
        weights = lsh.weights(query, buckets, visible, chunk, causal)
        return output, weights[:, :, :length, :length]

    def _hash(self, query, visible, length):
        """Returns the buckets of queries, int32 `(batch, heads, num_hashes, length)`."""
        query = ops.cast(ops.stop_gradient(query), "float32")
        rotated = matmul(query[:, :, None], self.rotations)
        pairs = (length + self.bucket_size - 1) // (2 * self.bucket_size)
        is_used = ops.arange(self.max_buckets // 2, dtype="int32") < pairs
        both_ways = [ops.where(is_used, x, -float("inf")) for x in (rotated, -rotated)]
        buckets = ops.cast(ops.argmax(ops.concatenate(both_ways, axis=-1), axis=-1), "int32")
        buckets = ops.where(is_used[0], buckets, 0)  # a short sequence is a single bucket
        return ops.where(visible[:, None, None, :], buckets, self.max_buckets)

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        if key is not None:
            self._refuse("key", "its keys are the queries, scaled to norm 1", "Omit it")
        if attention_mask is not None:
            self._refuse(
                "attention_mask",
                "it compares only positions in the same bucket",
                "Hide positions with query_mask or value_mask, and later ones with causal=True",
            )

    def get_config(self):
        return {
            **super().get_config(),
            "bucket_size": self.bucket_size,
            "num_hashes": self.num_hashes,
            "max_buckets": self.max_buckets,
            "causal": self.causal,
            "seed": self.seed,
        }


def _drawn(shape, seed):
    return keras.random.normal(shape, dtype="float32", seed=seed)
