"""Users' mistakes with cells and recurrent layers, and what the messages say."""

import keras
import numpy as np
import pytest

from keras_attention import AttentionCell, AttentionRNN, scores
from keras_attention.local import LocalAttention
from tests.attention.mistakes import NARROW, QUERY, VALUE, attend_again, check_message, gru, ones


def prepared_cell():
    cell = AttentionCell(gru())
    cell.build((2, 4), (2, 5, 4))
    return cell


# what the user did: (how, what the message must say)
MISTAKES = {
    "unknown order": (
        lambda: AttentionCell(gru(), order="bahdenau"),
        ["`order` of AttentionCell must be one of bahdanau, conditional, luong", "'bahdenau'"],
    ),
    "units of 0 for a projection": (
        lambda: AttentionCell(gru(), order="luong", units=0),
        ["`units` of AttentionCell must be a positive integer or None", "units=0"],
    ),
    "units of an order without a projection": (
        lambda: AttentionCell(gru(), order="conditional", units=3),
        ["`units`", "order='luong'; order='conditional' has none", "units=3", "Omit it"],
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
    "attention of Keras in a cell": (
        lambda: AttentionCell(gru(), keras.layers.MultiHeadAttention(2, 3)),
        ["`attention` of AttentionCell", "prepares a memory", "Received: <MultiHeadAttention"],
    ),
    "score in place of the attention of a cell": (
        lambda: AttentionCell(gru(), scores.Additive()),
        ["`attention` of AttentionCell", "<Additive", "Attention(score)"],
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
    "inputs of one step, in a layer that is built": (
        lambda: attend_again(QUERY[:, 0], VALUE, AttentionRNN(AttentionCell(gru()))),
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
    "initial state of another batch": (
        lambda: AttentionRNN(AttentionCell(gru()))(QUERY, VALUE, initial_state=np.ones((3, 8))),
        [
            "of the same batch size",
            "inputs (2, 3, 4), memory (2, 5, 4), initial_state (3, 8)",
            "ops.repeat",
        ],
    ),
    "memory of another batch": (
        lambda: attend_again(QUERY, VALUE[:1], AttentionRNN(AttentionCell(gru()))),
        ["of the same batch size", "inputs (2, 3, 4), memory (1, 5, 4)", "ops.repeat"],
    ),
    "cell without weights": (
        lambda: AttentionCell(gru(), order="luong", name="step").initial_state(np.ones((2, 8))),
        ["'step' (AttentionCell) has no weights yet", "build(inputs_shape, memory_shape)"],
    ),
    "memory that is not prepared": (
        lambda: prepared_cell()(QUERY[:, 0], [np.ones((2, 8))], VALUE),
        ["`memory` of Attention must be what its `prepare` returned", "shape (2, 5, 4)"],
    ),
    "initial state of another size": (
        lambda: prepared_cell().initial_state(np.ones((2, 6))),
        ["initial state", "(batch, 8)", "GRUCell", "shape (2, 6)", "keras.layers.Dense(8)"],
    ),
    "step that does not say where it is": (
        lambda: AttentionRNN(AttentionCell(gru(), LocalAttention("monotonic")))(QUERY, VALUE),
        ["LocalAttention(mode='monotonic')", "start=t", "mode='predictive'"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_says_who_what_and_how(mistake):
    check_message(*MISTAKES[mistake])
