"""The base class of normalizers, which turn scores into weights."""

import numpy as np
from keras import ops

from keras_attention._registry import Part

NONE = 1.2e-38  # sums up to this count as zero: their inverse would overflow
LOWEST = float(np.finfo("float32").min)  # of hidden scores; visible ones are to be above it


class Normalizer(Part):
    """Base class of all normalizers: `normalizer(scores, visible)` gives the weights.

    Weights are float32 whatever the dtype of the scores, and exactly 0 where `visible` is `False`.
    A row without visible keys is 0 everywhere and has a gradient of exactly 0.

    A custom normalizer needs one method, `__call__`, with all three arguments: layers pass
    `training` to every normalizer. If its constructor takes arguments, it also needs `get_config`,
    which returns them by name, so that a layer with the normalizer can be saved.

    Attributes:
        seed_generator: The `keras.random.SeedGenerator` of a normalizer that samples, else `None`.
            The layer also stores it, so that Keras tracks its state.

    Call arguments:
        scores: Tensor `(..., key_length)`. Hidden scores, even NaN, have no effect.
        visible: Boolean tensor that broadcasts to `scores`, or `None` for all visible.
        training: Whether the layer is training, for normalizers that sample only then.

    Example:

    A custom normalizer, which divides scores above 0 by the highest one. It has to apply `visible`
    itself:

    >>> @keras.saving.register_keras_serializable(package="my_normalizers")
    ... class OfHighest(Normalizer):
    ...     def __call__(self, scores, visible=None, training=None):
    ...         scores = ops.relu(ops.cast(scores, "float32"))
    ...         if visible is not None:
    ...             scores = ops.where(visible, scores, 0.0)
    ...         return scores / ops.maximum(ops.max(scores, axis=-1, keepdims=True), 1e-9)
    >>> OfHighest()(np.array([[1.0, 4.0, 9.0]]), np.array([True, True, False])).numpy().tolist()
    [[0.25, 1.0, 0.0]]
    """

    seed_generator = None

    def __call__(self, scores, visible=None, training=None):
        raise NotImplementedError(f"{type(self).__name__} must implement `__call__`.")


def as_float32(scores, visible):
    """Returns the scores in float32, and `visible` as a tensor, or `True` in place of `None`."""
    visible = True if visible is None else ops.convert_to_tensor(visible, "bool")
    return ops.cast(scores, "float32"), visible


def hidden_lowest(scores, visible):
    """Returns float32 scores with `LOWEST` at hidden keys.

    It is finite, since tf2onnx multiplies what `where` does not select by 0.
    """
    return ops.where(visible, scores, ops.convert_to_tensor(LOWEST, "float32"))


def below_highest(scores, visible):
    """Returns float32 scores minus the highest visible one of their row; 0 where they are hidden.

    Hidden scores are removed before any arithmetic; otherwise a NaN would reach the gradient.
    """
    seen = hidden_lowest(scores, visible)
    highest = ops.max(seen, axis=-1, keepdims=True, initial=LOWEST)
    highest = ops.stop_gradient(ops.where(ops.isfinite(highest), highest, 0.0))
    return ops.where(visible, scores, highest) - highest


def ratio(part, whole):
    """Returns `part / whole`, or 0 with a gradient of 0 where the whole counts as zero."""
    is_some = ops.abs(whole) > NONE
    whole = ops.where(is_some, whole, 1.0)
    # First divide by a constant: the gradient of a division squares the divisor, which may vanish.
    constant = ops.stop_gradient(whole)
    return ops.where(is_some, (part / constant) / (whole / constant), 0.0)
