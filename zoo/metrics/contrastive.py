"""The contrastive loss of models that match images and texts."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="zoo")
class ContrastiveLoss(keras.losses.Loss):
    """Symmetric cross-entropy of finding the text of an image, and the image of a text.

    $$ loss = \\frac{1}{2} \\left( -\\frac{1}{T} \\sum_{j} \\log \\frac{e^{S_{i(j) j}}}
       {e^{S_{i(j) j}} + \\sum_{k: i(k) \\ne i(j)} e^{S_{i(j) k}}} - \\frac{1}{T} \\sum_j \\log
       \\frac{e^{S_{i(j) j}}}{\\sum_i e^{S_{ij}}} \\right) $$

    i(j) is the image of text j. If each image has one text, this is the loss of CLIP (InfoNCE);
    other texts of the same image are not negatives, so they are in no denominator. Computed in
    float32.

    Papers: van den Oord et al. 2018 (https://arxiv.org/abs/1807.03748); Radford et al. 2021
    (https://arxiv.org/abs/2103.00020).

    Args:
        label_smoothing: Share of the target that is spread evenly over all answers.

    Call arguments:
        y_true: `(images, texts)`, 1 for matching pairs, otherwise 0: one image for each text.
        y_pred: Similarities S of the same shape, scaled.

    Example:

    >>> round(float(ContrastiveLoss()(np.eye(2), np.zeros((2, 2)))), 4) # log 2
    0.6931
    """

    def __init__(self, label_smoothing=0.0, name="contrastive", **kwargs):
        super().__init__(name=name, **kwargs)
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                "`label_smoothing` must be at least 0 and below 1. "
                f"Received: label_smoothing={label_smoothing}."
            )
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        belongs, logits = ops.cast(y_true, "float32"), ops.cast(y_pred, "float32")
        own = ops.sum(belongs * logits, axis=0)  # (texts,)
        image_of_text = ops.logsumexp(logits, axis=0)
        # For each text the texts of other images, and itself.
        others = ops.logsumexp(ops.where(belongs > 0, -1e30, logits), axis=1)  # (images,)
        text_of_image = ops.logaddexp(own, ops.matmul(others, belongs))
        loss = 0.5 * (image_of_text + text_of_image) - own
        if self.label_smoothing:
            means = 0.5 * (ops.mean(logits, axis=0) + ops.matmul(ops.mean(logits, axis=1), belongs))
            loss = loss + self.label_smoothing * (own - means)
        return ops.mean(loss)

    def get_config(self):
        return {**super().get_config(), "label_smoothing": self.label_smoothing}
