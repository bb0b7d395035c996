"""Accuracy of a model of tokens or labels."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="zoo")
class TokenAccuracy(keras.metrics.SparseCategoricalAccuracy):
    """Accuracy per token: the share of the weights whose token has the largest logit.

    The sums run over every token of every batch, so the result does not depend on batching or
    padding: Keras' `SparseCategoricalAccuracy` takes the mean of each row before the sum over
    rows, so that a token counts less in a batch padded to a greater length. It also rounds labels
    to the precision of the logits; in `"bfloat16"`, 1001 equals 1003.

    Args:
        name: Name of the metric.

    Call arguments:
        y_true: Labels, such as token ids `(batch, length)`.
        y_pred: Logits of the shape of `y_true` and the number of labels after it.
        sample_weight: Weight of each label, of the shape of `y_true` or one that broadcasts to it
            with the same rank, or `(batch,)`. Defaults to 1.

    Example:

    >>> metric = TokenAccuracy()
    >>> logits = [[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]]
    >>> metric.update_state([[1, 1, 0]], logits, sample_weight=[[1, 1, 0]])
    >>> float(metric.result())
    0.5
    """

    def __init__(self, name="token_accuracy", dtype="float32"):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        logits = ops.convert_to_tensor(y_pred, dtype="float32")
        shape, rank = ops.shape(logits)[:-1], len(logits.shape) - 1
        if sample_weight is not None:
            weights = ops.convert_to_tensor(sample_weight, dtype="float32")
            ones = (1,) * (rank - len(weights.shape))
            weights = ops.reshape(weights, (*ops.shape(weights), *ones))
            sample_weight = ops.reshape(ops.broadcast_to(weights, shape), (-1,))
        labels = ops.reshape(ops.convert_to_tensor(y_true), (-1,))
        logits = ops.reshape(logits, (-1, ops.shape(logits)[-1]))
        return super().update_state(labels, logits, sample_weight)
