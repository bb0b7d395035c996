"""Attention inside `keras.RematScope()`: recomputed in the backward pass, same results."""

import contextlib
from unittest import mock

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    Attention,
    AttentionGate,
    AttentionPooling,
    BlockSelectionAttention,
    ChannelAttention,
    CrossCovarianceAttention,
    DifferentialAttention,
    EncoderBlock,
    FeedForward,
    ForgettingAttention,
    GatedDeltaAttention,
    GatedLinearAttention,
    GaussianMixtureAttention,
    KimiDeltaAttention,
    LatentAttention,
    LinearAttention,
    LinformerAttention,
    LocalAttention,
    LongformerAttention,
    MultiHeadAttention,
    NadarayaWatson,
    NystromAttention,
    PerformerAttention,
    ReformerAttention,
    RetentionAttention,
    SlotAttention,
    SpatialAttention,
    TalkingHeadsAttention,
    TransformerBlock,
    _recompute,
    compute,
    normalizers,
)
from keras_attention.compute import tiles
from tests.attention.gradients import weight_gradients

BATCH, LENGTH, SIZE = 8, 13, 8

LAYERS = [
    Attention("additive", dropout=0.3),
    Attention("general", normalizer=normalizers.Hard(stochastic=True)),
    MultiHeadAttention(2, 4, implementation="chunked", dropout=0.3, name="chunked"),
    LocalAttention(half_width=2, dropout=0.3),
    MultiHeadAttention(2, 4, position="shaw", dropout=0.3),
    DifferentialAttention(2, 4, dropout=0.3),
    ForgettingAttention(2, 4, dropout=0.3),
    TalkingHeadsAttention(2, 4, dropout=0.3),
    LinformerAttention(2, 4, projected_length=6, max_length=LENGTH, dropout=0.3),
    LatentAttention(2, 4, latent_dim=6, rotary_dim=2, dropout=0.3),
    BlockSelectionAttention(2, 4, block_size=3, num_blocks=2),
    LinearAttention(2, 4),
    PerformerAttention(2, 4),
    LongformerAttention(2, 4, window=4, dropout=0.3),
    NystromAttention(2, 4, num_landmarks=4, kernel_size=3),
    CrossCovarianceAttention(2, 4),
    ReformerAttention(2, 4, bucket_size=4),
    GatedDeltaAttention(2, 4),
    RetentionAttention(2, 4),
    GatedLinearAttention(2, 4),
    KimiDeltaAttention(2, 4),
    GaussianMixtureAttention(2, 4),
]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "LONGEST_TILE", 4)
    monkeypatch.setattr(tiles, "SHORTEST_TILE", 4)


