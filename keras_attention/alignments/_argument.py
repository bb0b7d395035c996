"""The argument `alignment` of `AttentionCell`."""

from keras_attention import alignments
from keras_attention.attention import Attention
from keras_attention.differential import DifferentialAttention
from keras_attention.forgetting import ForgettingAttention
from keras_attention.local import LocalAttention
from keras_attention.multi_head import MultiHeadAttention
from keras_attention.normalizers import Softmax
from keras_attention.talking_heads import TalkingHeadsAttention

OTHER_WEIGHTS = (  # than those of any normalizer
    DifferentialAttention,
    ForgettingAttention,
    LocalAttention,
    TalkingHeadsAttention,
)


def get_alignment(alignment, attention):
    """Returns the layer that the argument `alignment` of `AttentionCell` describes, or `None`.

    Raises:
        ValueError: If it is something else, or cannot take the place of the attention's normalizer.
    """
    if alignment is None:
        return None
    alignment = alignments.get(alignment)
    unfit = _unfit_part(attention)
    if unfit is not None:
        raise ValueError(
            "`alignment` of AttentionCell takes the place of the softmax of its attention, which "
            "must be an Attention or MultiHeadAttention with normalizer='softmax'. Received: the "
            f"{unfit}. Use one of these, or omit the alignment."
        )
    return alignment


def _unfit_part(attention):
    """Returns which part of an attention an alignment cannot replace, or `None`."""
    is_whole = isinstance(attention, (Attention, MultiHeadAttention))
    if not is_whole or isinstance(attention, OTHER_WEIGHTS):
        return f"layer {type(attention).__name__}"
    if isinstance(attention, MultiHeadAttention):
        attention = attention.attention
    if type(attention.normalizer) is not Softmax:
        return f"normalizer {type(attention.normalizer).__name__}"
    return None
