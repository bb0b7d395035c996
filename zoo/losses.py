"""The losses of models that predict the next token, and of those with a label at each time."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="zoo")
class TokenCrossentropy(keras.losses.Loss):
    """Cross-entropy per real token, with label smoothing.

    $$ loss = \\sum_i w_i [-(1 - ε) \\log p_i(y_i) - \\frac{ε}{V} \\sum_v \\log p_i(v)]
       / \\sum_i w_i $$

    The sum over tokens is divided by the sum of their weights, so padding of weight 0 changes
    nothing; with `reduction="sum_over_batch_size"`, by their number. If the labels are
    probabilities q, `-Σ_v q_i(v) log p_i(v)` replaces `-log p_i(y_i)`. Computed in float32.

    Paper: Szegedy et al. 2016, section 7 (https://arxiv.org/abs/1512.00567).

    Args:
        label_smoothing: ε, the share of the target that is spread evenly over all tokens.

    Call arguments:
        y_true: Integer tokens `(batch, length)`, or probabilities of all tokens `(batch, length,
            vocabulary)`.
        y_pred: Logits `(batch, length, vocabulary)`.
        sample_weight: Weights `(batch, length)`: 1 for tokens, 0 for padding.

    Example:

    >>> loss = TokenCrossentropy()
    >>> float(loss(np.array([[0, 1]]), np.zeros((1, 2, 4)), np.array([[1.0, 0.0]])))
    1.386...
    """

    def __init__(self, label_smoothing=0.0, name="token_crossentropy", **kwargs):
        kwargs.setdefault("reduction", "mean_with_sample_weight")
        kwargs.setdefault("dtype", "float32")  # Keras casts labels to it: half precision rounds ids
        super().__init__(name=name, **kwargs)
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                "`label_smoothing` must be at least 0 and below 1. "
                f"Received: label_smoothing={label_smoothing}."
            )
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        logits = ops.cast(y_pred, "float32")
        is_soft = len(y_true.shape) == 3
        of = ops.categorical_crossentropy if is_soft else ops.sparse_categorical_crossentropy
        loss = of(y_true, logits, from_logits=True)
        if not self.label_smoothing:
            return loss
        if is_soft:
            target = ops.sum(y_true * logits, axis=-1)
        else:
            # Keras has turned the labels into floats.
            places = ops.cast(y_true, "int32")[..., None]
            target = ops.squeeze(ops.take_along_axis(logits, places, axis=-1), axis=-1)
        # -mean(log p) = loss + logit of y - mean(logits): no second softmax over the vocabulary.
        return loss + self.label_smoothing * (target - ops.mean(logits, axis=-1))

    def get_config(self):
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


@keras.saving.register_keras_serializable(package="zoo")
class CTC(keras.losses.Loss):
    """The negative log-probability of a text over all alignments, whichever label is the blank.

    That of `keras.losses.CTC` is always label 0.

    Paper: Graves et al. 2006, Connectionist Temporal Classification
    (https://www.cs.toronto.edu/~graves/icml_2006.pdf).

    Args:
        blank_id: The label that is the blank, which also pads texts.

    Call arguments:
        y_true: Integer tokens `(batch, length)`.
        y_pred: Logits `(batch, times, labels)`.

    Example:

    >>> loss = CTC(blank_id=2)
    >>> float(loss(np.array([[1, 2]]), np.zeros((1, 2, 4), "float32")))  # 3 of 16 paths
    1.673...
    """

    def __init__(self, blank_id=0, name="ctc", **kwargs):
        kwargs.setdefault("dtype", "float32")  # Keras casts labels to it: half precision rounds ids
        super().__init__(name=name, **kwargs)
        self.blank_id = blank_id

    def call(self, y_true, y_pred):
        lengths = ops.sum(ops.cast(y_true != self.blank_id, "int32"), axis=-1)
        times = ops.full_like(lengths, ops.shape(y_pred)[1])

        def losses():
            return ops.ctc_loss(y_true, y_pred, lengths, times, mask_index=self.blank_id)

        def none():
            return ops.sum(y_pred, axis=(1, 2))

        # That of TensorFlow fails for no texts, which a device gets of a last batch that is small.
        return ops.cond(ops.convert_to_tensor(ops.shape(y_pred)[0] > 0), losses, none)

    def get_config(self):
        return {**super().get_config(), "blank_id": self.blank_id}
