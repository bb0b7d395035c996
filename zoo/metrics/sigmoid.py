"""The sigmoid loss of models that match images and texts."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="zoo")
class SigmoidLoss(keras.losses.Loss):
    """Binary cross-entropy of each pair of an image and a text: whether they belong together.

    $$ loss = -\\frac{1}{T} \\sum_i \\sum_j \\log \\sigma(z_{ij} S_{ij}) $$

    z is 1 for matching pairs, otherwise -1, and T is the number of texts. No pair depends on the
    others, and each text may match several images, or none. Computed in float32.

    Paper: Zhai et al. 2023, Sigmoid Loss for Language Image Pre-Training, section 3.2
    (https://arxiv.org/abs/2303.15343).

    Call arguments:
        y_true: `(images, texts)`, 1 for matching pairs, otherwise 0.
        y_pred: Similarities S of the same shape, scaled and with their bias: logits.

    Example:

    >>> round(float(SigmoidLoss()(np.eye(2), np.zeros((2, 2)))), 4) # 2 log 2
    1.3863
    """

    def __init__(self, name="sigmoid", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        belongs, logits = ops.cast(y_true, "float32"), ops.cast(y_pred, "float32")
        losses = ops.softplus((1.0 - 2.0 * belongs) * logits)  # -log sigmoid(z S)
        return ops.mean(ops.sum(losses, axis=0))
