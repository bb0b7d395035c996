"""Attention with one head: a score, a mask, a normalizer and an implementation, put together."""

from typing import Any, NamedTuple

import keras
from keras import ops
from keras.src.backend import get_keras_mask  # has no public name; JAX tracers hide the attribute

from keras_attention import compute, masks, normalizers, positions, scores
from keras_attention._checks import require_fractions
from keras_attention._recompute import Recomputable


class Memory(NamedTuple):
    """What queries look at, made ready once: prepared keys, values and who is visible."""

    key: Any  # (batch, *heads, key_length, size)
    value: Any  # (batch, *heads, key_length, value_size)
    mask: Any  # boolean (batch, key_length), or None


@keras.saving.register_keras_serializable(package="keras_attention")
class Attention(Recomputable):
    """Attention of queries over the keys and values of a memory.

    $$ weights = normalize(mask(score(query, key))), \\quad context = weights · value $$

    Every score of `keras_attention.scores` goes with every mask and normalizer; all masks that
    are given count together: `mask`, the masks of the call, Keras' implicit masks, and the causal
    one. A query that sees nothing gets a context of zeros.

    Paper: Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473); Luong et al. 2015
    (https://aclanthology.org/D15-1166).

    Args:
        score: How well does a key answer a query? A name (`"dot"`, `"scaled_dot"`, `"general"`,
            `"additive"`), a `Score`, or its config.
        normalizer: How do scores become weights? `"softmax"`, a `Normalizer`, or its config.
        mask: A rule that always holds: `"causal"`, a `Mask`, its config, or `None`.
        position: How queries and keys know where they stand: `"rotary"`, `"alibi"`, `"t5"`,
            `"shaw"`, an object of `keras_attention.positions`, its config, or `None`.
        soft_cap: `c` of `c · tanh(scores / c)`, which keeps scores between -c and c, or `None`.
        dropout: Fraction of the weights that is dropped in training.
        implementation: How it is computed; the numbers are the same. `"reference"` holds the scores
            of all pairs, `"chunked"` those of one tile at a time: memory linear in length, nothing
            spent on tiles that the mask hides, no weights to return; `"auto"` takes it when the
            scores are many, and `choose_implementation` tells. `"fused"` is the backend's kernel
            for scaled dot products, worth asking for where it is fast, as on a GPU.
        seed: Integer seed of the dropout.

    Call arguments:
        query: Tensor `(batch, query_length, query_size)`.
        value: Tensor `(batch, key_length, value_size)`.
        key: Tensor `(batch, key_length, key_size)`. Defaults to `value`.
        query_mask: Boolean `(batch, query_length)`: hidden queries get a context of zeros.
        value_mask: Boolean `(batch, key_length)`: nobody sees the hidden values.
        key_mask: Boolean `(batch, key_length)`: the same.
        attention_mask: Boolean `(query_length, key_length)`, with `(batch, …)` or
            `(batch, heads, …)` in front: `True` where a query may see a key.
        return_attention_scores: Whether to return the weights, too.
        use_causal_mask: Whether query `i` sees the keys up to `key_length - query_length + i` only.
        training: Whether dropout is on.

    Output shape:
        The context `(batch, query_length, value_size)`; with `return_attention_scores` also the
        weights before dropout, float32 `(batch, query_length, key_length)`.

    Raises:
        ValueError: If the score cannot compare queries and keys of these sizes, a mask is not
            boolean or does not fit, or query, value and key are not of rank 3 or do not fit.

    Example:

    >>> layer = Attention(score="additive")
    >>> context, weights = layer(
    ...     np.ones((2, 3, 8)), np.ones((2, 5, 4)), return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 3, 4), (2, 3, 5))
    """

    def __init__(
        self,
        score="scaled_dot",
        normalizer="softmax",
        mask=None,
        *,
        position=None,
        soft_cap=None,
        dropout=0.0,
        implementation="auto",
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_fractions(type(self).__name__, dropout=dropout)
        self.supports_masking = True
        self.score = scores.get(score)
        self.score.dtype_policy = self.dtype_policy
        self.normalizer = normalizers.get(normalizer)
        self.normalizer_seed = self.normalizer.seed_generator  # tracked by Keras through this
        self.mask = None if mask is None else masks.get(mask)
        self.position = None if position is None else positions.get(position)
        if soft_cap is not None and not soft_cap > 0:
            raise ValueError(
                f"`soft_cap` of {type(self).__name__} must be above 0, or None for no cap. "
                f"Received: soft_cap={soft_cap}."
            )
        self.soft_cap = soft_cap
        compute.require_known(implementation)
        self.implementation = implementation
        self.dropout = dropout
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None

    def __call__(self, *args, **kwargs):
        if args and isinstance(args[0], (list, tuple)):  # as Keras' own Attention wants it
            raise ValueError(
                f"Query, value and key are arguments of their own in {type(self).__name__}: "
                f"layer(query, value, key). Received: a list of {len(args[0])} as the query. "
                "Unpack it: layer(*inputs)."
            )
        return super().__call__(*args, **kwargs)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._require_fitting_shapes(query_shape, value_shape, key_shape)
        self._build_parts(query_shape, key_shape)

    def _build_parts(self, query_shape, key_shape):
        """Builds what compares queries with keys of these shapes."""
        heads = tuple(query_shape[1:-2])
        if not self.score.built:  # it is when it comes from a file or is shared
            self.score.build(query_shape, key_shape)
        self._require_same_heads("score", self.score, heads)
        if self.position is not None:
            if not self.position.built:
                self.position.build(heads, query_shape[-1])
            self._require_same_heads("position", self.position, heads)
        self.scoring = compute.Scoring(self.score, self.position, self.soft_cap)

    def prepare(self, value, key=None, value_mask=None, key_mask=None, start=0):
        """Makes a memory ready for any number of calls of `attend`.

        Args:
            value, key, value_mask, key_mask: As in a call.
            start: Position of the first key.

        Returns:
            A `Memory`, whose tensors have the batch first.
        """
        self._require_weights()
        key = value if key is None else key
        mask = _both(
            self._padding_mask("value_mask", value_mask, value),
            self._padding_mask("key_mask", key_mask, key),
        )
        return self._prepare(self._ready(key, mask), self._ready(value, mask), mask, start)

    def extend(self, memory, value, start, key=None):
        """Writes further keys and values into a memory that has room for them: a cache.

        Args:
            memory: What `prepare` returned, without a mask, such as that of `(batch, max_length,
                size)` zeros.
            value, key: As in a call: those that stand at the positions from `start` on.
            start: Integer or scalar tensor.

        Returns:
            The new `Memory`. A `Causal` mask hides what has not been written yet.
        """
        new = self.prepare(value, key, start=start)
        pairs = zip(memory[:2], new[:2], strict=True)
        return Memory(*(_overwritten(old, part, start) for old, part in pairs), memory.mask)

    def attend(
        self,
        query,
        memory,
        query_mask=None,
        mask=None,
        training=None,
        start=None,
        return_attention_scores=True,
    ):
        """Attends from queries to a memory.

        Args:
            query: Tensor `(batch, query_length, query_size)`.
            memory: What `prepare` returned.
            query_mask: Boolean `(batch, query_length)` or `None`.
            mask: A further `Mask` or `None`.
            training: Whether dropout is on.
            start: Position of the first query, an integer or scalar tensor. By default the last
                query stands where the last key does.
            return_attention_scores: Whether the weights are wanted; `None` stands for them if not.

        Returns:
            `(context, weights)`.
        """
        query_length = ops.shape(query)[1]
        if start is None:
            start = ops.shape(memory.key)[-2] - query_length
        query_mask = self._padding_mask("query_mask", query_mask, query)
        rules = [self.mask, mask]
        if memory.mask is not None:
            rules.append(masks.Keys(memory.mask))
        if query_mask is not None:
            rules.append(masks.Queries(query_mask, start + query_length))
        return self._attend(
            self._ready(query, query_mask),
            memory,
            start=start,
            mask=masks.combine(*rules),
            dropout=self._weight_dropout(training),
            training=training,
            with_weights=return_attention_scores,
        )

    def choose_implementation(self, query_shape, value_shape, return_attention_scores=False):
        """Returns what `implementation="auto"` comes to for inputs of these shapes.

        Args:
            query_shape, value_shape: `(batch, length, size)`; `None` for what is unknown, and
                `"auto"` then takes the reference.
            return_attention_scores: As in a call.

        Raises:
            ValueError: If the implementation that was asked for cannot do it.
        """
        self._require_weights()
        batch, query_length, _ = query_shape
        pairs = compute.number_of_pairs(
            (batch, self._number_of_heads, query_length, value_shape[1]), self.score.pair_size
        )
        return compute.choose(
            self.implementation, self.scoring, self.normalizer, return_attention_scores, pairs=pairs
        )

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
        self._require_fitting_shapes(
            query.shape, value.shape, value.shape if key is None else key.shape
        )
        mask = self._mask_of_call(attention_mask, use_causal_mask, query, value)
        memory = self.prepare(value, key, value_mask, key_mask)
        context, weights = self.attend(
            query, memory, query_mask, mask, training, None, return_attention_scores
        )
        return (context, weights) if return_attention_scores else context

    def _ready(self, x, mask):
        """Returns floats, with zeros for what is hidden: 0 · NaN would be NaN, and its gradient."""
        x = as_floats(x, self.compute_dtype)
        return x if mask is None else ops.where(mask[:, :, None], x, ops.cast(0.0, x.dtype))

    def _prepare(self, key, value, mask, start):
        return Memory(self._prepare_key(key, start), value, mask)

    def _prepare_key(self, key, start):
        """Returns what `Memory` keeps of keys `(batch, *heads, length, size)`."""
        positions = ops.arange(ops.shape(key)[-2], dtype="int32") + start
        if self.position is not None and self.score.uses_key:
            key = self.position.rotate(key, positions)
        return self.score.prepare_key(key, positions)

    def _attend(self, query, memory, start, **arguments):
        """Attends from queries `(batch, *heads, length, size)`."""
        positions = ops.arange(ops.shape(query)[-2], dtype="int32") + start
        features = None
        if self.position is not None:
            features = self.position.features(query)
        if self.position is not None and self.score.uses_query:
            query = self.position.rotate(query, positions)
        queries = [self.score.prepare_query(query, positions)]
        queries += [] if features is None else [features]
        return compute.attend(
            self.implementation,
            queries,
            memory.key,
            memory.value,
            scoring=self.scoring,
            normalizer=self.normalizer,
            start=start,
            **arguments,
        )

    def _weight_dropout(self, training):
        is_on = self.dropout and training
        return compute.WeightDropout(self.dropout, self.seed_generator) if is_on else None

    def _padding_mask(self, name, mask, tensor):
        """Joins an explicit mask with the implicit one that Keras left on the tensor."""
        implicit = get_keras_mask(tensor)
        if mask is None or mask is implicit:
            return implicit
        mask = masks.as_boolean(mask, name, ranks=(2,))
        if not _agree(mask.shape, tensor.shape[:2]):
            raise ValueError(
                f"`{name}` of {type(self).__name__} must have the shape (batch, length) = "
                f"{tuple(tensor.shape[:2])} of the tensor that it belongs to. Received: shape "
                f"{tuple(mask.shape)}. Pass one boolean for each position, True for what counts."
            )
        return _both(mask, implicit)

    def _mask_of_call(self, attention_mask, use_causal_mask, query, value):
        mask = masks.Causal() if use_causal_mask else None
        if attention_mask is None:
            return mask
        return masks.combine(mask, masks.Array(self._pairs_mask(attention_mask, query, value)))

    def _pairs_mask(self, mask, query, value):
        mask = masks.as_boolean(mask, "attention_mask", ranks=(2, 3, 4))
        expected = (query.shape[0], self._number_of_heads, query.shape[1], value.shape[1])
        front = [None if size == 1 else size for size in mask.shape[:-2]]  # 1 goes with any size
        if not _agree((*front, *mask.shape[-2:]), (*expected[: len(front)], *expected[2:])):
            raise ValueError(
                f"`attention_mask` of {type(self).__name__} must have the shape (query_length, "
                f"key_length), (batch, query_length, key_length) or (batch, heads, query_length, "
                f"key_length), here (batch, heads, query_length, key_length) = {expected}; batch "
                f"and heads may be 1. Received: shape {tuple(mask.shape)}. A mask that is the same "
                "for all queries is a key_mask, or is repeated by keras.ops.broadcast_to."
            )
        return mask

    @property
    def _number_of_heads(self):
        return 1

    def _require_weights(self):
        if not self.built:
            raise ValueError(
                f"The layer {self.name!r} ({type(self).__name__}) has no weights yet, so it cannot "
                "prepare a memory. Call the layer once, or its build(query_shape, value_shape)."
            )

    def _require_same_heads(self, name, part, heads):
        built_for = getattr(part, "heads", heads)  # one of the user's own may not keep them
        if part.per_head and built_for != heads:
            kind = type(part).__name__
            raise ValueError(
                f"`{name}` of {type(self).__name__} has been built before, for another number of "
                f"heads: layers can share one object only if they have equally many. Received: "
                f"{kind} built for heads {built_for}, in the layer {self.name!r} with heads "
                f"{heads}. Give each layer a {name} of its own, such as a new {kind}."
            )

    def _require_fitting_shapes(self, query_shape, value_shape, key_shape):
        shapes = {"query": query_shape, "value": value_shape, "key": key_shape}
        received = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        if any(len(shape) != 3 for shape in shapes.values()):
            raise ValueError(
                f"{type(self).__name__} needs query, value and key of shape (batch, length, size). "
                f"Received: {received}. A single vector gets its length by x[:, None, :]; images "
                "become sequences by keras.layers.Reshape((height * width, channels))."
            )
        if not _agree(value_shape[:2], key_shape[:2]):
            raise ValueError(
                f"{type(self).__name__} needs one value for each key. Received: {received}. "
                "Batch and length of value and key must be equal."
            )
        if not _agree(query_shape[:1], key_shape[:1]):
            raise ValueError(
                f"{type(self).__name__} needs one memory for each query sequence. Received: "
                f"{received}. The batch must be equal; repeat the smaller one by keras.ops.repeat."
            )

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "score": serialize(self.score),
            "normalizer": serialize(self.normalizer),
            "mask": None if self.mask is None else serialize(self.mask),
            "position": None if self.position is None else serialize(self.position),
            "soft_cap": self.soft_cap,
            "dropout": self.dropout,
            "implementation": self.implementation,
            "seed": self.seed,
        }


def as_floats(x, dtype):
    """Returns integers and booleans as floats of a dtype, and floats as they are."""
    return x if keras.backend.is_float_dtype(x.dtype) else ops.cast(x, dtype)


def _agree(shape, other):
    """Whether two shapes are equal as far as they are known."""
    pairs = zip(shape, other, strict=True)
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def _both(first, second):
    if first is None or first is second:
        return second
    return first if second is None else ops.logical_and(first, second)


def _overwritten(old, new, start):
    """Returns `(..., length, size)` with new vectors from `start` on; what is beyond is left out.

    `ops.slice_update` would do, but with TensorFlow it needs XLA, which not every server has.
    """
    places = ops.arange(ops.shape(old)[-2], dtype="int32") - start  # (length,)
    count = ops.shape(new)[-2]
    is_new = ops.logical_and(places >= 0, places < count)
    if new.shape[-2] != 1:
        new = ops.take(new, ops.clip(places, 0, count - 1), axis=-2)
    return ops.where(is_new[:, None], ops.cast(new, old.dtype), old)
