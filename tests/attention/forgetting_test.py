"""ForgettingAttention against its equation in float64 NumPy."""

import numpy as np
import pytest
from keras import ops

from keras_attention import ForgettingAttention, MultiHeadAttention, masks
from tests.attention import oracle
from tests.attention.mistakes import check_message

BATCH, LENGTH, SIZE = 2, 7, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, SIZE)).astype("float32")
VISIBLE = np.array([[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 1, 0]], bool)
PAIRS = RNG.random((BATCH, 4, LENGTH, LENGTH)) < 0.6


def make(size=SIZE, **arguments):
    layer = ForgettingAttention(4, 4, **arguments)
    layer.build((None, None, size), (None, None, size))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def expected_attention(layer, x, visible=None, **of_the_call):
    """Returns output and weights, pair by pair."""
    x = oracle.float64(x)
    visible = np.ones(x.shape[:2], bool) if visible is None else visible
    gates = 1 / (1 + np.exp(-oracle._dense(layer.forget_projection, x)))
    pairs = oracle.visible_pairs(
        *(x.shape[0], 4, x.shape[1], x.shape[1]),
        use_causal_mask=True,
        value_mask=visible,
        **of_the_call,
    )
    groups = layer.num_key_value_heads
    queries = oracle._heads(layer.query_projection, x, 4)
    keys = oracle._heads(layer.key_projection, x, groups)
    values = oracle._heads(layer.value_projection, x, groups)
    weights, contexts = np.zeros(pairs.shape), []
    for head in range(4):
        group = head // (4 // groups)
        scores = queries[head] @ keys[group].swapaxes(1, 2) / 2.0
        for row, query, key in np.ndindex(scores.shape):
            between = range(key + 1, query + 1)
            factors = [gates[row, place, head] for place in between if visible[row, place]]
            scores[row, query, key] += np.log(np.prod(factors))
        weights[:, head] = oracle.normalized("softmax", scores, pairs[:, head])
        contexts.append(weights[:, head] @ values[group])
    return oracle._dense(layer.output_projection, np.concatenate(contexts, -1)), weights


CASES = {  # arguments of the layer and of its call
    "plain": ({}, {}),
    "a window": ({"mask": masks.SlidingWindow(3, 0)}, {}),
    "groups": ({"num_key_value_heads": 2, "value_dim": 3, "use_bias": ["query"]}, {}),
    "hidden keys": ({"num_key_value_heads": 1}, {"visible": VISIBLE}),
    "hidden pairs": ({}, {"visible": VISIBLE, "attention_mask": PAIRS}),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("implementation", ["reference", "blocked", "chunked"])
@pytest.mark.parametrize("case", CASES)
def test_equals_the_equation(case, implementation):
    options, of_the_call = CASES[case]
    layer = make(implementation=implementation, **options)
    near = (
        {"attention_mask": masks.SlidingWindow(3, 0)(LENGTH, LENGTH)} if "mask" in options else {}
    )
    expected, weights = expected_attention(layer, X, **near, **of_the_call)
    visible = of_the_call.get("visible")
    given = {name: each for name, each in of_the_call.items() if name != "visible"}
    found = layer(X, X, value_mask=visible, **given)
    np.testing.assert_allclose(oracle.float64(found), expected, atol=2e-5)
    if implementation == "reference":
        _, found = layer(X, X, value_mask=visible, return_attention_scores=True, **given)
        np.testing.assert_allclose(oracle.float64(found), weights, atol=1e-6)


def test_open_gates_forget_nothing():
    layer, plain = make(), MultiHeadAttention(4, 4, mask="causal")
    plain.build(X.shape, X.shape)
    layer.forget_projection.kernel.assign(0 * layer.forget_projection.kernel)
    layer.forget_projection.bias.assign(ops.full((4,), 50.0))
    plain.set_weights(layer.get_weights()[:-2])
    found, expected = layer(X, X), plain(X, X)
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_long_texts_in_half_precision(dtype):
    """Sums of a thousand numbers are those of float32."""
    x = RNG.normal(size=(1, 900, SIZE)).astype("float32")
    layer, exact = make(dtype=dtype), make()
    exact.set_weights(layer.get_weights())
    found, weights = layer(x, x, return_attention_scores=True)
    _, expected = exact(x, x, return_attention_scores=True)
    weights = oracle.float64(weights)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-3)
    np.testing.assert_allclose(weights, oracle.float64(expected), atol=0.03)
    assert np.isfinite(oracle.float64(found)).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("steps", [[1] * LENGTH, [3, 4]])
def test_steps_with_room_behind_equal_the_call(steps):
    layer, start, found = make(num_key_value_heads=2), 0, []
    memory = layer.room_for(np.zeros((BATCH, 40, SIZE), "float32"))
    for length in steps:
        x = X[:, start : start + length]
        context, _, memory = layer.step(x, memory, start)
        found.append(context)
        start += length
    found, expected = ops.concatenate(found, axis=1), layer(X, X)
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=1e-5)


def test_steps_leave_out_what_a_mask_of_the_room_hides():
    layer, found = make(), []
    memory = layer.room_for(np.zeros(X.shape, "float32"), VISIBLE)
    for place in range(LENGTH):
        context, _, memory = layer.step(X[:, place : place + 1], memory, place)
        found.append(oracle.float64(context))
    expected = oracle.float64(layer(X, X, value_mask=VISIBLE))
    np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=1e-5)


def test_a_cache_of_shared_keys_is_small():
    memory = make(num_key_value_heads=2).prepare(ops.zeros((1, 3, SIZE)))
    assert tuple(memory.key.shape) == (1, 2, 3, 4 + 2)  # a gate for each of the heads that share it
    assert tuple(memory.value.shape) == (1, 2, 3, 4)


@pytest.mark.parametrize("name", ["score", "normalizer", "position", "soft_cap", "use_sink"])
def test_what_the_equation_has_is_not_an_argument(name):
    message = f"`{name}` of ForgettingAttention is part of its equation"
    check_message(lambda: ForgettingAttention(2, 4, **{name: "dot"}), [message, "='dot'. Omit it"])
