"""What the blocks of a Transformer have in common: options, residual connections, memories."""

import functools
import inspect
from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention import activations, compute, masks, normalizers, positions, scores
from keras_attention._checks import (
    agree,
    has_bias,
    parts_with_bias,
    plain,
    require_fractions,
    require_numbers,
    require_one_of,
    require_positive_integers,
    require_positive_integers_or_none,
)
from keras_attention._heads import PROJECTIONS
from keras_attention._keras import get_keras_mask, set_keras_mask
from keras_attention._layer import ChecksArguments, as_floats, padding_mask
from keras_attention._memory import attend_together
from keras_attention._normalization import LayerNormalization
from keras_attention._recompute import Recomputable
from keras_attention._registry import serialize
from keras_attention.feed_forward import LAYERS, FeedForward
from keras_attention.multi_head import MultiHeadAttention

NORMALIZE = ("post", "pre", "sandwich", "output")
NORMS = {
    "layer": LayerNormalization,
    "layer_without_bias": functools.partial(keras.layers.LayerNormalization, center=False),
    "rms": keras.layers.RMSNormalization,
}
OF_FEED_FORWARD = ("feed_forward", *LAYERS)  # all of its layers, or some
BIASES = ("attention", *PROJECTIONS, *OF_FEED_FORWARD)


def _options(constructor):
    """Returns the names of the arguments, without self and kwargs."""
    return list(inspect.signature(constructor).parameters)[1:-1]


