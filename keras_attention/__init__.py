"""Attention mechanisms as Keras layers.

A layer combines independent parts: a score, a mask, a normalizer, a position and an implementation.
"""

from keras_attention import alignments, compute, drop_in, masks, normalizers, positions, scores
from keras_attention._from_keras import from_keras
from keras_attention.attention import Attention, Memory
from keras_attention.attention_gate import AttentionGate
from keras_attention.block_selection import BlockSelectionAttention
from keras_attention.conformer import ConformerBlock
from keras_attention.convolution import ConvolutionModule
from keras_attention.coverage import Coverage, coverage_loss
from keras_attention.cross_covariance import CrossCovarianceAttention
from keras_attention.differential import DifferentialAttention
from keras_attention.feature_maps import ChannelAttention, SpatialAttention
from keras_attention.feed_forward import FeedForward
from keras_attention.forgetting import ForgettingAttention
from keras_attention.gated_delta import GatedDeltaAttention
from keras_attention.gated_linear import GatedLinearAttention
from keras_attention.gaussian_mixture import GaussianMixtureAttention
from keras_attention.kernel_regression import NadarayaWatson
from keras_attention.kimi_delta import KimiDeltaAttention
from keras_attention.latent import LatentAttention
from keras_attention.linear import LinearAttention
from keras_attention.linformer import LinformerAttention
from keras_attention.local import LocalAttention
from keras_attention.longformer import LongformerAttention
from keras_attention.multi_head import MultiHeadAttention
from keras_attention.nystrom import NystromAttention
from keras_attention.performer import PerformerAttention
from keras_attention.pooling import AttentionPooling
from keras_attention.recurrent import AttentionRNN
from keras_attention.recurrent_cell import AttentionCell
from keras_attention.reformer import ReformerAttention
from keras_attention.retention import RetentionAttention
from keras_attention.slots import SlotAttention
from keras_attention.talking_heads import TalkingHeadsAttention
from keras_attention.transformer import DecoderBlock, EncoderBlock
from keras_attention.transformer_block import TransformerBlock

__version__ = "0.1.0"
__all__ = [
    "Attention",
    "AttentionCell",
    "AttentionGate",
    "AttentionPooling",
    "AttentionRNN",
    "BlockSelectionAttention",
    "ChannelAttention",
    "ConformerBlock",
    "ConvolutionModule",
    "Coverage",
    "CrossCovarianceAttention",
    "DecoderBlock",
    "DifferentialAttention",
    "EncoderBlock",
    "FeedForward",
    "ForgettingAttention",
    "GatedDeltaAttention",
    "GatedLinearAttention",
    "GaussianMixtureAttention",
    "KimiDeltaAttention",
    "LatentAttention",
    "LinearAttention",
    "LinformerAttention",
    "LocalAttention",
    "LongformerAttention",
    "Memory",
    "MultiHeadAttention",
    "NadarayaWatson",
    "NystromAttention",
    "PerformerAttention",
    "ReformerAttention",
    "RetentionAttention",
    "SlotAttention",
    "SpatialAttention",
    "TalkingHeadsAttention",
    "TransformerBlock",
    "alignments",
    "compute",
    "coverage_loss",
    "drop_in",
    "from_keras",
    "masks",
    "normalizers",
    "positions",
    "scores",
]
