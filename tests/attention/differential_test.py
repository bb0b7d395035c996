"""DifferentialAttention against its equation in float64 NumPy.

`block_options_test.py` compares it with DiffLlama.
"""

import numpy as np
import pytest
from keras import ops

from keras_attention import DifferentialAttention, masks
from tests.attention import oracle
from tests.attention.mistakes import check_message

BATCH, QUERIES, KEYS, SIZE = 2, 5, 7, 6
RNG = np.random.default_rng(0)
PAIRS = RNG.random((BATCH, 4, QUERIES, KEYS)) < 0.6


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def make(heads=4, **arguments):
    """A built layer whose weights are all perturbed, so that λ is far from its initial value."""
    layer = DifferentialAttention(heads, 4, **{"lambda_init": 0.3, **arguments})
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def factor(layer):
    """λ in float64."""
    query_1, key_1, query_2, key_2 = (
        oracle.weight(layer, f"lambda_{name}") for name in ("query_1", "key_1", "query_2", "key_2")
    )
    return np.exp(query_1 @ key_1) - np.exp(query_2 @ key_2) + layer.lambda_init


def expected_attention(layer, query, value, **of_the_call):
    """Returns output and weights, head by head and map by map."""
    query, value = query.astype("float64"), value.astype("float64")
    heads, groups = layer.num_heads, layer.num_key_value_heads
    visible = oracle.visible_pairs(BATCH, heads, QUERIES, KEYS, **of_the_call)
    queries = oracle._heads(layer.query_projection, query, 2 * heads)
    keys = oracle._heads(layer.key_projection, value, 2 * groups)
    values = oracle._heads(layer.value_projection, value, groups)
    places = oracle._places(query, value)
    weights, contexts = np.zeros(visible.shape), []
    for head in range(heads):
        group, member = divmod(head, heads // groups)
        maps = []
        for key in (2 * group, 2 * group + 1):
            one = key * heads // groups + member
            scores = oracle._scores(layer.attention, queries[one], keys[key], places, 0.0, one)
            name = oracle._name(layer.attention.normalizer)
            maps.append(oracle.normalized(name, scores, visible[:, head]))
        weights[:, head] = maps[0] - factor(layer) * maps[1]
        context = weights[:, head] @ values[group]
        context /= np.sqrt((context**2).mean(-1, keepdims=True) + 1e-5)
        contexts.append((1 - layer.lambda_init) * context)
    return oracle._dense(layer.output_projection, np.concatenate(contexts, -1)), weights


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
    "soft cap": ({"soft_cap": 2.0, "num_key_value_heads": 1}, {"attention_mask": PAIRS[:, 0]}),
    "general": ({"score": "general", "use_bias": False}, {"attention_mask": PAIRS}),
    "softmax_one": ({"normalizer": "softmax_one", "num_key_value_heads": 2}, SEVERAL_MASKS),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("implementation", ["reference", "blocked", "chunked", "fused"])
@pytest.mark.parametrize("name", CASES)
def test_equals_its_equation(name, implementation):
    arguments, of_the_call = CASES[name]
    if implementation == "fused" and {"soft_cap", "score", "normalizer"} & set(arguments):
        pytest.skip("the kernel has only scaled dot products with softmax")
    layer = make(implementation=implementation, **arguments)
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    expected, weights = expected_attention(layer, query, value, **of_the_call)
    output = layer(query, value, **of_the_call)
    np.testing.assert_allclose(oracle.float64(output), expected, atol=2e-5)
    if implementation == "reference":
        _, found = layer(query, value, return_attention_scores=True, **of_the_call)
        np.testing.assert_allclose(oracle.float64(found), weights, atol=1e-5)


@pytest.mark.few(3)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
def test_a_mask_of_the_layer_belongs_to_its_heads(implementation, groups):
    arguments = {"implementation": implementation, "num_key_value_heads": groups}
    layer = make(mask=masks.Array(PAIRS) & masks.SlidingWindow(3, 3), **arguments)
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    window = np.asarray(masks.SlidingWindow(3, 3)(QUERIES, KEYS))
    expected, _ = expected_attention(layer, query, value, attention_mask=PAIRS & window)
    np.testing.assert_allclose(oracle.float64(layer(query, value)), expected, atol=2e-5)


def test_inputs_with_more_axes_are_attended_over_along_some():
    layer = DifferentialAttention(4, 4, attention_axes=2, use_gate=True, query_key_norm=1e-6)
    x = random(2, 3, 5, SIZE)
    output, weights = layer(x, x, return_attention_scores=True)
    assert tuple(weights.shape) == (2, 3, 4, 5, 5)
    row, of_row = layer(x[:, 1:2], x[:, 1:2], return_attention_scores=True)
    np.testing.assert_allclose(oracle.float64(output)[:, 1], oracle.float64(row)[:, 0], atol=1e-5)
    np.testing.assert_allclose(
        oracle.float64(weights)[:, 1], oracle.float64(of_row)[:, 0], atol=1e-5
    )


def test_weights_are_those_before_dropout():
    layer, x = make(dropout=0.5, seed=1), random(BATCH, KEYS, SIZE)
    plain, weights = layer(x, x, return_attention_scores=True)
    dropped, same = layer(x, x, return_attention_scores=True, training=True)
    np.testing.assert_array_equal(oracle.float64(same), oracle.float64(weights))
    np.testing.assert_allclose(oracle.float64(weights).sum(-1), 1 - factor(layer), atol=1e-5)
    assert np.abs(oracle.float64(dropped) - oracle.float64(plain)).max() > 0.1


def test_a_cache_holds_the_values_once():
    layer = make(num_key_value_heads=2)
    memory = layer.prepare(ops.zeros((1, 3, SIZE)))
    assert tuple(memory.key.shape) == (1, 4, 3, 4)
    assert tuple(memory.value.shape) == (1, 2, 3, 8)


MISTAKES = {
    "no fraction": (
        lambda: DifferentialAttention(2, 4, lambda_init=1.0),
        ["`lambda_init` of DifferentialAttention", "at least 0 and below 1", "lambda_init=1.0"],
    ),
    "mask of maps": (
        lambda: make(mask=masks.Array(np.ones((BATCH, 8, 3, 3))))(*[random(BATCH, 3, SIZE)] * 2),
        ["`tile` of the mask Array", "heads 4", "(2, 8, 3, 3)"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    check_message(*MISTAKES[name])