class ResidualBlock(ChecksArguments, Recomputable):
    """What all blocks have in common: residual connections, normalization and feed-forward.

    Every argument of this constructor is an option, stored under its name, and nothing else is: the
    config is read from these attributes.

    Class attributes:
        options: Names of the options.
        biases: The parts that `use_bias` may name.
        can_be_parallel: Whether its parts, attention and feed-forward, may have the same input.
    """

    biases = OF_FEED_FORWARD
    can_be_parallel = False

    def __init__(
        self,
        hidden: int,
        normalize: str = "post",
        epsilon: float = 1e-5,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        activation: Any = "relu",
        use_bias: bool | Collection[str] = True,
        *,
        norm: str = "layer",
        gated: bool = False,
        parallel: bool = False,
        shared_norm: bool = False,
        residual_scale: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        owner = type(self).__name__
        require_positive_integers(owner, hidden=hidden)
        require_numbers(owner, at_least=0, epsilon=epsilon, residual_scale=residual_scale)
        require_fractions(owner, dropout=dropout, hidden_dropout=hidden_dropout)
        require_one_of(owner, NORMALIZE, normalize=normalize)
        require_one_of(owner, NORMS, norm=norm)
        if parallel and not self.can_be_parallel:
            raise ValueError(
                f"`parallel` of {owner} must be False: it is for blocks of attention and "
                "feed-forward alone. Received: parallel=True. Use EncoderBlock or TransformerBlock."
            )
        if parallel and normalize not in ("pre", "sandwich"):
            raise ValueError(
                f"`parallel` of {owner} needs parts that normalize their input. Received: "
                f"parallel=True, normalize={normalize!r}. Use normalize='pre' or 'sandwich'."
            )
        if shared_norm and not parallel:
            raise ValueError(
                f"`shared_norm` of {owner} is for parts with the same input. Received: "
                "shared_norm=True, parallel=False. Pass parallel=True, too, or omit it."
            )
        self.supports_masking = True
        self.hidden = plain(hidden)
        self.normalize = normalize
        self.epsilon = epsilon
        self.dropout = dropout
        self.hidden_dropout = hidden_dropout
        self.activation = activations.get(activation)
        self.use_bias = parts_with_bias(owner, use_bias, self.biases)
        self.norm = norm
        self.gated = gated
        self.parallel = parallel
        self.shared_norm = shared_norm
        self.residual_scale = residual_scale

    options = _options(__init__)

    def call(self, x, mask=None, attention_mask=None, return_attention_scores=False, training=None):
        return self._encode(x, mask, attention_mask, return_attention_scores, training)

    def _encode(self, x, mask, attention_mask, with_weights, training, **options):
        """Computes the block; the options are further arguments of its attention layer."""
        self._require_sequences(x=x.shape)
        mask = self._padding("mask", mask, x)
        x = as_floats(x, self.compute_dtype)
        attended, weights = self._attend_to_itself(
            x, mask, attention_mask, with_weights, training, **options
        )
        x = self._feed_forward(attended, training, x)
        return (x, weights) if with_weights else x

    def compute_output_shape(self, x_shape):
        """Returns the shape of the output, without that of the weights: the shape of `x`."""
        return tuple(x_shape)

    def _padding(self, name, mask, x):
        """Joins the mask of the call with the implicit one that Keras left on `x`."""
        return padding_mask(type(self).__name__, name, mask, x)

    def _make_norms(self, part, x_shape):
        """Makes the normalizations of a part of the block."""
        is_shared = self.shared_norm and part == "feed_forward"
        norm = self.attention_norm if is_shared else self._make_norm(f"{part}_norm", x_shape)
        setattr(self, f"{part}_norm", norm)
        if self.normalize == "sandwich":
            name = _output_norm(part)
            setattr(self, name, self._make_norm(name, x_shape))

    def _make_norm(self, name, x_shape):
        norm = NORMS[self.norm](epsilon=self.epsilon, dtype=self.dtype_policy, name=name)
        norm.supports_masking = True  # otherwise Keras warns if RMS gets an implicit mask
        norm.build(x_shape)
        return norm

    def _make_feed_forward(self, name, x_shape):
        feed_forward = FeedForward(
            self.hidden,
            self.activation,
            self.hidden_dropout,
            self._biases("feed_forward", LAYERS),
            self.gated,
            dtype=self.dtype_policy,
            name=name,
        )
        feed_forward.build(x_shape)
        return feed_forward

    def _biases(self, part, layers):
        """Returns the argument `use_bias` of a part with these layers."""
        if has_bias(self.use_bias, part):
            return True
        return [name for name in layers if has_bias(self.use_bias, name)]

    def _build_feed_forward(self, x_shape):
        self.feed_forward = self._make_feed_forward("feed_forward", x_shape)
        self._make_norms("feed_forward", x_shape)
        self.drop = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)

    def _attend_to_itself(self, x, mask, attention_mask, with_weights, training, **options):
        """Adds the output of `self.attention`, from `x` to `x`, to its input."""
        if attention_mask is not None:  # not every attention layer has this argument
            options["attention_mask"] = attention_mask
        return self._attend("attention", x, None, mask, mask, with_weights, training, **options)

    def _attend(self, part, x, memory, mask, memory_mask, with_weights, training, **options):
        """Adds the output of an attention to its input; the memory `None` is the input itself."""
        x = as_floats(x, self.compute_dtype)
        query = self._before(part, x)
        context = getattr(self, part)(
            query,
            query if memory is None else memory,
            query_mask=mask,
            value_mask=memory_mask,
            return_attention_scores=with_weights,
            training=training,
            **options,
        )
        context, weights = context if with_weights else (context, None)
        return self._after(part, x, context, training), weights

    def _attend_to_cache(self, part, x, cache, start, with_weights):
        """Like `_attend`, from some positions to a cache, which they extend first."""
        x = as_floats(x, self.compute_dtype)
        query = self._before(part, x)
        context, weights, cache = getattr(self, part).step(query, cache, start, with_weights)
        return self._after(part, x, context, training=False), cache, weights

    def _end_step(self, x, given):
        """Returns the output of a step, with the implicit mask of its input for the next block."""
        x = self._feed_forward(x, training=False, of_block=as_floats(given, self.compute_dtype))
        set_keras_mask(x, get_keras_mask(given))
        return x

    def _room(self, attention, batch, max_length, mask):
        """Returns an empty memory with room for `max_length` positions."""
        empty = ops.zeros((batch, max_length, self.size), self.compute_dtype)
        return attention.room_for(empty, mask)

    def _feed_forward(self, x, training, of_block):
        """Adds the output of the feed-forward network to what attention returned.

        Args:
            x: What attention returned.
            training: Whether to apply dropout.
            of_block: The input of the block, which with `parallel` is also that of the network.
        """
        source = of_block if self.parallel else x
        added = self.feed_forward(self._before("feed_forward", source), training=training)
        return self._after("feed_forward", x, added, training)

    def _before(self, part, x):
        """Returns the input of a part of the block, normalized with "pre" and "sandwich"."""
        is_normal = self.normalize in ("pre", "sandwich")
        return getattr(self, f"{part}_norm")(x) if is_normal else x

    def _after(self, part, x, added, training):
        """Returns the sum of a part's input and output.

        The sum is normalized with "post", the output alone with "sandwich" and "output".
        """
        added = self._added(part, added)
        added = added if self.residual_scale == 1.0 else self.residual_scale * added
        x = x + self.drop(added, training=training)
        return getattr(self, f"{part}_norm")(x) if self.normalize == "post" else x

    def _added(self, part, output):
        """Returns what a part adds to its input: its output, normalized or not."""
        if self.normalize not in ("sandwich", "output"):
            return output
        name = _output_norm(part) if self.normalize == "sandwich" else f"{part}_norm"
        return getattr(self, name)(output)

    def _require_sequences(self, **shapes):
        if any(len(shape) != 3 for shape in shapes.values()):
            received = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
            raise ValueError(
                f"{type(self).__name__} needs {' and '.join(shapes)} of shape (batch, length, "
                f"size). Received: {received}. Add a length axis to a single step with "
                "x[:, None, :]; turn images into sequences with "
                "keras.layers.Reshape((height * width, channels))."
            )
        if self.built and not agree(shapes["x"][-1:], (self.size,)):
            raise ValueError(
                f"The layer {self.name!r} ({type(self).__name__}) is built for x of size "
                f"{self.size}. Received: x {tuple(shapes['x'])}. Make a new layer for another size."
            )

    def get_config(self):
        options = {name: getattr(self, name) for name in self.options}
        config = {name: serialize(option) for name, option in options.items()}
        config["activation"] = activations.serialize(self.activation)
        return {**super().get_config(), **config}


