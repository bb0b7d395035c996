"""Single-head attention, which combines a score, a mask, a normalizer and an implementation."""

from typing import Any

import keras
from keras import ops

from keras_attention import compute, masks, normalizers, positions, scores
from keras_attention._backend import shape_of
from keras_attention._checks import is_positive_number, require_fractions
from keras_attention._layer import require_built, with_padding
from keras_attention._memory import GrowingMemory, Memory, MemoryAttention
from keras_attention._registry import serialize


@keras.saving.register_keras_serializable(package="keras_attention")
class Attention(GrowingMemory, MemoryAttention):
    """Attention of queries over the keys and values of a memory.

    $$ weights = normalize(mask(score(query, key))), \\quad context = weights · value $$

    Any score of `keras_attention.scores` works with any mask and normalizer. All masks are
    combined: `mask`, the masks of the call, Keras' implicit masks, and the causal mask. A query
    that cannot see any key gets a context of zeros.

    Paper: Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473); Luong et al. 2015
    (https://aclanthology.org/D15-1166).

    Args:
        score: How well a key matches a query. A `Score`, its config, a function as for
            `scores.Function`, or a name: `"dot"`, `"scaled_dot"`, `"general"`, `"cosine"`,
            `"additive"`, `"linear_additive"`, `"trilinear"`, `"location"`, `"dense_synthesizer"`,
            `"random_synthesizer"`, `"euclidean"`, `"gaussian"`, `"boxcar"`, `"triangular"`,
            `"epanechnikov"`.
        normalizer: How scores become weights: a name such as `"softmax"`, a `Normalizer`, or its
            config.
        mask: A mask that applies to every call: `"causal"`, a `Mask`, its config, or `None`.
        position: How positions enter the scores: `"rotary"`, `"alibi"`, `"kerple"`, `"t5"`,
            `"shaw"`, `"transformer_xl"`, `"disentangled"`, an object of
            `keras_attention.positions`, its config, or `None`.
        soft_cap: `c` in `c · tanh(scores / c)`, which keeps scores between -c and c, or `None`.
        use_sink: Whether the extra key of the normalizer `"softmax_one"` has a learned score `b`,
            one for each head, as in gpt-oss (OpenAI 2025, https://arxiv.org/abs/2508.10925):
            `w_i = exp(s_i) / (exp(b) + Σ_j exp(s_j))`. It is initially 0.
        dropout: Fraction of the weights to drop during training.
        implementation: How attention is computed; the results are the same. `"reference"` holds the
            scores of all pairs, supports everything, and is the only one that can return weights.
            `"blocked"` computes up to 8 blocks of queries, each with only the keys that the mask
            leaves it; its normalizers are `"softmax"` and `"softmax_one"`. `"chunked"` holds the
            scores of one tile at a time, so that its memory is linear in length, and skips tiles
            that the mask hides; its normalizers are these and `"sum"`. `"fused"` is the backend's
            kernel for scaled dot products with softmax. `"auto"` uses `"fused"` on a GPU,
            `"chunked"` when the blocks have many scores and `"blocked"` otherwise, where the layer
            allows it; `choose_implementation` returns the one that runs.
        seed: Integer seed of the dropout.

    Call arguments:
        query: Tensor `(batch, query_length, query_size)`.
        value: Tensor `(batch, key_length, value_size)`.
        key: Tensor `(batch, key_length, key_size)`. Defaults to `value`.
        query_mask: Boolean `(batch, query_length)`: hidden queries get a context of zeros.
        value_mask: Boolean `(batch, key_length)`: no query sees the hidden values.
        key_mask: Boolean `(batch, key_length)`: the same.
        attention_mask: Boolean `(query_length, key_length)`, optionally with leading axes `(batch,
            …)` or `(batch, heads, …)`: `True` where a query may see a key. Numbers are read as in
            Keras: 0 hides. For an additive mask of 0 and -1e9, pass `mask == 0`; NumPy arrays and
            lists with values below 0 are refused, but tensors are not checked.
        return_attention_scores: Whether to also return the attention weights.
        use_causal_mask: Whether query `i` only sees the keys up to `key_length - query_length + i`.
        training: Whether to apply dropout.

    Output shape:
        The context `(batch, query_length, value_size)`; with `return_attention_scores` also the
        weights before dropout, float32 `(batch, query_length, key_length)`.

    Raises:
        ValueError: If the score cannot compare queries and keys of these sizes, a sink is requested
            for another normalizer, a mask has the wrong shape or values below 0, or query, value
            and key are not of rank 3 or their shapes do not match.

    Example:

    >>> layer = Attention(score="additive")
    >>> context, weights = layer(
    ...     np.ones((2, 3, 8)), np.ones((2, 5, 4)), return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 3, 4), (2, 3, 5))
    """

    def __init__(
        self,
        score: Any = "scaled_dot",
        normalizer: Any = "softmax",
        mask: Any = None,
        *,
        position: Any = None,
        soft_cap: float | None = None,
        use_sink: bool = False,
        dropout: float = 0.0,
        implementation: str = "auto",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_fractions(type(self).__name__, dropout=dropout)
        policy = getattr(self.dtype_policy, "default_policy", self.dtype_policy)  # for policy maps
        self.score = scores.get(score, dtype=policy.name)
        self.normalizer = normalizers.get(normalizer)
        self.normalizer_seed = self.normalizer.seed_generator  # tracked by Keras through this
        self.mask = None if mask is None else masks.get(mask)
        self.position = None if position is None else positions.get(position)
        if soft_cap is not None and not is_positive_number(soft_cap):
            raise ValueError(
                f"`soft_cap` of {type(self).__name__} must be a finite number above 0, or "
                f"None for no cap. Received: soft_cap={soft_cap!r}."
            )
        if use_sink and not isinstance(self.normalizer, normalizers.SoftmaxOne):
            raise ValueError(
                f"`use_sink` of {type(self).__name__} makes the score of the extra key of "
                "normalizer='softmax_one' a weight. Received: use_sink=True, normalizer="
                f"{normalizer!r}. Pass normalizer='softmax_one', or omit it."
            )
        self.soft_cap = soft_cap
        self.use_sink = use_sink
        self.sink = None
        compute.require_known(implementation)
        self.implementation = implementation
        self.dropout = dropout
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None

    def __call__(self, query, *args, **kwargs):
        """Also accepts a list `[query, value]` or `[query, value, key]`, as Keras' own layers do.

        A list comes with a list of masks, `mask=[query_mask, value_mask, key_mask]`.
        """
        if not isinstance(query, list | tuple):
            return super().__call__(query, *args, **kwargs)
        mask = kwargs.pop("mask", None)
        mask = (None, None) if mask is None else mask
        for name, given in {"inputs": query, "mask": mask}.items():
            if not isinstance(given, list | tuple) or len(given) not in (2, 3):
                is_list = isinstance(given, list | tuple)
                received = f"a list of {len(given)}" if is_list else type(given).__name__
                raise ValueError(
                    f"{type(self).__name__} takes `{name}` as a list of two or three: query, value "
                    f"and, optionally, key. Received: {received}. Pass other masks by name: "
                    "layer(query, value, key, attention_mask=mask)."
                )
        named = zip(("query_mask", "value_mask", "key_mask"), mask, strict=False)
        kwargs |= {name: each for name, each in named if each is not None}
        return super().__call__(*query, *args, **kwargs)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._require_fitting_shapes(query_shape, value_shape, key_shape)
        self.build_heads(query_shape, key_shape)

    def build_heads(self, query_shape, key_shape):
        """Builds score and position for queries and keys `(batch, *heads, length, size)`."""
        self.built = True
        heads = tuple(query_shape[1:-2])
        if not self.score.built:  # already built if loaded from a file or shared
            self.score.build(query_shape, key_shape)
        if self.score.pair_size is None:  # a custom `build` may not call that of its base class
            self.score.pair_size = key_shape[-1]
        self._require_same_heads("score", self.score, heads)
        if self.position is not None:
            if not self.position.built:
                self.position.build(heads, query_shape[-1])
            self._require_same_heads("position", self.position, heads)
        self._heads = heads
        if self.use_sink:
            self.sink = self.add_weight(
                name="sink",
                shape=(*heads, 1, 1),
                initializer="zeros",
                autocast=False,  # float32 even in mixed precision, like the scores
            )
        self.scoring = compute.Scoring(self.score, self.position, self.soft_cap, self.sink)

    def choose_implementation(self, query_shape, value_shape, return_attention_scores=False):
        """Returns the implementation that runs for inputs of these shapes, with `"auto"` resolved.

        It is that of inference, without masks of the call: in training with dropout, `"auto"` does
        not use `"fused"`.

        Args:
            query_shape, value_shape: `(batch, length, size)`, with `None` for unknown sizes, for
                which `"auto"` does not use `"chunked"`.
            return_attention_scores: As in a call.

        Raises:
            ValueError: If the requested implementation does not support this layer or call.
        """
        return self.choose_for_mask(self.mask, query_shape, value_shape, return_attention_scores)

    def choose_for_mask(self, mask, query_shape, value_shape, return_attention_scores):
        """Like `choose_implementation`, for a mask in place of that of the layer."""
        require_built(self, "query_shape, value_shape")
        shape = query_shape[0], *self._heads, query_shape[1], value_shape[1]
        pairs = compute.number_of_pairs(shape, self.score.pair_size, mask)
        return compute.choose(
            self.implementation, self.scoring, self.normalizer, return_attention_scores, pairs=pairs
        )

    def prepare_heads(self, key, value, mask=None, start=0):
        """Returns the `Memory` of keys and values `(batch, *heads, length, size)`.

        Args:
            key, value: The tensors.
            mask: Boolean `(batch, length)` or `None`.
            start: Position of the first key.
        """
        positions = self._positions(key, start)
        features = None if self.position is None else self.position.key_features(key)
        if self.position is not None and self.score.uses_key:
            key = self.position.rotate(key, positions)
        key = self.score.prepare_key(key, positions)
        if features is not None:
            is_float = keras.backend.is_float_dtype(key.dtype)  # or places, which stay exact
            dtype = key.dtype if is_float else features.dtype
            key = ops.concatenate([ops.cast(key, dtype), ops.cast(features, dtype)], axis=-1)
        return Memory(key, value, mask)

    def attend_heads(
        self,
        query,
        memory,
        query_mask,
        mask,
        training,
        start,
        return_attention_scores,
        normalizer=None,
        fit_mask=None,
    ):
        """Like `attend`, for queries that are split into heads, `(batch, *heads, length, size)`.

        A `normalizer` takes the place of that of the layer. `fit_mask` turns the conjunction of all
        masks into the one to apply.
        """
        query_length = shape_of(query)[-2]
        if start is None:
            start = shape_of(memory.key)[-2] - query_length
        mask = with_padding([self.mask, mask], memory, query_mask, start + query_length)
        if fit_mask is not None and mask is not None:
            mask = fit_mask(mask)
        return compute.context_and_weights(
            self.implementation,
            self._prepared_queries(query, start),
            memory.key,
            memory.value,
            scoring=self.scoring,
            normalizer=self.normalizer if normalizer is None else normalizer,
            mask=mask,
            dropout=self._weight_dropout(training),
            start=start,
            training=training,
            with_weights=return_attention_scores,
        )

    _prepare, _attend = prepare_heads, attend_heads

    def _prepared_queries(self, query, start):
        """Returns the prepared queries and, if any, the features that the position needs."""
        positions = self._positions(query, start)
        features = None
        if self.position is not None:
            features = self.position.features(query)
        if self.position is not None and self.score.uses_query:
            query = self.position.rotate(query, positions)
        prepared = self.score.prepare_query(query, positions)
        return [prepared] if features is None else [prepared, features]

    def _positions(self, x, start):
        """Returns the positions of `(..., length, size)`, or `None` if nothing uses them."""
        if self.position is None and not self.score.uses_positions:
            return None
        return ops.arange(shape_of(x)[-2], dtype="int32") + start

    def _weight_dropout(self, training):
        is_on = self.dropout and training
        return compute.WeightDropout(self.dropout, self.seed_generator) if is_on else None

    def _output_size(self, query_shape, value_shape):
        return value_shape[-1]

    def _require_same_heads(self, name, part, heads):
        built_for = getattr(part, "heads", heads)  # a custom part may not store them
        if part.per_head and built_for != heads:
            kind = type(part).__name__
            raise ValueError(
                f"`{name}` of {type(self).__name__} is already built for another number of heads: "
                f"layers can share one object only if they have the same number. Received: "
                f"{kind} built for heads {built_for}, in the layer {self.name!r} with heads "
                f"{heads}. Give each layer a {name} of its own, such as a new {kind}."
            )

    def get_config(self):
        return {
            **super().get_config(),
            "score": serialize(self.score),
            "normalizer": serialize(self.normalizer),
            "mask": None if self.mask is None else serialize(self.mask),
            "position": None if self.position is None else serialize(self.position),
            "soft_cap": self.soft_cap,
            "use_sink": self.use_sink,
            "dropout": self.dropout,
            "implementation": self.implementation,
            "seed": self.seed,
        }


def memory_attention(owner, attention, dtype):
    """Returns the attention layer that an argument describes, for layers that hold one.

    Args:
        owner: Name of the class with the argument `attention`, for error messages.
        attention: A layer that prepares a memory, its config, or the name of a score.
        dtype: Dtype policy of an `Attention` that is made for a name.

    Raises:
        ValueError: If it is none of these.
    """
    if isinstance(attention, dict):
        attention = keras.saving.deserialize_keras_object(attention)
    if isinstance(attention, str):
        attention = Attention(attention, dtype=dtype, name="attention")
    if not isinstance(attention, MemoryAttention):
        raise ValueError(
            f"`attention` of {owner} must be the name of a score, or a layer of keras_attention "
            "that prepares a memory, such as Attention or MultiHeadAttention. "
            f"Received: {attention!r}. For a score object, pass Attention(score)."
        )
    return attention
