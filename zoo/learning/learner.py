"""A model that learns from labels, and from the predictions of trained models."""

import keras
from keras import ops

from zoo.losses import TokenCrossentropy


class Learner(keras.Model):
    """A core in training.

    With teachers, the targets are probabilities, a mixture of the teachers' average and the label:

    $$ q(v) = s / K \\sum_k p^{(k)}(v) + (1 - s) [v = y] $$

    Paper: Hinton et al. 2015, Distilling the knowledge in a neural network
    (https://arxiv.org/abs/1503.02531).

    Args:
        core: The model of tensors that learns, built.
        teachers: Trained models with the same inputs and outputs.
        teacher_share: s, from 0 to 1. A negative label means no label: there, s is 1.
        label_smoothing: As for `TokenCrossentropy`.
        lens: Layer that preprocesses the inputs of the core, by default none; teachers see the
            original inputs.
    """

    def __init__(self, core, teachers=(), teacher_share=0.0, label_smoothing=0.0, lens=None):
        super().__init__()
        self.core = core
        self.teachers = list(teachers)
        for teacher in self.teachers:
            teacher.trainable = False
        self.teacher_share = teacher_share
        self.crossentropy = TokenCrossentropy(label_smoothing)
        self.lens = lens
        self.built = True

    def call(self, inputs, training=False):
        if self.lens is not None:
            inputs = self.lens(inputs)
        return self.core(inputs, training=training)

    def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        if self.teachers:
            y = self._expected(x, y)
        return self.crossentropy(y, y_pred, sample_weight)

    def _expected(self, inputs, labels):
        """Returns the probabilities to learn, float32 `(..., classes)`."""
        expected = [
            ops.softmax(ops.cast(teacher(inputs, training=False), "float32"))
            for teacher in self.teachers
        ]
        expected = sum(expected) / len(expected)
        share = ops.where(labels < 0, 1.0, self.teacher_share)[..., None]
        real = ops.one_hot(labels, expected.shape[-1])  # zeros for a negative label
        return ops.stop_gradient(share * expected + (1.0 - share) * real)
