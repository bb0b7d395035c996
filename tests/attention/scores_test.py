"""Every score against its equation in float64 NumPy: whole, in tiles, in layers, compiled."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention, masks, scores
from tests.attention import oracle
from tests.attention.gradients import gradients, gradients_in_every_form, of_layer
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
    randomize,
    tensor,
)

TOLERANCE = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}
KERNELS = [name for name in SCORES if isinstance(SCORES[name](), scores.Kernel)]


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


def expected_logits(score, query, key):
    """The logits of the oracle, head by head if there are heads."""
    if query.ndim == 3:
        return oracle.logits(score, query, key)
    heads = range(query.shape[1])
    return np.stack([oracle.logits(score, query[:, h], key[:, h], h) for h in heads], axis=1)


def test_every_name_is_tested():
    assert {name.split(",")[0] for name in SCORES} == set(scores.names())


@pytest.mark.few(40)
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


@pytest.mark.few(20)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("lengths", [(1, 1), (1, 6), (6, 2), (0, 3), (3, 0), (0, 0)])
def test_equals_its_equation_for_all_lengths(name, lengths):
    query, key = (random(BATCH, length, SIZE) for length in lengths)
    score = built(name)
    np.testing.assert_allclose(
        oracle.float64(score(tensor(query), tensor(key))),
        oracle.logits(score, query, key),
        atol=1e-5,
    )


@pytest.mark.parametrize("name", SCORES)
def test_integers_count_as_floats(name):
    query, key = (RNG.integers(-2, 3, (BATCH, length, SIZE)) for length in (QUERIES, KEYS))
    score = built(name)
    np.testing.assert_allclose(
        oracle.float64(score(query, key)), oracle.logits(score, query, key), atol=1e-5
    )


@pytest.mark.parametrize("name", SCORES)
def test_batch_may_be_empty(name):
    score = built(name)
    assert score(ops.zeros((0, 3, SIZE)), ops.zeros((0, 4, SIZE))).shape == (0, 3, 4)


@pytest.mark.few(10)
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


@pytest.mark.few(6)
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


@pytest.mark.few(4)
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
    [(SIZE, ["graph"]), *(pytest.param(x, None, marks=pytest.mark.full) for x in (2, SIZE))],
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


@pytest.mark.few(25)
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


@pytest.mark.few(1)
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


@pytest.mark.few(5)
@pytest.mark.parametrize("name", SCORES)
def test_one_query_at_a_time_over_growing_keys_equals_the_causal_layer(name):
    layer = MultiHeadAttention(2, 3, score=SCORES[name]())
    x = tensor(random(BATCH, 5, SIZE))
    expected = oracle.float64(layer(x, x, use_causal_mask=True))
    for now in range(5):
        step = layer(x[:, now : now + 1], x[:, : now + 1], use_causal_mask=True)
        np.testing.assert_allclose(oracle.float64(step[:, 0]), expected[:, now], atol=1e-5)
