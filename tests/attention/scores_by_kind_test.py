"""What scores of one kind promise: shared ones, cosine, additive, by distance, by position."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention, scores
from tests.attention import oracle
from tests.attention.score_cases import (
    BATCH,
    HEADS,
    KEYS,
    QUERIES,
    RNG,
    SCORES,
    SIZE,
    built,
    random,
    tensor,
)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


# Scores that layers share


@pytest.mark.few(4)
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
@pytest.mark.parametrize("name", ["dot", "scaled_dot", "cosine", "euclidean", "boxcar"])
def test_score_without_weights_serves_all_sizes_and_heads(name, implementation):
    score = SCORES[name]()
    one = Attention(score, implementation=implementation)
    for size in (2, 8, SIZE):
        x = random(BATCH, KEYS, size)
        expected, _ = oracle.attention(one, x, x)
        np.testing.assert_allclose(oracle.float64(one(x, x)), expected, atol=1e-5)
    several = MultiHeadAttention(HEADS, 3, score=score, implementation=implementation)
    found = several(x, x)
    expected, _ = oracle.multi_head_attention(several, x, x)
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-5)


def test_layers_of_equally_many_heads_share_a_score():
    score = scores.Additive(units=3)
    layers, x = [MultiHeadAttention(HEADS, 4, score=score) for _ in range(2)], random(1, KEYS, SIZE)
    for layer in layers:
        found = layer(x, x)
        expected, _ = oracle.multi_head_attention(layer, x, x)
        np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-5)


# Cosine


def test_cosine_does_not_see_lengths_and_is_0_with_a_vector_of_zeros():
    query = np.array([[[1e-4, 0.0], [0.0, 0.0], [0.0, 3e4]]], "float32")
    key = np.array([[[5.0, 0.0], [3e-4, 4e-4]]], "float32")
    found = oracle.float64(scores.Cosine()(query, key))
    np.testing.assert_allclose(found, [[[1.0, 0.6], [0.0, 0.0], [0.0, 0.8]]], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cosine_of_long_vectors_does_not_overflow_in_half_precision(dtype):
    x = tensor(np.full((1, 1, 64), 3e4), dtype)
    np.testing.assert_allclose(oracle.float64(scores.Cosine(dtype=dtype)(x, x)), 1.0, rtol=2e-2)


# Additive


def test_normalized_additive_score_does_not_depend_on_the_length_of_v():
    score = built("additive, normalized")
    query, key = tensor(random(1, 2, SIZE)), tensor(random(1, 3, SIZE))
    before = oracle.float64(score(query, key))
    (scale,) = (variable for variable in score.weights if variable.name == "scale")
    scale.assign(7.0 * scale)
    np.testing.assert_allclose(oracle.float64(score(query, key)), before, atol=1e-5)


def test_normalized_additive_score_begins_with_the_gain_of_its_size():
    score = scores.Additive(units=16, normalized=True)
    score.build((1, 2, 3), (1, 2, 3))
    np.testing.assert_allclose(oracle.weight(score, "gain"), 0.25)


def test_plain_additive_score_has_four_weights():
    assert [variable.name for variable in built("additive").weights] == [
        "query_kernel",
        "key_kernel",
        "scale",
        "bias",
    ]


@pytest.mark.parametrize("name", ["additive", "linear_additive", "location"])
def test_sizes_of_query_and_key_may_differ(name):
    query, key = random(BATCH, QUERIES, 3), random(BATCH, KEYS, 7)
    score = SCORES[name]()
    found = oracle.float64(score(tensor(query), tensor(key)))
    np.testing.assert_allclose(found, oracle.logits(score, query, key), atol=1e-5)


# Distances


@pytest.mark.parametrize("size", [1, 4, 5, 64])
def test_distance_is_never_below_zero_and_about_zero_from_itself(size):
    x = tensor(random(1, 50, size))
    found = oracle.float64(scores.Euclidean()(x, x))
    assert (found <= 0).all()
    np.testing.assert_allclose(np.diagonal(found[0]), 0.0, atol=1e-4)


def test_distance_of_few_features_is_exact_far_from_the_origin():
    years = np.arange(1990.0, 2030.0, dtype="float32").reshape(1, -1, 1)
    found = oracle.float64(scores.Euclidean()(years, years))[0]
    np.testing.assert_array_equal(found, -((years[0] - years[0].T) ** 2))
    np.testing.assert_array_equal(
        oracle.float64(scores.Boxcar(width=3)(years, years))[0], np.abs(years[0] - years[0].T) <= 3
    )


@pytest.mark.parametrize("size", [2, SIZE])
@pytest.mark.parametrize("name", ["boxcar", "triangular", "epanechnikov"])
def test_kernel_is_exactly_0_beyond_its_width_and_not_within(name, size):
    step = np.zeros((1, 1, size), "float32")
    step[..., 0] = 1.0
    key = step * np.array([0.0, 0.5, 1.99, 2.01, 100.0], "float32")[:, None]
    score = type(SCORES[name]())(width=2.0)
    found = oracle.float64(score(0 * step, key))[0, 0]
    np.testing.assert_array_equal(found > 0, [True, True, True, False, False])
    np.testing.assert_array_equal(found[3:], 0.0)


def test_each_head_has_a_width_of_its_own():
    score = scores.Gaussian(3.0, learned_width=True)
    score.build((None, HEADS, None, 2), (None, HEADS, None, 2))
    assert score.log_width.shape == (HEADS, 1, 1)
    np.testing.assert_allclose(np.exp(oracle.weight(score, "log_width")), 3.0, rtol=1e-6)


# Positions


@pytest.mark.parametrize(
    "name", ["location", "dense_synthesizer", "random_synthesizer", "random_synthesizer, rank"]
)
class TestOfPositions:
    def test_does_not_read_the_keys(self, name):
        score, query = built(name), tensor(random(BATCH, QUERIES, SIZE))
        first, second = (score(query, tensor(random(BATCH, KEYS, SIZE))) for _ in range(2))
        np.testing.assert_array_equal(oracle.float64(first), oracle.float64(second))

    def test_takes_max_length_keys(self, name):
        score = built(name)
        assert score(ops.ones((1, 8, SIZE)), ops.ones((1, 8, SIZE))).shape == (1, 8, 8)

    def test_more_keys_are_an_error_that_names_the_way_out(self, name):
        layer = Attention(SCORES[name]())
        x = np.ones((1, 2, SIZE), "float32")
        layer(x, x)
        with pytest.raises(ValueError, match=r"8 positions. Received: 9 keys.*max_length=9"):
            layer(x, np.ones((1, 9, SIZE), "float32"))

    def test_more_keys_are_an_error_in_a_model_of_known_lengths(self, name):
        with pytest.raises(ValueError, match=r"8 positions. Received: 9 keys"):
            Attention(SCORES[name]())(keras.Input((2, SIZE)), keras.Input((9, SIZE)))

    @pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="knows no other lengths")
    def test_more_keys_are_nan_where_lengths_are_unknown(self, name):
        import tensorflow as tf

        score = built(name)
        call = tf.function(score, input_signature=[tf.TensorSpec([None, None, SIZE])] * 2)
        found = call(tf.ones((1, 2, SIZE)), tf.ones((1, 9, SIZE))).numpy()
        assert np.isnan(found[..., 8]).all()
        assert np.isfinite(call(tf.ones((1, 2, SIZE)), tf.ones((1, 8, SIZE)))).all()


def test_more_queries_than_the_table_has_rows_are_an_error():
    layer = Attention(scores.RandomSynthesizer(max_length=4))
    with pytest.raises(ValueError, match=r"RandomSynthesizer has .* 4 positions. Received: 5 quer"):
        layer(np.ones((1, 5, 2)), np.ones((1, 3, 2)))


def test_location_takes_any_number_of_queries():
    found = scores.Location(max_length=2)(np.ones((1, 5, 3)), np.ones((1, 2, 3)))
    assert found.shape == (1, 5, 2)


def test_random_synthesizer_that_is_not_trainable_keeps_its_table():
    score = scores.RandomSynthesizer(max_length=4, trainable=False)
    score(np.ones((1, 2, 3)), np.ones((1, 2, 3)))
    assert not score.trainable_variables
    assert len(score.non_trainable_variables) == 1
