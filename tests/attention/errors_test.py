"""Users' mistakes: each message names who complains, what came, what was expected, the way out."""

import keras
import numpy as np
import pytest

from keras_attention import (
    Attention,
    AttentionCell,
    AttentionRNN,
    MultiHeadAttention,
    masks,
    normalizers,
    scores,
)

QUERY, VALUE = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
NARROW = np.ones((2, 5, 6), "float32")


def gru():
    return keras.layers.GRUCell(8)


def attend(layer=None, query=QUERY, value=VALUE, key=None, **arguments):
    return lambda: (layer or Attention())(query, value, key, **arguments)


def attend_again(query, value):
    """Calls a layer that has been built by good inputs before."""
    layer = Attention()
    layer(QUERY, VALUE)
    return layer(query, value)


def prepare_cell(state):
    cell = AttentionCell(gru())
    cell.build((2, 4), (2, 5, 6))
    return cell.initial_state(state)


def ones(*shape):
    return np.ones(shape, bool)


# what the user did: (how, what the message must say)
MISTAKES = {
    "unknown score": (
        lambda: Attention("aditive"),
        ["score 'aditive'", "Did you mean 'additive'?", "scaled_dot"],
    ),
    "unknown score without a near one": (
        lambda: Attention("xyz"),
        ["score 'xyz'", "Known: additive, dot"],
    ),
    "score of a wrong type": (
        lambda: Attention(3),
        ["`score` must be", "additive", "a subclass of Score", "Received: 3 of type int"],
    ),
    "score that is a class": (
        lambda: scores.get(scores.Dot),
        ["`score` must be", "an object", "of type type"],
    ),
    "score that is another layer": (
        lambda: Attention(keras.layers.Dense(3)),
        ["`score` must be", "Dense"],
    ),
    "unknown normalizer": (
        lambda: Attention(normalizer="softmx"),
        ["normalizer 'softmx'", "Did you mean 'softmax'?"],
    ),
    "normalizer of a wrong type": (
        lambda: normalizers.get(None),
        ["`normalizer` must be", "softmax", "None"],
    ),
    "unknown mask": (lambda: Attention(mask="casual"), ["mask 'casual'", "Did you mean 'causal'?"]),
    "mask that is an array": (
        lambda: masks.Causal() & np.ones((3, 3), bool),
        ["`mask` must be", "a subclass of Mask", "ndarray"],
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
    "units of 0": (
        lambda: scores.Additive(units=0),
        ["`units` of the score Additive must be a positive integer or None", "units=0"],
    ),
    "sizes that dot cannot compare": (
        attend(Attention("dot"), value=NARROW),
        ["score Dot", "same size", "query shape (2, 3, 4), key shape (2, 5, 6)", "'general'"],
    ),
    "sizes that scaled_dot cannot compare": (
        attend(Attention("scaled_dot"), key=NARROW),
        ["score ScaledDot", "same size", "(2, 5, 6)", "keras.layers.Dense"],
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
    "another number of keys than of values": (
        attend(key=VALUE[:, :4]),
        ["Attention needs one value for each key", "value (2, 5, 4), key (2, 4, 4)", "equal"],
    ),
    "another batch of queries than of keys": (
        attend(query=QUERY[:1]),
        ["Attention needs one memory for each query", "query (1, 3, 4)", "keras.ops.repeat"],
    ),
    "padding mask of floats": (
        attend(value_mask=np.ones((2, 5), "float32")),
        ["`value_mask` must be boolean", "float32", "value_mask > 0", "value_mask == 0"],
    ),
    "attention mask of floats": (
        attend(attention_mask=np.zeros((3, 5), "float32")),
        ["`attention_mask` must be boolean", "float32", "attention_mask == 0"],
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
    "transposed attention mask": (
        attend(attention_mask=ones(5, 3)),
        ["`attention_mask` of Attention", "(2, 1, 3, 5)", "shape (5, 3)", "broadcast_to"],
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
    "unknown order": (
        lambda: AttentionCell(gru(), order="bahdenau"),
        ["`order` must be one of bahdanau, luong", "'bahdenau'"],
    ),
    "units of an order without a projection": (
        lambda: AttentionCell(gru(), units=3),
        ["`units`", "order='luong'", "units=3", "Leave it out"],
    ),
    "layer in place of a cell": (
        lambda: AttentionCell(keras.layers.GRU(8)),
        ["`cell` of AttentionCell", "GRUCell", "Received: <GRU", "pass the cell instead"],
    ),
    "stacked cells": (
        lambda: AttentionCell(keras.layers.StackedRNNCells([gru()])),
        ["`cell` of AttentionCell", "StackedRNNCells", "not supported"],
    ),
    "name in place of a cell": (
        lambda: AttentionCell("gru"),
        ["`cell` of AttentionCell", "Received: 'gru'"],
    ),
    "RNN cell in place of an AttentionCell": (
        lambda: AttentionRNN(gru()),
        ["`cell` of AttentionRNN must be an AttentionCell", "GRUCell", "Wrap"],
    ),
    "unknown score of a cell": (
        lambda: AttentionCell(gru(), "genral"),
        ["score 'genral'", "Did you mean 'general'?"],
    ),
    "cell whose state the score cannot compare": (
        lambda: AttentionRNN(AttentionCell(gru(), "dot"))(QUERY, NARROW),
        ["score Dot", "query shape (2, 1, 8), key shape (2, 5, 6)", "'general'"],
    ),
    "inputs of one step": (
        lambda: AttentionRNN(AttentionCell(gru()))(QUERY[:, 0], VALUE),
        ["AttentionRNN needs inputs of shape", "inputs (2, 4), memory (2, 5, 4)", "single step"],
    ),
    "memory of rank 2": (
        lambda: AttentionRNN(AttentionCell(gru()))(QUERY, VALUE[:, 0]),
        ["AttentionRNN needs inputs of shape", "inputs (2, 3, 4), memory (2, 4)"],
    ),
    "memory mask of another length": (
        lambda: AttentionRNN(AttentionCell(gru()))(QUERY, VALUE, memory_mask=ones(2, 3)),
        ["_mask` of Attention", "(batch, length) = (2, 5)", "shape (2, 3)"],
    ),
    "initial state of another size": (
        lambda: prepare_cell(np.ones((2, 6))),
        ["initial state", "(batch, 8)", "GRUCell", "shape (2, 6)", "keras.layers.Dense(8)"],
    ),
    "score without pairwise": (
        lambda: scores.Score()(QUERY, VALUE),
        ["Score must implement `pairwise(query, key)`"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_says_who_what_and_how(mistake):
    make, fragments = MISTAKES[mistake]
    with pytest.raises((ValueError, NotImplementedError)) as caught:
        make()
    for fragment in fragments:
        assert fragment in str(caught.value)
