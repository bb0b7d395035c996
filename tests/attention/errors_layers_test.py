"""Users' mistakes with the options and inputs of attention layers, and what the messages say."""

import keras
import pytest

from keras_attention import Attention, LatentAttention, MultiHeadAttention, masks
from keras_attention._keras import set_keras_mask
from keras_attention.convolution import ConvolutionModule
from keras_attention.feed_forward import FeedForward
from keras_attention.transformer import DecoderBlock, EncoderBlock
from tests.attention.mistakes import QUERY, VALUE, attend, attend_again, check_message, ones


def of_keras(x, mask):
    """Returns a tensor with a Keras mask."""
    x = keras.ops.copy(x)
    set_keras_mask(x, keras.ops.convert_to_tensor(mask))
    return x


def step(layer, memory=None, mask=None):
    """Makes a first step, by default with a cache of 5 positions."""
    layer(VALUE, VALUE)
    layer.step(QUERY, layer.room_for(VALUE, mask) if memory is None else memory, 0)


# what the user did: (how, what the message must say)
MISTAKES = {
    "no dropout as None": (
        lambda: Attention(dropout=None),
        ["`dropout` of Attention", "at least 0 and below 1", "dropout=None", "0 means none"],
    ),
    "dropout as a text": (
        lambda: EncoderBlock(2, 8, hidden_dropout="0.1"),
        ["`hidden_dropout` of EncoderBlock", "hidden_dropout='0.1'"],
    ),
    "no biases as None": (
        lambda: MultiHeadAttention(2, 3, use_bias=None),
        ["`use_bias` of MultiHeadAttention must be True, False", "use_bias=None"],
    ),
    "weights that are never formed": (
        attend(Attention(implementation="chunked"), return_attention_scores=True),
        ["implementation='chunked'", "return_attention_scores=True", "implementation='reference'"],
    ),
    "endless soft cap": (
        lambda: MultiHeadAttention(2, 3, soft_cap=float("inf")),
        ["`soft_cap` of Attention must be a finite number", "None for no cap", "soft_cap=inf"],
    ),
    "soft cap of 0": (lambda: Attention(soft_cap=0.0), ["`soft_cap`", "above 0", "soft_cap=0.0"]),
    "sink without an extra key": (
        lambda: MultiHeadAttention(2, 3, use_sink=True),
        ["`use_sink` of Attention", "use_sink=True, normalizer=", "normalizer='softmax_one'"],
    ),
    "joint normalization of nothing": (
        lambda: MultiHeadAttention(2, 3, joint_query_key_norm=True),
        ["`joint_query_key_norm` of MultiHeadAttention needs", "query_key_norm=None"],
    ),
    "heads that cannot be grouped": (
        lambda: MultiHeadAttention(4, 8, num_key_value_heads=3),
        ["`num_key_value_heads`", "must divide num_heads=4", "num_key_value_heads=3"],
    ),
    "no latents": (
        lambda: LatentAttention(2, 4, latent_dim=0, rotary_dim=2),
        ["`latent_dim` of LatentAttention must be a positive integer", "latent_dim=0"],
    ),
    "odd number of rotated features": (
        lambda: LatentAttention(2, 4, latent_dim=6, rotary_dim=3),
        ["`rotary_dim` of LatentAttention must be even", "rotary_dim=3", "Use 4"],
    ),
    "latents of queries of size 0": (
        lambda: LatentAttention(2, 4, latent_dim=6, rotary_dim=2, query_latent_dim=0),
        ["`query_latent_dim` of LatentAttention", "or None", "query_latent_dim=0"],
    ),
    "position that rotates nothing": (
        lambda: LatentAttention(2, 4, latent_dim=6, rotary_dim=2, position="alibi"),
        ["`position` of LatentAttention", "positions.Rotary", "'alibi'", "MultiHeadAttention"],
    ),
    "bias of keys that come from latents": (
        lambda: LatentAttention(2, 4, use_bias=["key"], latent_dim=6, rotary_dim=2),
        ["`use_bias` of LatentAttention", "query, query_latent, latent, output", "['key']"],
    ),
    "keys besides values that share latents": (
        attend(LatentAttention(2, 4, latent_dim=6, rotary_dim=2), key=VALUE),
        ["LatentAttention projects keys and values from the same", "(2, 5, 4)", "Omit it"],
    ),
    "unknown implementation": (
        lambda: Attention(implementation="flash"),
        ["`implementation` must be one of 'auto', 'reference'", "Received: 'flash'"],
    ),
    "dropout of 1": (
        lambda: Attention(dropout=1.0),
        ["`dropout` of Attention", "at least 0 and below 1", "dropout=1.0"],
    ),
    "negative dropout": (
        lambda: MultiHeadAttention(2, 3, dropout=-0.1),
        ["`dropout` of MultiHeadAttention", "dropout=-0.1"],
    ),
    "number of heads where Keras has dropout": (
        lambda: MultiHeadAttention(4, 3, None, 2),
        ["`dropout` of MultiHeadAttention must be at least 0 and below 1", "dropout=2"],
    ),
    "no heads": (
        lambda: MultiHeadAttention(0, 3),
        ["`num_heads` of MultiHeadAttention must be a positive integer", "num_heads=0"],
    ),
    "key_dim that is no integer": (
        lambda: MultiHeadAttention(2, 3.5),
        ["`key_dim` of MultiHeadAttention must be a positive integer", "key_dim=3.5"],
    ),
    "negative value_dim": (
        lambda: MultiHeadAttention(2, 3, value_dim=-1),
        ["`value_dim` of MultiHeadAttention", "value_dim=-1"],
    ),
    "output_dim of 0": (
        lambda: MultiHeadAttention(2, 3, output_dim=0),
        ["`output_dim` of MultiHeadAttention", "output_dim=0"],
    ),
    "query of rank 2": (
        attend(query=QUERY[0]),
        ["Attention needs", "(batch, length, size)", "query (3, 4)", "x[:, None, :]"],
    ),
    "value of rank 4": (
        attend(MultiHeadAttention(2, 3), value=VALUE[:, None]),
        ["MultiHeadAttention needs", "value (2, 1, 5, 4)", "Reshape"],
    ),
    "query of rank 2, once the layer is built": (
        lambda: attend_again(QUERY[0], VALUE[0]),
        ["Attention needs", "(batch, length, size)", "query (3, 4)"],
    ),
    "a list, as of keras.layers.Attention": (
        lambda: MultiHeadAttention(2, 3)([QUERY, VALUE]),
        ["separate arguments of MultiHeadAttention", "a list of 2", "layer(*inputs)"],
    ),
    "a list of one": (
        lambda: Attention()([QUERY]),
        ["Attention takes `inputs`", "a list of two or three", "a list of 1"],
    ),
    "a mask at the end of the list": (
        lambda: Attention()([QUERY, VALUE, VALUE, ones(2, 3)]),
        ["Attention takes `inputs`", "Received: a list of 4", "layer(query, value, key, "],
    ),
    "one mask in place of a list": (
        lambda: Attention()([QUERY, VALUE], mask=ones(2, 3)),
        ["Attention takes `mask`", "a list of two or three", "Received: ndarray"],
    ),
    "a list of four masks": (
        lambda: Attention()([QUERY, VALUE], mask=[None, None, None, ones(3, 5)]),
        ["Attention takes `mask`", "Received: a list of 4", "attention_mask=mask"],
    ),
    "another number of keys than of values": (
        attend(key=VALUE[:, :4]),
        ["Attention needs one value for each key", "value (2, 5, 4), key (2, 4, 4)", "equal"],
    ),
    "another batch of queries than of keys": (
        attend(query=QUERY[:1]),
        ["Attention needs one memory for each query", "query (1, 3, 4)", "keras.ops.repeat"],
    ),
    "padding mask of rank 3": (
        attend(key_mask=ones(2, 1, 5)),
        ["`key_mask` must have 2 axes", "(2, 1, 5)", "attention_mask"],
    ),
    "padding as an attention mask": (
        attend(attention_mask=ones(5)),
        ["`attention_mask` must have 2 or 3 or 4 axes", "(5,)", "value_mask or key_mask"],
    ),
    "query mask of the keys' length": (
        attend(query_mask=ones(2, 5)),
        ["`query_mask` of Attention", "(batch, length) = (2, 3)", "shape (2, 5)"],
    ),
    "value mask of length 1": (
        attend(value_mask=ones(2, 1)),
        ["`value_mask` of Attention", "(2, 5)", "shape (2, 1)"],
    ),
    "key mask of another batch": (
        attend(MultiHeadAttention(2, 3), key_mask=ones(1, 5)),
        ["`key_mask` of MultiHeadAttention", "(2, 5)", "shape (1, 5)"],
    ),
    "mask of Keras of rank 4": (
        attend(MultiHeadAttention(2, 3), query=of_keras(QUERY, ones(2, 1, 1, 3))),
        [
            "The mask that Keras attached to a tensor, the `query_mask` of MultiHeadAttention",
            "(batch, length) = (2, 3)",
            "shape (2, 1, 1, 3)",
            "keras.ops.copy(x)",
        ],
    ),
    "mask of Keras of length 1": (
        attend(value=of_keras(VALUE, ones(2, 1))),
        ["the `value_mask` of Attention", "(2, 5)", "shape (2, 1)"],
    ),
    "mask of Keras of rank 3 on what is encoded": (
        lambda: DecoderBlock(2, 8)(QUERY, of_keras(VALUE, ones(2, 5, 4))),
        ["the `encoded_mask` of DecoderBlock", "(2, 5)", "shape (2, 5, 4)"],
    ),
    "mask of another length of a convolution": (
        lambda: ConvolutionModule(3)(QUERY, mask=ones(2, 4)),
        ["`mask` of ConvolutionModule", "(2, 3)", "shape (2, 4)", "one boolean for each"],
    ),
    "transposed attention mask": (
        attend(attention_mask=ones(5, 3)),
        ["`attention_mask` of Attention", "(2, 1, 3, 5)", "shape (5, 3)", "may be 1"],
    ),
    "attention mask of another batch": (
        attend(attention_mask=ones(3, 3, 5)),
        ["`attention_mask` of Attention", "(2, 1, 3, 5)", "shape (3, 3, 5)"],
    ),
    "attention mask of heads without heads": (
        attend(attention_mask=ones(2, 2, 3, 5)),
        ["`attention_mask` of Attention", "(2, 1, 3, 5)", "shape (2, 2, 3, 5)"],
    ),
    "attention mask of other heads": (
        attend(MultiHeadAttention(4, 3), attention_mask=ones(2, 2, 3, 5)),
        ["`attention_mask` of MultiHeadAttention", "(2, 4, 3, 5)", "may be 1"],
    ),
    "memory before there are weights": (
        lambda: Attention("additive", name="look").prepare(VALUE),
        ["'look' (Attention) has no weights yet", "build(query_shape, value_shape)"],
    ),
    "steps of a layer that looks ahead": (
        lambda: step(MultiHeadAttention(2, 3, mask=masks.SlidingWindow(1, 1))),
        [
            "MultiHeadAttention must be causal",
            "mask=SlidingWindow(left=1, right=1)",
            "mask='causal'",
        ],
    ),
    "steps without a causal mask": (
        lambda: step(MultiHeadAttention(2, 3)),
        ["MultiHeadAttention must be causal for steps", "mask=None", "mask='causal'"],
    ),
    "step with another memory": (
        lambda: step(LatentAttention(2, 4, latent_dim=6, rotary_dim=2, mask="causal"), (QUERY,)),
        ["`memory` of LatentAttention must be what its `prepare` returned", "Received: tuple"],
    ),
    "cache with the mask of a prompt": (
        lambda: step(Attention(mask="causal"), mask=ones(2, 3)),
        ["`mask` of Attention must have the shape (batch, length) = (2, 5)", "shape (2, 3)"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_says_who_what_and_how(mistake):
    check_message(*MISTAKES[mistake])


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="has ragged tensors")
@pytest.mark.parametrize(
    "call",
    [
        lambda x: MultiHeadAttention(2, 4)(x, x),
        lambda x: Attention()(x[:, :1].to_tensor(), value=x),
        lambda x: EncoderBlock(2, 8)(x),
        lambda x: FeedForward(8)(x),
    ],
)
def test_sequences_of_different_lengths_are_not_mixed(call):
    import tensorflow as tf

    lengths_1_and_3 = tf.RaggedTensor.from_row_lengths(ones(4, 8), [1, 3])  # 2 on average
    with pytest.raises(ValueError, match=r"RaggedTensor of shape \(2, None, 8\). Pad it with"):
        call(lengths_1_and_3)
