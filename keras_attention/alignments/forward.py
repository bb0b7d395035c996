"""Forward attention: softmax over the keys that the weights before have just reached."""

import keras
from keras import ops

from keras_attention.alignments._passing import moved
from keras_attention.alignments.base import Alignment
from keras_attention.normalizers import Softmax

NONE = 1e-30  # weights up to this count as zero: the gradient of their logarithm could overflow


@keras.saving.register_keras_serializable(package="keras_attention")
class Forward(Alignment):
    """Forward attention: the weights stay or move by one key, and follow a softmax.

    $$ α_{t,j} ∝ (α_{t-1,j} + α_{t-1,j-1}) \\, softmax(e_t)_j $$

    It is the softmax of `e_t` plus the logarithm of the parenthesis. It is the same in training and
    at inference, has no weights, and adds up to 1.

    Paper: Zhang et al. 2018, Forward Attention in Sequence-to-Sequence Acoustic Modeling for Speech
    Synthesis, without its transition agent (https://arxiv.org/abs/1807.06736).

    Example:

    >>> Forward()(np.zeros((1, 4)), np.array([[0.0, 1.0, 0.0, 0.0]])).numpy().tolist()
    [[0.0, 0.5, 0.5, 0.0]]
    """

    def call(self, scores, previous, visible=None, training=None):
        prior = previous + moved(previous, visible)
        is_near = prior > NONE
        visible = is_near if visible is None else ops.logical_and(visible, is_near)
        log_prior = ops.log(ops.where(is_near, prior, 1.0))
        return Softmax()(scores + log_prior, visible)
