"""The attention layers of `keras.layers` with their own arguments, weights and files.

Each takes what its namesake takes, has the same weights in the same order and under the same names
in files, and gives the same numbers. So a model that is made of Keras' layers changes to these by
one import, and its `.weights.h5` loads; `keras_attention.from_keras` converts layers and models.
From there on, everything that `keras_attention.MultiHeadAttention` can do is one argument away:
scores, normalizers, masks, positions, implementations. "Coming from keras.layers" in the
documentation tells what differs.
"""

from operator import attrgetter

import keras
from keras import ops

from keras_attention import attention, masks, multi_head
from keras_attention._axes import AttendedAxes
from keras_attention._checks import is_positive_integer
from keras_attention._layer import agree
from keras_attention.scores import Score

MASKS = ("query_mask", "value_mask", "key_mask")
PUBLIC_IN_MULTI_HEAD = {"query_dense", "key_dense", "value_dense", "output_dense"}


@keras.saving.register_keras_serializable(package="keras_attention.drop_in")
class MultiHeadAttention(multi_head.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention`, and what `keras_attention.MultiHeadAttention` adds.

    $$ head_h = Attention(W^Q_h q, W^K_h k, W^V_h v), \\quad
       output = W^O [head_1; …; head_H] $$

    Paper: Vaswani et al. 2017, section 3.2.2 (https://arxiv.org/abs/1706.03762).

    The causal mask is aligned to the start, as in Keras: query `i` sees the keys up to `i`. Where
    queries and keys are equally many it makes no difference.

    Args:
        num_heads, key_dim, value_dim, dropout, use_bias, output_shape, attention_axes,
            kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, bias_constraint, use_gate, seed: As for
            `keras.layers.MultiHeadAttention`.
        sliding_window: A query sees the keys less than so many positions away, or `None` for all.
        flash_attention: `True` stands for `implementation="fused"`.
        **kwargs: Further arguments of `keras_attention.MultiHeadAttention`, such as `score`.

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

    query_dense = _query_dense = property(attrgetter("query_projection"))
    key_dense = _key_dense = property(attrgetter("key_projection"))
    value_dense = _value_dense = property(attrgetter("value_projection"))
    output_dense = _output_dense = property(attrgetter("output_projection"))
    _gate_dense = property(attrgetter("gate_projection"))

    def __dir__(self):
        # Files of Keras name a part by the first attribute that `dir` lists: it has to be Keras'.
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

    def _merge(self, context):
        context = ops.swapaxes(ops.cast(context, self.compute_dtype), 1, 2)
        return self.output_projection(context)  # from (batch, length, heads, value_dim)

    def _mask_of_call(self, attention_mask, use_causal_mask, query, value):
        mask = super()._mask_of_call(attention_mask, False, query, value)
        causal = _from_start(masks.Causal(), query, value) if use_causal_mask else None
        return masks.combine(causal, mask)

    def _attend(self, query, memory, query_mask, mask, training, start, return_attention_scores):
        if self._sliding_window is not None:
            reach = self._sliding_window - 1
            window = masks.SlidingWindow(reach, reach)
            if start is None:
                window = _from_start(window, query, ops.swapaxes(memory.value, 1, 2))
            mask = masks.combine(window, mask)
        return super()._attend(
            query, memory, query_mask, mask, training, start, return_attention_scores
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
        """Attends among projected heads `(batch, length, heads, size)`.

        Subclasses of Keras' layer call it, such as `CachedMultiHeadAttention` of KerasHub.
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

    def __dir__(self):
        return [name for name in super().__dir__() if name not in PUBLIC_IN_MULTI_HEAD]

    def get_config(self):
        config = super().get_config()
        names = {"key_dim": "head_dim", "num_heads": "num_query_heads"}
        return {names.get(name, name): value for name, value in config.items()}


@keras.saving.register_keras_serializable(package="keras_attention.drop_in")
class Attention(keras.layers.Layer):
    """`keras.layers.Attention`: dot products, or sums in a tanh, without projections.

    $$ score(q, k) = s \\, q^T k, \\quad score(q, k) = c \\sum_i \\tanh(s (q_i + k_i)) $$

    Paper: Luong et al. 2015 (https://aclanthology.org/D15-1166).

    Args:
        use_scale: Whether `s` is a weight; it is 1 otherwise.
        score_mode: `"dot"`, or `"concat"` for the second equation, whose `c` is a weight.
        dropout: Fraction of the weights that is dropped in training.
        seed: Integer seed of the dropout.

    Call arguments:
        inputs: List `[query, value]` or `[query, value, key]` of tensors `(batch, …, length,
            size)`. Axes between batch and length belong together one by one.
        mask: List `[query_mask, value_mask]`, or with `key_mask`, of booleans `(batch, …, length)`.
        training, return_attention_scores, use_causal_mask: As for `keras.layers.Attention`. The
            causal mask is aligned to the start: query `i` sees the keys up to `i`.

    Output shape:
        `(batch, …, query_length, value_size)`; with `return_attention_scores` also the weights
        before dropout, float32 `(batch, …, query_length, key_length)`.

    Raises:
        ValueError: If inputs or masks are no lists of two or three, or do not fit.

    Example:

    >>> layer = Attention(use_scale=True)
    >>> tuple(layer([np.ones((2, 3, 8)), np.ones((2, 5, 8))]).shape)
    (2, 3, 8)
    """

    def __init__(self, use_scale=False, score_mode="dot", dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        if score_mode not in ("dot", "concat"):
            raise ValueError(
                "Invalid value for argument score_mode. Expected one of {'dot', 'concat'}. "
                f"Received: score_mode={score_mode!r}. keras_attention.Attention has more scores."
            )
        self.supports_masking = True
        self.use_scale = use_scale
        self.score_mode = score_mode
        self.dropout = dropout
        self.seed = seed
        with keras.RematScope(mode=None):
            score = _ScoreOf(self._calculate_scores, lambda: self.weights)
            self.attention = attention.Attention(
                score, dropout=dropout, seed=seed, dtype=self.dtype_policy, name="attention"
            )

    def __call__(self, inputs, *args, **kwargs):
        self._require_list("inputs", inputs, "[query, value] or [query, value, key]")
        return super().__call__(inputs, *args, **kwargs)

    def build(self, input_shape):
        self._add_weights(input_shape)
        query_shape, _, key_shape = _three(input_shape)
        flat_shape = self._attended_axes(input_shape).flat_shape
        self.attention.build_heads(flat_shape(query_shape), flat_shape(key_shape))

    def _add_weights(self, input_shape):
        scalar = {"shape": (), "initializer": "ones"}
        self.scale = self.add_weight(name="scale", **scalar) if self.use_scale else None
        self.concat_score_weight = None
        if self.score_mode == "concat":
            self.concat_score_weight = self.add_weight(name="concat_score_weight", **scalar)

    def _calculate_scores(self, query, key):
        """Returns the logits `(…, query_length, key_length)`; a subclass may have others."""
        if self.use_scale:
            query = query * ops.cast(self.scale, query.dtype)
        if self.score_mode == "dot":
            return ops.matmul(query, ops.swapaxes(key, -1, -2))
        if self.use_scale:
            key = key * ops.cast(self.scale, key.dtype)
        pairs = ops.sum(ops.tanh(query[..., :, None, :] + key[..., None, :, :]), axis=-1)
        return ops.cast(self.concat_score_weight, pairs.dtype) * pairs

    def call(
        self,
        inputs,
        mask=None,
        training=False,
        return_attention_scores=False,
        use_causal_mask=False,
    ):
        if mask is not None:
            self._require_list("mask", mask, "[query_mask, value_mask]")
        axes = self._attended_axes([x.shape for x in inputs])
        query, value, key = map(axes.flat, _three(inputs))
        query_mask, value_mask, key_mask = (
            axes.flat_padding(self._padding_mask(*named))
            for named in zip(MASKS, (*(mask or (None, None)), None), _three(inputs), strict=False)
        )
        memory = self.attention.prepare(value, key, value_mask, key_mask)
        causal = _from_start(masks.Causal(), query, value) if use_causal_mask else None
        context, weights = self.attention.attend(
            query, memory, None, causal, training, None, return_attention_scores
        )
        if query_mask is not None:
            context = ops.where(query_mask[..., None], context, ops.cast(0.0, context.dtype))
        context = axes.restored(context, inputs[0])
        if not return_attention_scores:
            return context
        weights = axes.restored_weights(weights[:, None], inputs[0], inputs[1])
        return context, ops.squeeze(weights, axis=-3)

    def compute_mask(self, inputs, mask=None):
        is_given = mask is not None and mask[0] is not None
        return ops.convert_to_tensor(mask[0]) if is_given else None

    def compute_output_shape(self, input_shape):
        """Returns the shape of the output without the weights."""
        return (*input_shape[0][:-1], input_shape[1][-1])

    def compute_output_spec(self, *args, **kwargs):
        # What `call` returns, weights included: a layer would ask `compute_output_shape`.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def _padding_mask(self, name, mask, tensor):
        if mask is None:
            return None
        mask = masks.as_boolean(mask, name, ranks=(len(tensor.shape) - 1,))
        if not agree(mask.shape, tensor.shape[:-1]):
            raise ValueError(
                f"`{name}` of {type(self).__name__} must have the shape {tuple(tensor.shape[:-1])} "
                f"of the tensor that it belongs to. Received: shape {tuple(mask.shape)}."
            )
        return mask

    def _attended_axes(self, shapes):
        return AttendedAxes(type(self).__name__, *_three(shapes), axes=(-2,))

    def _require_list(self, name, given, expected):
        owner = f"{type(self).__name__} layer"
        if not isinstance(given, list | tuple):
            rule = (
                "must be called on a list of inputs" if name == "inputs" else "mask must be a list"
            )
            raise ValueError(
                f"{owner} {rule}, namely {expected}. Received: {type(given).__name__}. Of "
                "keras_attention.Attention, query, value and key are arguments of their own."
            )
        if len(given) not in (2, 3):
            raise ValueError(
                f"{owner} takes {name} of length 2 or 3, namely {expected}. Received: a list of "
                f"length {len(given)}."
            )

    def get_config(self):
        return {
            **super().get_config(),
            "use_scale": self.use_scale,
            "score_mode": self.score_mode,
            "dropout": self.dropout,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="keras_attention.drop_in")
class AdditiveAttention(Attention):
    """`keras.layers.AdditiveAttention`: the additive score without its projections.

    $$ score(q, k) = \\sum_i s_i \\tanh(q_i + k_i) $$

    `keras_attention.scores.Additive` is the score of the paper, with projections of query and key.

    Paper: Bahdanau et al. 2015, appendix A.1.2 (https://arxiv.org/abs/1409.0473).

    Args:
        use_scale: Whether `s` is a weight; it is 1 otherwise.
        dropout, **kwargs: As for `Attention`.

    Call arguments:
        As for `Attention`.

    Example:

    >>> layer = AdditiveAttention()
    >>> tuple(layer([np.ones((2, 3, 8)), np.ones((2, 5, 8))]).shape)
    (2, 3, 8)
    """

    def __init__(self, use_scale=True, dropout=0.0, **kwargs):
        super().__init__(use_scale, dropout=dropout, **kwargs)

    def _add_weights(self, input_shape):
        self.scale = None
        if self.use_scale:
            shape = (input_shape[0][-1],)
            self.scale = self.add_weight(name="scale", shape=shape, initializer="glorot_uniform")

    def _calculate_scores(self, query, key):
        pairs = ops.tanh(query[..., :, None, :] + key[..., None, :, :])
        if self.use_scale:
            pairs = pairs * ops.cast(self.scale, pairs.dtype)
        return ops.sum(pairs, axis=-1)

    def get_config(self):
        config = super().get_config()
        del config["score_mode"]
        return config


class _ScoreOf(Score):
    """A score that a layer computes with weights of its own."""

    def __init__(self, function, weights):
        super().__init__()
        self._function, self._weights_of = function, weights

    @property
    def pairwise_weights(self):
        return self._weights_of()

    def pairwise(self, query, key):
        return self._function(query, key)


class _FromStart(masks.Mask):
    """A mask for queries that stand where the first keys do, not the last."""

    def __init__(self, mask, shift):
        self.mask, self.shift = mask, shift

    def tile(self, query_positions, key_positions):
        return self.mask.tile(query_positions - self.shift, key_positions)

    def may_see(self, queries, keys):
        return self.mask.may_see(self._shifted(queries), keys)

    def sees_all(self, queries, keys):
        return self.mask.sees_all(self._shifted(queries), keys)

    def _shifted(self, queries):
        return tuple(position - self.shift for position in queries)


def _from_start(mask, query, keys):
    """Returns a mask of queries and keys `(batch, length, …)` whose first stand together."""
    if query.shape[1] == keys.shape[1] and query.shape[1] is not None:
        return mask
    return _FromStart(mask, ops.shape(keys)[1] - ops.shape(query)[1])


def _three(inputs):
    """Returns query, value and key of a list of two or three."""
    return (*inputs, inputs[1])[:3]
