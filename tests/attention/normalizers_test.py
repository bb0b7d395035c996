"""Normalizers against their definitions in float64: exact zeros, gradients, and random draws."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention, normalizers
from tests.attention import oracle
from tests.attention.gradients import gradients, gradients_in_every_form

DTYPES = ["float32", "float16", "bfloat16"]
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


NAMES = list(oracle.NORMALIZERS)
NO_DISTRIBUTION = "sigmoid", "softmax_one", "stick_breaking"  # their weights do not sum to 1
SMOOTH = [name for name in NAMES if name != "hard"]


def random_scores(name, dtype="float32", scale=3.0):
    """Random scores; those for the sum are nonnegative and sometimes 0."""
    scores = scale * RNG.normal(size=(3, 4, 6))
    return ops.cast(np.maximum(scores, 0) if name == "sum" else scores, dtype)


def random_visible():
    """Random booleans; row (0, 0) sees nothing, and row (0, 1) sees a single key."""
    visible = RNG.random((3, 4, 6)) < 0.6
    visible[0, :2] = False
    visible[0, 1, 2] = True
    return visible


FACTORS = np.arange(1.0, 7.0, dtype="float32")


def weighted(name, scores, visible):
    """Weights times factors that differ by key, so that the gradient of the sum is not 0."""
    return ops.multiply(normalizers.get(name)(scores, visible), FACTORS)


def test_every_name_is_tested():
    assert set(NAMES) == set(normalizers.names())


@pytest.mark.pairwise
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.3, 1.0, 100.0, 10_000.0])
def test_equals_its_definition(name, dtype, scale):
    scores, visible = random_scores(name, dtype, scale), random_visible()
    expected = oracle.normalized(name, oracle.float64(scores), visible)
    found = oracle.float64(normalizers.get(name)(scores, visible))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_without_a_mask_every_key_is_visible(name, dtype):
    scores = random_scores(name, dtype)
    expected = oracle.normalized(name, oracle.float64(scores), np.ones((3, 4, 6), bool))
    found = oracle.float64(normalizers.get(name)(scores))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_are_float32(name, dtype):
    for visible in (None, random_visible()):
        weights = normalizers.get(name)(random_scores(name, dtype), visible)
        assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    np.testing.assert_array_equal(oracle.float64(weights)[~visible], 0.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("floatx", ["float64", "float16"])
def test_weights_are_float32_whatever_floatx_is(name, floatx):
    scores, visible = random_scores(name), random_visible()
    keras.config.set_floatx(floatx)
    try:
        weights = normalizers.get(name)(scores, visible)
    finally:
        keras.config.set_floatx("float32")
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    np.testing.assert_array_equal(oracle.float64(weights)[~visible], 0.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_hidden_keys_and_rows_without_keys_weigh_exactly_zero(name, dtype):
    visible = random_visible()
    weights = oracle.float64(normalizers.get(name)(random_scores(name, dtype), visible))
    np.testing.assert_array_equal(weights[~visible], 0.0)
    assert weights.min() == 0.0
    if name not in (*NO_DISTRIBUTION, "sum"):
        np.testing.assert_allclose(weights.sum(-1), visible.any(-1), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_hidden_keys_and_rows_without_keys_have_a_gradient_of_exactly_zero(name, dtype):
    visible = random_visible()
    scores = random_scores(name, dtype)
    (gradient,) = gradients(lambda scores: weighted(name, scores, visible), scores)
    gradient = oracle.float64(gradient)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[~visible], 0.0)
    assert (np.abs(gradient[visible]).max() > 0.01) == (name in SMOOTH)


@pytest.mark.few(3)
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="is about graphs")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "hard"])
def test_graphs_hold_no_infinity(name):
    """tf2onnx multiplies what is not selected by 0: an ONNX file would return NaN."""
    import tensorflow as tf

    arguments = tf.TensorSpec([None, 3]), tf.TensorSpec([None, 3], "bool")
    graph = tf.function(normalizers.get(name), arguments).get_concrete_function().graph
    constants = [each for each in graph.get_operations() if each.type == "Const"]
    values = [tf.make_ndarray(each.get_attr("value")) for each in constants]
    assert all(np.isfinite(value).all() for value in values if value.dtype.kind == "f")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 3e38])
def test_what_stands_at_hidden_places_has_no_effect(name, junk):
    visible, scores = random_visible(), ops.convert_to_numpy(random_scores(name))
    dirty = np.where(visible, scores, junk).astype("float32")
    normalizer = normalizers.get(name)
    np.testing.assert_array_equal(
        oracle.float64(normalizer(dirty, visible)), oracle.float64(normalizer(scores, visible))
    )
    (spoiled,), (expected,) = (
        gradients(lambda scores: weighted(name, scores, visible), each) for each in (dirty, scores)
    )
    np.testing.assert_array_equal(oracle.float64(spoiled), oracle.float64(expected))


# `gradient_forms_test` always compares gradients of sparse weights with XLA.
@pytest.mark.parametrize("forms", [["graph"], pytest.param(None, marks=pytest.mark.full)])
def test_gradients_equal_finite_differences(forms):
    visible, scales = random_visible(), np.reshape([0.3, 1.0, 3.0], (3, 1, 1))
    cases, expected = {}, {}
    for name in SMOOTH:
        scores = oracle.float64(random_scores(name, scale=scales))
        scores += 0.1 if name == "sum" else 0.0  # avoids 0 / 0
        for given in (visible, None):
            seen = np.ones(scores.shape, bool) if given is None else given

            def call(scores, name=name, given=given):
                given = None if given is None else ops.convert_to_tensor(given)
                return weighted(name, scores, given)

            def expected_total(scores, name=name, seen=seen):
                return (oracle.normalized(name, scores, seen) * FACTORS).sum()

            case = f"{name}, {'all visible' if given is None else 'some hidden'}"
            cases[case] = call, scores.astype("float32")
            (expected[case],) = oracle.numerical_gradients(expected_total, scores)
    for name, (found,) in gradients_in_every_form(cases, forms=forms).items():
        np.testing.assert_allclose(
            oracle.float64(found), expected[name], atol=2e-5, rtol=1e-4, err_msg=name
        )


@pytest.mark.parametrize("name", NAMES)
def test_visible_broadcasts_to_the_scores(name):
    scores, visible = random_scores(name), random_visible()[:, :1]
    everywhere = np.broadcast_to(visible, scores.shape)
    expected = oracle.normalized(name, oracle.float64(scores), everywhere)
    found = oracle.float64(normalizers.get(name)(scores, visible))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_axes_may_be_empty(name, shape):
    for visible in (None, np.ones(shape, bool)):
        assert normalizers.get(name)(np.zeros(shape, "float32"), visible).shape == shape


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NO_DISTRIBUTION])
@pytest.mark.filterwarnings("error::UserWarning")
def test_a_single_key_weighs_one_without_a_warning(name):
    weights = normalizers.get(name)(ops.full((2, 1), 7.0))
    np.testing.assert_array_equal(oracle.float64(weights), 1.0)


@pytest.mark.parametrize("name", ["softmax", "sum", "sparsemax", "entmax15"])
def test_equal_scores_weigh_the_same(name):
    weights = oracle.float64(normalizers.get(name)(ops.full((1, 5), 3.0)))
    np.testing.assert_allclose(weights, 0.2, atol=1e-6)
    scores = np.array([[2.0, 2.0, 0.0 if name == "sum" else -99.0]], "float32")
    np.testing.assert_allclose(
        oracle.float64(normalizers.get(name)(scores)), [[0.5, 0.5, 0.0]], atol=1e-6
    )


def test_of_equal_scores_the_first_visible_one_is_hard():
    scores = np.array([[5.0, 5.0, 1.0, 5.0]], "float32")
    visible = np.array([[False, True, True, True]])
    np.testing.assert_array_equal(
        oracle.float64(normalizers.Hard()(scores, visible)), [[0.0, 1.0, 0.0, 0.0]]
    )


@pytest.mark.parametrize(("name", "reach"), [("sparsemax", 1.0), ("entmax15", 2.0)])
def test_sparse_weights_are_exactly_zero_beyond_their_reach(name, reach):
    scores = np.array([[10.0, 10.0 - reach, 10.0 - reach - 1, 9.99]], "float32")
    weights = oracle.float64(normalizers.get(name)(scores))[0]
    np.testing.assert_array_equal(weights > 0, [True, False, False, True])
    (gradient,) = gradients(lambda scores: normalizers.get(name)(scores)[..., 0], scores)
    np.testing.assert_array_equal(oracle.float64(gradient)[0, 1:3], 0.0)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
@pytest.mark.parametrize("length", [1, 2, 7, 13, 28, 41, 700, 2000])
def test_keys_that_tie_beyond_reach_weigh_exactly_zero(name, length):
    scores = np.zeros((1, length), "float32")
    scores[0, 0] = 5.0
    found = oracle.float64(normalizers.get(name)(scores))
    np.testing.assert_array_equal(found, scores / 5.0)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
@pytest.mark.parametrize("spread", [1e-4, 1e-2, 1.0])
def test_sparse_weights_of_long_rows_equal_their_definition(name, spread):
    scores = (spread * RNG.normal(size=(2, 3000))).astype("float32")
    expected = oracle.normalized(name, scores.astype("float64"), np.ones(scores.shape, bool))
    found = oracle.float64(normalizers.get(name)(scores))
    np.testing.assert_allclose(found, expected, atol=2e-6)
    np.testing.assert_allclose(found.sum(-1), 1.0, atol=1e-4)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k_equals_its_definition(k):
    scores, visible = ops.convert_to_numpy(random_scores("top_k")), random_visible()
    scores[1, 0, :4], visible[1, 0] = 7.0, True  # more than k with the highest score
    row = oracle.row_of_top(k)
    expected, slopes = np.zeros((2, *scores.shape))
    for place in np.ndindex(scores.shape[:-1]):
        seen = visible[place]
        if seen.any():
            weights = expected[place][seen] = row(scores[place][seen].astype("float64"))
            mean = (weights * FACTORS[seen]).sum()
            slopes[place][seen] = weights * (FACTORS[seen] - mean)
    normalizer = normalizers.TopK(k)
    np.testing.assert_allclose(oracle.float64(normalizer(scores, visible)), expected, atol=1e-6)
    (found,) = gradients(lambda scores: ops.multiply(normalizer(scores, visible), FACTORS), scores)
    np.testing.assert_allclose(oracle.float64(found), slopes, atol=1e-5)
    assert normalizers.TopK(**normalizer.get_config()).k == k
    assert np.isnan(oracle.float64(normalizer(np.array([[1.0, np.nan, 2.0]], "float32")))).any()


def test_row_whose_sum_is_zero_is_zero_and_has_no_gradient():
    scores = np.zeros((2, 3), "float32")
    np.testing.assert_array_equal(oracle.float64(normalizers.Sum()(scores)), 0.0)
    (gradient,) = gradients(normalizers.Sum(), scores)
    np.testing.assert_array_equal(oracle.float64(gradient), 0.0)


# Drawing


def test_hard_draws_in_training_only_and_only_if_it_is_stochastic():
    scores = np.zeros((1, 50, 4), "float32")
    for hard in (normalizers.Hard(), normalizers.Hard(stochastic=True, seed=1)):
        for training in (None, False):
            chosen = oracle.float64(hard(scores, training=training)).argmax(-1)
            np.testing.assert_array_equal(chosen, 0)
    drawn = oracle.float64(hard(scores, training=True))
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_array_equal(drawn.sum(-1), 1.0)
    assert set(drawn.argmax(-1)[0]) == {0, 1, 2, 3}
    assert (oracle.float64(normalizers.Hard()(scores, training=True)).argmax(-1) == 0).all()


def test_draws_follow_the_softmax_of_what_is_visible():
    scores = np.array([1.0, -1.0, np.nan, 0.5], "float32")
    visible = np.array([True, True, False, True])
    hard = normalizers.Hard(stochastic=True, seed=2)
    drawn = hard(np.broadcast_to(scores, (20_000, 4)), visible, training=True)
    expected = oracle.NORMALIZERS["softmax"](scores[visible])
    frequencies = oracle.float64(drawn).mean(0)
    np.testing.assert_allclose(frequencies[visible], expected, atol=0.015)
    assert frequencies[2] == 0.0


def test_seed_reproduces_the_draws_which_differ_from_call_to_call():
    scores = np.zeros((100, 4), "float32")
    first, same, other = (normalizers.Hard(True, seed=seed) for seed in (1, 1, 2))
    drawn = [oracle.float64(hard(scores, training=True)) for hard in (first, same, other, first)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()
    assert (drawn[0] != drawn[3]).any()


def test_straight_through_gradient_is_that_of_the_softmax():
    scores, visible = random_scores("hard"), random_visible()
    hard = normalizers.Hard(stochastic=True, seed=3)
    (found,) = gradients(
        lambda scores: ops.multiply(hard(scores, visible, training=True), FACTORS), scores
    )
    (expected,) = gradients(lambda scores: weighted("softmax", scores, visible), scores)
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=1e-6)


def test_without_straight_through_the_draws_are_the_same_and_have_no_gradient():
    scores, visible = random_scores("hard"), random_visible()
    plain = normalizers.Hard(stochastic=True, seed=3, straight_through=False)
    drawn = normalizers.Hard(stochastic=True, seed=3)(scores, visible, training=True)
    np.testing.assert_array_equal(
        oracle.float64(plain(scores, visible, training=True)), oracle.float64(drawn)
    )

    def weigh(scores):
        return ops.multiply(plain(scores, visible, training=True), FACTORS)

    (found,) = gradients(weigh, scores)
    np.testing.assert_array_equal(oracle.float64(found), 0.0)


def test_draw_gives_the_log_probability_of_what_it_drew():
    scores, visible = random_scores("hard"), random_visible()
    one_hot, log_probability = normalizers.Hard(True, seed=4).draw(scores, visible)
    one_hot = oracle.float64(one_hot)
    np.testing.assert_array_equal(one_hot.sum(-1), visible.any(-1))
    np.testing.assert_array_equal(one_hot[~visible], 0.0)
    probability = (oracle.normalized("softmax", oracle.float64(scores), visible) * one_hot).sum(-1)
    expected = np.log(np.where(visible.any(-1), probability, 1.0))
    np.testing.assert_allclose(oracle.float64(log_probability), expected, atol=1e-5)
    assert oracle.float64(log_probability)[0, 0] == 0.0


@pytest.mark.parametrize("junk", [0.0, np.nan])
def test_gradient_of_the_log_probability_is_one_hot_less_softmax(junk):
    visible = random_visible()
    scores = np.where(visible, ops.convert_to_numpy(random_scores("hard")), junk).astype("float32")
    hard = normalizers.Hard()
    one_hot, _ = hard.draw(scores, visible, seed=5)
    (found,) = gradients(
        lambda scores: hard.draw(scores, visible, seed=5)[1],
        scores,
        forms=["graph"],  # XLA draws differently with the same seed
    )
    softmax = oracle.normalized("softmax", scores.astype("float64"), visible)
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(one_hot) - softmax, atol=1e-5)
    np.testing.assert_array_equal(oracle.float64(found)[~visible], 0.0)


def test_reinforce_learns_where_the_reward_is():
    scores, hard = np.zeros((1, 4), "float32"), normalizers.Hard(stochastic=True, seed=6)
    rewards = np.array([0.0, 0.0, 1.0, 0.0], "float32")

    def objective(scores):
        one_hot, log_probability = hard.draw(ops.broadcast_to(scores, (64, 4)))
        return (ops.matmul(one_hot, rewards) - 0.25) * log_probability

    for _ in range(20):
        (gradient,) = gradients(objective, scores, forms=[])  # every call draws again
        scores = scores + 0.05 * ops.convert_to_numpy(gradient)
    assert oracle.NORMALIZERS["softmax"](scores[0])[2] > 0.9


# In layers


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [Attention, lambda **given: MultiHeadAttention(2, 3, **given)])
def test_layer_returns_the_weights_of_its_normalizer(name, make):
    layer = make(score="epanechnikov", normalizer=name)
    x = RNG.normal(size=(2, 4, 3)).astype("float32")
    mask = np.array([[True] * 4, [False] * 4])
    context, weights = layer(x, x, value_mask=mask, return_attention_scores=True)
    weights = oracle.float64(weights)
    np.testing.assert_array_equal(weights[1], 0.0)
    assert weights[0].max() > 0.1
    if make is Attention:
        np.testing.assert_allclose(oracle.float64(context), weights @ x, atol=1e-5)


@pytest.mark.full  # compiled gradients are tested above
@pytest.mark.filterwarnings("ignore:Gradients do not exist")  # hard attention has none
@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.parametrize("name", [*NAMES, "stochastic"])
def test_compiled_model_trains(name, jit_compile):
    normalizer = normalizers.Hard(stochastic=True, seed=0) if name == "stochastic" else name
    score = "epanechnikov" if name == "sum" else "general"
    x = keras.Input((None, 3))
    attention = MultiHeadAttention(2, 3, score=score, normalizer=normalizer)
    model = keras.Model(x, attention(x, x, use_causal_mask=True))
    model.compile("adam", "mse", jit_compile=jit_compile)
    inputs = RNG.normal(size=(8, 4, 3)).astype("float32")
    losses = model.fit(inputs, inputs, epochs=3, batch_size=8, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0] or name == "stochastic"
    expected = oracle.float64(attention(inputs, inputs, use_causal_mask=True))
    np.testing.assert_allclose(model.predict(inputs, verbose=0), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The model does not have any trainable weights")
@pytest.mark.parametrize("jit_compile", [pytest.param(True, marks=pytest.mark.full), False])
def test_compiled_training_draws_anew_at_each_step(jit_compile):
    x = keras.Input((16, 3))
    attention = Attention(normalizer=normalizers.Hard(stochastic=True, seed=0))
    model = keras.Model(x, attention(x, x))
    model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=jit_compile)
    inputs = RNG.normal(size=(2, 16, 3)).astype("float32")
    losses = [model.train_on_batch(inputs, inputs) for _ in range(3)]
    assert len(set(map(float, losses))) == 3


# Configs


@pytest.mark.parametrize("name", NAMES)
def test_registry_gives_names_objects_and_configs(name):
    normalizer = normalizers.get(name)
    assert normalizers.get(normalizer) is normalizer
    config = keras.saving.serialize_keras_object(normalizer)
    assert type(normalizers.get(config)) is type(normalizer)


def test_every_argument_survives_a_config():
    hard = normalizers.Hard(stochastic=True, seed=7, straight_through=False)
    config = keras.saving.serialize_keras_object(Attention(normalizer=hard))
    again = keras.saving.deserialize_keras_object(config).normalizer
    expected = {"stochastic": True, "seed": 7, "straight_through": False}
    assert again.get_config() == hard.get_config() == expected
    scores = np.zeros((5, 9), "float32")
    np.testing.assert_array_equal(
        oracle.float64(again(scores, training=True)), oracle.float64(hard(scores, training=True))
    )
