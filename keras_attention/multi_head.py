"""Multi-head attention: several attentions in parallel, each in its own projected space."""

import math
from collections.abc import Collection, Sequence
from numbers import Integral
from typing import Any

import keras
from keras import ops

from keras_attention._axes import AttendedAxes
from keras_attention._backend import shape_of
from keras_attention._checks import (
    is_positive_integer,
    is_positive_number,
    plain,
    require_fractions,
)
from keras_attention._heads import PROJECTIONS, MultiHeadLayer
from keras_attention._memory import GrowingMemory, MemoryAttention
from keras_attention.attention import Attention

OF_ATTENTION = (
    "score",
    "normalizer",
    "mask",
    "position",
    "soft_cap",
    "use_sink",
    "dropout",
    "implementation",
    "seed",
)


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiHeadAttention(GrowingMemory, MemoryAttention, MultiHeadLayer):
    """Multi-head attention with any score.

    $$ head_h = Attention(W^Q_h q, W^K_h k, W^V_h v), \\quad
       output = W^O [head_1; …; head_H] $$

    Paper: Vaswani et al. 2017, section 3.2.2 (https://arxiv.org/abs/1706.03762).

    Scores with weights, such as `"general"` and `"additive"`, have separate weights for each head.
    Scores that do not use the keys, such as `scores.Location`, have no `W^K`, and those that do not
    use the queries have no `W^Q`.

    The first five arguments have the order of `keras.layers.MultiHeadAttention`; the others are
    keyword-only.

    Args:
        num_heads: Number of heads.
        key_dim: Size of the queries and keys of one head.
        value_dim: Size of the values of one head. Defaults to `key_dim`.
        dropout: As for `Attention`.
        use_bias: Whether the projections add a bias, or a collection of those that do: `"query"`,
            `"key"`, `"value"`, `"output"`, `"gate"`.
        num_key_value_heads: Number of key and value heads, a divisor of `num_heads`. Each is shared
            by a group of query heads (Ainslie et al. 2023, https://arxiv.org/abs/2305.13245); with
            1, all heads share one (Shazeer 2019, https://arxiv.org/abs/1911.02150). Defaults to
            `num_heads`.
        output_dim: Size of the output. Defaults to the size of the query.
        output_shape: Keras' name for `output_dim`. Several sizes give the output several axes.
        attention_axes: For inputs with more than three axes, the axes to attend over, an integer or
            several. Attention runs over all positions along these axes, row by row, separately for
            each index of the others. Defaults to all axes between batch and size.
        use_gate: Whether to multiply the outputs of the heads by a gate, `sigmoid(W^G q)`, before
            `W^O` (Qiu et al. 2025, https://arxiv.org/abs/2505.06708).
        query_key_norm: Epsilon of an RMS normalization of the queries and keys of each head, with
            a learned scale that all heads share, as in Qwen 3 (Henry et al. 2020,
            https://arxiv.org/abs/2010.04245). It is applied before the position.
        joint_query_key_norm: Whether that normalization is over all heads at once, with a learned
            scale for each of them, as in OLMo 2.
        score, normalizer, mask, position, soft_cap, use_sink, implementation, seed: As for
            `Attention`; they are attributes of `layer.attention`.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, bias_constraint: Options of the projections, as
            for `keras.layers.Dense`.

    Call arguments:
        As for `Attention`. Inputs with more axes, `(batch, …, size)`, take padding masks
        `(batch, …)` and an `attention_mask` `(batch, *others, heads, *query axes, *key axes)`,
        where `others` are the axes that are not attended over. Missing axes are inserted directly
        before the query axes.

    Output shape:
        `(batch, query_length, output_dim)`; with `return_attention_scores` also the weights before
        dropout, float32 `(batch, num_heads, query_length, key_length)`. With more axes, the output
        has the shape of the query except for the size, and the weights have the shape `(batch,
        *others, num_heads, *query axes, *key axes)`.

    Raises:
        ValueError: If an argument is unknown or out of range, `num_key_value_heads` does not divide
            `num_heads`, or as for `Attention`.

    Example:

    >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
    >>> output, weights = layer(
    ...     np.ones((2, 3, 8)), np.ones((2, 5, 6)), return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 3, 8), (2, 2, 3, 5))
    """

    projections = (*PROJECTIONS, "gate")
    maps = 1  # of weights in each head, which share its values and have their own queries and keys

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool | Collection[str] = True,
        *,
        num_key_value_heads: int | None = None,
        output_dim: int | None = None,
        output_shape: int | Sequence[int] | None = None,
        attention_axes: int | Sequence[int] | None = None,
        use_gate: bool = False,
        query_key_norm: float | None = None,
        joint_query_key_norm: bool = False,
        score: Any = "scaled_dot",
        normalizer: Any = "softmax",
        mask: Any = None,
        position: Any = None,
        soft_cap: float | None = None,
        use_sink: bool = False,
        implementation: str = "auto",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        self._output_shape = _sizes(output_shape, output_dim)
        if self._output_shape is not None:
            output_dim = math.prod(self._output_shape)
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        require_fractions(type(self).__name__, dropout=dropout)
        if query_key_norm is not None and not is_positive_number(query_key_norm):
            raise ValueError(
                f"`query_key_norm` of {type(self).__name__} must be a number above 0, the epsilon "
                f"of the normalization, or None for none. Received: {query_key_norm!r}."
            )
        if joint_query_key_norm and query_key_norm is None:
            raise ValueError(
                f"`joint_query_key_norm` of {type(self).__name__} needs a `query_key_norm`, the "
                "epsilon of the normalization. Received: joint_query_key_norm=True, "
                "query_key_norm=None."
            )
        self.num_key_value_heads = self._groups(num_key_value_heads)
        self.attention_axes = _axes(attention_axes)
        self.use_gate = use_gate
        self.query_key_norm = query_key_norm
        self.joint_query_key_norm = joint_query_key_norm
        with keras.RematScope(mode=None):
            self.attention = Attention(
                score,
                normalizer,
                mask,
                position=position,
                soft_cap=soft_cap,
                use_sink=use_sink,
                dropout=dropout,
                implementation=implementation,
                seed=seed,
                dtype=self.dtype_policy,
                name="attention",
            )

    def build(self, query_shape, value_shape, key_shape=None):
        axes = self._attended_axes(query_shape, value_shape, key_shape or value_shape)
        query_shape, value_shape, key_shape = map(
            axes.flat_shape, (query_shape, value_shape, key_shape or value_shape)
        )
        heads, key_heads = self.maps * self.num_heads, self.maps * self.num_key_value_heads
        score, position = self.attention.score, self.attention.position

        # An unused projection is not created: it would never get a gradient.
        reads_query = score.uses_query or (position is not None and position.uses_query)
        reads_key = score.uses_key or (position is not None and position.uses_key)
        self.query_projection = self.key_projection = self.query_norm = self.key_norm = None
        if reads_query:
            self.query_projection = self._projection("query", heads * self.key_dim, query_shape)
            self.query_norm = self._norm("query_norm", heads)
        if reads_key:
            self.key_projection = self._projection("key", key_heads * self.key_dim, key_shape)
            self.key_norm = self._norm("key_norm", key_heads)
        if self.use_gate:
            size = self.num_heads * self.value_dim
            self.gate_projection = self._projection("gate", size, query_shape)
        size = self.num_key_value_heads * self.value_dim
        self.value_projection = self._projection("value", size, value_shape)
        self._build_output(query_shape)
        if position is not None:
            position.use_projections(
                self._queries_of_heads, self._keys_of_heads, query_shape[-1], key_shape[-1]
            )
        self.attention.build_heads(
            (query_shape[0], heads, query_shape[1], self.key_dim),
            (query_shape[0], heads, key_shape[1], self.key_dim),
        )

    def _norm(self, name, heads):
        if self.query_key_norm is None:
            return None
        with keras.RematScope(mode=None):
            norm = keras.layers.RMSNormalization(
                epsilon=self.query_key_norm, dtype=self.dtype_policy, name=name
            )
        if self.joint_query_key_norm:
            norm.build((None, None, heads * self.key_dim))
        else:
            norm.build((None, None, None, self.key_dim))
        return norm

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
        if len(query.shape) <= 3:
            return super().call(
                query,
                value,
                key,
                query_mask,
                value_mask,
                key_mask,
                attention_mask,
                return_attention_scores,
                use_causal_mask,
                training,
            )
        key = value if key is None else key
        axes = self._attended_axes(query.shape, value.shape, key.shape)
        flat_query, flat_value, flat_key = map(axes.flat, (query, value, key))
        memory = self.prepare(
            flat_value,
            flat_key,
            axes.flat_padding(self._padding_mask("value_mask", value_mask, value)),
            axes.flat_padding(self._padding_mask("key_mask", key_mask, key)),
        )
        context, weights = self.attend(
            flat_query,
            memory,
            axes.flat_padding(self._padding_mask("query_mask", query_mask, query)),
            self._mask_of_call(
                axes.flat_pairs(attention_mask, query, value),
                use_causal_mask,
                flat_query,
                flat_value,
            ),
            training,
            None,
            return_attention_scores,
        )
        context = axes.restored(context, query)
        if not return_attention_scores:
            return context
        return context, axes.restored_weights(weights, query, value)

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        """Returns the shape of the output, without that of the weights."""
        self._attended_axes(query_shape, value_shape, key_shape or value_shape)
        sizes = self._output_shape or (self.output_dim or query_shape[-1],)
        return (*query_shape[:-1], *sizes)

    def _attended_axes(self, query_shape, value_shape, key_shape):
        return AttendedAxes(
            type(self).__name__, query_shape, value_shape, key_shape, self.attention_axes
        )

    @property
    def mask(self):
        """The mask that applies to every call, or `None`."""
        return self.attention.mask

    def choose_implementation(self, query_shape, value_shape, return_attention_scores=False):
        """See `Attention.choose_implementation`; the shapes may have more axes."""
        axes = self._attended_axes(query_shape, value_shape, value_shape)
        shapes = axes.flat_shape(query_shape), axes.flat_shape(value_shape)
        return self.attention.choose_implementation(*shapes, return_attention_scores)

    def _prepare(self, key, value, mask, start):
        score, position = self.attention.score, self.attention.position
        key = self._of_heads(self.key_projection, self.key_norm, key)
        # Heads that share keys still have separate weights and distances for them.
        has_weights = score.weights and score.uses_key
        if has_weights or (position is not None and position.uses_key):
            key = self._for_each_head(key)
        value = self._project(self.value_projection, value, self.value_dim)
        return self.attention.prepare_heads(key, value, mask, start)

    def _attend(self, query, memory, *arguments, **options):
        heads = self._queries_of_heads(query)
        key, value = self._for_each_head(memory.key), self._for_each_head(memory.value)
        memory = memory._replace(key=key, value=value)
        context, weights = self._attend_heads(heads, memory, *arguments, **options)
        if self.use_gate:
            gate = self._project(self.gate_projection, query, self.value_dim)
            context = ops.cast(context, gate.dtype) * gate
        output = self._merge(context)
        if self._output_shape is not None and len(self._output_shape) > 1:
            output = ops.reshape(output, (*shape_of(output)[:2], *self._output_shape))
        return output, weights

    def _attend_heads(self, *arguments, **options):
        """Returns the context and weights of all heads."""
        return self.attention.attend_heads(*arguments, **options)

    def _queries_of_heads(self, query):
        return self._of_heads(self.query_projection, self.query_norm, query)

    def _keys_of_heads(self, key):
        """Returns keys with all heads, even if some share them."""
        return self._for_each_head(self._of_heads(self.key_projection, self.key_norm, key))

    def _of_heads(self, projection, norm, x):
        """Returns queries or keys `(batch, heads, length, key_dim)`.

        Without a projection, only their length matters: the input is returned as one head.
        """
        if projection is None:
            return ops.cast(x, self.compute_dtype)[:, None]
        if self.joint_query_key_norm:
            return self._split_heads(norm(self._joined(projection, x)), self.key_dim)
        x = self._project(projection, x, self.key_dim)
        return x if norm is None else norm(x)

    def _joined(self, projection, x):
        """Returns a projection of `x` `(batch, length, …)`, the heads side by side in one axis."""
        return projection(x)

    def _for_each_head(self, x):
        """Repeats what several heads and maps share: `(batch, maps · num_heads, …)`."""
        times = self.maps * self.num_heads // x.shape[1]
        return x if times == 1 else ops.repeat(x, times, axis=1)

    def get_config(self):
        of_attention = self.attention.get_config()
        return {
            **{name: of_attention[name] for name in OF_ATTENTION},
            **super().get_config(),
            "output_dim": self.output_dim if self._output_shape is None else None,
            "output_shape": self._output_shape,
            "attention_axes": self.attention_axes,
            "use_gate": self.use_gate,
            "num_key_value_heads": self.num_key_value_heads,
            "query_key_norm": self.query_key_norm,
            "joint_query_key_norm": self.joint_query_key_norm,
        }


