"""Defects of other libraries (rows of PEERS.md, section 1.1) that this one must not have."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention, NadarayaWatson, positions, scores
from tests.attention import oracle
from tests.attention.gradients import gradients

RNG = np.random.default_rng(0)
QUERY = RNG.normal(size=(2, 5, 4)).astype("float32")
VALUE = RNG.normal(size=(2, 7, 4)).astype("float32")
LAYERS = [Attention, lambda **arguments: MultiHeadAttention(2, 3, **arguments)]


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_peers_row_1_fully_masked_row_is_zero_with_and_without_scores(make, dtype):
    layer = make(dtype=dtype)
    mask = np.ones((2, 7), bool)
    mask[1] = False
    context, weights = layer(QUERY, VALUE, value_mask=mask, return_attention_scores=True)
    alone = layer(QUERY, VALUE, value_mask=mask)
    np.testing.assert_array_equal(oracle.float64(alone), oracle.float64(context))
    np.testing.assert_array_equal(oracle.float64(context)[1], 0.0)
    np.testing.assert_array_equal(oracle.float64(weights)[1], 0.0)
    tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]  # between forms
    found = gradients(lambda *x: layer(*x, value_mask=mask), QUERY, VALUE, tolerance=tolerance)
    for gradient in found:
        assert np.isfinite(oracle.float64(gradient)).all()
        np.testing.assert_array_equal(oracle.float64(gradient)[1], 0.0)


@pytest.mark.parametrize("make", LAYERS)
def test_peers_row_2_explicit_query_mask_counts_beside_the_implicit_one(make):
    implicit = np.array([[True, True, True, False, False]] * 2)
    explicit = np.array([[False, True, True, True, True]] * 2)
    query = keras.layers.Masking(0.0)(np.where(implicit[:, :, None], QUERY, 0.0))
    layer = make()
    context = oracle.float64(layer(query, VALUE, query_mask=explicit))
    seen = np.abs(context).sum(-1) > 0
    np.testing.assert_array_equal(seen, implicit & explicit)


@pytest.mark.parametrize("make", LAYERS)
def test_peers_row_3_symbolic_scores_of_cross_attention_have_the_real_shape(make):
    query, value = keras.Input((5, 4)), keras.Input((7, 4))
    context, weights = make()(query, value, return_attention_scores=True)
    real = keras.Model([query, value], [context, weights])([QUERY, VALUE])
    assert context.shape == (None, *real[0].shape[1:])
    assert weights.shape == (None, *real[1].shape[1:])
    assert weights.shape[-2:] == (5, 7)


def test_peers_row_4_every_argument_survives_a_file(tmp_path):
    arguments = {"dropout": 0.1, "implementation": "chunked", "soft_cap": 9.0, "seed": 5}
    inputs = keras.Input((None, 4))
    layer = MultiHeadAttention(2, 3, num_key_value_heads=1, **arguments)
    keras.Model(inputs, layer(inputs, inputs)).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").layers[-1].get_config()
    assert loaded.keys() == layer.get_config().keys()
    assert loaded["num_key_value_heads"] == 1
    assert arguments.items() <= loaded.items()


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("hide", ["all", "most", "none"])
def test_peers_row_5_float16_equals_float32_under_any_mask(make, hide):
    mask = {"all": 0.0, "most": 0.2, "none": 1.0}[hide] > RNG.random((2, 5, 7))
    exact, half = make(), make(dtype="float16")
    query, value = (ops.cast(ops.cast(x, "float16"), "float32") for x in (QUERY, VALUE))
    exact(query, value), half(query, value)
    half.set_weights([weight.astype("float16") for weight in exact.get_weights()])
    exact.set_weights([weight.astype("float32") for weight in half.get_weights()])
    np.testing.assert_allclose(
        oracle.float64(half(query, value, attention_mask=mask)),
        oracle.float64(exact(query, value, attention_mask=mask)),
        atol=5e-3,
    )


@pytest.mark.parametrize("make", LAYERS)
def test_peers_row_6_one_causal_query_sees_all_that_came_before(make):
    layer = make()
    _, whole = layer(VALUE, VALUE, use_causal_mask=True, return_attention_scores=True)
    _, step = layer(VALUE[:, -1:], VALUE, use_causal_mask=True, return_attention_scores=True)
    assert (oracle.float64(step) > 0).all()
    np.testing.assert_allclose(
        oracle.float64(step)[..., 0, :], oracle.float64(whole)[..., -1, :], atol=1e-6
    )


def test_peers_row_7_implementation_is_known_or_refused():
    assert Attention(implementation="reference").implementation == "reference"
    with pytest.raises(ValueError, match="implementation"):
        Attention(implementation="does not exist")


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
def test_peers_row_8_soft_cap_works_everywhere(make, implementation):
    layer = make(score="dot", soft_cap=1e-3, implementation=implementation)
    capped = oracle.float64(layer(1000 * QUERY, VALUE))
    even = oracle.float64(layer(0 * QUERY, VALUE))  # capped logits: between -0.001 and 0.001
    np.testing.assert_allclose(capped, even, atol=1e-2)


@pytest.mark.parametrize("make", LAYERS)
def test_peers_row_9_key_mask_hides_keys(make):
    mask = np.array([[True, True, False, True, False, True, True]] * 2)
    _, weights = make()(QUERY, VALUE, VALUE, key_mask=mask, return_attention_scores=True)
    weights = oracle.float64(weights)
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(mask[:, None], weights.shape))


def test_peers_row_10_additive_score_has_its_projections_and_takes_other_sizes():
    layer = Attention("additive")
    context = layer(QUERY, np.ones((2, 7, 3), "float32"))
    assert context.shape == (2, 5, 3)
    shapes = {each.name: each.shape for each in layer.score.weights}
    assert shapes == {"query_kernel": (4, 3), "key_kernel": (3, 3), "scale": (1, 3), "bias": (1, 3)}


@pytest.mark.parametrize("make", LAYERS)
def test_peers_row_11_returned_weights_sum_to_one_in_training(make):
    layer = make(dropout=0.5)
    _, weights = layer(QUERY, VALUE, return_attention_scores=True, training=True)
    np.testing.assert_allclose(oracle.float64(weights).sum(-1), 1.0, atol=1e-5)


@pytest.mark.parametrize("with_scores", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_peers_row_12_large_logits_are_finite_in_mixed_float16(with_scores, sign):
    layer = MultiHeadAttention(1, 64, score=scores.Dot(), dtype="mixed_float16")
    x = np.full((1, 2, 64), 40.0)
    layer(x, x)
    for projection in (layer.query_projection, layer.key_projection, layer.value_projection):
        projection.kernel.assign(np.eye(64))  # logits of 64 · 40² = 102,400
    output = layer(sign * x, x, return_attention_scores=with_scores)
    for each in output if with_scores else [output]:
        assert np.isfinite(oracle.float64(each)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_peers_row_13_sinusoids_in_half_precision_are_those_of_float32_rounded_once(dtype):
    x = np.zeros((1, 1024, 32), "float32")
    exact = positions.SinusoidalPosition()(x)
    half = positions.SinusoidalPosition(dtype=dtype)(ops.cast(x, dtype))
    np.testing.assert_array_equal(oracle.float64(half), oracle.float64(ops.cast(exact, dtype)))
    steps = np.abs(np.diff(oracle.float64(half)[0], axis=0)).max(axis=-1)
    assert (steps > 0).all(), "neighbours must differ"


def test_peers_row_17_isolated_query_is_zero_and_epanechnikov_is_a_parabola():
    x, y = np.array([[[0.0], [0.5]]], "float32"), np.array([[[1.0], [3.0]]], "float32")
    queries = np.array([[[0.0], [9.0]]], "float32")
    found = oracle.float64(NadarayaWatson("epanechnikov", width=1.0)(queries, x, y))
    parabola = [0.75, 0.75 * (1 - 0.5**2)]
    expected = (parabola[0] * 1.0 + parabola[1] * 3.0) / sum(parabola)
    np.testing.assert_allclose(found[0, :, 0], [expected, 0.0], atol=1e-6)
