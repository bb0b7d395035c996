"""Integers and booleans as inputs are converted to floats."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    Attention,
    AttentionCell,
    AttentionGate,
    AttentionRNN,
    BlockSelectionAttention,
    ChannelAttention,
    CrossCovarianceAttention,
    DecoderBlock,
    DifferentialAttention,
    EncoderBlock,
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
    positions,
)

RNG = np.random.default_rng(0)
BOOLEANS = RNG.random((2, 4, 6)) < 0.5
INTEGERS = RNG.integers(-2, 3, (2, 4, 6))
MASK = np.array([[True, True, True, False], [False, True, True, True]])
LAYERS = {
    "single head": Attention("general"),
    "chunked": Attention("dot", implementation="chunked"),
    "fused": Attention("scaled_dot", implementation="fused"),
    "half precision": Attention("dot", dtype="mixed_bfloat16"),
    "several heads": MultiHeadAttention(2, 3),
    "differential": DifferentialAttention(2, 3),
    "forgetting": ForgettingAttention(2, 3),
    "talking heads": TalkingHeadsAttention(2, 3),
    "local": LocalAttention("predictive", half_width=2),
    "regression": NadarayaWatson(),
    "latent": LatentAttention(2, 3, latent_dim=4, rotary_dim=2),
    "block selection": BlockSelectionAttention(2, 3, block_size=2, num_blocks=2),
    "linear": LinearAttention(2, 3),
    "Performer": PerformerAttention(2, 3),
    "Linformer": LinformerAttention(2, 3, projected_length=2, max_length=4),
    "Longformer": LongformerAttention(2, 3, window=2),
    "Nystromformer": NystromAttention(2, 3, num_landmarks=2, kernel_size=3),
    "cross-covariance": CrossCovarianceAttention(2, 3),
    "Reformer": ReformerAttention(2, 3, bucket_size=2),
    "gated delta": GatedDeltaAttention(2, 3),
    "retention": RetentionAttention(2, 4),
    "gated linear": GatedLinearAttention(2, 3),
    "Kimi delta": KimiDeltaAttention(2, 3),
    "slots": SlotAttention(2, learned_slots=True),
    "channels": ChannelAttention(2),
    "places": SpatialAttention(3),
    "gate": AttentionGate(3),
    "Gaussian mixture": GaussianMixtureAttention(2, 4),
    "recurrent": AttentionRNN(AttentionCell(keras.layers.GRUCell(8), order="luong")),
    "encoder": EncoderBlock(2, 8),
    "decoder": DecoderBlock(2, 8, normalize="pre"),
    "position": positions.SinusoidalPosition(),
    "appended position": positions.LearnedPosition(4, mode="concatenate"),
}

NUMBERS_OF_INPUTS = {
    "regression": 3,
    "slots": 1,
    "channels": 1,
    "places": 1,
    "encoder": 1,
    "position": 1,
    "appended position": 1,
}


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "x", [INTEGERS, pytest.param(BOOLEANS, marks=pytest.mark.full)], ids=["integers", "booleans"]
)
@pytest.mark.parametrize("name", LAYERS)
def test_integers_count_as_floats(name, x):
    layer = LAYERS[name]
    inputs = [x] * NUMBERS_OF_INPUTS.get(name, 2)
    found, expected = layer(*inputs), layer(*(each.astype("float32") for each in inputs))
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    np.testing.assert_array_equal(ops.convert_to_numpy(found), ops.convert_to_numpy(expected))


def test_hidden_integers_are_still_hidden():
    layer = Attention("dot")
    context = layer(INTEGERS, INTEGERS, query_mask=MASK, value_mask=MASK)
    other = np.where(MASK[:, :, None], INTEGERS, 99)
    np.testing.assert_array_equal(context, layer(other, other, query_mask=MASK, value_mask=MASK))
