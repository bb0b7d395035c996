"""Training by which a model says the same of a text whichever units dropout takes away."""

import keras
import tensorflow as tf
from keras import ops

from zoo.training.losses import TokenCrossentropy


def twice(inputs, labels, weights):
    """Puts a batch behind itself, so that dropout shows a model each example in two ways.

    Example:

    >>> batches = tf.data.Dataset.from_tensors(([[3, 4]], [[4, 5]], [[1.0, 1.0]]))
    >>> next(iter(batches.map(twice)))[1].numpy().tolist()
    [[4, 5], [4, 5]]
    """
    return tf.nest.map_structure(
        lambda tensor: tf.concat([tensor, tensor], axis=0), (inputs, labels, weights)
    )


@keras.saving.register_keras_serializable(package="zoo")
class ConsistentTokenCrossentropy(TokenCrossentropy):
    """Cross-entropy per token, and how far apart two predictions of one token are (R-Drop).

    $$ loss = \\frac{1}{2} (loss_p + loss_q)
       + \\frac{α}{4} [KL(p \\| q) + KL(q \\| p)] $$

    where p and q are what the model predicts of the same example in two passes with dropout, and
    the losses are those of `TokenCrossentropy`. It is half of the paper's, which adds up the two.

    Paper: Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks
    (https://arxiv.org/abs/2106.14448).

    Args:
        consistency: α, which weighs the divergence.
        label_smoothing: As for `TokenCrossentropy`.

    Call arguments:
        y_true, y_pred, sample_weight: As for `TokenCrossentropy`, of batches from `twice`: the
            second half of the rows shows the same examples as the first.

    Example:

    >>> loss = ConsistentTokenCrossentropy(consistency=5.0)
    >>> labels, same = np.array([[1], [1]]), np.zeros((2, 1, 2))
    >>> float(loss(labels, same)), float(loss(labels, same + [[[0.0, 0.0]], [[0.0, 1.0]]]))
    (0.693..., 0.792...)
    """

    def __init__(
        self, consistency=5.0, label_smoothing=0.0, name="consistent_token_crossentropy", **kwargs
    ):
        super().__init__(label_smoothing, name=name, **kwargs)
        if consistency < 0.0:
            raise ValueError(
                f"`consistency` must be at least 0. Received: consistency={consistency}."
            )
        self.consistency = consistency

    def call(self, y_true, y_pred):
        log_probabilities = ops.log_softmax(ops.cast(y_pred, "float32"), axis=-1)
        p, q = ops.split(log_probabilities, 2, axis=0)
        divergence = ops.sum((ops.exp(p) - ops.exp(q)) * (p - q), axis=-1)  # both directions
        divergence = ops.concatenate([divergence, divergence], axis=0)
        crossentropy = super().call(y_true, log_probabilities)
        return crossentropy + self.consistency / 4.0 * divergence

    def get_config(self):
        return {**super().get_config(), "consistency": self.consistency}
