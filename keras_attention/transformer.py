"""The blocks of a Transformer: attention and a feed-forward network, each added to its input."""

import inspect

import keras
import numpy as np
from keras import ops

from keras_attention import activations, compute, masks, normalizers, positions, scores
from keras_attention._checks import (
    plain,
    require_fractions,
    require_positive_integers,
    require_positive_integers_or_none,
)
from keras_attention._heads import PROJECTIONS
from keras_attention._keras import get_keras_mask
from keras_attention._layer import Memory, as_floats
from keras_attention._recompute import Recomputable
from keras_attention.feed_forward import FeedForward
from keras_attention.multi_head import MultiHeadAttention

NORMALIZE = ("post", "pre")
NORMS = {"layer": keras.layers.LayerNormalization, "rms": keras.layers.RMSNormalization}
BIASES = ("attention", *PROJECTIONS, "feed_forward")


class _Block(Recomputable):
    """What encoder and decoder blocks have in common: the options, and how parts are added.

    An option is an argument of this constructor, kept under its name, and nothing else: the config
    is read from there.
    """

    def __init__(
        self,
        num_heads,
        hidden,
        key_dim=None,
        normalize="post",
        epsilon=1e-5,
        dropout=0.0,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        activation="relu",
        use_bias=True,
        score="scaled_dot",
        mask=None,
        position=None,
        *,
        norm="layer",
        gated=False,
        num_key_value_heads=None,
        query_key_norm=None,
        normalizer="softmax",
        implementation="auto",
        **kwargs,
    ):
        super().__init__(**kwargs)
        owner = type(self).__name__
        require_positive_integers(owner, num_heads=num_heads, hidden=hidden)
        require_positive_integers_or_none(
            owner, key_dim=key_dim, num_key_value_heads=num_key_value_heads
        )
        require_fractions(
            owner,
            dropout=dropout,
            attention_dropout=attention_dropout,
            hidden_dropout=hidden_dropout,
        )
        self._require_one_of(NORMALIZE, normalize=normalize)
        self._require_one_of(NORMS, norm=norm)
        compute.require_known(implementation)
        self.supports_masking = True
        self.num_heads = plain(num_heads)
        self.hidden = plain(hidden)
        self.key_dim = plain(key_dim)
        self.normalize = normalize
        self.epsilon = epsilon
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.hidden_dropout = hidden_dropout
        self.activation = activations.get(activation)
        self.use_bias = self._biases(use_bias)
        self.score = scores.get(score)
        self.mask = None if mask is None else masks.get(mask)
        self.position = None if position is None else positions.get(position)
        self.norm = norm
        self.gated = gated
        self.num_key_value_heads = plain(num_key_value_heads)
        self.query_key_norm = query_key_norm
        self.normalizer = normalizers.get(normalizer)
        self.implementation = implementation

    def _require_one_of(self, known, **argument):
        ((name, value),) = argument.items()
        if value not in known:
            raise ValueError(
                f"`{name}` of {type(self).__name__} must be one of {', '.join(known)}. "
                f"Received: {name}={value!r}."
            )

    def _biases(self, use_bias):
        """Returns `True`, `False`, or a list of the parts that add a bias."""
        if isinstance(use_bias, bool):
            return use_bias
        is_collection = isinstance(use_bias, list | tuple | set | frozenset)
        if not is_collection or not set(use_bias) <= set(BIASES):
            raise ValueError(
                f"`use_bias` of {type(self).__name__} must be True, False, or a collection of "
                f"{', '.join(BIASES)}. Received: use_bias={use_bias!r}."
            )
        return [name for name in BIASES if name in use_bias]

    def _has_bias(self, part):
        return self.use_bias if isinstance(self.use_bias, bool) else part in self.use_bias

    def _biases_of_attention(self):
        """Returns what `use_bias` of `MultiHeadAttention` is."""
        if self._has_bias("attention"):
            return True
        return [name for name in PROJECTIONS if self._has_bias(name)]

    def compute_output_shape(self, x_shape, encoded_shape=None):
        """Returns the shape of the output without the weights: that of `x`."""
        return tuple(x_shape)

    def compute_mask(self, inputs, previous_mask):
        """Hands on what is hidden by the mask of the call or by the implicit one."""
        implicit = get_keras_mask(inputs)
        if previous_mask is None or implicit is None or previous_mask is implicit:
            return previous_mask
        return ops.logical_and(previous_mask, implicit)

    def _padding(self, name, mask, x):
        """Joins the mask of the call with the implicit one that Keras left on `x`."""
        if mask is None:
            return get_keras_mask(x)
        mask = masks.as_boolean(mask, name, ranks=(2,))
        pairs = zip(mask.shape, x.shape[:2], strict=True)
        if any(None not in pair and pair[0] != pair[1] for pair in pairs):
            raise ValueError(
                f"`{name}` of {type(self).__name__} must have the shape (batch, length) = "
                f"{tuple(x.shape[:2])} of what it belongs to. Received: shape {tuple(mask.shape)}."
            )
        return self.compute_mask(x, mask)

    def _make_attention(self, name, x_shape, memory_shape, score, **arguments):
        size = x_shape[-1]
        if self.key_dim is None and size % self.num_heads:
            raise ValueError(
                f"{type(self).__name__} shares the size of x out among its heads. Received: x of "
                f"shape {tuple(x_shape)}, num_heads={self.num_heads}, which does not divide {size}."
                " Give `key_dim`, the size of one head, or another number of heads."
            )
        attention = MultiHeadAttention(
            self.num_heads,
            self.key_dim or size // self.num_heads,
            num_key_value_heads=self.num_key_value_heads,
            score=score,
            normalizer=self._another(self.normalizer),
            dropout=self.attention_dropout,
            use_bias=self._biases_of_attention(),
            query_key_norm=self.query_key_norm,
            implementation=self.implementation,
            dtype=self.dtype_policy,
            name=name,
            **arguments,
        )
        attention.build(x_shape, memory_shape)
        return attention

    def _make_norm(self, name, x_shape):
        norm = NORMS[self.norm](epsilon=self.epsilon, dtype=self.dtype_policy, name=name)
        norm.build(x_shape)
        return norm

    def _another(self, part):
        """Returns a part with the same options, and weights and state of its own."""
        return part.from_config(part.get_config())

    def _build_feed_forward(self, x_shape):
        self.feed_forward = FeedForward(
            self.hidden,
            self.activation,
            self.hidden_dropout,
            self._has_bias("feed_forward"),
            self.gated,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward.build(x_shape)
        self.feed_forward_norm = self._make_norm("feed_forward_norm", x_shape)
        self.drop = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)

    def _attend(self, attention, norm, x, memory, mask, memory_mask, with_weights, training):
        """Adds what an attention sees in a memory, `None` for its own input, to its input."""
        x = as_floats(x, self.compute_dtype)
        query = self._before(norm, x)
        context = attention(
            query,
            query if memory is None else memory,
            query_mask=mask,
            value_mask=memory_mask,
            return_attention_scores=with_weights,
            training=training,
        )
        context, weights = context if with_weights else (context, None)
        return self._after(norm, x, context, training), weights

    def _look_up(self, attention, norm, x, memory, start, extend, with_weights):
        """As `_attend`, from some positions to a memory, which they may extend first."""
        x = as_floats(x, self.compute_dtype)
        query = self._before(norm, x)
        if extend:
            memory = attention.extend(memory, query, start)
        context, weights = attention.attend(
            query, memory, start=start, return_attention_scores=with_weights
        )
        return self._after(norm, x, context, training=False), memory, weights

    def _feed_forward(self, x, training):
        added = self.feed_forward(self._before(self.feed_forward_norm, x), training=training)
        return self._after(self.feed_forward_norm, x, added, training)

    def _before(self, norm, x):
        """Returns what a part of the block gets."""
        return norm(x) if self.normalize == "pre" else x

    def _after(self, norm, x, added, training):
        """Returns the input of a part together with its output."""
        x = x + self.drop(added, training=training)
        return norm(x) if self.normalize == "post" else x

    def _room(self, attention, batch, max_length, mask):
        """Returns a memory of nothing yet, with room for `max_length` positions."""
        empty = ops.zeros((batch, max_length, self.size), self.compute_dtype)
        key, value, _ = attention.prepare(empty)
        return Memory(key, value, mask)

    def _require_sequences(self, **shapes):
        if any(len(shape) != 3 for shape in shapes.values()):
            received = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
            raise ValueError(
                f"{type(self).__name__} needs {' and '.join(shapes)} of shape (batch, length, "
                f"size). Received: {received}. One step gets its length by x[:, None, :]."
            )

    def get_config(self):
        options = {name: getattr(self, name) for name in OPTIONS}
        serialize = keras.saving.serialize_keras_object
        config = {name: serialize(option) for name, option in options.items()}
        config["activation"] = activations.serialize(self.activation)
        return {**super().get_config(), **config}


