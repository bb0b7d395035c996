"""Gradients of layers are the same eagerly, in the graph that `fit` builds, and with XLA.

The tests of scores, normalizers, plain attention, its approximations and recurrent decoders compare
them with finite differences.
"""

import numpy as np
import pytest
from keras import ops

from keras_attention import (
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    MultiHeadAttention,
    NadarayaWatson,
    normalizers,
    positions,
)
from keras_attention.compute import tiles
from tests.attention import oracle
from tests.attention.gradients import gradients_in_every_form, of_layer

RNG = np.random.default_rng(0)
X, Y = (RNG.normal(size=(2, length, 4)).astype("float32") for length in (5, 6))


def several_heads(**arguments):
    return MultiHeadAttention(2, 4, **arguments)


# Layers and the inputs of their calls.
LAYERS = {
    # XLA computes these scores twice, with different rounding.
    "sparsemax": (
        several_heads(position="shaw", normalizer="sparsemax", soft_cap=3.0, mask="causal"),
        X,
        Y,
    ),
    "entmax15, shared heads": (
        several_heads(num_key_value_heads=1, normalizer="entmax15"),
        X,
        Y,
    ),
    "chunked": (several_heads(implementation="chunked", position="alibi", soft_cap=3.0), X, Y),
    "fused": (several_heads(implementation="fused"), X, Y),
    "kernel regression": (NadarayaWatson("triangular", 3.0, learned_width=True), X, Y, Y),
    "learned positions": (positions.LearnedPosition(8), X),
    "feed-forward": (FeedForward(6, "gelu"), X),
    "encoder block": (EncoderBlock(2, 6, position="rotary", mask="causal"), X),
    "decoder block": (DecoderBlock(2, 6, normalize="pre", position="t5"), X, Y),
}


# Without --full, only layers whose gradients with XLA no other file tests.
@pytest.mark.parametrize(
    "names",
    [
        ["entmax15, shared heads", "chunked", "kernel regression"],
        pytest.param(list(LAYERS), marks=pytest.mark.full),
    ],
    ids=["some", "all"],
)
def test_layers_have_the_same_gradients_in_every_form(request, monkeypatch, names):
    monkeypatch.setattr(tiles, "LONGEST_TILE", 4)
    monkeypatch.setattr(tiles, "SHORTEST_TILE", 4)
    cases = {}
    for name in names:
        layer, *inputs = LAYERS[name]
        layer(*inputs)
        for weight in layer.trainable_weights:
            weight.assign(oracle.float64(weight) + 0.3 * RNG.normal(size=weight.shape))
        direction = RNG.normal(size=layer(*inputs).shape).astype("float32")
        cases[name] = of_layer(layer, *inputs, direction=direction)
    # Other files always test gradients of scores, normalizers and approximations in a graph.
    gradients_in_every_form(cases, forms=None if request.config.getoption("--full") else ["XLA"])


def test_gradients_of_sparse_weights_are_their_closed_form():
    """r · (g - Σ r g / Σ r) with r = w^(1 - 1/power): 1 or 0 for sparsemax, √w for entmax15."""
    powers = {"sparsemax": 1, "entmax15": 2}
    tied = np.r_[5.0, np.zeros(32)]  # 32 tied keys of weight 0
    scores = np.stack([*(3 * RNG.normal(size=(300, 33))), tied])
    upstream = RNG.normal(size=scores.shape)
    cases = {
        name: (
            lambda scores, name=name: ops.multiply(
                normalizers.get(name)(scores), upstream.astype("float32")
            ),
            scores.astype("float32"),
        )
        for name in powers
    }
    for name, (found,) in gradients_in_every_form(cases).items():
        weights = oracle.normalized(name, scores, np.ones(scores.shape, bool))
        r = weights ** (1 - 1 / powers[name]) * (weights > 0)
        mean = (r * upstream).sum(-1, keepdims=True) / r.sum(-1, keepdims=True)
        np.testing.assert_allclose(oracle.float64(found), r * (upstream - mean), atol=1e-5)
        np.testing.assert_array_equal(oracle.float64(found)[weights == 0], 0.0)
