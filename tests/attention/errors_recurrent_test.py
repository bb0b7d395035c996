"""Users' mistakes with cells and recurrent layers, and what the messages say."""

import keras
import numpy as np
import pytest

from keras_attention import (
    Attention,
    AttentionCell,
    AttentionRNN,
    Coverage,
    DifferentialAttention,
    ForgettingAttention,
    LinearAttention,
    MultiHeadAttention,
    TalkingHeadsAttention,
    alignments,
    coverage_loss,
    scores,
)
from keras_attention.gaussian_mixture import GaussianMixtureAttention
from keras_attention.local import LocalAttention
from tests.attention.mistakes import NARROW, QUERY, VALUE, attend_again, check_message, gru, ones


def prepared_cell(**arguments):
    cell = AttentionCell(gru(), **arguments)
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
    "attention with outputs of several axes": (
        lambda: AttentionRNN(AttentionCell(gru(), MultiHeadAttention(2, 3, output_shape=(2, 3))))(
            QUERY, VALUE
        ),
        ["`attention` of AttentionCell must return vectors", "(2, 1, 2, 3)", "`output_dim`"],
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
    "inputs mask of another length": (
        lambda: AttentionRNN(AttentionCell(gru()))(QUERY, VALUE, inputs_mask=ones(2, 5)),
        ["`inputs_mask` of AttentionRNN", "(2, 3)", "(2, 5)"],
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
    "filters of 0 for coverage": (
        lambda: Coverage(filters=0),
        ["`filters` of Coverage must be a positive integer or None", "filters=0"],
    ),
    "coverage of no keys": (
        lambda: Coverage(kernel_size=None),
        ["`kernel_size` of Coverage must be a positive integer", "kernel_size=None"],
    ),
    "unknown history of coverage": (
        lambda: Coverage(history="cumulative"),
        ["`history` of Coverage must be one of previous, sum, both", "'cumulative'"],
    ),
    "history in place of coverage": (
        lambda: AttentionCell(gru(), coverage="sum"),
        ["`coverage` of AttentionCell", "Coverage()", "Received: 'sum'"],
    ),
    "coverage of keys that are rows of a weight": (
        lambda: AttentionCell(gru(), "location", coverage=Coverage()),
        ["`coverage` of AttentionCell", "the score Location", "score='additive'"],
    ),
    "coverage of keys that are positions": (
        lambda: AttentionCell(
            gru(), MultiHeadAttention(2, 3, score="random_synthesizer"), coverage=Coverage()
        ),
        ["`coverage` of AttentionCell", "the score RandomSynthesizer", "'general'"],
    ),
    "coverage of keys with their norms": (
        lambda: AttentionCell(gru(), "gaussian", coverage=Coverage()),
        ["`coverage` of AttentionCell", "vectors of keys", "the score Gaussian"],
    ),
    "coverage of keys with features of their position": (
        lambda: AttentionCell(gru(), Attention(position="disentangled"), coverage=Coverage()),
        ["`coverage` of AttentionCell", "the position Disentangled"],
    ),
    "coverage of an attention without a score": (
        lambda: AttentionCell(gru(), LinearAttention(2, 3), coverage=Coverage()),
        ["Attention or MultiHeadAttention", "the layer LinearAttention"],
    ),
    "state with coverage, without the memory": (
        lambda: prepared_cell(coverage=Coverage()).initial_state(np.ones((2, 8))),
        ["`memory` is required", "coverage", "memory=None", "cell.initial_state(state, memory)"],
    ),
    "state with coverage and a memory that is not prepared": (
        lambda: prepared_cell(coverage=Coverage()).initial_state(np.ones((2, 8)), VALUE),
        ["`memory` of Attention must be what its `prepare` returned", "shape (2, 5, 4)"],
    ),
    "step with coverage and a memory that is not prepared": (
        lambda: prepared_cell(coverage=Coverage())(QUERY[:, 0], [np.ones((2, 8))], VALUE),
        ["`memory` of Attention must be what its `prepare` returned", "shape (2, 5, 4)"],
    ),
    "unknown alignment": (
        lambda: AttentionCell(gru(), alignment="monotonous"),
        ["Unknown alignment 'monotonous'", "Did you mean 'monotonic'?"],
    ),
    "class of an alignment": (
        lambda: AttentionCell(gru(), alignment=alignments.Forward),
        ["`alignment` must be an object, not a class", "Forward()"],
    ),
    "coverage in place of an alignment": (
        lambda: AttentionCell(gru(), alignment=Coverage()),
        ["`alignment` must be one of forward, monotonic, stepwise", "Received: <Coverage"],
    ),
    "alignment of an attention with a normalizer of its own": (
        lambda: AttentionCell(
            gru(), MultiHeadAttention(2, 3, normalizer="sigmoid"), alignment="monotonic"
        ),
        ["`alignment` of AttentionCell", "normalizer='softmax'", "the normalizer Sigmoid"],
    ),
    "alignment of an attention without a normalizer": (
        lambda: AttentionCell(gru(), LinearAttention(2, 3), alignment="forward"),
        ["Attention or MultiHeadAttention", "the layer LinearAttention", "omit the alignment"],
    ),
    "alignment of predicted places": (
        lambda: AttentionCell(gru(), LocalAttention("predictive"), alignment="forward"),
        ["Attention or MultiHeadAttention", "the layer LocalAttention"],
    ),
    "alignment of a difference of weights": (
        lambda: AttentionCell(gru(), DifferentialAttention(2, 3), alignment="forward"),
        ["Attention or MultiHeadAttention", "the layer DifferentialAttention"],
    ),
    "alignment of a softmax that forgets": (
        lambda: AttentionCell(gru(), ForgettingAttention(2, 3), alignment="forward"),
        ["Attention or MultiHeadAttention", "the layer ForgettingAttention"],
    ),
    "alignment of mixed heads": (
        lambda: AttentionCell(gru(), TalkingHeadsAttention(2, 3), alignment="forward"),
        ["Attention or MultiHeadAttention", "the layer TalkingHeadsAttention"],
    ),
    "alignment of places": (
        lambda: AttentionCell(gru(), GaussianMixtureAttention(), alignment="forward"),
        ["Attention or MultiHeadAttention", "the layer GaussianMixtureAttention"],
    ),
    "coverage of places": (
        lambda: AttentionCell(gru(), GaussianMixtureAttention(), coverage=Coverage()),
        ["`coverage` of AttentionCell", "the layer GaussianMixtureAttention"],
    ),
    "coverage of two maps": (
        lambda: AttentionCell(gru(), DifferentialAttention(2, 3), coverage=Coverage()),
        ["`coverage` of AttentionCell", "the layer DifferentialAttention"],
    ),
    "negative noise": (
        lambda: alignments.Monotonic(noise=-1),
        ["`noise` of Monotonic must be a finite number of at least 0", "noise=-1"],
    ),
    "bias that is not a number": (
        lambda: alignments.Stepwise(initial_bias="zeros"),
        ["`initial_bias` of Stepwise must be a finite number", "initial_bias='zeros'"],
    ),
    "state with an alignment, without the memory": (
        lambda: prepared_cell(alignment="forward").initial_state(np.ones((2, 8))),
        ["`memory` is required", "an alignment", "cell.initial_state(state, memory)"],
    ),
    "mask of the keys for the coverage loss": (
        lambda: coverage_loss(np.ones((2, 3, 5)), ones(2, 5)),
        ["`mask` of coverage_loss", "(batch, steps) = (2, 3)", "shape (2, 5)"],
    ),
    "step that does not say where it is": (
        lambda: AttentionRNN(AttentionCell(gru(), LocalAttention("monotonic")))(QUERY, VALUE),
        ["LocalAttention(mode='monotonic')", "start=t", "mode='predictive'"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_says_who_what_and_how(mistake):
    check_message(*MISTAKES[mistake])