def losses(make):
    """The losses of a one-layer model in its first epochs."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x, key_mask = keras.Input((LENGTH, SIZE)), keras.Input((LENGTH,), dtype="bool")
    with keras.RematScope():
        y = make(x, key_mask)
    model = keras.Model([x, key_mask], keras.layers.Dense(SIZE)(y))
    model.compile(keras.optimizers.SGD(0.3), "mse", jit_compile=False)
    inputs = rng.normal(size=(BATCH, LENGTH, SIZE)), rng.random((BATCH, LENGTH)) < 0.7
    targets = rng.normal(size=(BATCH, LENGTH, SIZE))
    return model.fit([*inputs], targets, batch_size=2, epochs=2, verbose=0).history["loss"]


def assert_same_losses(make):
    recomputed = _recompute._recomputed
    again = losses(make)
    with mock.patch.object(  # the same draws, kept for the backward pass
        _recompute, "_recomputed", lambda layer, call, _: recomputed(layer, call, lambda f: f)
    ):
        plain = losses(make)
    np.testing.assert_allclose(again, plain, rtol=1e-5)
    assert plain[0] != plain[1]


@pytest.mark.full
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_layers_learn_the_same(layer):
    def make(x, key_mask):
        return type(layer).from_config(layer.get_config())(x, x, key_mask=key_mask)

    assert_same_losses(make)


@pytest.mark.full  # the block below contains one
def test_feed_forward_learns_the_same():
    assert_same_losses(lambda x, _: FeedForward(12, dropout=0.3)(x))


@pytest.mark.full
def test_kernel_regression_learns_the_same():
    def make(x, key_mask):
        return NadarayaWatson("gaussian", learned_width=True)(x, x, x, key_mask=key_mask)

    assert_same_losses(make)


@pytest.mark.full
def test_pooling_learns_the_same():
    assert_same_losses(lambda x, mask: AttentionPooling(num_queries=LENGTH)(x, mask=mask))


@pytest.mark.full
def test_attention_to_channels_and_places_learns_the_same():
    assert_same_losses(lambda x, mask: SpatialAttention(3)(ChannelAttention(2)(x, mask=mask)))


@pytest.mark.full
def test_gates_learn_the_same():
    assert_same_losses(lambda x, mask: AttentionGate(3)(x, x, mask=mask))


@pytest.mark.full
def test_slots_learn_the_same():
    assert_same_losses(lambda x, mask: SlotAttention(LENGTH)(x, mask=mask))


@pytest.mark.full
def test_blocks_that_choose_chunks_learn_the_same(monkeypatch):
    monkeypatch.setattr(compute, "LARGE", 0)

    def make(x, mask):
        return EncoderBlock(2, 12, position="t5", dropout=0.2, attention_dropout=0.3)(x, mask=mask)

    assert_same_losses(make)


@pytest.mark.full
@pytest.mark.parametrize("mode", [None, "full"])
def test_blocks_around_layers_learn_the_same(mode):
    """The attention layer may be created inside or outside of `keras.RematScope()`."""

    def make(x, mask):
        with keras.RematScope(mode=mode):
            layer = MultiHeadAttention(2, 4, position="shaw", dropout=0.3)
        return TransformerBlock(layer, 12, dropout=0.2)(x, mask=mask)

    assert_same_losses(make)


@pytest.mark.parametrize("mode", [None, "full", "activations", "larger_than"])
def test_activities_of_projections_are_regularized(mode):
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    plain = MultiHeadAttention(2, 3, activity_regularizer="l2")
    with keras.RematScope(mode=mode, output_size_threshold=1):
        layer = MultiHeadAttention(2, 3, activity_regularizer="l2")
    for each in (plain, layer):
        each.build(x.shape, x.shape)
        each.set_weights(plain.get_weights())
        each(x, x)
    found, expected = (sorted(map(float, each.losses)) for each in (layer, plain))
    assert len(expected) == 4
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_is_not_recomputed_draws_as_without_a_scope():
    x = np.ones((2, 3, 4), "float32")
    outputs = []
    for scope in (None, {"mode": None}, {"mode": "list_of_layers", "layer_names": ["another"]}):
        keras.utils.set_random_seed(0)
        with contextlib.nullcontext() if scope is None else keras.RematScope(**scope):
            layer = MultiHeadAttention(2, 3, dropout=0.5, seed=1)
        outputs.append(ops.convert_to_numpy(layer(x, x, training=True)))
    np.testing.assert_array_equal(outputs[1], outputs[0])
    np.testing.assert_array_equal(outputs[2], outputs[0])


@pytest.mark.parametrize(("threshold", "is_recomputed"), [(47, True), (48, False)])
def test_only_large_outputs_are_recomputed(monkeypatch, threshold, is_recomputed):
    monkeypatch.setattr("tests.attention.gradients.IN_EVERY_FORM", False)  # each form calls it
    calls = []

    class Counting(EncoderBlock):
        def call(self, x, training=None):
            calls.append(x)
            return super().call(x, training=training)

    x = np.ones((2, 3, 8), "float32")
    with keras.RematScope(mode="larger_than", output_size_threshold=threshold):
        block = Counting(2, 12)
    block.build(x.shape)
    block(x)
    assert len(calls) == 1
    if keras.backend.backend() == "tensorflow":
        weight_gradients(block, x)
        assert len(calls) == (3 if is_recomputed else 2)