OPTIONS = list(inspect.signature(_Block.__init__).parameters)[1:-1]  # without self and kwargs


@keras.saving.register_keras_serializable(package="keras_attention")
class EncoderBlock(_Block):
    """One layer of a Transformer's encoder; with `mask="causal"`, of a language model.

    Each part, attention and then feed-forward, is added to its input `x`:

    $$ post: Norm(x + part(x)), \\quad pre: x + part(Norm(x)) $$

    Paper: Vaswani et al. 2017, section 3.1, "post" (https://arxiv.org/abs/1706.03762); Xiong et
    al. 2020, On Layer Normalization in the Transformer Architecture, "pre"
    (https://arxiv.org/abs/2002.04745). After the last block of kind "pre" comes one normalization
    more.

    The parts are `attention`, `feed_forward`, `attention_norm` and `feed_forward_norm`. To compute
    a block again in the backward pass instead of keeping it in memory, make it inside
    `keras.RematScope()`.

    Args:
        num_heads: Number of heads.
        hidden: Size between the two layers of the feed-forward network.
        key_dim: Size of one head. Defaults to the size of `x` divided by the number of heads.
        normalize: `"post"` or `"pre"`.
        epsilon: Added to the variance by the normalizations.
        dropout: Fraction of what the parts add that is dropped in training.
        attention_dropout: Fraction of the weights of attention that is dropped in training.
        hidden_dropout: Fraction of what is between the two layers of the feed-forward network that
            is dropped in training.
        activation, gated: Of the feed-forward network, as for `FeedForward`.
        use_bias: Whether projections and dense layers add a bias: all of them, none, or those of
            the parts in a collection of `"attention"`, which is all its projections, `"query"`,
            `"key"`, `"value"`, `"output"` and `"feed_forward"`.
        score, mask, position, num_key_value_heads, query_key_norm, normalizer, implementation: Of
            the attention, as for `MultiHeadAttention`.
        norm: `"layer"` or `"rms"` (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467).

    Call arguments:
        x: Tensor `(batch, length, size)`.
        mask: Boolean `(batch, length)`, `True` for what counts; Keras' implicit mask counts, too.
        return_attention_scores: Whether to return the weights, too.
        training: Whether dropout is on.

    Output shape:
        `(batch, length, size)`; with `return_attention_scores` also the weights before dropout,
        float32 `(batch, num_heads, length, length)`.

    Raises:
        ValueError: If an argument is unknown or out of range, `num_heads` does not divide the size
            and there is no `key_dim`, or `x` is not of rank 3.

    Example:

    >>> block = EncoderBlock(num_heads=2, hidden=32)
    >>> tuple(block(np.ones((2, 5, 8)), mask=np.ones((2, 5), bool)).shape)
    (2, 5, 8)

    A block as in Llama 3:

    >>> block = EncoderBlock(num_heads=4, hidden=32, normalize="pre", norm="rms", gated=True,
    ...     activation="silu", use_bias=False, num_key_value_heads=2, mask="causal",
    ...     position=positions.Rotary(500_000, pairs="halves"))
    >>> tuple(block(np.ones((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def build(self, x_shape):
        self._require_sequences(x=x_shape)
        self.size = x_shape[-1]
        with keras.RematScope(mode=None):
            self.attention = self._make_attention(
                "attention", x_shape, x_shape, self.score, mask=self.mask, position=self.position
            )
            self.attention_norm = self._make_norm("attention_norm", x_shape)
            self._build_feed_forward(x_shape)

    def call(self, x, mask=None, return_attention_scores=False, training=None):
        self._require_sequences(x=x.shape)
        mask = self._padding("mask", mask, x)
        x, weights = self._attend(
            self.attention,
            self.attention_norm,
            x,
            None,
            mask,
            mask,
            return_attention_scores,
            training,
        )
        x = self._feed_forward(x, training)
        return (x, weights) if return_attention_scores else x

    def start(self, batch, max_length, mask=None):
        """Returns an empty cache for `step`; only for a block whose mask is causal.

        Args:
            batch: Number of sequences.
            max_length: Positions that there is room for.
            mask: Boolean `(batch, max_length)`, `False` where padding will stand, or `None`.

        Raises:
            ValueError: If the mask of the block lets positions see what has not been written yet.
        """
        if self.mask is None or self._sees_the_last(max_length):
            raise ValueError(
                "`mask` of EncoderBlock must be causal for steps, since a cache does not have yet "
                f"what comes later. Received: mask={self.mask!r}. Make the block with "
                "mask='causal', or with masks.Causal() & another mask."
            )
        return self._room(self.attention, batch, max_length, mask)

    def _sees_the_last(self, length):
        """Whether some position certainly sees the last one, which is written after it."""
        if not isinstance(length, int) or length < 2:
            return False
        earlier, last = np.arange(length - 1, dtype="int32"), np.int32(length - 1)
        certain = self.mask.sees_all((earlier, earlier), (last, last))
        return not ops.is_tensor(certain) and bool(np.any(certain))

    def step(self, x, cache, start, return_attention_scores=False):
        """Takes the next positions: what `call` gives for them, with those before in the cache.

        Args:
            x: Tensor `(batch, length, size)`: one position, or several at once.
            cache: What `start` or the step before returned.
            start: Where the first of them stands, an integer or a scalar tensor.
            return_attention_scores: Whether to return the weights, too.

        Returns:
            `(x, cache)`, and the weights `(batch, num_heads, length, max_length)` if wanted.
        """
        x, cache, weights = self._look_up(
            self.attention, self.attention_norm, x, cache, start, True, return_attention_scores
        )
        x = self._feed_forward(x, training=False)
        return (x, cache, weights) if return_attention_scores else (x, cache)


@keras.saving.register_keras_serializable(package="keras_attention")
class DecoderBlock(_Block):
    """One layer of a Transformer's decoder: looks back at itself, then at what was encoded.

    The parts are causal self-attention, cross-attention to `encoded`, and feed-forward. Each is
    added to its input and normalized as in `EncoderBlock`:

    $$ post: Norm(x + part(x)), \\quad pre: x + part(Norm(x)) $$

    Paper: as for `EncoderBlock`.

    The parts are `self_attention`, `cross_attention`, `feed_forward`, and for each of them a norm,
    such as `self_attention_norm`.

    Args:
        mask: A rule for self-attention that holds besides the causal one.
        position: Of self-attention; cross-attention has none.
        num_heads, hidden, key_dim, normalize, epsilon, dropout, attention_dropout,
            hidden_dropout, activation, use_bias, score, norm, gated, num_key_value_heads,
            query_key_norm, normalizer, implementation: As for `EncoderBlock`. The two attentions
            have scores of their own.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        encoded: Tensor `(batch, encoded_length, encoded_size)`.
        mask: Boolean `(batch, length)`, `True` for what counts of `x`.
        encoded_mask: Boolean `(batch, encoded_length)`, `True` for what counts of `encoded`.
            Keras' implicit masks of both count, too.
        return_attention_scores: Whether to return the weights, too.
        training: Whether dropout is on.

    Output shape:
        `(batch, length, size)`; with `return_attention_scores` also the weights before dropout of
        self-attention, `(batch, num_heads, length, length)`, and of cross-attention,
        `(batch, num_heads, length, encoded_length)`, both float32.

    Raises:
        ValueError: As `EncoderBlock`.

    Example:

    >>> block = DecoderBlock(num_heads=2, hidden=32)
    >>> output, self_weights, cross_weights = block(
    ...     np.ones((2, 3, 8)), np.ones((2, 5, 6)), return_attention_scores=True)
    >>> tuple(output.shape), tuple(self_weights.shape), tuple(cross_weights.shape)
    ((2, 3, 8), (2, 2, 3, 3), (2, 2, 3, 5))
    """

    def build(self, x_shape, encoded_shape):
        self._require_sequences(x=x_shape, encoded=encoded_shape)
        self.size = x_shape[-1]
        with keras.RematScope(mode=None):
            causal = masks.combine(masks.Causal(), self.mask)
            self.self_attention = self._make_attention(
                "self_attention", x_shape, x_shape, self.score, mask=causal, position=self.position
            )
            self.self_attention_norm = self._make_norm("self_attention_norm", x_shape)
            self.cross_attention = self._make_attention(
                "cross_attention", x_shape, encoded_shape, self._another(self.score)
            )
            self.cross_attention_norm = self._make_norm("cross_attention_norm", x_shape)
            self._build_feed_forward(x_shape)

    def call(
        self,
        x,
        encoded,
        mask=None,
        encoded_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        self._require_sequences(x=x.shape, encoded=encoded.shape)
        mask = self._padding("mask", mask, x)
        encoded_mask = self._padding("encoded_mask", encoded_mask, encoded)
        flags = return_attention_scores, training
        x, self_weights = self._attend(
            self.self_attention, self.self_attention_norm, x, None, mask, mask, *flags
        )
        x, cross_weights = self._attend(
            self.cross_attention, self.cross_attention_norm, x, encoded, mask, encoded_mask, *flags
        )
        x = self._feed_forward(x, training)
        return (x, self_weights, cross_weights) if return_attention_scores else x

    def start(self, encoded, max_length, encoded_mask=None):
        """Returns an empty cache for `step`, and what was encoded, its keys prepared once.

        Args:
            encoded, encoded_mask: As in a call.
            max_length: Positions of `x` that there is room for.

        Returns:
            `(cache, memory)`. A step changes the cache alone.
        """
        cache = self._room(self.self_attention, ops.shape(encoded)[0], max_length, None)
        return cache, self.cross_attention.prepare(encoded, value_mask=encoded_mask)

    def step(self, x, cache, memory, start, return_attention_scores=False):
        """Takes the next positions: what `call` gives for them, with those before in the cache.

        Args:
            x: Tensor `(batch, length, size)`: one position, or several at once.
            cache: What `start` or the step before returned.
            memory: What `start` returned.
            start: Where the first of them stands, an integer or a scalar tensor.
            return_attention_scores: Whether to return the weights, too.

        Returns:
            `(x, cache)`, and if wanted the weights of self-attention `(batch, num_heads, length,
            max_length)` and of cross-attention `(batch, num_heads, length, encoded_length)`.
        """
        x, cache, self_weights = self._look_up(
            self.self_attention,
            self.self_attention_norm,
            x,
            cache,
            start,
            True,
            return_attention_scores,
        )
        x, _, cross_weights = self._look_up(
            self.cross_attention,
            self.cross_attention_norm,
            x,
            memory,
            start,
            False,
            return_attention_scores,
        )
        x = self._feed_forward(x, training=False)
        return (x, cache, self_weights, cross_weights) if return_attention_scores else (x, cache)
