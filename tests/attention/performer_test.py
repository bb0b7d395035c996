"""PerformerAttention against its quadratic formula in float64 NumPy, and against softmax."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import AttentionCell, AttentionRNN, MultiHeadAttention
from keras_attention.compute.features import CHUNK
from keras_attention.performer import FLOOR, PerformerAttention
from tests.attention import oracle
from tests.attention.gradients import gradients

BATCH, HEADS, SIZE = 2, 2, 5
KERNELS = ["softmax", "relu"]
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def some(*shape):
    return RNG.random(shape) < 0.75


def make(**arguments):
    arguments = {"num_features": 24, "value_dim": 3, "output_dim": 6, "seed": 0, **arguments}
    layer = PerformerAttention(HEADS, 4, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def log_features(layer, x, head):
    """Log features of one head, (batch, length, num_features)."""
    x = x / layer.key_dim**0.25
    products = x @ oracle.weight(layer, "features")[head].T
    if layer.kernel == "relu":
        return np.log(np.maximum(products, 0) + FLOOR)
    return products - (x**2).sum(-1, keepdims=True) / 2


def expected_attention(layer, query, value, key=None, **masks):
    """Returns output and weights, with logarithms added pair by pair."""
    query, value = query.astype("float64"), value.astype("float64")
    key = value if key is None else key.astype("float64")
    visible = oracle.visible_pairs(len(query), HEADS, query.shape[1], key.shape[1], **masks)
    heads = [
        oracle._heads(projection, x, HEADS)
        for projection, x in [
            (layer.query_projection, query),
            (layer.key_projection, key),
            (layer.value_projection, value),
        ]
    ]
    weights, contexts = np.zeros(visible.shape), []
    for head, (queries, keys, values) in enumerate(zip(*heads, strict=True)):
        logs = (
            log_features(layer, queries, head)[:, :, None, :]
            + log_features(layer, keys, head)[:, None, :, :]
        )
        logits = np.logaddexp.reduce(logs, axis=-1)
        weights[:, head] = oracle.softmax(logits, visible[:, head])
        contexts.append(weights[:, head] @ values)
    return oracle._dense(layer.output_projection, np.concatenate(contexts, axis=-1)), weights


def assert_like_formula(layer, query, value, key=None, tolerance=2e-5, causal=False, **masks):
    output, weights = layer(query, value, key, return_attention_scores=True, **masks)
    causal = causal or masks.pop("use_causal_mask", False)
    expected = expected_attention(layer, query, value, key, use_causal_mask=causal, **masks)
    np.testing.assert_allclose(oracle.float64(weights), expected[1], atol=tolerance)
    np.testing.assert_allclose(oracle.float64(output), expected[0], atol=tolerance, rtol=tolerance)


MASKS = {
    "nothing": {},
    "query": {"query_mask": some(BATCH, 5)},
    "value": {"value_mask": some(BATCH, 7)},
    "key": {"key_mask": some(BATCH, 7)},
    "causal": {"use_causal_mask": True},
    "nobody sees anything": {"value_mask": np.zeros((BATCH, 7), bool)},
    "everything at once": {
        "query_mask": some(BATCH, 5),
        "value_mask": some(BATCH, 7),
        "key_mask": some(BATCH, 7),
        "use_causal_mask": True,
    },
}


@pytest.mark.few(9)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MASKS)
def test_equals_the_quadratic_formula_under_every_mask(kernel, name):
    query, value, key = random(BATCH, 5, SIZE), random(BATCH, 7, SIZE), random(BATCH, 7, SIZE)
    assert_like_formula(make(kernel=kernel), query, value, key, **MASKS[name])


# lengths of queries and keys around multiples of the chunk size
LENGTHS = [(1, 1), (1, 6), (6, 1), (5, CHUNK + 3), (CHUNK + 3, 5), (CHUNK, CHUNK)]
LENGTHS += [(length, length) for length in (CHUNK - 1, CHUNK + 1, 2 * CHUNK + 44)]


@pytest.mark.few(2)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_causal_sums_equal_the_quadratic_formula_at_every_length(kernel, lengths):
    query, value = (random(BATCH, length, SIZE) for length in lengths)
    mask = some(BATCH, lengths[1])
    layer = make(kernel=kernel, causal=True)
    assert_like_formula(layer, query, value, causal=True, value_mask=mask)


@pytest.mark.parametrize(("causal", "scale"), [(False, 30.0), (True, 3.0), (True, 1e-4)])
def test_large_and_small_numbers_neither_overflow_nor_vanish(causal, scale):
    layer = make(causal=causal)
    query, value = random(BATCH, 9, SIZE), random(BATCH, 9, SIZE)
    scale_queries_and_keys(layer, scale)
    given = {"value_mask": some(BATCH, 9)}
    # log features reach 3000, where the rounding error of float32 is 2e-4
    assert_like_formula(layer, query, value, causal=causal, tolerance=1e-3, **given)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_of_large_numbers_are_finite(causal):
    layer = make(causal=causal)
    scale_queries_and_keys(layer, 100.0)
    x, mask = random(BATCH, 9, SIZE), some(BATCH, 9)
    for gradient in gradients(lambda *x: layer(*x, value_mask=mask), x, x, tolerance=0.02):
        assert np.isfinite(oracle.float64(gradient)).all()


def scale_queries_and_keys(layer, scale):
    for projection in (layer.query_projection, layer.key_projection):
        projection.kernel.assign(scale * projection.kernel)


def test_what_comes_later_changes_nothing():
    layer = make(causal=True)
    x = random(BATCH, 2 * CHUNK + 9, SIZE)
    changed = x.copy()
    changed[:, CHUNK + 5 :] += 3.0
    before, after = (oracle.float64(layer(each, each)) for each in (x, changed))
    # the same sums relative to a different largest key: equal up to rounding
    np.testing.assert_allclose(after[:, : CHUNK + 5], before[:, : CHUNK + 5], atol=1e-5)
    assert np.abs(after[:, CHUNK + 5] - before[:, CHUNK + 5]).max() > 0.01


@pytest.mark.few(1)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_equal_finite_differences_of_the_formula(causal, kernel):
    layer = make(kernel=kernel)
    inputs = [random(1, 3, SIZE), random(1, 4, SIZE), random(1, 4, SIZE)]
    given = {"use_causal_mask": causal, "value_mask": np.array([[True, False, True, True]])}

    def total(query, value, key):
        return expected_attention(layer, query, value, key, **given)[0].sum()

    found = gradients(lambda *x: layer(*x, **given), *inputs)
    expected = oracle.numerical_gradients(total, *(x.astype("float64") for x in inputs))
    for gradient, difference in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), difference, atol=1e-4)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_across_chunks_equal_those_of_the_weights(causal):
    layer = make(causal=causal)
    x, direction = random(1, CHUNK + 20, SIZE), ops.convert_to_tensor(random(1, CHUNK + 20, 6))

    def linear(x):
        return layer(x, x) * direction

    def quadratic(x):
        _, weights = layer(x, x, return_attention_scores=True)
        values = layer._project(layer.value_projection, x, layer.value_dim)
        return layer._merge(ops.matmul(weights, values)) * direction

    (found,), (expected,) = gradients(linear, x), gradients(quadratic, x)
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=1e-4)


def test_features_are_orthogonal_in_groups_and_as_long_as_normal_ones():
    layer = PerformerAttention(2, 16, num_features=40, seed=3)
    layer.build((None, None, 4), (None, None, 4))
    features = oracle.weight(layer, "features")
    for rows in (features[0, :16], features[0, 16:32], features[1, 32:]):
        products = rows @ rows.T
        np.testing.assert_allclose(products - np.diag(np.diag(products)), 0.0, atol=1e-4)
    assert np.abs(features[0, :16] @ features[0, 16:32].T).max() > 1
    many = PerformerAttention(1, 16, num_features=16 * 500, seed=4)
    many.build((None, None, 4), (None, None, 4))
    rows = oracle.weight(many, "features")[0]
    # 128,000 normal numbers: the standard errors of mean and variance are 0.003 and 0.004
    assert abs(rows.mean()) < 0.015
    assert abs(rows.var() - 1.0) < 0.02
    assert abs((rows**4).mean() - 3.0) < 0.15
    lengths = (rows**2).sum(-1)  # of a χ² distribution: mean 16, variance 32
    assert abs(lengths.mean() - 16.0) < 0.4
    assert abs(lengths.var() - 32.0) < 4.0


def test_mean_product_of_features_is_the_softmax_kernel():
    layer = PerformerAttention(1, 4, num_features=40_000, seed=5)
    layer.build((None, None, 4), (None, None, 4))
    query, key = 0.4 * np.random.default_rng(1).normal(size=(2, 1, 6, 4))
    products = np.exp(log_features(layer, query, 0)) @ np.exp(log_features(layer, key, 0))[0].T
    kernel = np.exp(query @ key[0].T / 2)
    # one product has the relative standard deviation sqrt(exp(|q + k|² / √d) - 1)
    sums = ((query[0][:, None] + key[0][None]) ** 2).sum(-1) / 2
    error = np.sqrt(np.expm1(sums) / 40_000)
    assert (np.abs(products / 40_000 / kernel - 1) < 4.5 * error).all()


def test_seed_reproduces_the_features_and_redraw_changes_them():
    first, same, other = (make(seed=seed) for seed in (1, 1, 2))
    expected = oracle.weight(first, "features")
    np.testing.assert_array_equal(oracle.weight(same, "features"), expected)
    assert np.abs(oracle.weight(other, "features") - expected).max() > 0.1
    first.redraw(seed=2)
    np.testing.assert_array_equal(
        oracle.weight(first, "features"), oracle.weight(other, "features")
    )
    first.redraw()
    assert np.abs(oracle.weight(first, "features") - oracle.weight(other, "features")).max() > 0.1
    assert not any("features" in variable.path for variable in first.trainable_variables)


@pytest.mark.parametrize("key_dim", [1, 2, 64])
def test_number_of_features_is_by_default_d_log_d(key_dim):
    layer = PerformerAttention(2, key_dim)
    assert layer.num_features == max(1, round(key_dim * np.log(key_dim)))


@pytest.mark.full
@pytest.mark.parametrize("causal", [True, False])
def test_error_against_softmax_attention_falls_as_features_grow(causal):
    x = 0.5 * np.random.default_rng(1).normal(size=(2, 40, 16)).astype("float32")
    exact = MultiHeadAttention(
        2,
        8,
        mask="causal" if causal else None,
        kernel_initializer=keras.initializers.GlorotUniform(seed=0),
    )
    expected = oracle.float64(exact(x, x))
    errors = []
    for number in (32, 128, 512, 2048):
        layer = PerformerAttention(2, 8, num_features=number, causal=causal)
        layer.build(x.shape, x.shape)
        for name in ("query", "key", "value", "output"):
            weights = getattr(exact, f"{name}_projection").get_weights()
            getattr(layer, f"{name}_projection").set_weights(weights)
        squares = []
        for seed in range(8):
            layer.redraw(seed)
            squares.append(np.mean((oracle.float64(layer(x, x)) - expected) ** 2))
        errors.append(np.sqrt(np.mean(squares)))
    # Four times the features would halve a standard deviation. The products of features have a long
    # tail, which 8 draws of few features miss, so the deviation falls by less at first.
    assert (np.array(errors[1:]) < 0.9 * np.array(errors[:-1])).all(), errors
    assert errors[-1] < 0.45 * errors[0], errors
    assert errors[-1] < 0.05 * np.abs(expected).max()


def test_works_step_by_step_inside_of_a_recurrent_decoder():
    layer = AttentionRNN(AttentionCell(keras.layers.GRUCell(5), PerformerAttention(2, 4)))
    outputs, weights = layer(random(2, 3, 4), random(2, 6, 7), return_attention_scores=True)
    assert tuple(weights.shape) == (2, 2, 3, 6)
    np.testing.assert_allclose(oracle.float64(weights).sum(-1), 1.0, atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="weights are made in a graph")
def test_it_may_be_built_inside_of_a_graph():
    import tensorflow as tf

    layer, x = PerformerAttention(2, 4), random(BATCH, 5, SIZE)
    found = tf.function(lambda x: layer(x, x))(tf.constant(x))
    np.testing.assert_allclose(found, layer(x, x), atol=1e-5)
