"""Keras' two multi-head layers."""

from operator import attrgetter

import keras
from keras import ops

from keras_attention import masks, multi_head
from keras_attention._checks import is_positive_integer, require_positive_integers
from keras_attention._shapes import sizes_of
from keras_attention.drop_in.from_start import from_start

PUBLIC_IN_MULTI_HEAD = {"query_dense", "key_dense", "value_dense", "output_dense"}


@keras.saving.register_keras_serializable(package="keras_attention.drop_in")
class MultiHeadAttention(multi_head.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention` with the options of `keras_attention.MultiHeadAttention`.

    $$ head_h = Attention(W^Q_h q, W^K_h k, W^V_h v), \\quad
       output = W^O [head_1; …; head_H] $$

    Paper: Vaswani et al. 2017, section 3.2.2 (https://arxiv.org/abs/1706.03762).

    The causal mask is aligned to the start, as in Keras: query `i` sees the keys up to `i`. This
    only makes a difference if the numbers of queries and keys differ.

    Args:
        num_heads, key_dim, value_dim, dropout, use_bias, output_shape, attention_axes,
            kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, bias_constraint, use_gate, seed: As for
            `keras.layers.MultiHeadAttention`.
        sliding_window: A query only sees keys less than this many positions away; `None` for all.
        flash_attention: `True` is the same as `implementation="fused"`.
        **kwargs: Other arguments of `keras_attention.MultiHeadAttention`, such as `score`.

    Call arguments:
        As for `keras_attention.MultiHeadAttention`.

    Example:

    >>> theirs = keras.layers.MultiHeadAttention(2, 4)
    >>> ours = MultiHeadAttention(2, 4)
    >>> x = np.random.default_rng(0).normal(size=(2, 3, 8))
    >>> expected, output = theirs(x, x), ours(x, x)
    >>> ours.set_weights(theirs.get_weights())
    >>> np.allclose(ours(x, x), expected, atol=1e-5)
    True
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        output_shape=None,
        attention_axes=None,
        sliding_window=None,
        flash_attention=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        use_gate=False,
        seed=None,
        **kwargs,
    ):
        if flash_attention:
            kwargs["implementation"] = "fused"
            if dropout:
                raise ValueError(
                    "Dropout is not supported when flash attention is enabled. "
                    f"Received: flash_attention=True, dropout={dropout}. Set one of the two to 0."
                )
        super().__init__(
            num_heads,
            key_dim,
            value_dim,
            dropout,
            use_bias,
            output_shape=output_shape,
            attention_axes=attention_axes,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            use_gate=use_gate,
            seed=seed,
            **kwargs,
        )
        if sliding_window is not None and not is_positive_integer(sliding_window):
            raise ValueError(
                f"`sliding_window` of {type(self).__name__} must be a positive integer or None. "
                f"Received: sliding_window={sliding_window!r}."
            )
        self._sliding_window = sliding_window
        self._flash_attention = flash_attention

    @property
    def sliding_window(self):
        return self._sliding_window

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        is_called = multi_head.MultiHeadAttention.call is not cls.call
        if "_compute_attention" in vars(cls) and not is_called:
            raise TypeError(
                "`call` of keras_attention.drop_in.MultiHeadAttention does not use "
                f"`_compute_attention`. Received: a subclass {cls.__name__} that overrides it. "
                "Give the layer a score, a mask or a normalizer of your own, or override `call`."
            )

    dropout = property(attrgetter("attention.dropout"))
    seed = property(attrgetter("attention.seed"))
    query_dense = _query_dense = property(attrgetter("query_projection"))
    key_dense = _key_dense = property(attrgetter("key_projection"))
    value_dense = _value_dense = property(attrgetter("value_projection"))
    output_dense = _output_dense = property(attrgetter("output_projection"))
    _gate_dense = property(attrgetter("gate_projection"))

    def __dir__(self):
        # Keras' files name a part by the first attribute in `dir`, which must be Keras' name.
        return [name for name in super().__dir__() if not name.endswith("_projection")]

    def _projection(self, name, units, input_shape):
        size = self.key_dim if name in ("query", "key") else self.value_dim
        return self._einsum_dense(
            name, "blf,fhd->blhd", (None, units // size, size), "hd", input_shape
        )

    def _build_output(self, query_shape):
        sizes = self._output_shape or (self.output_dim or query_shape[-1],)
        axes = "uvwxyz"[: len(sizes)]
        self.output_projection = self._einsum_dense(
            "output",
            f"blhd,hd{axes}->bl{axes}",
            (None, *sizes),
            axes,
            (*query_shape[:2], self.num_heads, self.value_dim),
        )

    def _einsum_dense(self, name, equation, output_shape, bias_axes, input_shape):
        arguments = self._dense_arguments(name)
        has_bias = arguments.pop("use_bias")
        if name == "output":
            arguments["name"] = "attention_output"
        with keras.RematScope(mode=None):
            layer = keras.layers.EinsumDense(
                equation, output_shape, bias_axes=bias_axes if has_bias else None, **arguments
            )
        layer.build(input_shape)
        return layer

    def _project(self, projection, x, size):
        return ops.swapaxes(projection(x), 1, 2)  # (batch, heads, length, size)

    def _joined(self, projection, x):
        x = projection(x)  # (batch, length, heads, size)
        return ops.reshape(x, (*sizes_of(x)[:2], x.shape[2] * x.shape[3]))

    def _merge(self, context):
        context = ops.swapaxes(ops.cast(context, self.compute_dtype), 1, 2)
        return self.output_projection(context)  # from (batch, length, heads, value_dim)

    def _mask_of_call(self, attention_mask, use_causal_mask, query, value):
        mask = super()._mask_of_call(attention_mask, False, query, value)
        causal = from_start(masks.Causal(), query, value) if use_causal_mask else None
        return masks.combine(causal, mask)

    def _attend(
        self, query, memory, query_mask, mask, training, start, return_attention_scores, **options
    ):
        if self._sliding_window is not None:
            reach = self._sliding_window - 1
            window = masks.SlidingWindow(reach, reach)
            if start is None:
                window = from_start(window, query, memory.value, axis=-2)
            mask = masks.combine(window, mask)
        return super()._attend(
            query, memory, query_mask, mask, training, start, return_attention_scores, **options
        )

    def _compute_attention(
        self,
        query,
        key,
        value,
        attention_mask=None,
        training=None,
        return_attention_scores=False,
        use_causal_mask=False,
    ):
        """Computes attention on projected heads `(batch, length, heads, size)`.

        Called by subclasses of Keras' layer, such as KerasHub's `CachedMultiHeadAttention`.
        """
        mask = self._mask_of_call(attention_mask, use_causal_mask, query, value)
        query, key, value = (ops.swapaxes(x, 1, 2) for x in (query, key, value))
        memory = self.attention.prepare_heads(key, value)
        context, weights = self.attention.attend_heads(
            query, memory, None, mask, training, None, return_attention_scores
        )
        return ops.swapaxes(context, 1, 2), weights

    def get_config(self):
        return {
            **super().get_config(),
            "sliding_window": self._sliding_window,
            "flash_attention": self._flash_attention,
        }


@keras.saving.register_keras_serializable(package="keras_attention.drop_in")
class GroupedQueryAttention(MultiHeadAttention):
    """`keras.layers.GroupQueryAttention`: groups of heads share their keys and values.

    $$ head_h = Attention(W^Q_h q, W^K_{g(h)} k, W^V_{g(h)} v) $$

    Paper: Ainslie et al. 2023 (https://arxiv.org/abs/2305.13245).

    Args:
        head_dim: Size of the queries, keys and values of one head.
        num_query_heads: Number of heads.
        num_key_value_heads: Number of groups, a divisor of `num_query_heads`.
        dropout, use_bias, sliding_window, flash_attention, **kwargs: As for `MultiHeadAttention`.

    Call arguments:
        As for `MultiHeadAttention`.

    Example:

    >>> layer = GroupedQueryAttention(head_dim=4, num_query_heads=4, num_key_value_heads=2)
    >>> tuple(layer(np.ones((2, 3, 8)), np.ones((2, 5, 8))).shape)
    (2, 3, 8)
    """

    def __init__(
        self,
        head_dim,
        num_query_heads,
        num_key_value_heads,
        dropout=0.0,
        use_bias=True,
        sliding_window=None,
        flash_attention=None,
        **kwargs,
    ):
        owner = type(self).__name__
        require_positive_integers(owner, head_dim=head_dim, num_query_heads=num_query_heads)
        super().__init__(
            num_query_heads,
            head_dim,
            dropout=dropout,
            use_bias=use_bias,
            sliding_window=sliding_window,
            flash_attention=flash_attention,
            num_key_value_heads=num_key_value_heads,
            **kwargs,
        )

    head_dim = property(attrgetter("key_dim"))
    num_query_heads = property(attrgetter("num_heads"))

    def __dir__(self):
        return [name for name in super().__dir__() if name not in PUBLIC_IN_MULTI_HEAD]

    def get_config(self):
        config = super().get_config()
        names = {"key_dim": "head_dim", "num_heads": "num_query_heads"}
        return {names.get(name, name): value for name, value in config.items()}
