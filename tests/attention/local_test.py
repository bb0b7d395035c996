"""LocalAttention against the equations of Luong et al. 2015, section 3.2, in float64 NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, AttentionCell, AttentionRNN, compute
from keras_attention.local import LocalAttention
from tests.attention import oracle
from tests.attention.gradients import weight_gradients

BATCH, QUERIES, KEYS, SIZE = 2, 6, 9, 4
MODES = ["monotonic", "predictive"]
RNG = np.random.default_rng(0)
QUERY = RNG.normal(size=(BATCH, QUERIES, SIZE)).astype("float32")
VALUE = RNG.normal(size=(BATCH, KEYS, SIZE)).astype("float32")


def make(mode, half_width=2, score="general", **arguments):
    """A built layer whose predicted places are spread over all keys."""
    layer = LocalAttention(mode, half_width, score, **arguments)
    layer.build(QUERY.shape, VALUE.shape)
    for variable in layer.weights:
        if "place" in variable.path:
            variable.assign(2.0 * RNG.normal(size=variable.shape))
    return layer


def local_attention(layer, query, value, key=None, **masks):
    """Returns context, weights and places, computed query by query."""
    key = value if key is None else key
    batch, queries, keys = len(query), query.shape[1], key.shape[1]
    visible = oracle.visible_pairs(batch, 1, queries, keys, **masks)[:, 0]
    is_key = np.ones((batch, keys), bool)
    for name in ("value_mask", "key_mask"):
        is_key &= masks.get(name, is_key)
    is_query = masks.get("query_mask", np.ones((batch, queries), bool))
    logits = oracle.logits(layer.score, query, key)
    weights, centers = np.zeros(visible.shape), np.zeros(visible.shape[:2])
    for b, t in np.ndindex(visible.shape[:2]):
        places = np.cumsum(is_key[b]) - 1
        if layer.mode == "predictive":
            hidden = np.tanh(query[b, t] @ oracle.weight(layer, "place_kernel"))
            predicted = (hidden @ oracle.weight(layer, "place_scale")).item()
            center = is_key[b].sum() / (1 + np.exp(-predicted))
        elif masks.get("use_causal_mask"):
            center = places[max(keys - queries + t, 0)]
        else:
            center = np.sum(is_query[b, :t])
        near = np.abs(places - center) <= layer.half_width
        seen = visible[b, t] & near
        weights[b, t] = oracle.softmax(logits[b, t], seen)
        if layer.mode == "predictive":
            sigma = layer.half_width / 2
            weights[b, t] *= np.exp(-((places - center) ** 2) / (2 * sigma**2))
        centers[b, t] = center
    return weights @ value, weights, centers


def some(*shape):
    return RNG.random(shape) < 0.75


MASKS = {
    "nothing": {},
    "padding at the end": {"value_mask": np.arange(KEYS) < np.array([[KEYS], [5]])},
    "padding in front": {"key_mask": np.arange(KEYS) >= np.array([[0], [3]])},
    "queries": {"query_mask": np.arange(QUERIES) >= np.array([[2], [0]])},
    "pairs": {"attention_mask": some(BATCH, QUERIES, KEYS)},
    "causal": {"use_causal_mask": True},
    "nobody sees anything": {"value_mask": np.zeros((BATCH, KEYS), bool)},
    "everything at once": {
        "query_mask": some(BATCH, QUERIES),
        "value_mask": some(BATCH, KEYS),
        "key_mask": some(BATCH, KEYS),
        "attention_mask": some(QUERIES, KEYS),
        "use_causal_mask": True,
    },
}


@pytest.mark.few(12)
@pytest.mark.pairwise
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("score", ["dot", "general", "additive"])
@pytest.mark.parametrize("name", MASKS)
def test_equals_the_equations_under_every_mask(mode, score, name):
    layer = make(mode, score=score)
    context, weights = layer(QUERY, VALUE, return_attention_scores=True, **MASKS[name])
    expected_context, expected, _ = local_attention(
        layer, QUERY.astype("float64"), VALUE.astype("float64"), **MASKS[name]
    )
    np.testing.assert_allclose(oracle.float64(weights), expected, atol=1e-5)
    np.testing.assert_allclose(oracle.float64(context), expected_context, atol=1e-5)
    alone = layer(QUERY, VALUE, **MASKS[name])
    np.testing.assert_array_equal(oracle.float64(alone), oracle.float64(context))


@pytest.mark.parametrize("mode", MODES)
def test_weights_outside_of_the_window_are_exactly_zero_and_inside_are_not(mode):
    layer = make(mode)
    _, weights = layer(QUERY, VALUE, return_attention_scores=True)
    _, _, centers = local_attention(layer, QUERY.astype("float64"), VALUE.astype("float64"))
    near = np.abs(np.arange(KEYS) - centers[:, :, None]) <= layer.half_width
    assert 0 < near.sum() < near.size
    np.testing.assert_array_equal(oracle.float64(weights) > 0, near)


def test_predicted_places_are_spread_in_the_tests_above():
    layer = make("predictive")
    _, _, centers = local_attention(layer, QUERY.astype("float64"), VALUE.astype("float64"))
    assert centers.min() < KEYS / 3
    assert centers.max() > KEYS * 2 / 3


def test_a_window_as_wide_as_everything_is_attention_to_everything():
    local, everywhere = make("monotonic", half_width=20), Attention("general")
    everywhere.build(QUERY.shape, VALUE.shape)
    everywhere.set_weights(local.get_weights())
    np.testing.assert_allclose(
        oracle.float64(local(QUERY, VALUE)), oracle.float64(everywhere(QUERY, VALUE)), atol=1e-6
    )


def test_weights_of_predictive_mode_add_up_to_less_than_one_and_of_monotonic_to_one():
    for mode in MODES:
        _, weights = make(mode)(QUERY, VALUE, return_attention_scores=True)
        total = oracle.float64(weights).sum(-1)
        assert (total < 1 if mode == "predictive" else np.abs(total - 1) < 1e-5).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("front", [True, False])
def test_padding_on_either_side_changes_nothing(mode, front):
    layer = make(mode)
    expected = layer(QUERY, VALUE, use_causal_mask=False)
    junk = np.full((BATCH, 3, SIZE), np.nan, "float32")
    keys = [junk, VALUE] if front else [VALUE, junk]
    queries = [junk, QUERY] if front else [QUERY, junk]
    is_key, is_query = np.zeros((BATCH, KEYS + 3), bool), np.zeros((BATCH, QUERIES + 3), bool)
    first = 3 if front else 0
    is_key[:, first : first + KEYS] = True
    is_query[:, first : first + QUERIES] = True
    padded = layer(
        np.concatenate(queries, 1),
        np.concatenate(keys, 1),
        query_mask=is_query,
        value_mask=is_key,
    )
    padded = oracle.float64(padded)
    np.testing.assert_allclose(
        padded[:, first : first + QUERIES], oracle.float64(expected), atol=1e-5
    )
    np.testing.assert_array_equal(padded[~is_query], 0.0)


@pytest.mark.parametrize("mode", MODES)
def test_steps_that_say_where_they_are_equal_the_whole(mode):
    layer = make(mode)
    mask = np.arange(KEYS) >= np.array([[0], [3]])
    expected, expected_weights = layer(QUERY, VALUE, value_mask=mask, return_attention_scores=True)
    memory = layer.prepare(ops.convert_to_tensor(VALUE), value_mask=mask)
    for t in range(QUERIES):
        query = ops.convert_to_tensor(QUERY[:, t : t + 1])
        context, weights = layer.attend(query, memory, start=t)
        np.testing.assert_allclose(
            oracle.float64(context[:, 0]), oracle.float64(expected[:, t]), atol=1e-6
        )
        np.testing.assert_allclose(
            oracle.float64(weights[:, 0]), oracle.float64(expected_weights[:, t]), atol=1e-6
        )


def test_causal_steps_over_growing_keys_equal_the_whole():
    layer = make("monotonic", half_width=1)  # a predicted place depends on the number of keys
    mask = np.arange(QUERIES) >= np.array([[0], [2]])
    expected = layer(QUERY, QUERY, value_mask=mask, use_causal_mask=True)
    for now in range(QUERIES):
        seen = slice(0, now + 1)
        step = layer(
            QUERY[:, now : now + 1], QUERY[:, seen], value_mask=mask[:, seen], use_causal_mask=True
        )
        np.testing.assert_allclose(
            oracle.float64(step[:, 0]), oracle.float64(expected[:, now]), atol=1e-6
        )


@pytest.mark.few(1)
@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_predictive_mode_works_inside_of_a_recurrent_decoder(order):
    attention = LocalAttention("predictive", 2, "general")
    layer = AttentionRNN(AttentionCell(keras.layers.GRUCell(5), attention, order=order))
    outputs, weights = layer(QUERY, VALUE, return_attention_scores=True)
    assert tuple(weights.shape) == (BATCH, QUERIES, KEYS)
    cell, states = layer.cell, layer.cell.initial_state(ops.zeros((BATCH, 5)))
    memory = cell.prepare(ops.convert_to_tensor(VALUE))
    for t in range(QUERIES):
        output, states, step_weights = cell(ops.convert_to_tensor(QUERY[:, t]), states, memory)
        np.testing.assert_allclose(oracle.float64(output), oracle.float64(outputs[:, t]), atol=1e-5)
        np.testing.assert_allclose(
            oracle.float64(step_weights), oracle.float64(weights[:, t]), atol=1e-5
        )


def test_gradients_of_the_predicted_place_equal_finite_differences():
    layer = make("predictive", half_width=3)

    def total(kernel, scale):
        layer.place_kernel.assign(kernel)
        layer.place_scale.assign(scale)
        context, _, _ = local_attention(layer, QUERY.astype("float64"), VALUE.astype("float64"))
        return context.sum()

    weights = [oracle.weight(layer, name) for name in ("place_kernel", "place_scale")]
    found = weight_gradients(layer, QUERY, VALUE)
    # Steps below 1e-3 are too small for float32 weights. No key crosses the window's edge.
    expected = oracle.numerical_gradients(total, *weights, step=1e-3)
    for name, difference in zip(("place_kernel", "place_scale"), expected, strict=True):
        (gradient,) = (each for path, each in found.items() if name in path)
        assert np.abs(difference).max() > 1e-2
        np.testing.assert_allclose(oracle.float64(gradient), difference, atol=2e-3)


@pytest.mark.parametrize("mode", MODES)
def test_dropout_drops_weights_of_the_context_and_not_those_returned(mode):
    layer = make(mode, dropout=0.5, seed=1)
    context, weights = layer(QUERY, VALUE, return_attention_scores=True)
    dropped, same = layer(QUERY, VALUE, return_attention_scores=True, training=True)
    np.testing.assert_array_equal(oracle.float64(same), oracle.float64(weights))
    assert np.abs(oracle.float64(dropped) - oracle.float64(context)).max() > 0.01


def test_dropout_is_drawn_once():
    local, plain = make("predictive", dropout=0.5, seed=1), Attention(dropout=0.5, seed=1)
    for layer in (local, plain):
        layer(QUERY, VALUE, training=True)
    np.testing.assert_array_equal(
        *(ops.convert_to_numpy(layer.seed_generator.state) for layer in (local, plain))
    )


def test_auto_forms_the_weights_that_predictive_mode_multiplies(monkeypatch):
    monkeypatch.setattr(compute, "LARGE", 0)
    shapes = QUERY.shape, VALUE.shape
    assert make("monotonic").choose_implementation(*shapes) == "chunked"
    layer = make("predictive")
    assert layer.choose_implementation(*shapes) == "reference"
    expected, _, _ = local_attention(layer, QUERY.astype("float64"), VALUE.astype("float64"))
    np.testing.assert_allclose(oracle.float64(layer(QUERY, VALUE)), expected, atol=1e-5)


def test_monotonic_mode_takes_the_chunked_implementation():
    chunked, reference = (
        make("monotonic", implementation=name, score="dot") for name in ("chunked", "reference")
    )
    given = {"use_causal_mask": True, "value_mask": MASKS["padding in front"]["key_mask"]}
    np.testing.assert_allclose(
        oracle.float64(chunked(QUERY, VALUE, **given)),
        oracle.float64(reference(QUERY, VALUE, **given)),
        atol=1e-5,
    )
