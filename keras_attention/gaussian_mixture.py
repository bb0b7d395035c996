"""Attention by position alone: a mixture of Gaussians that moves forward over the keys."""

import math
from typing import Any

import keras
from keras import ops

from keras_attention import masks
from keras_attention._backend import shape_of
from keras_attention._checks import (
    plain,
    require_positive_integers,
    require_positive_integers_or_none,
    require_positive_numbers,
)
from keras_attention._layer import with_padding
from keras_attention._memory import Memory, MemoryAttention, places_of_keys
from keras_attention._products import matmul
from keras_attention.compute.tiles import visible_pairs

NARROWEST = 1e-3  # width, so that nothing is divided by 0


@keras.saving.register_keras_serializable(package="keras_attention")
class GaussianMixtureAttention(MemoryAttention):
    """Attention to places: Gaussians over the positions of the keys, which only move forward.

    $$ w_{t,j} = \\sum_k \\frac{a_{t,k}}{\\sqrt{2π} \\, σ_{t,k}}
       \\exp\\left(-\\frac{(j - μ_{t,k})^2}{2 σ_{t,k}^2}\\right), \\quad
       μ_{t,k} = μ_{t-1,k} + Δ_{t,k} $$

    for the keys `j = 1, 2, …`, with `μ_0 = 0`. Each query decides how far each Gaussian moves, how
    wide it is and how much it counts: `a_t = softmax(â_t)`, `Δ_t = softplus(Δ̂_t)` and
    `σ_t = softplus(σ̂_t) + 0.001`, where `(â_t, Δ̂_t, σ̂_t) = V tanh(W q_t + b) + c`. The contents of
    the keys do not count, only their number. This suits what is read from start to end, such as a
    text that is spoken or written, also if it is much longer than those in training.

    With `normalized=False`, the equation is that of the first paper, where the Gaussians are not
    divided by their integral, and `a_t`, `Δ_t` and `b_t` are exponentials:

    $$ w_{t,j} = \\sum_k a_{t,k} \\exp(-b_{t,k} (j - μ_{t,k})^2) $$

    Positions skip padding. Hidden queries do not move the Gaussians.

    Papers: Graves 2013, Generating Sequences With Recurrent Neural Networks, section 5.1
    (https://arxiv.org/abs/1308.0850); Battenberg et al. 2020, Location-Relative Attention
    Mechanisms for Robust Long-Form Speech Synthesis, "GMMv2b" (https://arxiv.org/abs/1910.10288).

    Args:
        num_components: Number of Gaussians.
        units: Size of the hidden layer `tanh(W q_t + b)`. With `None`, there is none, as in the
            first paper: `V q_t + c`.
        normalized: Whether to divide each Gaussian by its integral, as in the second paper.
        initial_step: How many keys an untrained Gaussian moves in a step, before the query counts.
        initial_width: Its standard deviation, in keys.
        kernel_initializer: Initializer of `W` and `V`.

    Call arguments:
        query: Tensor `(batch, query_length, query_size)`, in the order of the steps.
        value: Tensor `(batch, key_length, value_size)`.
        key: Tensor `(batch, key_length, key_size)`. Its values have no effect.
        query_mask, value_mask, key_mask, attention_mask, use_causal_mask: As for `Attention`.
            Masked weights are 0; the others do not grow for it.
        return_attention_scores: Whether to return the weights, too.

    Output shape:
        `(batch, query_length, value_size)`; the weights `(batch, query_length, key_length)`. They
        add up to about 1 while the Gaussians are among the keys, and fade behind the last one.

    Raises:
        ValueError: If a number is out of range, or a shape does not fit.

    Example:

    In a decoder, where the state keeps the places of the Gaussians:

    >>> from keras_attention import AttentionCell, AttentionRNN
    >>> attention = GaussianMixtureAttention(num_components=2, initial_width=0.5)
    >>> decoder = AttentionRNN(AttentionCell(keras.layers.GRUCell(8), attention))
    >>> inputs, encoded = np.zeros((1, 3, 4)), np.ones((1, 5, 6))
    >>> _, weights = decoder(inputs, encoded, return_attention_scores=True)
    >>> weights[0].numpy().argmax(axis=-1).tolist()
    [0, 1, 2]
    """

    def __init__(
        self,
        num_components: int = 5,
        units: int | None = 128,
        *,
        normalized: bool = True,
        initial_step: float = 1.0,
        initial_width: float = 10.0,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        owner = type(self).__name__
        require_positive_integers(owner, num_components=num_components)
        require_positive_integers_or_none(owner, units=units)
        require_positive_numbers(owner, initial_step=initial_step, initial_width=initial_width)
        self.num_components = num_components
        self.units = units
        self.normalized = normalized
        self.initial_step = plain(initial_step)
        self.initial_width = plain(initial_width)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape, value_shape, key_shape=None):
        self._require_fitting_shapes(query_shape, value_shape, key_shape or value_shape)
        size = query_shape[-1]
        # Places are sums of many steps: float32 even in mixed precision.
        options = {"initializer": self.kernel_initializer, "autocast": False}
        if self.units is not None:
            self.kernel = self.add_weight(name="kernel", shape=(size, self.units), **options)
            self.bias = self.add_weight(
                name="bias", shape=(self.units,), initializer="zeros", autocast=False
            )
            size = self.units
        shape = size, 3 * self.num_components
        self.mixture_kernel = self.add_weight(name="mixture_kernel", shape=shape, **options)
        self.mixture_bias = self.add_weight(
            name="mixture_bias", shape=shape[1:], initializer=self._initial_bias, autocast=False
        )

    def _initial_bias(self, shape, dtype=None):
        if self.normalized:
            step, width = map(_inverse_of_softplus, (self.initial_step, self.initial_width))
        else:
            step, width = math.log(self.initial_step), -math.log(2.0 * self.initial_width**2)
        return ops.repeat(ops.array([0.0, step, width], dtype), self.num_components)

    def _prepare(self, key, value, mask, start):
        return Memory(key[..., :0], value, mask)

    def initial_places(self, batch):
        """Returns the places of the Gaussians before the first query, `(batch, num_components)`."""
        return ops.zeros((batch, self.num_components), "float32")

    def places_after(self, query, places, query_mask=None):
        """Returns the places of the Gaussians after queries, float32 `(batch, num_components)`.

        Args:
            query: Tensor `(batch, query_length, query_size)`.
            places: Those before: `initial_places`, or what this method returned.
            query_mask: Boolean `(batch, query_length)` or `None`.
        """
        query_mask = self._padding_mask("query_mask", query_mask, query)
        _, steps, _ = self._mixture(self._ready(query, query_mask), query_mask)
        return ops.cast(places, "float32") + ops.sum(steps, axis=1)

    def _attend(
        self,
        query,
        memory,
        query_mask,
        mask,
        training,
        start,
        return_attention_scores,
        places=None,
    ):
        query_length, key_length = shape_of(query)[1], shape_of(memory.value)[1]
        amounts, steps, widths = self._mixture(query, query_mask)
        centers = ops.cumsum(steps, axis=1)
        if places is not None:
            centers = ops.cast(places, "float32")[:, None] + centers
        weights = self._densities(amounts, centers, widths, places_of_keys(memory) + 1.0)
        start = key_length - query_length if start is None else start
        mask = with_padding([mask], memory, query_mask, start + query_length)
        if mask is not None:
            positions = masks.positions(query_length, key_length, start)
            weights = ops.where(visible_pairs(mask, positions, weights.shape[:1]), weights, 0.0)
        context = matmul(ops.cast(weights, memory.value.dtype), memory.value)
        return context, weights if return_attention_scores else None

    def _mixture(self, query, query_mask):
        """Returns `a_t`, `Δ_t` and `σ_t` or `b_t`, float32 `(batch, query_length, components)`."""
        x = ops.cast(query, "float32")
        if self.units is not None:
            x = ops.tanh(matmul(x, _float32(self.kernel)) + _float32(self.bias))
        x = matmul(x, _float32(self.mixture_kernel)) + _float32(self.mixture_bias)
        amounts, steps, widths = ops.split(x, 3, axis=-1)
        if self.normalized:
            is_single = self.num_components == 1  # Keras warns of a softmax over one
            amounts = ops.ones_like(amounts) if is_single else ops.softmax(amounts)
            steps, widths = ops.softplus(steps), ops.softplus(widths) + NARROWEST
        else:
            amounts, steps, widths = ops.exp(amounts), ops.exp(steps), ops.exp(widths)
        if query_mask is not None:
            steps = ops.where(query_mask[:, :, None], steps, 0.0)
        return amounts, steps, widths

    def _densities(self, amounts, centers, widths, places):
        """Returns the weights `(batch, query_length, key_length)` of keys at these places."""
        columns = (ops.unstack(x, self.num_components, axis=-1) for x in (amounts, centers, widths))
        total = 0.0
        for amount, center, width in zip(*columns, strict=True):
            distance = places[:, None, :] - center[:, :, None]
            if self.normalized:
                amount = amount / (math.sqrt(2.0 * math.pi) * width)
                exponent = -0.5 * ops.square(distance / width[:, :, None])
            else:
                exponent = -width[:, :, None] * ops.square(distance)
            total = total + amount[:, :, None] * ops.exp(exponent)
        return total

    def _output_size(self, query_shape, value_shape):
        return value_shape[-1]

    def get_config(self):
        return {
            **super().get_config(),
            "num_components": self.num_components,
            "units": self.units,
            "normalized": self.normalized,
            "initial_step": self.initial_step,
            "initial_width": self.initial_width,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }


def _inverse_of_softplus(x):
    return x + math.log(-math.expm1(-x))


def _float32(weight):
    return ops.cast(weight, "float32")
