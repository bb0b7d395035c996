"""Coverage: attention inside a recurrent decoder that sees where it has attended before."""

from typing import Any

import keras
from keras import ops

from keras_attention import masks
from keras_attention._backend import shape_of
from keras_attention._checks import (
    fits,
    plain,
    require_one_of,
    require_positive_integers,
    require_positive_integers_or_none,
)
from keras_attention._initializers import for_each_head
from keras_attention._products import matmul
from keras_attention.attention import Attention
from keras_attention.multi_head import MultiHeadAttention

HISTORIES = ("previous", "sum", "both")


@keras.saving.register_keras_serializable(package="keras_attention")
class Coverage(keras.layers.Layer):
    """Adds to each key of a memory what it learns from the earlier attention weights around it.

    $$ k'_j = k_j + U f_j, \\quad f = F * [α_{t-1}; \\sum_{i<t} α_i] $$

    `k_j` are the keys as the score has prepared them, `α_i` the weights of step `i`, and `*` is a
    convolution along the keys. The weights before the first step are zeros; some implementations
    start with all weight on the first key instead. With the additive score, an `AttentionCell`
    computes

    $$ score(s, h_j) = v^T \\tanh(W_q s + W_k h_j + U f_j + b) $$

    - `Coverage(filters=10, kernel_size=201, history="previous")` is location-sensitive attention:
      Chorowski et al. 2015, section 2.2 (https://arxiv.org/abs/1506.07503).
    - `Coverage(filters=32, kernel_size=31)` is that of Tacotron 2: Shen et al. 2018, section 2.2
      (https://arxiv.org/abs/1712.05884). Many implementations use `history="both"`.
    - `Coverage()` adds `w_c \\sum_{i<t} α_{ij}`: coverage as in See et al. 2017, section 2.3
      (https://arxiv.org/abs/1704.04368), and Tu et al. 2016, section 3.1.1, without fertility
      (https://arxiv.org/abs/1601.04811). `coverage_loss` is the loss of the former.

    It works with every score whose prepared keys are vectors: not with distances and kernels, nor
    with scores that do not use the keys. Positions must not use the keys, as `"disentangled"` does.
    The heads of multi-head attention have separate weights and histories.

    Args:
        filters: Number of filters in `F`. `None` omits `F`: `f_j` are then the weights themselves.
        kernel_size: Number of keys that `f_j` covers, centered on `j`; an even number covers one
            more on the right. The ends are padded with zeros.
        history: Which weights it sees: those of the `"previous"` step, the `"sum"` over all earlier
            steps, or `"both"`.

    Call arguments:
        key: Prepared keys `(batch, *heads, key_length, size)`.
        history: List of float32 tensors `(batch, *heads, key_length)`, from `initial_history` or
            `next_history`.

    Output shape:
        That of the keys.

    Raises:
        ValueError: If a size is not a positive integer, or `history` is unknown.

    Example:

    >>> from keras_attention import AttentionCell, AttentionRNN, Coverage
    >>> cell = AttentionCell(keras.layers.GRUCell(8), "additive", coverage=Coverage(4, 3))
    >>> outputs, weights = AttentionRNN(cell)(
    ...     np.ones((2, 3, 4)), np.ones((2, 5, 6)), return_attention_scores=True)
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((2, 3, 14), (2, 3, 5))
    """

    def __init__(
        self,
        filters: int | None = None,
        kernel_size: int = 1,
        history: str = "sum",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive_integers_or_none("Coverage", filters=filters)
        require_positive_integers("Coverage", kernel_size=kernel_size)
        require_one_of("Coverage", HISTORIES, history=history)
        self.supports_masking = True
        self.filters = plain(filters)
        self.kernel_size = plain(kernel_size)
        self.history = history

    @property
    def history_length(self):
        """Number of tensors in a history."""
        return 2 if self.history == "both" else 1

    def build(self, key_shape):
        heads, size = tuple(key_shape[1:-2]), key_shape[-1]
        features = self.history_length * self.kernel_size
        initializer = for_each_head(keras.initializers.GlorotUniform())
        if self.filters is not None:
            self.convolution = self.add_weight(
                name="convolution",
                shape=(*heads, features, self.filters),
                initializer=initializer,
            )
        self.projection = self.add_weight(
            name="projection",
            shape=(*heads, self.filters or features, size),
            initializer=initializer,
        )

    def call(self, key, history):
        features = ops.concatenate([self._windows(each) for each in history], axis=-1)
        if self.filters is not None:
            features = matmul(features, ops.cast(self.convolution, features.dtype))
        moved = matmul(features, ops.cast(self.projection, features.dtype))
        return key + ops.cast(moved, key.dtype)

    def _windows(self, weights):
        """Returns the weights around each key, `(batch, *heads, key_length, kernel_size)`."""
        before = (self.kernel_size - 1) // 2
        ends = (before, self.kernel_size - 1 - before)
        padded = ops.pad(weights, [(0, 0)] * (len(weights.shape) - 1) + [ends])
        keys = ops.arange(shape_of(weights)[-1], dtype="int32")
        places = keys[:, None] + ops.arange(self.kernel_size, dtype="int32")
        return ops.take(padded, places, axis=-1)

    def initial_history(self, zeros):
        """Returns the history before the first step, given zeros in the shape of the weights."""
        return [zeros] * self.history_length

    def next_history(self, history, weights):
        """Returns the history after a step with these weights."""
        if self.history == "previous":
            return [weights]
        total = history[-1] + weights
        return [weights, total] if self.history == "both" else [total]

    def compute_output_shape(self, key_shape):
        return tuple(key_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "history": self.history,
        }


def get_coverage(coverage, attention):
    """Returns the layer that the argument `coverage` of `AttentionCell` describes, or `None`.

    Raises:
        ValueError: If it is something else, or the attention has no keys to which it can add.
    """
    if coverage is None:
        return None
    if isinstance(coverage, dict):
        coverage = keras.saving.deserialize_keras_object(coverage)
    if not isinstance(coverage, Coverage):
        raise ValueError(
            "`coverage` of AttentionCell must be a layer such as Coverage(), or None. "
            f"Received: {coverage!r}."
        )
    unfit = _unfit_part(attention)
    if unfit is not None:
        raise ValueError(
            "`coverage` of AttentionCell adds vectors to the prepared keys, so its attention must "
            "be an Attention or MultiHeadAttention whose score compares vectors of keys. "
            f"Received: the {unfit}. Use score='additive', as in the papers, or one such as "
            "'general' or 'scaled_dot'."
        )
    return coverage


def _unfit_part(attention):
    """Returns which part of an attention prevents adding vectors to its keys, or `None`."""
    if isinstance(attention, MultiHeadAttention) and attention.maps == 1:
        attention = attention.attention
    if not isinstance(attention, Attention):
        return f"layer {type(attention).__name__}"
    score, position = attention.score, attention.position
    if not (score.uses_key and score.key_is_vector):
        return f"score {type(score).__name__}"
    if position is not None and position.uses_key:  # its features are part of the prepared keys
        return f"position {type(position).__name__}"
    return None


def coverage_loss(weights, mask=None):
    """Returns the coverage loss: how much attention returns to the keys it has attended to.

    $$ \\sum_t \\sum_j \\min(α_{tj}, c_{tj}), \\quad c_t = \\sum_{i<t} α_i $$

    Paper: See et al. 2017, Get To The Point: Summarization with Pointer-Generator Networks,
    section 2.3 (https://arxiv.org/abs/1704.04368). The paper adds its mean over the steps to the
    mean cross-entropy, with weight 1, at the end of the training.

    Args:
        weights: Attention weights `(batch, *heads, steps, key_length)`, as `AttentionRNN` returns
            them. Those of padding in the memory are zero, so they add nothing.
        mask: Boolean `(batch, steps)`: `False` for steps that do not count.

    Returns:
        float32 `(batch, *heads)`.

    Raises:
        ValueError: If the mask has the wrong shape.

    Example:

    >>> weights = np.array([[[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [0.0, 0.1, 0.9]]])
    >>> coverage_loss(weights).numpy().round(4)  # (0.2 + 0.5) + 0.1
    array([0.8], dtype=float32)

    A layer that adds it to the loss of a model:

    >>> from keras_attention import AttentionCell, AttentionRNN, Coverage
    >>> class Decoder(keras.layers.Layer):
    ...     def __init__(self):
    ...         super().__init__()
    ...         cell = AttentionCell(keras.layers.GRUCell(8), coverage=Coverage())
    ...         self.decoder = AttentionRNN(cell)
    ...     def call(self, inputs, memory):
    ...         outputs, weights = self.decoder(inputs, memory, return_attention_scores=True)
    ...         self.add_loss(ops.mean(coverage_loss(weights)) / inputs.shape[1])
    ...         return outputs
    >>> decoder = Decoder()
    >>> outputs = decoder(np.ones((2, 3, 4)), np.ones((2, 5, 6)))
    >>> len(decoder.losses)
    1
    """
    weights = ops.cast(weights, "float32")
    if mask is not None:
        mask = masks.as_boolean(mask, "mask", ranks=(2,))
        expected = weights.shape[0], weights.shape[-2]
        if not fits(mask.shape, expected):
            raise ValueError(
                f"`mask` of coverage_loss must have the shape (batch, steps) = {expected} of the "
                f"weights. Received: shape {tuple(mask.shape)}. Pass one boolean for each step."
            )
        mask = mask[:, None, :, None] if len(weights.shape) == 4 else mask[:, :, None]
        weights = ops.where(mask, weights, 0.0)
    covered = ops.cumsum(weights, axis=-2) - weights
    return ops.sum(ops.minimum(weights, covered), axis=(-2, -1))
