"""Slot attention: a few vectors compete for the parts of a set, and describe one part each."""

from typing import Any

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import (
    plain,
    require_positive_integers,
    require_positive_integers_or_none,
    require_positive_numbers,
)
from keras_attention._dense import Dense
from keras_attention._layer import ChecksArguments, as_floats, padding_mask, require_sequence
from keras_attention._normalization import LayerNormalization
from keras_attention._products import matmul
from keras_attention._recompute import Recomputable
from keras_attention.feed_forward import FeedForward
from keras_attention.normalizers.base import ratio


@keras.saving.register_keras_serializable(package="keras_attention")
class SlotAttention(ChecksArguments, Recomputable):
    """Slot attention: vectors that compete for the parts of a set, such as the objects of an image.

    Each slot is a query to the set. The softmax is over the slots instead of the keys, so that each
    vector of the set is divided among the slots, which compete for it. What a slot has won updates
    it, like the state of a recurrent layer, and the slots compete again:

    $$ w = softmax_{slots}(q k^⊤ / \\sqrt{d}), \\quad
       u_i = \\frac{\\sum_j (w_{ij} + ε) v_j}{\\sum_j (w_{ij} + ε)} $$

    $$ s' = GRU(u, s), \\quad s ← s' + FeedForward(norm(s')) $$

    with queries `q` of the normalized slots, and keys `k` and values `v` of the normalized set, all
    of size `d`. All slots share these weights. The order of the set does not count; nor does that
    of the slots, unless they are learned.

    The slots begin with random vectors, anew in each call, from a Gaussian whose mean and standard
    deviation are learned. No weight depends on their number then: a layer with more slots takes the
    weights of one with fewer, for sets of more parts than in training.

    Paper: Locatello et al. 2020, Object-Centric Learning with Slot Attention, algorithm 1
    (https://arxiv.org/abs/2006.15055).

    Args:
        num_slots: Number of slots.
        slot_size: Size `d` of a slot; defaults to that of the inputs.
        num_iterations: How many times the slots compete.
        hidden: Size of the hidden layer of the feed-forward network; defaults to twice the size of
            a slot.
        learned_slots: Whether each slot begins with a learned vector of its own. The slots of a
            trained layer then keep their roles, and a call gives the same each time.
        epsilon: `ε`, which keeps a slot that wins nothing from dividing by 0.
        seed: Seed of the random slots.

    Call arguments:
        x: Tensor `(batch, length, size)`: the set. Turn the grid of an image into one with
            `keras.layers.Reshape`, and add its positions before, since their order does not count.
        mask: Boolean `(batch, length)`: `False` for padding; combined with Keras' implicit mask.
        return_attention_scores: Whether to also return the weights of the last iteration.

    Output shape:
        `(batch, num_slots, slot_size)`; with `return_attention_scores` also `w`, float32 `(batch,
        num_slots, length)`. Those of each vector of the set sum to 1 over the slots; for an image
        they are the masks of the slots. They are 0 for padding.

    Raises:
        ValueError: If a size is not a positive integer, `epsilon` is not a number above 0, or `x`
            is not of rank 3.

    Example:

    >>> layer = SlotAttention(num_slots=3, slot_size=8, seed=0)
    >>> slots, weights = layer(np.ones((2, 16, 4)), return_attention_scores=True)
    >>> tuple(slots.shape), tuple(weights.shape)
    ((2, 3, 8), (2, 3, 16))

    The slots of an image, of a grid of vectors that a convolutional network has made:

    >>> model = keras.Sequential([
    ...     keras.Input((28, 28, 1)),
    ...     keras.layers.Conv2D(16, 5, strides=4, activation="relu"),
    ...     keras.layers.Reshape((-1, 16)),
    ...     SlotAttention(num_slots=5),
    ... ])
    >>> model.output_shape
    (None, 5, 16)
    """

    def __init__(
        self,
        num_slots: int,
        slot_size: int | None = None,
        num_iterations: int = 3,
        hidden: int | None = None,
        learned_slots: bool = False,
        epsilon: float = 1e-8,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        name = type(self).__name__
        require_positive_integers(name, num_slots=num_slots, num_iterations=num_iterations)
        require_positive_integers_or_none(name, slot_size=slot_size, hidden=hidden)
        require_positive_numbers(name, epsilon=epsilon)
        self.supports_masking = True
        self.num_slots = plain(num_slots)
        self.slot_size = plain(slot_size)
        self.num_iterations = plain(num_iterations)
        self.hidden = plain(hidden)
        self.learned_slots = learned_slots
        self.epsilon = plain(epsilon)
        self.seed = seed
        self.seed_generator = None if learned_slots else keras.random.SeedGenerator(seed)

    def build(self, x_shape):
        require_sequence(type(self).__name__, x_shape)
        size = self.slot_size or x_shape[-1]
        if self.learned_slots:
            self.first = self.add_weight(
                name="first",
                shape=(self.num_slots, size),
                initializer=keras.initializers.TruncatedNormal(stddev=1.0),
            )
        else:
            shape = {"shape": (1, size), "initializer": "glorot_uniform"}
            self.mean = self.add_weight(name="mean", **shape)
            self.log_deviation = self.add_weight(name="log_deviation", **shape)
        slots_shape, options = (None, None, size), {"dtype": self.dtype_policy}

        def built(layer, shape):
            layer.build(shape)
            return layer

        def norm(name, shape):
            return built(LayerNormalization(name=name, **options), shape)

        def projection(name, shape):
            return built(Dense(size, use_bias=False, name=name, **options), shape)

        with keras.RematScope(mode=None):
            self.input_norm = norm("input_norm", x_shape)
            self.key_projection = projection("key", x_shape)
            self.value_projection = projection("value", x_shape)
            self.slot_norm = norm("slot_norm", slots_shape)
            self.query_projection = projection("query", slots_shape)
            cell = keras.layers.GRUCell(
                size, recurrent_initializer=_orthogonal, name="recurrence", **options
            )
            self.recurrence = built(cell, (None, size))
            self.feed_forward_norm = norm("feed_forward_norm", slots_shape)
            feed_forward = FeedForward(self.hidden or 2 * size, name="feed_forward", **options)
            self.feed_forward = built(feed_forward, slots_shape)

    def call(self, x, mask=None, return_attention_scores=False):
        require_sequence(type(self).__name__, x.shape)
        mask = padding_mask(type(self).__name__, "mask", mask, x)
        x = as_floats(x, self.compute_dtype)
        if mask is not None:  # 0 · NaN would be NaN
            x = ops.where(mask[:, :, None], x, ops.cast(0.0, x.dtype))
        x = self.input_norm(x)
        key, value = self.key_projection(x), self.value_projection(x)
        slots = self._first_slots(shape_of(x)[0])
        for _ in range(self.num_iterations):
            weights = self._weights(slots, key, mask)
            slots = self._updated(slots, self._won(weights, value, mask))
        return (slots, weights) if return_attention_scores else slots

    def _first_slots(self, batch):
        """Returns the slots before the first iteration, `(batch, num_slots, slot_size)`."""
        if self.learned_slots:
            first = ops.convert_to_tensor(self.first)
            return ops.broadcast_to(ops.cast(first, self.compute_dtype), (batch, *first.shape))
        shape = (batch, self.num_slots, self.mean.shape[-1])
        noise = keras.random.normal(shape, dtype="float32", seed=self.seed_generator)
        deviation = ops.exp(ops.cast(self.log_deviation, "float32"))
        drawn = ops.cast(self.mean, "float32") + deviation * noise
        return ops.cast(drawn, self.compute_dtype)

    def _weights(self, slots, key, mask):
        """Returns how each vector of the set is divided among the slots, float32."""
        query = self.query_projection(self.slot_norm(slots))
        query, key = ops.cast(query, "float32"), ops.cast(key, "float32")
        scores = matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)
        weights = ops.softmax(scores, axis=-2)  # (batch, num_slots, length)
        return weights if mask is None else ops.where(mask[:, None, :], weights, 0.0)

    def _won(self, weights, value, mask):
        """Returns the mean of the values that each slot has won."""
        weights = weights + self.epsilon
        if mask is not None:
            weights = ops.where(mask[:, None, :], weights, 0.0)
        weights = ratio(weights, ops.sum(weights, axis=-1, keepdims=True))
        return matmul(ops.cast(weights, value.dtype), value)

    def _updated(self, slots, won):
        """Returns the slots after an iteration."""
        size = slots.shape[-1]
        state, _ = self.recurrence(ops.reshape(won, (-1, size)), [ops.reshape(slots, (-1, size))])
        slots = ops.reshape(state, (-1, self.num_slots, size))
        return slots + self.feed_forward(self.feed_forward_norm(slots))

    def compute_mask(self, x, previous_mask=None):
        """Returns `None`: every slot counts."""
        return

    def compute_output_shape(self, x_shape):
        """Returns the shape of the slots, without that of the weights."""
        require_sequence(type(self).__name__, x_shape)
        return (x_shape[0], self.num_slots, self.slot_size or x_shape[-1])

    def get_config(self):
        return {
            **super().get_config(),
            "num_slots": self.num_slots,
            "slot_size": self.slot_size,
            "num_iterations": self.num_iterations,
            "hidden": self.hidden,
            "learned_slots": self.learned_slots,
            "epsilon": self.epsilon,
            "seed": self.seed,
        }


def _orthogonal(shape, dtype=None):
    """Draws in float32: there is no QR decomposition in bfloat16."""
    return ops.cast(keras.initializers.Orthogonal()(shape, "float32"), dtype)
