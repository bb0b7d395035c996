"""Longformer: a window around each token, and tokens that see everything, for long inputs."""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention import masks
from keras_attention._backend import shape_of
from keras_attention._checks import fits, plain, require_counts, require_fractions
from keras_attention._heads import PROJECTIONS
from keras_attention._layer import both
from keras_attention._one_sequence import WithinOneSequence
from keras_attention.compute import WeightDropout, windows

OF_TOKENS = ("global_query", "global_key", "global_value")


@keras.saving.register_keras_serializable(package="keras_attention")
class LongformerAttention(WithinOneSequence):
    """Multi-head self-attention to a window, and of a few global tokens to everything.

    $$ head_i = \\sum_{j \\in W_i \\cup G} softmax_j(q_i^T k_j / \\sqrt{d}) \\, v_j, \\quad
       W_i = \\{j : |i - j| \\le window / 2\\} \\quad (i \\notin G) $$

    $$ head_i = \\sum_j softmax_j(\\tilde q_i^T \\tilde k_j / \\sqrt{d}) \\, \\tilde v_j
       \\quad (i \\in G) $$

    A token sees the window around it and the global tokens `G`. A global token sees all tokens,
    with projections of its own: `q̃ = W̃^Q x`, `k̃ = W̃^K x`, `ṽ = W̃^V x`. It may be the first one,
    whose vector stands for the whole text; in question answering, those of the question are global.
    The paper initializes the projections of global tokens with the values of the others.

    Only pairs of a window and of global tokens are computed. Time is `O(T · (window + g) · d)` for
    `g` global tokens, and memory is linear in the length `T`. (In a function that JAX compiles, a
    `global_mask` may hold any number of tokens, so there its memory is quadratic.) A single set of
    projections, and windows with gaps, are in `MultiHeadAttention(mask=masks.Longformer())`.

    Paper: Beltagy et al. 2020, Longformer: The Long-Document Transformer
    (https://arxiv.org/abs/2004.05150).

    Args:
        num_heads, key_dim, value_dim, dropout, use_bias, output_dim: As for `MultiHeadAttention`;
            `use_bias` may also name `"global_query"`, `"global_key"` and `"global_value"`.
        window: Even number of keys that a query sees besides its own position, half on each side.
        num_global_tokens: Number of tokens at the start that are global; 0 for none.
        seed: Integer seed of the dropout.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but query and value must have the same length, and `attention_mask` and
        `use_causal_mask` are not supported.
        global_mask: Boolean `(batch, length)`: the global tokens of each sequence, in place of the
            first ones.

    Output shape:
        `(batch, length, output_dim)`; with `return_attention_scores` also the weights, float32
        `(batch, num_heads, length, length)`. They are meant for inspection and take quadratic time
        and memory.

    Raises:
        ValueError: If an argument is out of range, `window` is odd, query and value differ in
            length, a mask is not supported, or a layer without global tokens gets a `global_mask`.

    Example:

    >>> layer = LongformerAttention(num_heads=2, key_dim=4, window=6)
    >>> x = np.random.default_rng(0).normal(size=(2, 50, 8)).astype("float32")
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 50, 50))
    >>> np.flatnonzero(weights[0, 0, 40]).tolist()  # the first token, and the window
    [0, 37, 38, 39, 40, 41, 42, 43]
    """

    projections = (*PROJECTIONS, *OF_TOKENS)

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool | Collection[str] = True,
        *,
        output_dim: int | None = None,
        window: int = 512,
        num_global_tokens: int = 1,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        owner = type(self).__name__
        require_fractions(owner, dropout=dropout)
        require_counts(owner, window=window, num_global_tokens=num_global_tokens)
        if window < 2 or window % 2:
            raise ValueError(
                f"`window` of {owner} must be an even number of at least 2, half of which is on "
                f"each side. Received: window={window}."
            )
        self.dropout = dropout
        self.window = plain(window)
        self.num_global_tokens = plain(num_global_tokens)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None
        # XLA of TensorFlow cannot compile a number of global tokens that a mask determines.
        self.supports_jit = keras.backend.backend() != "tensorflow"

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._require_fitting_shapes(query_shape, value_shape, key_shape)
        self._build_projections(query_shape, value_shape, key_shape)
        self.global_query_projection = None
        self.global_key_projection = None
        self.global_value_projection = None
        if self.num_global_tokens:
            size, value_size = self.num_heads * self.key_dim, self.num_heads * self.value_dim
            self.global_query_projection = self._projection("global_query", size, query_shape)
            self.global_key_projection = self._projection("global_key", size, key_shape)
            self.global_value_projection = self._projection("global_value", value_size, value_shape)

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
        global_mask=None,
    ):
        self._require_possible(key, attention_mask, use_causal_mask)
        key = value if key is None else key
        self._require_fitting_shapes(query.shape, value.shape, key.shape)
        length = shape_of(query)[1]
        query_mask = self._padding_mask("query_mask", query_mask, query)
        mask = both(
            self._padding_mask("value_mask", value_mask, value),
            self._padding_mask("key_mask", key_mask, key),
        )
        padding = windows.padding_of(length, self.window // 2)
        query = _pad(self._ready(query, query_mask), padding)
        key = _pad(self._ready(key, mask), padding)
        value = _pad(self._ready(value, mask), padding)
        batch, padded = shape_of(query)[0], shape_of(query)[1]
        visible = ops.broadcast_to(ops.arange(padded, dtype="int32") < length, (batch, padded))
        visible = visible if mask is None else visible & _pad(mask, padding)
        tokens = self._tokens(global_mask, query, length, padding)
        context, weights = self._attend(
            query, key, value, visible, tokens, return_attention_scores, training
        )
        context = context[:, :, :length]
        if query_mask is not None:
            context = ops.where(query_mask[:, None, :, None], context, ops.cast(0, context.dtype))
        output = self._merge(context)
        if not return_attention_scores:
            return output
        weights = weights[:, :, :length, :length]
        if query_mask is not None:
            weights = ops.where(query_mask[:, None, :, None], weights, 0.0)
        return output, weights

    def compute_output_spec(self, *args, global_mask=None, **kwargs):
        if global_mask is not None:
            self._require_global_tokens()
        return super().compute_output_spec(*args, **kwargs)

    def _attend(self, query, key, value, visible, tokens, with_weights, training):
        """Returns the context of all heads, and the weights if requested."""
        dropout = None
        if self.dropout and training:
            dropout = WeightDropout(self.dropout, self.seed_generator)
        queries = self._project(self.query_projection, query, self.key_dim)
        keys = self._project(self.key_projection, key, self.key_dim)
        values = self._project(self.value_projection, value, self.value_dim)
        reach, weights = self.window // 2, None
        context = windows.attend_in_windows(
            queries, keys, values, visible, tokens, reach=reach, dropout=dropout
        )
        if with_weights:
            weights = windows.weights_in_windows(queries, keys, visible, tokens, reach=reach)
        if tokens is None:
            return context, weights
        of_tokens, weights_of_tokens = windows.attend_from_tokens(
            self._project(
                self.global_query_projection, windows.take_rows(query, tokens.places), self.key_dim
            ),
            self._project(self.global_key_projection, key, self.key_dim),
            self._project(self.global_value_projection, value, self.value_dim),
            visible,
            dropout,
        )
        if with_weights:
            weights = windows.with_rows(weights, weights_of_tokens, tokens)
        return windows.with_rows(context, of_tokens, tokens), weights

    def _tokens(self, global_mask, query, length, padding):
        """Returns the `GlobalTokens` of a call, or `None`.

        Args:
            global_mask: Of the call.
            query: Tensor `(batch, length + padding, size)`.
            length, padding: Integers or scalar tensors.
        """
        if global_mask is None:
            if not self.num_global_tokens:
                return None
            return windows.first_tokens(self.num_global_tokens, *shape_of(query)[:2])
        self._require_global_tokens()
        mask = masks.as_boolean(global_mask, "global_mask", ranks=(2,))
        shape = query.shape[0], length if isinstance(length, int) else None
        if not fits(mask.shape, shape):
            raise ValueError(
                f"`global_mask` of {type(self).__name__} must have the shape (batch, length) = "
                f"{shape} of the query. Received: shape {tuple(mask.shape)}. Pass one boolean for "
                "each position, True for global tokens."
            )
        return windows.tokens_of(_pad(mask, padding))

    def _require_global_tokens(self):
        if not self.num_global_tokens:
            raise ValueError(
                f"A {type(self).__name__} without global tokens has no projections of theirs. "
                "Received: a `global_mask`, num_global_tokens=0. Make the layer with "
                "num_global_tokens=1: a mask may then hold any number of tokens."
            )

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        self._refuse_pairs(
            attention_mask,
            use_causal_mask,
            "it computes only the pairs of its window and its global tokens",
        )

    def get_config(self):
        return {
            **super().get_config(),
            "dropout": self.dropout,
            "window": self.window,
            "num_global_tokens": self.num_global_tokens,
            "seed": self.seed,
        }


def _pad(x, number):
    """Appends zeros, or `False`, to a tensor `(batch, length, …)`."""
    if isinstance(number, int) and number == 0:
        return x
    widths = [(0, 0), (0, number), *[(0, 0)] * (len(x.shape) - 2)]
    if keras.backend.standardize_dtype(x.dtype) == "bool":
        return ops.cast(ops.pad(ops.cast(x, "int32"), widths), "bool")
    return ops.pad(x, widths)