def _output_norm(part):
    """Returns the name of the normalization of a part's output."""
    return f"{part.removesuffix('_input')}_output_norm"


class Block(ResidualBlock):
    """What blocks with `MultiHeadAttention` have in common: its options, and memories for steps."""

    biases = BIASES

    def __init__(
        self,
        num_heads: int,
        hidden: int,
        key_dim: int | None = None,
        normalize: str = "post",
        epsilon: float = 1e-5,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        activation: Any = "relu",
        use_bias: bool | Collection[str] = True,
        score: Any = "scaled_dot",
        mask: Any = None,
        position: Any = None,
        *,
        norm: str = "layer",
        gated: bool = False,
        parallel: bool = False,
        shared_norm: bool = False,
        residual_scale: float = 1.0,
        num_key_value_heads: int | None = None,
        query_key_norm: float | None = None,
        joint_query_key_norm: bool = False,
        soft_cap: float | None = None,
        normalizer: Any = "softmax",
        implementation: str = "auto",
        **kwargs: Any,
    ) -> None:
        owner = type(self).__name__
        require_positive_integers(owner, num_heads=num_heads)
        require_positive_integers_or_none(
            owner, key_dim=key_dim, num_key_value_heads=num_key_value_heads
        )
        require_fractions(owner, attention_dropout=attention_dropout)
        compute.require_known(implementation)
        super().__init__(
            hidden,
            normalize,
            epsilon,
            dropout,
            hidden_dropout,
            activation,
            use_bias,
            norm=norm,
            gated=gated,
            parallel=parallel,
            shared_norm=shared_norm,
            residual_scale=residual_scale,
            **kwargs,
        )
        self.num_heads = plain(num_heads)
        self.key_dim = plain(key_dim)
        self.attention_dropout = attention_dropout
        self.score = scores.get(score)
        self.mask = None if mask is None else masks.get(mask)
        self.position = None if position is None else positions.get(position)
        self.num_key_value_heads = plain(num_key_value_heads)
        self.query_key_norm = query_key_norm
        self.joint_query_key_norm = joint_query_key_norm
        self.soft_cap = soft_cap
        self.normalizer = normalizers.get(normalizer)
        self.implementation = implementation

    options = _options(__init__)

    def _make_attention(self, name, x_shape, memory_shape, score, **arguments):
        size = x_shape[-1]
        if self.key_dim is None and size % self.num_heads:
            raise ValueError(
                f"{type(self).__name__} splits the size of x among its heads. Received: x of "
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
            use_bias=self._biases("attention", PROJECTIONS),
            query_key_norm=self.query_key_norm,
            joint_query_key_norm=self.joint_query_key_norm,
            soft_cap=self.soft_cap,
            implementation=self.implementation,
            dtype=self.dtype_policy,
            name=name,
            **arguments,
        )
        attention.build(x_shape, memory_shape)
        return attention

    def _another(self, part):
        """Returns a part with the same options, but its own weights and state."""
        return part.from_config(part.get_config())

    def _attend_to_memory(self, part, x, memory, start, with_weights):
        """Like `_attend`, to a memory, whose rows several adjacent rows of `x` may share."""
        x = as_floats(x, self.compute_dtype)
        query = self._before(part, x)
        context, weights = attend_together(
            getattr(self, part), query, memory, start=start, return_attention_scores=with_weights
        )
        return self._after(part, x, context, training=False), weights
