"""Multi-head attention: several attentions side by side, each in a space of its own."""

import keras
from keras import ops

from keras_attention._checks import (
    is_positive_integer,
    plain,
    require_positive_integers,
    require_positive_integers_or_none,
)
from keras_attention._initializers import independent
from keras_attention.attention import Attention, Memory


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiHeadAttention(Attention):
    """Multi-head attention with any score.

    $$ head_h = Attention(W^Q_h q, W^K_h k, W^V_h v), \\quad
       output = W^O [head_1; …; head_H] $$

    Paper: Vaswani et al. 2017, section 3.2.2 (https://arxiv.org/abs/1706.03762).

    Scores with weights, such as `"general"` and `"additive"`, have their own for each head. Scores
    that do not read the keys, such as `scores.Location`, have no `W^K`, and those that do not read
    the queries, no `W^Q`.

    The first five arguments come in the order of `keras.layers.MultiHeadAttention`; the others have
    to be named.

    Args:
        num_heads: Number of heads.
        key_dim: Size of the queries and keys of one head.
        value_dim: Size of the values of one head. Defaults to `key_dim`.
        dropout: As for `Attention`.
        use_bias: Whether the projections add a bias.
        num_key_value_heads: Number of heads of keys and values, a divisor of `num_heads`: so many
            groups of heads share theirs (Ainslie et al. 2023, https://arxiv.org/abs/2305.13245);
            with 1 all do (Shazeer 2019, https://arxiv.org/abs/1911.02150). Defaults to `num_heads`.
        output_dim: Size of the output. Defaults to the size of the query.
        score, normalizer, mask, position, soft_cap, implementation, seed: As for `Attention`.
        kernel_initializer: Initializer of the projections.

    Call arguments:
        As for `Attention`.

    Output shape:
        `(batch, query_length, output_dim)`; with `return_attention_scores` also the weights before
        dropout, float32 `(batch, num_heads, query_length, key_length)`.

    Example:

    >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
    >>> output, weights = layer(
    ...     np.ones((2, 3, 8)), np.ones((2, 5, 6)), return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 3, 8), (2, 2, 3, 5))
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        *,
        num_key_value_heads=None,
        output_dim=None,
        score="scaled_dot",
        normalizer="softmax",
        mask=None,
        position=None,
        soft_cap=None,
        kernel_initializer="glorot_uniform",
        implementation="auto",
        seed=None,
        **kwargs,
    ):
        super().__init__(
            score,
            normalizer,
            mask,
            position=position,
            soft_cap=soft_cap,
            dropout=dropout,
            implementation=implementation,
            seed=seed,
            **kwargs,
        )
        owner = type(self).__name__
        require_positive_integers(owner, num_heads=num_heads, key_dim=key_dim)
        require_positive_integers_or_none(owner, value_dim=value_dim, output_dim=output_dim)
        groups = num_heads if num_key_value_heads is None else num_key_value_heads
        if not is_positive_integer(groups) or num_heads % groups:
            raise ValueError(
                "`num_key_value_heads` of MultiHeadAttention must divide num_heads="
                f"{num_heads}. Received: num_key_value_heads={num_key_value_heads!r}."
            )
        self.num_key_value_heads = plain(groups)
        self.num_heads = plain(num_heads)
        self.key_dim = plain(key_dim)
        self.value_dim = plain(value_dim or key_dim)
        self.output_dim = plain(output_dim)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._require_fitting_shapes(query_shape, value_shape, key_shape)
        heads, batch = self.num_heads, query_shape[0]
        key_heads = self.num_key_value_heads

        # What nobody reads has no projection, which would never get a gradient.
        position = self.position
        reads_query = self.score.uses_query or (position is not None and position.uses_query)
        self.query_projection = self.key_projection = None
        if reads_query:
            self.query_projection = self._projection("query", heads * self.key_dim, query_shape)
        if self.score.uses_key:
            self.key_projection = self._projection("key", key_heads * self.key_dim, key_shape)
        self.value_projection = self._projection("value", key_heads * self.value_dim, value_shape)
        self.output_projection = self._projection(
            "output",
            self.output_dim or query_shape[-1],
            (batch, query_shape[1], heads * self.value_dim),
        )
        self._build_parts(
            (batch, heads, query_shape[1], self.key_dim),
            (batch, heads, key_shape[1], self.key_dim),
        )

    def _projection(self, name, units, input_shape):
        with keras.RematScope(mode=None):
            layer = keras.layers.Dense(
                units,
                use_bias=self.use_bias,
                kernel_initializer=independent(self.kernel_initializer),
                dtype=self.dtype_policy,
                name=name,
            )
        layer.build(input_shape)
        return layer

    @property
    def _number_of_heads(self):
        return self.num_heads

    def _prepare(self, key, value, mask, start):
        key = self._projected(self.key_projection, key)
        value = self._split_heads(self.value_projection(value), self.value_dim)
        # A head has weights of its own for the keys that it shares.
        if self.score.weights and self.score.uses_key:
            key = self._for_each_head(key)
        return Memory(self._prepare_key(key, start), value, mask)

    def _attend(self, query, memory, start, **arguments):
        query = self._projected(self.query_projection, query)
        key, value = self._for_each_head(memory.key), self._for_each_head(memory.value)
        memory = Memory(key, value, memory.mask)
        context, weights = super()._attend(query, memory, start, **arguments)
        return self._output(context), weights

    def _projected(self, projection, x):
        """Returns queries or keys `(batch, heads, length, key_dim)`.

        Without a projection only their length counts: one head of what came.
        """
        if projection is None:
            return ops.cast(x, self.compute_dtype)[:, None]
        return self._split_heads(projection(x), self.key_dim)

    def _output(self, context):
        """Joins the heads of a context `(batch, heads, length, value_dim)` and projects them."""
        context = ops.swapaxes(ops.cast(context, self.compute_dtype), 1, 2)
        batch, length = ops.shape(context)[0], ops.shape(context)[1]
        merged = ops.reshape(context, (batch, length, self.num_heads * self.value_dim))
        return self.output_projection(merged)

    def _for_each_head(self, x):
        """Repeats the keys or values that several heads share: `(batch, num_heads, …)`."""
        times = self.num_heads // x.shape[1]
        return x if times == 1 else ops.repeat(x, times, axis=1)

    def _split_heads(self, x, size):
        batch, length = ops.shape(x)[0], ops.shape(x)[1]
        heads = ops.reshape(x, (batch, length, x.shape[2] // size, size))
        return ops.swapaxes(heads, 1, 2)  # (batch, heads, length, size)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "num_key_value_heads": self.num_key_value_heads,
            "output_dim": self.output_dim,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
