"""CrossCovarianceAttention against the equation of its paper in float64, channel by channel."""

import numpy as np
import pytest
from keras import ops

from keras_attention import CrossCovarianceAttention
from tests.attention import oracle
from tests.attention.gradients import layer_gradients

BATCH, HEADS, LENGTH, SIZE = 2, 3, 7, 6
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def make(**arguments):
    """A built layer with perturbed weights."""
    layer = CrossCovarianceAttention(HEADS, 4, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def equation(layer, query, value, key, visible):
    """Returns output and weights, from the visible positions of each example alone."""
    arrays = [
        np.stack(oracle._heads(getattr(layer, f"{name}_projection"), x.astype("float64"), HEADS))
        for name, x in (("query", query), ("key", key), ("value", value))
    ]
    weights = np.zeros((len(query), HEADS, 4, 4))
    contexts = np.zeros((HEADS, *query.shape[:2], 4))
    for example, head in np.ndindex(len(query), HEADS):
        seen = visible[example]
        if not seen.any():
            continue
        q, k, v = (each[head, example, seen] for each in arrays)
        factor = oracle.weight(layer, "temperature")[head, 0, 0]
        for i in range(4):
            cosines = [
                q[:, i] @ k[:, j] / np.linalg.norm(q[:, i]) / np.linalg.norm(k[:, j])
                for j in range(4)
            ]
            powers = np.exp(factor * np.array(cosines))
            weights[example, head, i] = powers / powers.sum()
            contexts[head, example, seen, i] = v @ weights[example, head, i]
    return oracle._dense(layer.output_projection, np.concatenate(contexts, axis=-1)), weights


ALL = np.ones((BATCH, LENGTH), bool)
SOME = np.array([[1, 1, 0, 1, 0, 1, 1], [0] * LENGTH], bool)
CASES = {  # arguments of the layer, visible positions, arguments of the call
    "plain": ({}, ALL, {}),
    "no bias": ({"output_dim": 5, "use_bias": False}, ALL, {}),
    "padding": ({}, SOME, {"value_mask": SOME}),
    "padding of queries": ({"use_bias": ["query", "key"]}, SOME, {"query_mask": SOME}),
    "several masks": (
        {},
        SOME & (np.arange(LENGTH) > 0),
        {"query_mask": SOME, "key_mask": np.tile(np.arange(LENGTH) > 0, (BATCH, 1))},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_its_equation(name):
    arguments, visible, masks = CASES[name]
    layer = make(**arguments)
    query, value, key = (random(BATCH, LENGTH, SIZE) for _ in range(3))
    found = layer(query, value, key, return_attention_scores=True, **masks)
    for each, expected in zip(found, equation(layer, query, value, key, visible), strict=True):
        np.testing.assert_allclose(oracle.float64(each), expected, atol=2e-5)
    found = layer(query, value, return_attention_scores=True, **masks)
    for each, expected in zip(found, equation(layer, query, value, value, visible), strict=True):
        np.testing.assert_allclose(oracle.float64(each), expected, atol=2e-5)


def test_padding_changes_nothing():
    layer, x = make(), random(BATCH, LENGTH, SIZE)
    mask = np.arange(LENGTH) < [[5]] * BATCH
    found, weights = layer(x, x, value_mask=mask, return_attention_scores=True)
    expected = layer(x[:, :5], x[:, :5], return_attention_scores=True)
    expected, of_shorter = map(oracle.float64, expected)
    np.testing.assert_allclose(oracle.float64(found)[:, :5], expected, atol=1e-5)
    np.testing.assert_allclose(oracle.float64(weights), of_shorter, atol=1e-6)


def test_channels_of_zeros_attend_evenly_with_finite_gradients():
    layer = CrossCovarianceAttention(HEADS, 4)
    x = np.zeros((BATCH, LENGTH, SIZE), "float32")
    _, weights = layer(x, x, return_attention_scores=True)
    np.testing.assert_allclose(oracle.float64(weights), 0.25, atol=1e-6)
    by_inputs, by_weights = layer_gradients(layer, x, x)
    for gradient in (*by_inputs, *by_weights.values()):
        assert np.isfinite(oracle.float64(gradient)).all()


def test_large_numbers_do_not_overflow_in_half_precision():
    layer = CrossCovarianceAttention(HEADS, 4, dtype="mixed_float16")
    x = 3e3 * random(BATCH, 300, SIZE)
    output, weights = layer(x, x, return_attention_scores=True)
    assert np.isfinite(oracle.float64(output)).all()
    np.testing.assert_allclose(oracle.float64(weights).sum(-1), 1.0, atol=1e-5)


def test_gradients_equal_finite_differences():
    layer, query, value = make(), random(1, 4, SIZE), random(1, 4, SIZE)
    direction, visible = random(1, 4, SIZE), np.array([[1, 1, 0, 1]], bool)

    def total(*inputs):
        return (equation(layer, *inputs, inputs[1], visible)[0] * direction).sum()

    by_inputs, by_weights = layer_gradients(
        layer, query, value, value_mask=visible, direction=ops.convert_to_tensor(direction)
    )
    inputs = query.astype("float64"), value.astype("float64")
    for found, expected in zip(by_inputs, oracle.numerical_gradients(total, *inputs), strict=True):
        np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-3, rtol=1e-3)
    start, step = oracle.float64(layer.temperature), random(HEADS, 1, 1)
    totals = []
    for moved in (start + 0.01 * step, start - 0.01 * step):
        layer.temperature.assign(moved)
        totals.append(total(*inputs))
    slope = (oracle.float64(by_weights[layer.temperature.path]) * step).sum()
    np.testing.assert_allclose(slope, (totals[0] - totals[1]) / 0.02, rtol=1e-2, atol=1e-3)


def test_the_factor_is_float32_even_in_mixed_precision():
    assert make(dtype="mixed_bfloat16").temperature.dtype == "float32"
