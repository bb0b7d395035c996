"""LinearAttention against its formula and its recurrence in float64 NumPy."""

import numpy as np
import pytest
from keras import ops

from keras_attention import LinearAttention
from keras_attention.compute.features import CHUNK
from tests.attention import oracle
from tests.attention.gradients import gradients

BATCH, HEADS, SIZE = 2, 2, 5
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def make(layer_class=LinearAttention, **arguments):
    layer = layer_class(HEADS, 4, value_dim=3, output_dim=6, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def elu_plus_one(x):
    return np.where(x > 0, x + 1, np.exp(x))


def heads_of(layer, query, value):
    """Queries, keys and values per head, each `(batch, length, size)` in float64."""
    projected = [
        oracle._heads(projection, x.astype("float64"), HEADS)
        for projection, x in [
            (layer.query_projection, query),
            (layer.key_projection, value),
            (layer.value_projection, value),
        ]
    ]
    return zip(*projected, strict=True)


def expected_attention(layer, query, value, phi=elu_plus_one, **masks):
    """Returns output and weights, computed pair by pair."""
    visible = oracle.visible_pairs(len(query), HEADS, query.shape[1], value.shape[1], **masks)
    weights, contexts = np.zeros(visible.shape), []
    for head, (queries, keys, values) in enumerate(heads_of(layer, query, value)):
        pairs = phi(queries) @ phi(keys).swapaxes(1, 2) * visible[:, head]
        weights[:, head] = pairs / np.maximum(pairs.sum(-1, keepdims=True), 1e-300)
        contexts.append(weights[:, head] @ values)
    return oracle._dense(layer.output_projection, np.concatenate(contexts, axis=-1)), weights


def assert_like_formula(layer, query, value, phi=elu_plus_one, **masks):
    expected = expected_attention(layer, query, value, phi, **masks)
    found = layer(query, value, return_attention_scores=True, **masks)
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(each), other, atol=2e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [(5, 7), (CHUNK + 3, CHUNK + 40)])
def test_equals_the_quadratic_formula(causal, lengths):
    query, value = (random(BATCH, length, SIZE) for length in lengths)
    given = {
        "use_causal_mask": causal,
        "query_mask": RNG.random((BATCH, lengths[0])) < 0.75,
        "value_mask": RNG.random((BATCH, lengths[1])) < 0.75,
    }
    assert_like_formula(make(), query, value, **given)


def test_the_causal_one_is_a_recurrent_network():
    """Section 3.4 of the paper: a state of sums, to which each step adds its own key and value."""
    layer, x = make(causal=True), random(BATCH, CHUNK + 9, SIZE)
    contexts = []
    for queries, keys, values in heads_of(layer, x, x):
        state = np.zeros((BATCH, 4, 3))
        total, steps = np.zeros((BATCH, 4)), []
        for step in range(x.shape[1]):
            features, query = elu_plus_one(keys[:, step]), elu_plus_one(queries[:, step])
            state += features[:, :, None] * values[:, step, None, :]
            total += features
            above = (query[:, :, None] * state).sum(1)
            steps.append(above / (query * total).sum(1, keepdims=True))
        contexts.append(np.stack(steps, axis=1))
    expected = oracle._dense(layer.output_projection, np.concatenate(contexts, axis=-1))
    np.testing.assert_allclose(oracle.float64(layer(x, x)), expected, atol=2e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_equal_finite_differences_of_the_formula(causal):
    layer, inputs = make(causal=causal), [random(1, 3, SIZE), random(1, 4, SIZE)]
    mask = np.array([[True, False, True, True]])

    def total(query, value):
        given = {"use_causal_mask": causal, "value_mask": mask}
        return expected_attention(layer, query, value, **given)[0].sum()

    found = gradients(lambda *x: layer(*x, value_mask=mask), *inputs)
    expected = oracle.numerical_gradients(total, *(x.astype("float64") for x in inputs))
    for gradient, difference in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), difference, atol=1e-4)


@pytest.mark.parametrize("scale", [50.0, 1e-4])
def test_large_and_small_numbers_neither_overflow_nor_vanish(scale):
    layer, x = make(causal=True), random(BATCH, 9, SIZE)
    for projection in (layer.query_projection, layer.key_projection):
        projection.kernel.assign(scale * projection.kernel)
    output, weights = layer(x, x, return_attention_scores=True)
    expected = expected_attention(layer, x, x, use_causal_mask=True)
    np.testing.assert_allclose(oracle.float64(weights), expected[1], atol=1e-4)
    np.testing.assert_allclose(oracle.float64(output), expected[0], atol=1e-3)
    (gradient,) = gradients(lambda x: layer(x, x), x, tolerance=0.02)
    assert np.isfinite(oracle.float64(gradient)).all()


def test_a_feature_map_of_ones_own():
    class Squares(LinearAttention):
        def log_features(self, x):
            return ops.log(ops.square(x) + 0.1)

    query, value = random(BATCH, 5, SIZE), random(BATCH, 7, SIZE)
    assert_like_formula(make(Squares), query, value, phi=lambda x: x**2 + 0.1)
