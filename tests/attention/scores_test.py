"""Every score against its equation in float64 NumPy: whole, in tiles, in layers, compiled."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention, masks, normalizers, scores
from tests.attention import oracle
from tests.attention.gradients import gradients, gradients_in_every_form, of_layer
from tests.attention.saved import check_config

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 3, 4, 6, 5
TOLERANCE = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


# Every score with each of its options, and widths that only some pairs are within.
SCORES = {
    "dot": scores.Dot,
    "scaled_dot": scores.ScaledDot,
    "scaled_dot, scale": lambda: scores.ScaledDot(scale=0.3),
    "general": scores.General,
    "cosine": scores.Cosine,
    "cosine, sharpness": lambda: scores.Cosine(sharpness=3.0),
    "cosine, learned sharpness": lambda: scores.Cosine(2.0, learned_sharpness=True),
    "additive": scores.Additive,
    "additive, normalized": lambda: scores.Additive(units=7, normalized=True),
    "linear_additive": scores.LinearAdditive,
    "location": lambda: scores.Location(max_length=8),
    "dense_synthesizer": lambda: scores.DenseSynthesizer(max_length=8),
    "dense_synthesizer, units": lambda: scores.DenseSynthesizer(max_length=8, units=3),
    "random_synthesizer": lambda: scores.RandomSynthesizer(max_length=8),
    "random_synthesizer, rank": lambda: scores.RandomSynthesizer(max_length=8, rank=2),
    "euclidean": scores.Euclidean,
    "gaussian": lambda: scores.Gaussian(width=2.0),
    "gaussian, learned width": lambda: scores.Gaussian(2.0, learned_width=True),
    "boxcar": lambda: scores.Boxcar(width=2.9),
    "triangular": lambda: scores.Triangular(width=3.1),
    "triangular, learned width": lambda: scores.Triangular(3.1, learned_width=True),
    "epanechnikov": lambda: scores.Epanechnikov(width=3.1),
    "epanechnikov, learned width": lambda: scores.Epanechnikov(3.1, learned_width=True),
}
KERNELS = [name for name in SCORES if isinstance(SCORES[name](), scores.Kernel)]


def random(*shape, dtype="float32"):
    """Random numbers that this dtype represents exactly, in float64."""
    return oracle.float64(ops.cast(RNG.normal(size=shape), dtype))


def tensor(x, dtype="float32"):
    return ops.cast(x, dtype)


def randomize(layer):
    """Perturbs every weight, so that zero biases matter, too."""
    for variable in layer.weights:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))


def built(name, heads=(), size=SIZE, dtype="float32"):
    """A score with random weights."""
    score = SCORES[name]()
    score.dtype_policy = keras.dtype_policies.get(dtype)
    score.build((BATCH, *heads, QUERIES, size), (BATCH, *heads, KEYS, size))
    randomize(score)
    return score


def expected_logits(score, query, key):
    """The logits of the oracle, head by head if there are heads."""
    if query.ndim == 3:
        return oracle.logits(score, query, key)
    heads = range(query.shape[1])
    return np.stack([oracle.logits(score, query[:, h], key[:, h], h) for h in heads], axis=1)


def test_every_name_is_tested():
    assert {name.split(",")[0] for name in SCORES} == set(scores.names())


@pytest.mark.pairwise
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("heads", [(), (HEADS,)])
@pytest.mark.parametrize("size", [2, SIZE])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_equals_its_equation(name, heads, size, dtype):
    query = random(BATCH, *heads, QUERIES, size, dtype=dtype)
    key = random(BATCH, *heads, KEYS, size, dtype=dtype)
    score = built(name, heads, size, dtype)
    expected = expected_logits(score, query, key)
    assert expected.std() > 0.01
    np.testing.assert_allclose(
        oracle.float64(score(tensor(query, dtype), tensor(key, dtype))),
        expected,
        atol=TOLERANCE[dtype],
    )


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("lengths", [(1, 1), (1, 6), (6, 2), (0, 3), (3, 0)])
def test_equals_its_equation_for_all_lengths(name, lengths):
    query, key = (random(BATCH, length, SIZE) for length in lengths)
    score = built(name)
    np.testing.assert_allclose(
        oracle.float64(score(tensor(query), tensor(key))),
        oracle.logits(score, query, key),
        atol=1e-5,
    )


@pytest.mark.parametrize("name", SCORES)
def test_batch_may_be_empty(name):
    score = built(name)
    assert score(ops.zeros((0, 3, SIZE)), ops.zeros((0, 4, SIZE))).shape == (0, 3, 4)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("heads", [(), (HEADS,)])
def test_tile_of_the_prepared_is_the_tile_of_the_whole(name, heads):
    score = built(name, heads)
    query, key = tensor(random(BATCH, *heads, 7, SIZE)), tensor(random(BATCH, *heads, 8, SIZE))
    of_query, of_key = masks.positions(7, 8)
    query, key = score.prepare_query(query, of_query), score.prepare_key(key, of_key)
    whole = oracle.float64(score.pairwise(query, key))
    for rows in (slice(0, 3), slice(3, 7), slice(6, 7)):
        for columns in (slice(0, 5), slice(5, 8), slice(2, 3)):
            tile = score.pairwise(
                ops.cast(query[..., rows, :], "float32"), ops.cast(key[..., columns, :], "float32")
            )
            np.testing.assert_allclose(
                oracle.float64(tile), whole[..., rows, columns], atol=1e-6, err_msg=str(rows)
            )


@pytest.mark.parametrize("name", SCORES)
def test_keys_prepared_one_by_one_are_the_keys_prepared_at_once(name):
    score, key = built(name), tensor(random(BATCH, KEYS, SIZE))
    positions = ops.arange(KEYS, dtype="int32")
    steps = [score.prepare_key(key[:, i : i + 1], positions[i : i + 1]) for i in range(KEYS)]
    np.testing.assert_allclose(
        oracle.float64(ops.concatenate(steps, axis=1)),
        oracle.float64(score.prepare_key(key, positions)),
        atol=1e-6,
    )


@pytest.mark.few(29)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("make", ["single head", "multi-head"])
def test_layers_equal_the_equations_under_every_mask(name, make):
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    given = {
        "query_mask": RNG.random((BATCH, QUERIES)) < 0.75,
        "value_mask": RNG.random((BATCH, KEYS)) < 0.75,
        "use_causal_mask": True,
    }
    if make == "single head":
        layer, expect = Attention(SCORES[name]()), oracle.attention
    else:
        layer, expect = MultiHeadAttention(HEADS, SIZE, score=SCORES[name]()), None
        expect = oracle.multi_head_attention
    layer(query, value)
    randomize(layer)
    context, weights = layer(query, value, **given, return_attention_scores=True)
    expected_context, expected_weights = expect(layer, query, value, **given)
    np.testing.assert_allclose(oracle.float64(weights), expected_weights, atol=1e-5)
    np.testing.assert_allclose(oracle.float64(context), expected_context, atol=1e-4)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("junk", [np.nan, pytest.param(np.inf, marks=pytest.mark.full)])
def test_what_stands_at_padded_places_has_no_effect(name, junk):
    query_mask, key_mask = np.arange(QUERIES) < [[3], [4]], np.arange(KEYS) < [[6], [4]]
    normalizer = "sum" if name in KERNELS else "softmax"
    layer = Attention(SCORES[name](), normalizer)
    clean = [tensor(random(BATCH, length, SIZE)) for length in (QUERIES, KEYS)]
    layer.build(*(each.shape for each in clean))
    dirty = [
        ops.where(mask[:, :, None], each, junk)
        for each, mask in zip(clean, (query_mask, key_mask), strict=True)
    ]

    def call(query, value):
        return layer(query, value, query_mask=query_mask, value_mask=key_mask)

    np.testing.assert_array_equal(oracle.float64(call(*dirty)), oracle.float64(call(*clean)))
    for spoiled, expected in zip(gradients(call, *dirty), gradients(call, *clean), strict=True):
        np.testing.assert_array_equal(oracle.float64(spoiled), oracle.float64(expected))


# a different factor for each of the (3, 4) pairs
FACTORS = np.arange(1.0, 13.0, dtype="float32").reshape(3, 4)


class Weighted(keras.layers.Layer):
    """A score whose logits have different factors, so that their sum depends on each of them."""

    def __init__(self, score):
        super().__init__()
        self.score = score

    def call(self, query, key):
        return ops.multiply(self.score(query, key), FACTORS)


@pytest.mark.parametrize(
    ("size", "forms"),
    [(2, ()), (SIZE, ["graph"]), pytest.param(SIZE, None, marks=pytest.mark.full)],
)
def test_gradients_equal_finite_differences_of_the_equations(size, forms):
    """By queries and keys, every component is compared; by weights, only one direction."""
    cases, expected = {}, {}
    for name in SCORES:
        score, inputs = built(name, size=size), [random(1, 3, size), random(1, 4, size)]

        def total(*inputs, score=score):
            return (oracle.logits(score, *inputs) * FACTORS).sum()

        layer = Weighted(score)
        layer(*(tensor(x) for x in inputs))
        cases[name] = of_layer(layer, *(x.astype("float32") for x in inputs))
        directions = [RNG.normal(size=weight.shape) for weight in score.trainable_weights]
        pairs = zip(score.trainable_weights, directions, strict=True)
        slopes = [slope_by(weight, each, lambda: total(*inputs)) for weight, each in pairs]  # noqa: B023
        expected[name] = oracle.numerical_gradients(total, *inputs), directions, slopes
    for name, found in gradients_in_every_form(cases, forms=forms).items():
        by_inputs, directions, slopes = expected[name]
        found = [oracle.float64(each) for each in found]
        for gradient, difference in zip(found, by_inputs, strict=False):
            np.testing.assert_allclose(gradient, difference, atol=1e-3, rtol=1e-4, err_msg=name)
        for gradient, each, slope in zip(found[2:], directions, slopes, strict=True):
            assert (gradient * each).sum() == pytest.approx(slope, rel=1e-2, abs=1e-2), name


def slope_by(weight, direction, total, step=1e-3):
    """The directional derivative of a total with respect to a weight, by central differences."""
    value, sums = oracle.float64(weight), []
    for sign in (1, -1):
        weight.assign(value + sign * step * direction)
        sums.append(total())
    weight.assign(value)
    return (sums[0] - sums[1]) / (2 * step)


@pytest.mark.pairwise
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("place", [0.0, 2.0])
@pytest.mark.parametrize("size", [2, SIZE])
def test_gradients_are_finite_where_queries_equal_keys_and_where_both_are_zero(name, place, size):
    x = np.full((1, 3, size), place, "float32")
    score = built(name, size=size)
    for gradient in gradients(score, x, x):
        assert np.isfinite(oracle.float64(gradient)).all()


def compiled(model, inputs):
    model.compile(jit_compile=True)
    return model.predict(inputs, verbose=0)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", SCORES)
def test_compiled_model_of_unknown_lengths_equals_the_equation(name):
    query, key = keras.Input((None, SIZE)), keras.Input((None, SIZE))
    score = SCORES[name]()
    model = keras.Model([query, key], score(query, key))
    randomize(score)
    for lengths in [(QUERIES, KEYS), (3, 2)]:
        inputs = [random(BATCH, length, SIZE).astype("float32") for length in lengths]
        expected = oracle.logits(score, *(x.astype("float64") for x in inputs))
        np.testing.assert_allclose(compiled(model, inputs), expected, atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_one_query_at_a_time_over_growing_keys_equals_the_causal_layer(name):
    layer = MultiHeadAttention(2, 3, score=SCORES[name]())
    x = tensor(random(BATCH, 5, SIZE))
    expected = oracle.float64(layer(x, x, use_causal_mask=True))
    for now in range(5):
        step = layer(x[:, now : now + 1], x[:, : now + 1], use_causal_mask=True)
        np.testing.assert_allclose(oracle.float64(step[:, 0]), expected[:, now], atol=1e-5)


# Cosine


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


# Functions


@keras.saving.register_keras_serializable(package="scores_test")
def manhattan(query, key):
    return -ops.sum(ops.abs(query[..., :, None, :] - key[..., None, :, :]), axis=-1)


@pytest.mark.parametrize("make", [Attention, lambda score: MultiHeadAttention(2, 3, score=score)])
def test_function_is_a_score(make):
    layer = make(manhattan)
    assert isinstance(getattr(layer, "attention", layer).score, scores.Function)
    x = random(BATCH, 3, SIZE).astype("float32")
    weights = layer(x, x, return_attention_scores=True, use_causal_mask=True)[1]
    np.testing.assert_allclose(oracle.float64(weights).sum(-1), 1.0, atol=1e-6)


def test_function_gives_what_it_returns():
    query, key = random(1, 2, 3), random(1, 4, 3)
    expected = -np.abs(query[:, :, None] - key[:, None]).sum(-1)
    found = scores.get(manhattan)(tensor(query), tensor(key))
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-5)
    found = scores.get(lambda query, key: manhattan(query, key))(tensor(query), tensor(key))
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-5)


def test_registered_function_survives_a_config_and_a_file(tmp_path):
    layer = Attention(manhattan)
    again = Attention.from_config(layer.get_config())
    assert again.score.function is manhattan
    x = keras.Input((3, SIZE))
    model = keras.Model(x, layer(x, x))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    inputs = random(1, 3, SIZE).astype("float32")
    np.testing.assert_allclose(
        loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0), atol=1e-6
    )


def test_config_of_a_function_is_a_score():
    config = keras.saving.serialize_keras_object(manhattan)
    assert scores.get(config).function is manhattan


# Configs

NORMAL = keras.initializers.HeNormal(seed=3)
EVERY_ARGUMENT = [
    (scores.Cosine, {"sharpness": 3.0, "learned_sharpness": True}),
    (scores.Additive, {"units": 3, "kernel_initializer": NORMAL, "normalized": True}),
    (scores.LinearAdditive, {"kernel_initializer": NORMAL}),
    (scores.Location, {"max_length": 9, "kernel_initializer": NORMAL}),
    (scores.DenseSynthesizer, {"max_length": 9, "units": 3, "kernel_initializer": NORMAL}),
    (scores.RandomSynthesizer, {"max_length": 9, "rank": 3, "kernel_initializer": NORMAL}),
    (scores.Euclidean, {"name": "near"}),
    (scores.Gaussian, {"width": 3.0, "learned_width": True}),
    (scores.Boxcar, {"width": 3.0}),
    (scores.Triangular, {"width": 3.0, "learned_width": True}),
    (scores.Epanechnikov, {"width": 3.0, "learned_width": True}),
    (scores.Function, {"function": manhattan}),
]


@pytest.mark.parametrize(("score_class", "arguments"), EVERY_ARGUMENT)
def test_every_argument_survives_a_config(score_class, arguments):
    check_config(score_class, arguments)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SCORES)
def test_weights_survive_a_file(name, tmp_path):
    query, value = keras.Input((QUERIES, SIZE)), keras.Input((KEYS, SIZE))
    layer = MultiHeadAttention(2, 3, score=SCORES[name](), normalizer=normalizers.Sigmoid())
    model = keras.Model([query, value], layer(query, value))
    randomize(model)
    inputs = [random(1, length, SIZE).astype("float32") for length in (QUERIES, KEYS)]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0), atol=1e-6
    )


class OwnBuild(scores.Score):
    """Builds without the base class, as layers of Keras may."""

    def build(self, query_shape, key_shape):
        self.kernel = self.add_weight(name="kernel", shape=(query_shape[-1], key_shape[-1]))

    def pairwise(self, query, key):
        return ops.matmul(ops.matmul(query, self.kernel), ops.swapaxes(key, -1, -2))


@pytest.mark.parametrize("implementation", ["reference", "chunked"])
def test_a_score_may_build_without_its_base_class(implementation):
    query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")
    layer = Attention(OwnBuild(), implementation=implementation)
    context = layer(query, value)
    assert layer.choose_implementation(query.shape, value.shape) == implementation
    np.testing.assert_allclose(ops.convert_to_numpy(context), np.ones((2, 3, 6)), atol=1e-6)
