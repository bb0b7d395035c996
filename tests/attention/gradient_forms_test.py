"""Gradients of every layer, eager, in the graph that `fit` builds, and with XLA: the same ones."""

import keras
import numpy as np
import pytest

from keras_attention import (
    Attention,
    AttentionCell,
    AttentionRNN,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    LinformerAttention,
    LocalAttention,
    MultiHeadAttention,
    NadarayaWatson,
    PerformerAttention,
    ReformerAttention,
    positions,
)
from keras_attention.compute import tiles
from tests.attention.gradients import gradients_in_every_form, of_layer

BATCH, QUERIES, KEYS, SIZE = 2, 5, 6, 4
RNG = np.random.default_rng(0)
X, Y = (RNG.normal(size=(BATCH, n, SIZE)).astype("float32") for n in (QUERIES, KEYS))
MASK = np.array([[True] * 3 + [False] * 3, [False] + [True] * 5])
PAIR, ONE = (X, Y), (X,)


def recurrent(order):
    attention = MultiHeadAttention(2, 3, normalizer="sparsemax")
    return AttentionRNN(AttentionCell(keras.layers.GRUCell(3), attention, order, gated=True))


# Layers, with what they are called with.
LAYERS = {
    "attention": (lambda: Attention("additive", normalizer="sparsemax"), PAIR),
    "chunked": (lambda: Attention(implementation="chunked", soft_cap=3.0), PAIR),
    "heads": (lambda: MultiHeadAttention(2, 4, score="general", normalizer="entmax15"), PAIR),
    "grouped heads": (lambda: MultiHeadAttention(2, 4, num_key_value_heads=1), PAIR),
    "heads, chunked": (lambda: MultiHeadAttention(2, 4, implementation="chunked"), PAIR),
    "heads, fused": (lambda: MultiHeadAttention(2, 4, implementation="fused"), PAIR),
    **{
        name: (lambda name=name: MultiHeadAttention(2, 4, position=name), PAIR)
        for name in positions.names()
    },
    "local, monotonic": (lambda: LocalAttention("monotonic", 2), PAIR),
    "local, predictive": (lambda: LocalAttention("predictive", 3), PAIR),
    "performer": (lambda: PerformerAttention(2, 4, causal=True, seed=0), ONE * 2),
    "linformer": (lambda: LinformerAttention(2, 4, projected_length=3, max_length=8), PAIR),
    "reformer": (lambda: ReformerAttention(2, 4, bucket_size=2, seed=0), ONE * 2),
    "kernel regression": (lambda: NadarayaWatson("triangular", 3.0, True), (X, Y, Y)),
    "feed-forward": (lambda: FeedForward(6, "gelu"), ONE),
    "learned places": (lambda: positions.LearnedPosition(8), ONE),
    "encoder block": (lambda: EncoderBlock(2, 6, position="rotary", mask="causal"), ONE),
    "decoder block": (lambda: DecoderBlock(2, 6, normalize="pre", position="t5"), PAIR),
}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "LONGEST_TILE", 4)
    monkeypatch.setattr(tiles, "SHORTEST_TILE", 4)


def case(make, inputs):
    """Returns the function and inputs of a layer with weights off their initial values."""
    layer = make()
    layer(*inputs)
    for weight in layer.trainable_weights:
        weight.assign(weight + 0.3 * RNG.normal(size=weight.shape))
    directions = RNG.normal(size=layer(*inputs).shape).astype("float32")
    return of_layer(layer, *inputs, direction=directions)


def test_every_layer():
    gradients_in_every_form({name: case(*each) for name, each in LAYERS.items()})


# XLA refuses the gradient of a loop whose length TensorFlow does not tell it.
def test_recurrent_layers():
    cases = {order: case(lambda: recurrent(order), PAIR) for order in ("bahdanau", "luong")}
    gradients_in_every_form(cases, forms=["graph"])
