"""Local attention: each query attends to a window of the keys."""

from typing import Any

import keras
from keras import ops

from keras_attention import masks, normalizers
from keras_attention._backend import shape_of
from keras_attention._checks import (
    require_one_of,
    require_positive_integers,
    require_positive_integers_or_none,
)
from keras_attention._memory import places, places_of_keys
from keras_attention._products import matmul
from keras_attention.attention import Attention

MODES = ("monotonic", "predictive")


@keras.saving.register_keras_serializable(package="keras_attention")
class LocalAttention(Attention):
    """Attention to the keys within a distance `D` of a center `p_t`: Luong's local-m and local-p.

    $$ a_t(s) = align(h_t, h_s) [|s - p_t| \\le D], \\quad
       align(h_t, h_s) = \\frac{\\exp score(h_t, h_s)}
                              {\\sum_{|j - p_t| \\le D} \\exp score(h_t, h_j)} $$

    `mode="monotonic"` (local-m) is for queries aligned to the keys: `p_t = t`.

    `mode="predictive"` (local-p) predicts the center and favors keys near it; `S` is the number of
    keys without padding:

    $$ p_t = S · sigmoid(v^T \\tanh(W h_t)), \\quad
       a_t(s) = align(h_t, h_s) \\exp(-(s - p_t)^2 / (2 σ^2)), \\quad σ = D / 2 $$

    Positions count from 0 and skip padding, so it does not matter on which side a sequence is
    padded. Both modes work with any score and normalizer. All pairs are scored, whatever `D` is.

    Paper: Luong et al. 2015, section 3.2 (https://aclanthology.org/D15-1166).

    Args:
        mode: `"monotonic"` or `"predictive"`.
        half_width: `D`, a positive integer.
        score: As for `Attention`.
        units: Size of `W h_t`. Defaults to the size of the query.
        kernel_initializer: Initializer of `W` and `v`.
        **kwargs: `normalizer`, `mask`, `position`, `soft_cap`, `dropout`, `implementation` and
            `seed`, as for `Attention`.

    Call arguments:
        As for `Attention`. Queries have the positions `t = 0, 1, …`; with `use_causal_mask`,
        queries and keys are one sequence, and the last query has the position of the last key. For
        a single step of a decoder, pass its position: `attend(query, memory, start=t)`.
        `AttentionCell` and `AttentionRNN` do not count their steps, so they need `"predictive"`.

    Output shape:
        As for `Attention`. The weights of `"predictive"` add up to less than 1.

    Raises:
        ValueError: If the mode is unknown, a size is not positive, or a step of `"monotonic"` comes
            without its position.

    Example:

    >>> layer = LocalAttention("monotonic", half_width=1, score="dot")
    >>> x = np.zeros((1, 4, 8))
    >>> _, weights = layer(x, x, return_attention_scores=True)
    >>> print(weights[0].numpy().round(1))
    [[0.5 0.5 0.  0. ]
     [0.3 0.3 0.3 0. ]
     [0.  0.3 0.3 0.3]
     [0.  0.  0.5 0.5]]
    """

    def __init__(
        self,
        mode: str = "predictive",
        half_width: int = 10,
        score: Any = "general",
        *,
        units: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(score, **kwargs)
        require_one_of("LocalAttention", MODES, mode=mode)
        require_positive_integers("LocalAttention", half_width=half_width)
        require_positive_integers_or_none("LocalAttention", units=units)
        if mode == "monotonic" and units is not None:
            raise ValueError(
                "`units` of LocalAttention is for mode='predictive'; mode='monotonic' predicts "
                f"nothing. Received: units={units!r}. Omit it."
            )
        if mode == "predictive" and self.implementation not in ("auto", "reference"):
            raise ValueError(
                "LocalAttention(mode='predictive') multiplies the weights, so it must form them: "
                "`implementation` must be 'auto' or 'reference'. "
                f"Received: {self.implementation!r}."
            )
        self.mode = mode
        self.half_width = half_width
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape, value_shape, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        if self.mode == "predictive":
            units = self.units or query_shape[-1]
            arguments = {"initializer": self.kernel_initializer, "autocast": False}
            self.place_kernel = self.add_weight(
                name="place_kernel", shape=(query_shape[-1], units), **arguments
            )
            self.place_scale = self.add_weight(name="place_scale", shape=(units, 1), **arguments)

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
        query_mask = self._padding_mask("query_mask", query_mask, query)
        centers = None
        if self.mode == "monotonic" and use_causal_mask:
            centers = _places_of_last(shape_of(query)[1], memory)
        elif self.mode == "monotonic":
            centers = places(query_mask, shape_of(query)[1])
        context, weights = self._attend_around(
            centers, query, memory, query_mask, mask, training, None, return_attention_scores
        )
        return (context, weights) if return_attention_scores else context

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
        query_mask = self._padding_mask("query_mask", query_mask, query)
        centers = None
        if self.mode == "monotonic" and start is None:
            raise ValueError(
                "LocalAttention(mode='monotonic') needs the position of the query. Pass it as "
                "`start`, attend(query, memory, start=t), or use mode='predictive'."
            )
        self._require_memory(memory)
        if self.mode == "monotonic":
            centers = places(query_mask, shape_of(query)[1]) + ops.cast(start, "float32")
        return self._attend_around(
            centers, query, memory, query_mask, mask, training, start, return_attention_scores
        )

    def _attend_to_own(self, x, memory, start, with_weights):
        of_keys = places_of_keys(memory)  # which skip the padding of earlier steps, too
        positions = ops.arange(shape_of(x)[1], dtype="int32") + start
        centers = ops.take(of_keys, ops.minimum(positions, shape_of(of_keys)[1] - 1), axis=1)
        mask = self._padding_mask("query_mask", None, x)
        return self._attend_around(centers, x, memory, mask, None, None, start, with_weights)

    def _attend_around(self, centers, query, memory, query_mask, mask, training, start, scores):
        """Attends around centers `(batch or 1, query_length)`, or predicted ones if `None`."""
        query, predicts = self._ready(query, query_mask), centers is None
        if predicts:
            centers = self._predict(query, memory)
        if start is None:
            start = shape_of(memory.key)[-2] - shape_of(query)[1]
        window = _Window(centers, places_of_keys(memory), self.half_width, start)
        normalizer = _Scaled(self.normalizer, window.closeness()) if predicts else None
        mask = masks.combine(mask, window)
        return self._attend(
            query, memory, query_mask, mask, training, start, scores, normalizer=normalizer
        )

    def _predict(self, query, memory):
        """Returns `p_t`, float32 `(batch, query_length)`."""
        hidden = ops.tanh(matmul(ops.cast(query, "float32"), _float32(self.place_kernel)))
        relative = ops.sigmoid(matmul(hidden, _float32(self.place_scale))[..., 0])
        last = ops.max(places_of_keys(memory), axis=1, keepdims=True, initial=-1.0)
        return relative * (last + 1.0)

    def room_for(self, value, mask=None):
        if self.mode == "predictive":
            raise ValueError(
                "LocalAttention(mode='predictive') has no steps: it predicts places among all keys,"
                " whose number is not known yet. Received: mode='predictive'. Use mode='monotonic'."
            )
        return super().room_for(value, mask)

    def choose_implementation(self, query_shape, value_shape, return_attention_scores=False):
        forms_weights = return_attention_scores or self.mode == "predictive"
        return super().choose_implementation(query_shape, value_shape, forms_weights)

    def get_config(self):
        return {
            **super().get_config(),
            "mode": self.mode,
            "half_width": self.half_width,
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }


class _Window(masks.Mask):
    """A query sees the keys around its center.

    Args:
        centers: float32 `(batch or 1, query_length)`, the centers of the queries' windows.
        places: float32 `(batch or 1, key_length)`, the positions of the keys without padding.
        half_width: How far from its center a query sees.
        start: Position of the first query.
    """

    def __init__(self, centers, places, half_width, start):
        self.centers, self.places = centers, places
        self.half_width, self.start = half_width, start

    def tile(self, query_positions, key_positions):
        centers = ops.take(self.centers, query_positions - self.start, axis=1)
        places = ops.take(self.places, key_positions, axis=1)
        return ops.abs(places[:, None, None, :] - centers[:, None, :, None]) <= self.half_width

    def closeness(self):
        """Returns a Gaussian around each center, `(batch or 1, query_length, key_length)`."""
        distances = self.places[:, None, :] - self.centers[:, :, None]
        return ops.exp(-2.0 * ops.square(distances / self.half_width))


class _Scaled(normalizers.Normalizer):
    """The weights of another normalizer, multiplied by given factors."""

    def __init__(self, normalizer, factors):
        self.normalizer, self.factors = normalizer, factors

    def __call__(self, scores, visible=None, training=None):
        return self.normalizer(scores, visible, training) * self.factors


def _places_of_last(number, memory):
    """Returns the centers of queries that are aligned to the end of the keys."""
    of_query, _ = masks.positions(number, shape_of(memory.key)[-2])
    return ops.take(places_of_keys(memory), ops.maximum(of_query, 0), axis=1)


def _float32(weight):
    return ops.cast(weight, "float32")
