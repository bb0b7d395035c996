"""Layers have no unused weights: with every score, each one gets a gradient."""

import keras
import numpy as np
import pytest

from keras_attention import (
    Attention,
    AttentionCell,
    DecoderBlock,
    DifferentialAttention,
    EncoderBlock,
    MultiHeadAttention,
    TalkingHeadsAttention,
    positions,
    scores,
)

SIZE = 4
X, Y = (np.random.default_rng(0).normal(size=(2, n, SIZE)).astype("float32") for n in (3, 5))


def make_score(name):
    kind = type(scores.get(name))
    if issubclass(kind, scores.Kernel):
        return kind(width=5.0)
    return kind(max_length=6) if hasattr(kind, "require_length") else kind()


def single_head(score, position):
    layer = Attention(score, position=position)
    return layer, lambda: layer(X, Y)


def several_heads(score, position, **arguments):
    layer = MultiHeadAttention(2, 4, score=score, position=position, **arguments)
    return layer, lambda: layer(X, Y)


def shared_heads(score, position):
    return several_heads(score, position, num_key_value_heads=1)


def two_maps(score, position):
    layer = DifferentialAttention(2, 4, num_key_value_heads=1, score=score, position=position)
    return layer, lambda: layer(X, Y)


def talking_heads(score, position):
    layer = TalkingHeadsAttention(2, 4, num_key_value_heads=1, score=score, position=position)
    return layer, lambda: layer(X, Y)


def encoder_block(score, position):
    block = EncoderBlock(2, 3, score=score, position=position)
    return block, lambda: block(X)


def decoder_block(score, position):
    block = DecoderBlock(2, 3, score=score, position=position)
    return block, lambda: block(X, Y)


def recurrent_cell(score, position):
    attention = MultiHeadAttention(2, 4, score=score, position=position)
    cell = AttentionCell(keras.layers.GRUCell(SIZE), attention, order="luong")
    cell.build((2, SIZE), Y.shape)
    state = np.ones((2, SIZE), "float32")
    return cell, lambda: cell(X[:, 0], cell.initial_state(state), cell.prepare(Y))[0]


# The boxcar is a step function without gradients.
SCORES = [name for name in scores.names() if name != "boxcar"]
FEW = ["additive", "location", "dense_synthesizer", "random_synthesizer"]
LAYERS = [
    single_head,
    several_heads,
    shared_heads,
    two_maps,
    talking_heads,
    encoder_block,
    decoder_block,
    recurrent_cell,
]
CASES = [(make, None, FEW) for make in LAYERS if make is not several_heads] + [
    pytest.param(make, position, SCORES, marks=pytest.mark.full)
    for make in LAYERS
    for position in (None, *positions.names())
]
CASES.append((several_heads, None, SCORES))


@pytest.mark.few(2)
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="asks TensorFlow's tape")
@pytest.mark.parametrize(("make", "position", "names"), CASES)
def test_every_weight_gets_a_gradient(make, position, names):
    import tensorflow as tf

    for name in names:
        layer, call = make(make_score(name), position)
        with tf.GradientTape() as tape:
            output = tf.reduce_sum(call() ** 2)
        weights = layer.trainable_variables
        found = zip(weights, tape.gradient(output, [each.value for each in weights]), strict=True)
        assert len(weights) > 0 or make is single_head
        assert [weight.path for weight, each in found if each is None] == [], name


@pytest.mark.parametrize(
    ("score", "position", "query", "key"),
    [
        ("scaled_dot", None, True, True),
        ("location", None, True, False),
        ("location", "rotary", True, False),
        ("dense_synthesizer", "shaw", True, False),
        ("random_synthesizer", "rotary", False, False),
        ("random_synthesizer", "shaw", True, False),  # Shaw reads queries
    ],
)
def test_only_what_is_read_is_projected(score, position, query, key):
    layer, call = several_heads(make_score(score), position)
    call()
    assert (layer.query_projection is not None, layer.key_projection is not None) == (query, key)
