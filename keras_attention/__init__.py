"""Every attention mechanism as a Keras layer."""

from keras_attention import compute, masks, normalizers, scores
from keras_attention.attention import Attention, Memory
from keras_attention.multi_head import MultiHeadAttention
from keras_attention.recurrent import AttentionCell, AttentionRNN

__all__ = [
    "Attention",
    "AttentionCell",
    "AttentionRNN",
    "Memory",
    "MultiHeadAttention",
    "compute",
    "masks",
    "normalizers",
    "scores",
]
