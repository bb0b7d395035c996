"""Normalizers: float64 softmax, exact zeros, finite gradients."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import normalizers
from tests.attention import oracle
from tests.attention.gradients import gradients

DTYPES = ["float32", "float16", "bfloat16"]
RNG = np.random.default_rng(0)
softmax = normalizers.Softmax()


def random_scores(dtype="float32", scale=3.0):
    return ops.cast(scale * RNG.normal(size=(3, 4, 6)), dtype)


def random_visible():
    """Random booleans; the row (0, 0) sees nothing and (0, 1) one key only."""
    visible = RNG.random((3, 4, 6)) < 0.6
    visible[0, :2] = False
    visible[0, 1, 2] = True
    return visible


def weighted(scores, visible):
    """One weight that is not symmetric in the keys, so that its gradient is not 0."""
    return softmax(scores, visible) * np.arange(1.0, 7.0, dtype="float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 100.0, 20_000.0])
def test_equals_float64_softmax(dtype, scale):
    scores, visible = random_scores(dtype, scale), random_visible()
    expected = oracle.softmax(oracle.float64(scores), visible)
    np.testing.assert_allclose(oracle.float64(softmax(scores, visible)), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_without_a_mask_every_key_is_visible(dtype):
    scores = random_scores(dtype)
    expected = oracle.softmax(oracle.float64(scores), np.ones((3, 4, 6), bool))
    np.testing.assert_allclose(oracle.float64(softmax(scores)), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_are_float32(dtype):
    for visible in (None, random_visible()):
        weights = softmax(random_scores(dtype), visible)
        assert keras.backend.standardize_dtype(weights.dtype) == "float32"


@pytest.mark.parametrize("dtype", DTYPES)
def test_hidden_keys_and_rows_without_keys_weigh_exactly_zero(dtype):
    visible = random_visible()
    weights = oracle.float64(softmax(random_scores(dtype), visible))
    np.testing.assert_array_equal(weights[~visible], 0.0)
    np.testing.assert_allclose(weights.sum(-1), visible.any(-1), atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_hidden_keys_and_rows_without_keys_have_a_gradient_of_exactly_zero(dtype):
    visible = random_visible()
    (gradient,) = gradients(lambda scores: weighted(scores, visible), random_scores(dtype))
    gradient = oracle.float64(gradient)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[~visible], 0.0)
    assert np.abs(gradient[visible]).max() > 0.01


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 3e38])
def test_what_stands_at_hidden_places_has_no_effect(junk):
    visible, scores = random_visible(), ops.convert_to_numpy(random_scores())
    dirty = np.where(visible, scores, junk).astype("float32")
    np.testing.assert_array_equal(
        oracle.float64(softmax(dirty, visible)), oracle.float64(softmax(scores, visible))
    )
    (spoiled,), (expected,) = (
        gradients(lambda scores: weighted(scores, visible), each) for each in (dirty, scores)
    )
    np.testing.assert_array_equal(oracle.float64(spoiled), oracle.float64(expected))


@pytest.mark.parametrize("hide", [True, False])
def test_gradient_equals_finite_differences(hide):
    visible = random_visible() if hide else np.ones((3, 4, 6), bool)
    scores = oracle.float64(random_scores())

    def expected_total(scores):
        return (oracle.softmax(scores, visible) * np.arange(1.0, 7.0)).sum()

    given = visible if hide else None
    (found,) = gradients(lambda scores: weighted(scores, given), scores.astype("float32"))
    (expected,) = oracle.numerical_gradients(expected_total, scores)
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-5)


def test_visible_broadcasts_to_the_scores():
    scores, visible = random_scores(), random_visible()[:, :1]
    expected = oracle.softmax(oracle.float64(scores), np.broadcast_to(visible, scores.shape))
    np.testing.assert_allclose(oracle.float64(softmax(scores, visible)), expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_axes_may_be_empty(shape):
    for visible in (None, np.ones(shape, bool)):
        assert softmax(np.zeros(shape, "float32"), visible).shape == shape


@pytest.mark.filterwarnings("error")
def test_a_single_key_weighs_one_without_a_warning():
    np.testing.assert_array_equal(oracle.float64(softmax(np.full((2, 1), -7.0, "float32"))), 1.0)


def test_registry_gives_names_objects_and_configs():
    assert "softmax" in normalizers.names()
    assert isinstance(normalizers.get("softmax"), normalizers.Softmax)
    assert normalizers.get(softmax) is softmax
    config = keras.saving.serialize_keras_object(softmax)
    assert isinstance(normalizers.get(config), normalizers.Softmax)
