"""Users' mistakes with blocks, and what the messages say."""

import pytest

from keras_attention import masks
from keras_attention.conformer import ConformerBlock
from keras_attention.convolution import ConvolutionModule
from keras_attention.feed_forward import FeedForward
from keras_attention.linformer import LinformerAttention
from keras_attention.local import LocalAttention
from keras_attention.multi_head import MultiHeadAttention
from keras_attention.positions import SinusoidalPosition
from keras_attention.transformer import DecoderBlock, EncoderBlock
from keras_attention.transformer_block import TransformerBlock
from tests.attention.mistakes import NARROW, QUERY, VALUE, check_message, ones


def start(block):
    """Makes the cache of a block that has been built."""
    block(QUERY)
    return block.start(2, 3)


def twice(layer, *inputs):
    """Calls a layer with each of two inputs."""
    return [layer(x) for x in inputs]


# what the user did: (how, what the message must say)
MISTAKES = {
    "a list of normalizations": (
        lambda: EncoderBlock(2, 8, norm=["rms"]),
        ["`norm` of EncoderBlock must be one of layer", "norm=['rms']"],
    ),
    "cache of a block before there are weights": (
        lambda: EncoderBlock(2, 8, mask="causal", name="first").start(2, 5),
        ["'first' (EncoderBlock) has no weights yet", "Call the layer once", "build(x_shape)"],
    ),
    "cache of a decoder before there are weights": (
        lambda: DecoderBlock(2, 8).start(VALUE, 5),
        ["(DecoderBlock) has no weights yet", "build(x_shape, encoded_shape)"],
    ),
    "steps of a block that looks ahead": (
        lambda: start(EncoderBlock(2, 8)),
        ["mask of the attention in EncoderBlock must be causal", "mask=None", "mask='causal'"],
    ),
    "steps of any attention that looks ahead": (
        lambda: start(
            TransformerBlock(MultiHeadAttention(2, 3, mask=masks.SlidingWindow(1, 1)), 8)
        ),
        ["in TransformerBlock must be causal", "SlidingWindow", "masks.Causal() &"],
    ),
    "steps of an attention that predicts places among all keys": (
        lambda: start(TransformerBlock(LocalAttention("predictive", mask="causal"), 8)),
        ["LocalAttention(mode='predictive') has no steps", "Use mode='monotonic'"],
    ),
    "steps of an attention without a cache": (
        lambda: start(TransformerBlock(LinformerAttention(2, 3, max_length=9), 8)),
        ["attention in TransformerBlock must have a cache", "LinformerAttention", "room_for"],
    ),
    "size that the heads of a block do not share": (
        lambda: EncoderBlock(3, 8)(QUERY),
        ["EncoderBlock splits the size", "x of shape (2, 3, 4), num_heads=3", "`key_dim`"],
    ),
    "unknown place of the normalization": (
        lambda: DecoderBlock(2, 8, normalize="first"),
        [
            "`normalize` of DecoderBlock must be one of post, pre, sandwich, output",
            "normalize='first'",
        ],
    ),
    "parallel parts of a decoder": (
        lambda: DecoderBlock(2, 8, normalize="pre", parallel=True),
        ["`parallel` of DecoderBlock must be False", "parallel=True", "Use EncoderBlock"],
    ),
    "parallel parts without a normalization of their input": (
        lambda: EncoderBlock(2, 8, parallel=True),
        ["`parallel` of EncoderBlock needs", "normalize='post'", "normalize='pre' or 'sandwich'"],
    ),
    "shared normalization of parts with inputs of their own": (
        lambda: EncoderBlock(2, 8, shared_norm=True),
        ["`shared_norm` of EncoderBlock is for", "parallel=False", "Pass parallel=True"],
    ),
    "soft cap of a block of 0": (
        lambda: EncoderBlock(2, 8, soft_cap=0)(QUERY),
        ["`soft_cap` of Attention must be a finite number above 0", "soft_cap=0"],
    ),
    "negative variance of a block": (
        lambda: EncoderBlock(2, 8, epsilon=-1),
        ["`epsilon` of EncoderBlock must be a finite number of at least 0", "epsilon=-1"],
    ),
    "negative variance of a convolution module": (
        lambda: ConvolutionModule(3, epsilon=-1e-5),
        ["`epsilon` of ConvolutionModule must be a finite number of at least 0", "epsilon=-1e-05"],
    ),
    "block without heads": (
        lambda: EncoderBlock(0, 8),
        ["`num_heads` of EncoderBlock must be a positive integer", "num_heads=0"],
    ),
    "feed-forward network of size 0": (
        lambda: FeedForward(0),
        ["`hidden` of FeedForward must be a positive integer", "hidden=0"],
    ),
    "attention dropout of a block of 1": (
        lambda: EncoderBlock(2, 8, attention_dropout=1.0),
        ["`attention_dropout` of EncoderBlock must be at least 0", "attention_dropout=1.0"],
    ),
    "unknown score of a block": (
        lambda: DecoderBlock(2, 8, score="aditive"),
        ["score 'aditive'", "Did you mean 'additive'"],
    ),
    "convolution of no size": (
        lambda: ConformerBlock(2, 8, kernel_size=0),
        ["`kernel_size` of ConformerBlock must be a positive integer", "kernel_size=0"],
    ),
    "unknown normalization of a convolution": (
        lambda: ConformerBlock(2, 8, convolution_norm="group"),
        ["`convolution_norm` of ConformerBlock must be one of batch, layer", "'group'"],
    ),
    "convolution of an image": (
        lambda: ConvolutionModule(3)(VALUE[None]),
        [
            "ConvolutionModule needs sequences",
            "(1, 2, 5, 4)",
            "Reshape((height * width, channels))",
        ],
    ),
    "another size than a block is built for": (
        lambda: twice(EncoderBlock(2, 8, name="first"), VALUE, NARROW),
        ["'first' (EncoderBlock) is built for x of size 4", "x (2, 5, 6)", "Make a new layer"],
    ),
    "another size than a position is built for": (
        lambda: twice(SinusoidalPosition(name="place"), VALUE, VALUE[..., :1]),
        ["'place' (SinusoidalPosition) is built for embeddings of size 4", "(2, 5, 1)"],
    ),
    "unknown normalization of a convolution module": (
        lambda: ConvolutionModule(norm="bach"),
        ["norm of ConvolutionModule 'bach'", "Did you mean 'batch'"],
    ),
    "bias of an unknown part of a Conformer": (
        lambda: ConformerBlock(2, 8, use_bias=["convolutions"]),
        ["`use_bias` of ConformerBlock", "outer, convolution", "convolutions"],
    ),
    "block on a single vector": (
        lambda: EncoderBlock(2, 8)(QUERY[:, 0]),
        ["EncoderBlock needs x of shape (batch, length, size)", "x (2, 4)", "x[:, None, :]"],
    ),
    "decoder block on an encoded vector": (
        lambda: DecoderBlock(2, 8)(QUERY, NARROW[:, 0]),
        ["DecoderBlock needs x and encoded of shape", "x (2, 3, 4), encoded (2, 6)"],
    ),
    "mask of another length for a block": (
        lambda: EncoderBlock(2, 8)(QUERY, mask=ones(2, 5)),
        ["`mask` of EncoderBlock", "(batch, length) = (2, 3)", "shape (2, 5)"],
    ),
    "mask of the target for what was encoded": (
        lambda: DecoderBlock(2, 8)(QUERY, NARROW, encoded_mask=ones(2, 3)),
        ["`encoded_mask` of DecoderBlock", "(batch, length) = (2, 5)", "shape (2, 3)"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_says_who_what_and_how(mistake):
    check_message(*MISTAKES[mistake])