def _sizes(output_shape, output_dim):
    """Returns the argument `output_shape` as a tuple, or `None`."""
    if output_shape is None:
        return None
    sizes = _tuple(output_shape)
    if not sizes or not all(map(is_positive_integer, sizes)):
        raise ValueError(
            "Invalid `output_shape` of MultiHeadAttention. Expected: a positive integer, a tuple "
            f"of them, or None. Received: output_shape={output_shape!r}."
        )
    if output_dim is not None:
        raise ValueError(
            "`output_dim` and `output_shape` of MultiHeadAttention are two names for one argument. "
            f"Received: output_dim={output_dim!r}, output_shape={output_shape!r}. Give only one."
        )
    return tuple(map(plain, sizes))


def _axes(attention_axes):
    """Returns the argument `attention_axes` as a tuple, or `None`."""
    if attention_axes is None:
        return None
    axes = _tuple(attention_axes)
    if not axes or not all(isinstance(axis, Integral) for axis in axes):
        raise ValueError(
            "`attention_axes` of MultiHeadAttention must be an integer, a tuple of them, or None. "
            f"Received: attention_axes={attention_axes!r}."
        )
    return tuple(map(plain, axes))


def _tuple(numbers):
    return tuple(numbers) if isinstance(numbers, list | tuple) else (numbers,)
