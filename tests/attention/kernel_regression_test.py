"""NadarayaWatson against the formula of Nadaraya and Watson, point by point in float64."""

import keras
import numpy as np
import pytest

from keras_attention import NadarayaWatson, scores
from tests.attention import oracle
from tests.attention.saved import check_config

RNG = np.random.default_rng(0)
KERNELS = {
    "gaussian": lambda u: np.exp(-(u**2) / 2),
    "boxcar": lambda u: float(u <= 1),
    "triangular": lambda u: max(0.0, 1 - u),
    "epanechnikov": lambda u: 0.75 * max(0.0, 1 - u**2),
}


def regression(kernel, width, query_x, key_x, value_y, visible=None):
    """The formula for one sequence: (mean of the values, weights), 0 without any visible point."""
    weights = np.zeros((len(query_x), len(key_x)))
    for i, x in enumerate(query_x):
        for j, point in enumerate(key_x):
            if visible is None or visible[i][j]:
                weights[i, j] = KERNELS[kernel](np.linalg.norm(x - point) / width)
    total = weights.sum(-1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return weights @ value_y, weights


def random_points(features=1, queries=7, points=9):
    """Queries, points and values of two sequences."""
    sizes = (queries, features), (points, features), (points, 3)
    return [RNG.normal(size=(2, *size)).astype("float32") for size in sizes]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("width", [0.2, 1.0, 3])
@pytest.mark.parametrize("features", [1, 6])
def test_equals_the_formula(kernel, width, features):
    inputs = random_points(features)
    found, weights = NadarayaWatson(kernel, width)(*inputs, return_attention_scores=True)
    for sequence in range(2):
        given = (each[sequence].astype("float64") for each in inputs)
        expected, expected_weights = regression(kernel, width, *given)
        np.testing.assert_allclose(oracle.float64(found)[sequence], expected, atol=2e-5)
        np.testing.assert_allclose(oracle.float64(weights)[sequence], expected_weights, atol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_layer_takes_any_number_of_features(kernel):
    layer = NadarayaWatson(kernel, width=2.0)
    for features in (1, 3, 6, 2):
        inputs = random_points(features)
        found = layer(*inputs)
        for sequence in range(2):
            given = (each[sequence].astype("float64") for each in inputs)
            expected, _ = regression(kernel, 2.0, *given)
            np.testing.assert_allclose(oracle.float64(found)[sequence], expected, atol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_points_that_do_not_count_do_not_count(kernel):
    query_x, key_x, value_y = random_points()
    key_mask = RNG.random((2, 9)) < 0.6
    pairs = RNG.random((7, 9)) < 0.7
    found = NadarayaWatson(kernel)(query_x, key_x, value_y, key_mask=key_mask, attention_mask=pairs)
    for sequence in range(2):
        expected, _ = regression(
            kernel,
            1.0,
            *(each[sequence].astype("float64") for each in (query_x, key_x, value_y)),
            visible=pairs & key_mask[sequence],
        )
        np.testing.assert_allclose(oracle.float64(found)[sequence], expected, atol=2e-5)


@pytest.mark.parametrize("kernel", ["boxcar", "triangular", "epanechnikov"])
def test_query_out_of_reach_gets_exactly_zero(kernel):
    query_x = np.array([[[0.0], [5.0], [-1e6]]])
    found, weights = NadarayaWatson(kernel)(
        query_x, np.array([[[0.5]]]), np.array([[[7.0]]]), return_attention_scores=True
    )
    np.testing.assert_array_equal(oracle.float64(found), [[[7.0], [0.0], [0.0]]])
    np.testing.assert_array_equal(oracle.float64(weights), [[[1.0], [0.0], [0.0]]])


def test_gaussian_far_away_is_the_nearest_value_and_not_0_divided_by_0():
    found = NadarayaWatson("gaussian", 0.1)(
        np.array([[[1000.0]]]), np.array([[[0.0], [1.0]]]), np.array([[[3.0], [5.0]]])
    )
    np.testing.assert_array_equal(oracle.float64(found), [[[5.0]]])


@pytest.mark.parametrize("kernel", KERNELS)
def test_is_exact_far_from_the_origin(kernel):
    years = np.arange(1990.0, 2030.0, dtype="float32").reshape(1, -1, 1)
    found = NadarayaWatson(kernel, 3)(years, years, years - 1990)
    expected, _ = regression(kernel, 3, *[(years[0] - 1990).astype("float64")] * 3)
    np.testing.assert_allclose(oracle.float64(found)[0], expected, atol=1e-4)


@keras.saving.register_keras_serializable(package="kernel_regression_test")
class Cauchy(scores.Kernel):
    def of_squared(self, u_squared):
        return 1.0 / (1.0 + u_squared)


def test_takes_a_kernel_of_ones_own():
    query_x, key_x, value_y = (each[:1] for each in random_points())
    weights = 1 / (1 + ((query_x[0] - key_x[0].T) / 2.0) ** 2)
    expected = weights @ value_y[0] / weights.sum(-1, keepdims=True)
    found = NadarayaWatson(Cauchy(width=2.0))(query_x, key_x, value_y)
    np.testing.assert_allclose(oracle.float64(found)[0], expected, atol=1e-5)


@pytest.mark.full
@pytest.mark.few(1)
@pytest.mark.parametrize("kernel", ["gaussian", "triangular", "epanechnikov"])
def test_learns_a_width_from_every_point_but_itself(kernel):
    rng = np.random.default_rng(0)
    points = np.linspace(0, 6, 60).reshape(1, -1, 1)
    values = np.sin(2 * points) + 0.1 * rng.normal(size=points.shape)
    x, y = keras.Input((60, 1)), keras.Input((60, 1))
    layer = NadarayaWatson(kernel, width=3.0, learned_width=True)
    model = keras.Model([x, y], layer(x, x, y, attention_mask=~np.eye(60, dtype=bool)))
    model.compile(keras.optimizers.Adam(0.1), "mse", jit_compile=False)
    losses = model.fit([points, values], values, epochs=60, verbose=0).history["loss"]
    assert losses[-1] < 0.06 < 0.3 < losses[0]
    (log_width,) = layer.trainable_variables
    assert 0.1 < np.exp(oracle.float64(log_width)).item() < 1.0


def test_symbolic_shapes_equal_real_shapes():
    inputs = [keras.Input(shape) for shape in [(None, 2), (None, 2), (None, 3)]]
    outputs = NadarayaWatson()(*inputs, return_attention_scores=True)
    assert [output.shape for output in outputs] == [(None, None, 3), (None, None, None)]


EVERY_ARGUMENT = [
    {"kernel": "triangular", "width": 2.0, "learned_width": True, "implementation": "reference"},
    {"kernel": Cauchy(width=2.0), "name": "smooth", "dtype": "mixed_bfloat16"},
]


@pytest.mark.parametrize("arguments", EVERY_ARGUMENT)
def test_every_argument_survives_a_config(arguments):
    check_config(NadarayaWatson, arguments)


def test_learned_width_survives_a_file(tmp_path):
    inputs = [keras.Input(shape) for shape in [(7, 1), (9, 1), (9, 3)]]
    layer = NadarayaWatson("epanechnikov", width=2.0, learned_width=True)
    model = keras.Model(inputs, layer(*inputs))
    layer.trainable_variables[0].assign([[0.3]])
    model.save(tmp_path / "model.keras")
    points = random_points()
    np.testing.assert_allclose(
        keras.models.load_model(tmp_path / "model.keras").predict(points, verbose=0),
        model.predict(points, verbose=0),
        atol=1e-6,
    )
