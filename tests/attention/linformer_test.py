"""LinformerAttention against its equations in float64 NumPy, and against exact attention."""

import keras
import numpy as np
import pytest

from keras_attention import AttentionCell, AttentionRNN, MultiHeadAttention
from keras_attention.linformer import LinformerAttention
from tests.attention import oracle

BATCH, HEADS, QUERIES, KEYS, SIZE, MIXTURES = 2, 2, 5, 7, 4, 3
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def some(*shape):
    return RNG.random(shape) < 0.75


def make(max_length=10, **arguments):
    arguments = {"value_dim": 3, "output_dim": 6, "projected_length": MIXTURES, **arguments}
    layer = LinformerAttention(HEADS, 4, max_length=max_length, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def expected_attention(layer, query, value, key=None, **masks):
    """Returns output and weights of the mixtures."""
    query, value = query.astype("float64"), value.astype("float64")
    key = value if key is None else key.astype("float64")
    visible = oracle.visible_pairs(len(query), 1, query.shape[1], key.shape[1], **masks)[:, 0]
    is_key = oracle.visible_pairs(len(query), 1, 1, key.shape[1], **{**masks, "query_mask": None})[
        :, 0, 0
    ]
    queries = oracle._heads(layer.query_projection, query, HEADS)
    keys = oracle._heads(layer.key_projection, key, HEADS)
    values = oracle._heads(layer.value_projection, value, HEADS)
    of_keys = oracle.float64(layer.key_mixtures)[:, : key.shape[1]]
    of_values = oracle.float64(layer.value_mixtures)[:, : key.shape[1]]
    sees = np.repeat(visible.any(-1)[:, :, None], layer.projected_length, axis=2)
    weights, contexts = [], []
    for head in range(HEADS):
        mixed_keys = of_keys @ np.where(is_key[:, :, None], keys[head], 0)
        mixed_values = of_values @ np.where(is_key[:, :, None], values[head], 0)
        logits = queries[head] @ mixed_keys.swapaxes(1, 2) / np.sqrt(layer.key_dim)
        weights.append(oracle.softmax(logits, sees))
        contexts.append(weights[-1] @ mixed_values)
    output = oracle._dense(layer.output_projection, np.concatenate(contexts, axis=-1))
    return output, np.stack(weights, axis=1)


MASKS = {
    "nothing": {},
    "query": {"query_mask": some(BATCH, QUERIES)},
    "value": {"value_mask": some(BATCH, KEYS)},
    "nobody sees anything": {"value_mask": np.zeros((BATCH, KEYS), bool)},
    "everything at once": {
        "query_mask": some(BATCH, QUERIES),
        "value_mask": some(BATCH, KEYS),
        "key_mask": some(BATCH, KEYS),
    },
}


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", MASKS)
def test_equals_the_equations_under_every_mask(shared, name):
    layer = make(share_projection=shared)
    inputs = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE), random(BATCH, KEYS, SIZE)
    output, weights = layer(*inputs, return_attention_scores=True, **MASKS[name])
    expected = expected_attention(layer, *inputs, **MASKS[name])
    np.testing.assert_allclose(oracle.float64(weights), expected[1], atol=1e-5)
    np.testing.assert_allclose(oracle.float64(output), expected[0], atol=1e-5)


@pytest.mark.parametrize("length", [1, 3, 10])
def test_fewer_keys_use_the_first_columns(length):
    layer = make(max_length=10)
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, length, SIZE)
    expected, _ = expected_attention(layer, query, value)
    np.testing.assert_allclose(oracle.float64(layer(query, value)), expected, atol=1e-5)


def test_sharing_saves_the_second_projection():
    names = [variable.name for variable in make(share_projection=True).trainable_variables]
    assert "key_mixtures" in names
    assert "value_mixtures" not in names


def test_mixtures_are_drawn_with_the_variance_of_the_paper_and_differ():
    layer = LinformerAttention(2, 4, projected_length=64, max_length=200)
    layer.build((None, None, SIZE), (None, None, SIZE))
    keys, values = oracle.float64(layer.key_mixtures), oracle.float64(layer.value_mixtures)
    # 12,800 numbers: the standard error of their variance is 1.3%
    assert keys.var() == pytest.approx(1 / 64, rel=0.06)
    assert np.abs(keys - values).max() > 0.1


def share_projections(layer, exact, x):
    layer.build(x.shape, x.shape)
    for name in ("query", "key", "value", "output"):
        weights = getattr(exact, f"{name}_projection").get_weights()
        getattr(layer, f"{name}_projection").set_weights(weights)


def test_mixtures_of_one_key_each_are_exact_attention():
    x, exact = random(BATCH, KEYS, SIZE), MultiHeadAttention(HEADS, 4)
    expected, expected_weights = exact(x, x, return_attention_scores=True)
    layer = LinformerAttention(
        HEADS, 4, projected_length=KEYS, max_length=KEYS, projection_initializer="identity"
    )
    share_projections(layer, exact, x)
    output, weights = layer(x, x, return_attention_scores=True)
    np.testing.assert_allclose(oracle.float64(output), oracle.float64(expected), atol=1e-5)
    np.testing.assert_allclose(oracle.float64(weights), oracle.float64(expected_weights), atol=1e-6)


def test_error_against_exact_attention_falls_as_mixtures_grow():
    """Each mixture is the mean of a segment of a slowly changing sequence."""
    length = 64
    steps = np.random.default_rng(1).normal(size=(8, length, SIZE)).astype("float32")
    x = np.cumsum(steps, axis=1) / 3
    exact = MultiHeadAttention(
        HEADS, 4, kernel_initializer=keras.initializers.GlorotUniform(seed=0)
    )
    expected, errors = oracle.float64(exact(x, x)), []
    for number in (4, 8, 16, 32, 64):
        layer = LinformerAttention(HEADS, 4, projected_length=number, max_length=length)
        share_projections(layer, exact, x)
        means = np.kron(np.eye(number), np.full((1, length // number), number / length))
        layer.key_mixtures.assign(means)
        layer.value_mixtures.assign(means)
        errors.append(np.sqrt(np.mean((oracle.float64(layer(x, x)) - expected) ** 2)))
    # Within a segment, the sequence moves by √length. Halving the length halves a first-order error
    # and would leave √½ of an error proportional to the movement.
    assert (np.array(errors[1:]) < 0.75 * np.array(errors[:-1])).all(), errors
    assert errors[-1] < 1e-5


def test_returned_weights_are_those_before_dropout():
    layer = make(dropout=0.5, seed=1)
    x = random(BATCH, KEYS, SIZE)
    kept, weights = layer(x, x, return_attention_scores=True)
    dropped, same = layer(x, x, return_attention_scores=True, training=True)
    np.testing.assert_array_equal(oracle.float64(same), oracle.float64(weights))
    assert np.abs(oracle.float64(dropped) - oracle.float64(kept)).max() > 0.01


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_works_step_by_step_inside_of_a_recurrent_decoder(order):
    cell = AttentionCell(
        keras.layers.GRUCell(5),
        LinformerAttention(2, 4, projected_length=3, max_length=9),
        order=order,
    )
    mask = np.arange(6) < np.array([[6], [4]])
    _, weights = AttentionRNN(cell)(
        random(2, 3, 4), random(2, 6, 7), memory_mask=mask, return_attention_scores=True
    )
    np.testing.assert_allclose(oracle.float64(weights).sum(-1), 1.0, atol=1e-5)
