"""The base class of alignments: weights of a step that depend on those of the step before."""

import keras
from keras import ops

from keras_attention.normalizers import Normalizer


@keras.saving.register_keras_serializable(package="keras_attention")
class Alignment(keras.layers.Layer):
    """Base class of all alignments: `alignment(scores, previous, visible)` gives the weights.

    $$ α_t = f(e_t, α_{t-1}) $$

    `e_t` are the scores of the query of step `t`. In an `AttentionCell`, an alignment takes the
    place of the softmax of its attention. Before the first step, all weight is on the first key
    that is not padding. Heads of multi-head attention are aligned separately.

    Weights are exactly 0 where `visible` is `False`: an alignment passes over such keys as if they
    were not there. All arithmetic is in float32, also in mixed precision.

    A custom alignment needs one method, `call`, with all four arguments. If its constructor takes
    arguments, it also needs `get_config`.

    Call arguments:
        scores: Tensor `(..., key_length)`. Hidden scores, even NaN, have no effect.
        previous: Tensor of the same shape, the weights of the step before.
        visible: Boolean tensor that broadcasts to `scores`, or `None` for all visible.
        training: Whether the layer is training.

    Output shape:
        That of the scores, in float32.

    Example:

    A custom alignment, which does not go back: a softmax over the keys from the first one on that
    has had a weight.

    >>> from keras_attention import normalizers
    >>> @keras.saving.register_keras_serializable(package="my_alignments")
    ... class Onwards(Alignment):
    ...     def call(self, scores, previous, visible=None, training=None):
    ...         ahead = ops.cumsum(previous, axis=-1) > 0
    ...         visible = ahead if visible is None else ops.logical_and(visible, ahead)
    ...         return normalizers.Softmax()(scores, visible)
    >>> Onwards()(np.array([[9.0, 1.0, 1.0]]), np.array([[0.0, 1.0, 0.0]])).numpy().tolist()
    [[0.0, 0.5, 0.5]]
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.autocast = False
        self.supports_masking = True

    def __call__(self, scores, previous, *args, **kwargs):
        scores, previous = ops.cast(scores, "float32"), ops.cast(previous, "float32")
        return super().__call__(scores, previous, *args, **kwargs)

    def call(self, scores, previous, visible=None, training=None):
        raise NotImplementedError(f"{type(self).__name__} must implement `call`.")

    def initial_weights(self, zeros, mask=None):
        """Returns the weights before the first step: 1 for the first key that is not padding.

        Args:
            zeros: float32 zeros in the shape of the weights, `(batch, *heads, key_length)`.
            mask: Boolean `(batch, key_length)`, `False` for padding, or `None`.
        """
        is_key = ops.ones_like(zeros, "bool") if mask is None else mask
        if len(is_key.shape) < len(zeros.shape):
            is_key = is_key[:, None]  # (batch, 1, key_length)
        is_first = ops.logical_and(is_key, ops.cumsum(ops.cast(is_key, "int32"), axis=-1) == 1)
        return zeros + ops.cast(is_first, zeros.dtype)

    def after(self, previous):
        """Returns the normalizer of the step after the one with these weights.

        Args:
            previous: float32 `(batch, *heads, key_length)`.
        """
        return _After(self, previous)

    def compute_output_shape(self, scores_shape):
        return tuple(scores_shape)


class _After(Normalizer):
    """An alignment with the weights of the step before, for the scores of a single query."""

    def __init__(self, alignment, previous):
        self.alignment, self.previous = alignment, previous

    def __call__(self, scores, visible=None, training=None):
        previous = ops.expand_dims(self.previous, axis=-2)  # (batch, *heads, 1, key_length)
        return self.alignment(scores, previous, visible=visible, training=training)
