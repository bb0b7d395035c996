"""Perplexity of a language model or a translation model."""

import keras
from keras import ops

from keras_attention._checks import fits


@keras.saving.register_keras_serializable(package="zoo")
class Perplexity(keras.metrics.Metric):
    """Perplexity: the exponential of the mean cross-entropy per token.

        PPL = exp( Σᵢ wᵢ · (−log softmax(logitsᵢ)[yᵢ])  /  Σᵢ wᵢ )

    The sums run over every token of every batch, so the result does not depend on batching or
    padding. Tokens of weight 0 are ignored. Everything is computed in float32. Before the first
    weighted token the result is NaN.

    In `compile`, pass it in `weighted_metrics`: Keras does not pass sample weights to `metrics`.

    Args:
        name: Name of the metric.

    Call arguments:
        y_true: Token ids `(..., length)`.
        y_pred: Logits `(..., length, vocabulary)`.
        sample_weight: Weight of each token, of the shape of `y_true` or one that broadcasts to it
            with the same rank. Defaults to 1. A Keras mask on `y_pred` is applied as well.

    Example:

    >>> metric = Perplexity()
    >>> metric.update_state([[1, 0]], np.zeros((1, 2, 5)), sample_weight=[[1, 0]])
    >>> round(float(metric.result()), 4)
    5.0
    """

    def __init__(self, name="perplexity"):
        super().__init__(name=name, dtype="float32")
        self._direction = "down"  # which callbacks of Keras ask for: lower is better
        # Without a dtype, Keras makes variables of the global `floatx`.
        zeros = {"shape": (), "initializer": "zeros", "dtype": "float32"}
        self.total_cross_entropy = self.add_variable(**zeros, name="total_cross_entropy")
        self.total_weight = self.add_variable(**zeros, name="total_weight")

    def update_state(self, y_true, y_pred, sample_weight=None):
        mask = getattr(y_pred, "_keras_mask", None)
        targets = ops.convert_to_tensor(y_true, dtype="int32")
        logits = ops.convert_to_tensor(y_pred, dtype="float32")
        _check_shapes(targets, logits)
        weights = _token_weights(targets, sample_weight, mask)
        # Padding may hold any id and any logits: a NaN there must not survive "times 0".
        counted = weights != 0
        cross_entropy = ops.sparse_categorical_crossentropy(
            ops.where(counted, targets, 0),
            ops.where(counted[..., None], logits, 0.0),
            from_logits=True,
        )
        self.total_cross_entropy.assign_add(ops.sum(weights * cross_entropy))
        self.total_weight.assign_add(ops.sum(weights))

    def result(self):
        return ops.exp(self.total_cross_entropy / self.total_weight)

    def get_config(self):
        return {"name": self.name}


def _token_weights(targets, sample_weight, mask):
    shape = ops.shape(targets)
    weights = ops.ones(shape, dtype="float32")
    for factor in (sample_weight, mask):
        if factor is None:
            continue
        factor = ops.convert_to_tensor(factor, dtype="float32")
        if len(factor.shape) != len(targets.shape):
            raise ValueError(
                "Perplexity weighs tokens: sample_weight needs the rank of y_true. Received: "
                f"sample_weight of shape {tuple(factor.shape)}, y_true of shape "
                f"{tuple(targets.shape)}. For one weight a sentence, give sample_weight[:, None]."
            )
        weights = weights * ops.broadcast_to(factor, shape)
    return weights


def _check_shapes(targets, logits):
    expected = tuple(targets.shape)
    if not fits(logits.shape[:-1], expected):
        raise ValueError(
            "Perplexity needs one vector of logits for each token: y_pred of the shape of y_true "
            f"and the vocabulary after it. Received: y_true of shape {expected}, y_pred of shape "
            f"{tuple(logits.shape)}."
        )
