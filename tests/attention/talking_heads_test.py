"""TalkingHeadsAttention against its equation in float64 NumPy.

`block_options_test.py` compares it with DeBERTa.
"""

import numpy as np
import pytest
from keras import ops

from keras_attention import MultiHeadAttention, TalkingHeadsAttention, masks
from tests.attention import oracle, position_equations
from tests.attention.gradients import layer_gradients

BATCH, QUERIES, KEYS, SIZE = 2, 5, 7, 6
RNG = np.random.default_rng(0)
PAIRS = RNG.random((BATCH, 4, QUERIES, KEYS)) < 0.6


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def make(heads=4, **arguments):
    """A built layer whose weights are all perturbed, so that its matrices are far from identity."""
    layer = TalkingHeadsAttention(heads, 4, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.5 * RNG.normal(size=variable.shape))
    return layer


def expected_attention(layer, query, value, visible=None, **of_the_call):
    """Returns output and weights, with sums over heads written out."""
    query, value = query.astype("float64"), value.astype("float64")
    heads, groups, inner = layer.num_heads, layer.num_key_value_heads, layer.attention
    if visible is None:
        lengths = query.shape[1], value.shape[1]
        visible = oracle.visible_pairs(len(query), heads, *lengths, **of_the_call)
    queries = oracle._heads(layer.query_projection, query, heads)
    keys = oracle._heads(layer.key_projection, value, groups)
    values = oracle._heads(layer.value_projection, value, groups)
    keys, values = ([x[h * groups // heads] for h in range(heads)] for x in (keys, values))
    places, biases = oracle._places(query, value), np.zeros(visible.shape)
    biases += position_equations.bias(
        inner.position, *(np.stack(x, 1) for x in (queries, keys)), *places
    )
    scores = [
        oracle._scores(inner, queries[h], keys[h], places, biases[:, h], h) for h in range(heads)
    ]
    of_scores, of_weights = (oracle.weight(layer, f"{n}_mixing") for n in ("score", "weight"))
    name, seen = oracle._name(inner.normalizer), []
    for j in range(heads):
        mixture = sum(of_scores[h, j] * scores[h] for h in range(heads))
        seen.append(oracle.normalized(name, mixture, visible[:, j]))
    weights = [sum(of_weights[j, i] * seen[j] for j in range(heads)) for i in range(heads)]
    context = np.concatenate([weights[i] @ values[i] for i in range(heads)], axis=-1)
    return oracle._dense(layer.output_projection, context), np.stack(weights, axis=1)


SEVERAL_MASKS = {
    "attention_mask": PAIRS,
    "use_causal_mask": True,
    "value_mask": np.arange(KEYS) < [[KEYS], [4]],
    "query_mask": np.arange(QUERIES) > [[-1], [2]],
}
CASES = {  # arguments of the layer and of its call
    "plain": ({}, {}),
    "one head": ({"heads": 1, "value_dim": 3, "output_dim": 5}, {"use_causal_mask": True}),
    "rotary": ({"position": "rotary", "num_key_value_heads": 2}, {"attention_mask": PAIRS}),
    "ALiBi": ({"position": "alibi", "soft_cap": 2.0}, {"attention_mask": PAIRS[:, 0]}),
    "general": ({"score": "general", "use_bias": False}, SEVERAL_MASKS),
    "sparsemax": ({"normalizer": "sparsemax", "num_key_value_heads": 1}, SEVERAL_MASKS),
    "sink": ({"normalizer": "softmax_one", "use_sink": True}, SEVERAL_MASKS),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_its_equation(name):
    arguments, of_the_call = CASES[name]
    layer = make(**arguments)
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    expected = expected_attention(layer, query, value, **of_the_call)
    found = layer(query, value, return_attention_scores=True, **of_the_call)
    for each, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(each), wanted, atol=3e-5)


def test_a_mask_of_the_layer_belongs_to_the_heads_between_the_mixings():
    layer = make(mask=masks.Array(PAIRS) & masks.SlidingWindow(3, 3))
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    visible = PAIRS & np.asarray(masks.SlidingWindow(3, 3)(QUERIES, KEYS))
    output, weights = layer(query, value, return_attention_scores=True)
    expected, expected_weights = expected_attention(layer, query, value, visible)
    np.testing.assert_allclose(oracle.float64(output), expected, atol=3e-5)
    np.testing.assert_allclose(oracle.float64(weights), expected_weights, atol=3e-5)
    hidden = np.broadcast_to(~visible.any(1, keepdims=True), visible.shape)
    assert (oracle.float64(weights)[hidden] == 0).all()


def test_a_new_layer_equals_multi_head_attention():
    arguments = {"num_key_value_heads": 2, "position": "rotary", "use_gate": True}
    layer, plain = TalkingHeadsAttention(4, 4, **arguments), MultiHeadAttention(4, 4, **arguments)
    x = random(BATCH, KEYS, SIZE)
    for each in (layer, plain):
        each.build(x.shape, x.shape)
    mixings = [oracle.weight(layer, f"{name}_mixing") for name in ("score", "weight")]
    np.testing.assert_array_equal(mixings, [np.eye(4)] * 2)
    others = [weight for weight in layer.weights if "mixing" not in weight.name]
    for variable, given in zip(others, plain.weights, strict=True):
        variable.assign(given)
    found = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    expected = plain(x, x, use_causal_mask=True, return_attention_scores=True)
    for each, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(each), oracle.float64(wanted), atol=1e-6)


def test_gradients_equal_finite_differences():
    layer = make(heads=2)
    query, value = random(1, 3, SIZE), random(1, 4, SIZE)
    direction = random(1, 3, SIZE)
    pairs = PAIRS[:1, :2, :3, :4]

    def total(*inputs):
        return (expected_attention(layer, *inputs, attention_mask=pairs)[0] * direction).sum()

    by_inputs, by_weights = layer_gradients(
        layer, query, value, attention_mask=pairs, direction=ops.convert_to_tensor(direction)
    )
    inputs = query.astype("float64"), value.astype("float64")
    for found, expected in zip(by_inputs, oracle.numerical_gradients(total, *inputs), strict=True):
        np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-4)
    for variable in (layer.score_mixing, layer.weight_mixing):
        start, step = oracle.float64(variable), random(2, 2)
        totals = []
        for moved in (start + 0.01 * step, start - 0.01 * step):
            variable.assign(moved)
            totals.append(total(*inputs))
        variable.assign(start)
        slope = (oracle.float64(by_weights[variable.path]) * step).sum()
        np.testing.assert_allclose(slope, (totals[0] - totals[1]) / 0.02, rtol=1e-3, atol=1e-3)


def test_weights_are_those_before_dropout():
    layer, x = make(dropout=0.5, seed=1), random(BATCH, KEYS, SIZE)
    plain, weights = layer(x, x, return_attention_scores=True)
    dropped, same = layer(x, x, return_attention_scores=True, training=True)
    np.testing.assert_array_equal(oracle.float64(same), oracle.float64(weights))
    assert np.abs(oracle.float64(dropped) - oracle.float64(plain)).max() > 0.1


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_matrices_are_float32_even_in_mixed_precision(dtype):
    layer, x = make(dtype=dtype), random(BATCH, KEYS, SIZE)
    assert {layer.score_mixing.dtype, layer.weight_mixing.dtype} == {"float32"}
    expected, _ = expected_attention(layer, x, x)
    np.testing.assert_allclose(oracle.float64(layer(x, x)), expected, atol=0.15, rtol=0.05)


def test_only_the_implementation_that_forms_weights():
    shape = BATCH, KEYS, SIZE
    assert make().choose_implementation(shape, shape) == "reference"
    with pytest.raises(ValueError, match="mixes the weights .*'auto' or 'reference'.*'chunked'"):
        TalkingHeadsAttention(2, 4, implementation="chunked")
