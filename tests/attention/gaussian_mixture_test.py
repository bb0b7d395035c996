"""Attention by position: the equations of both papers in float64, alone and in decoders."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import AttentionCell, AttentionRNN, GaussianMixtureAttention
from keras_attention.recurrent_cell import ORDERS
from tests.attention import oracle
from tests.attention.gradients import gradients, weight_gradients

BATCH, STEPS, KEYS, SIZE, VALUE_SIZE = 3, 4, 7, 5, 6
RNG = np.random.default_rng(0)
QUERY = RNG.normal(size=(BATCH, STEPS, SIZE)).astype("float32")
VALUE = RNG.normal(size=(BATCH, KEYS, VALUE_SIZE)).astype("float32")
INPUTS = RNG.normal(size=(BATCH, STEPS, 3)).astype("float32")
STATE = RNG.normal(size=(BATCH, SIZE)).astype("float32")
QUERY_MASK = np.array([[1, 0, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
VALUE_MASK = np.array([[0, 0, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 0, 0], [0] * 7], bool)
FORMS = {
    "normalized": {"units": 4},
    "normalized, without a hidden layer": {"units": None, "initial_width": 0.3},
    "as in the first paper": {"normalized": False, "units": None},
    "as in the first paper, with a hidden layer": {"normalized": False, "units": 4},
}


def make(form, **options):
    """A built layer with random weights."""
    options = {"num_components": 3, "initial_width": 1.5, **FORMS[form], **options}
    layer = GaussianMixtureAttention(**options)
    layer.build(QUERY.shape, VALUE.shape)
    for weight in layer.weights:
        weight.assign(weight + 0.3 * RNG.normal(size=weight.shape))
    return layer


def softplus(x):
    return np.log1p(np.exp(x))


def equation(layer, query, value, query_mask, value_mask):
    """Returns the context and the weights of the docstring, in float64 loops."""
    x = query.astype("float64")
    if layer.units is not None:
        x = np.tanh(x @ oracle.weight(layer, "kernel") + oracle.weight(layer, "bias"))
    x = x @ oracle.weight(layer, "mixture_kernel") + oracle.weight(layer, "mixture_bias")
    weights = np.zeros((*query.shape[:2], value.shape[1]))
    for row in range(len(query)):
        places = np.zeros(layer.num_components)
        seen = np.flatnonzero(value_mask[row])
        for step in np.flatnonzero(query_mask[row]):
            a, d, w = np.split(x[row, step], 3)
            places = places + (softplus(d) if layer.normalized else np.exp(d))
            for number, key in enumerate(seen, start=1):
                if layer.normalized:
                    width = softplus(w) + 0.001
                    parts = np.exp(-((number - places) ** 2) / (2 * width**2))
                    parts *= np.exp(a) / np.exp(a).sum() / (np.sqrt(2 * np.pi) * width)
                else:
                    parts = np.exp(a) * np.exp(-np.exp(w) * (number - places) ** 2)
                weights[row, step, key] = parts.sum()
    return weights @ np.where(value_mask[..., None], value, 0.0), weights


@pytest.mark.parametrize("form", FORMS)
def test_equals_the_equation(form):
    layer = make(form)
    dirty = np.where(VALUE_MASK[..., None], VALUE, np.nan).astype("float32")
    found = layer(
        QUERY, dirty, query_mask=QUERY_MASK, value_mask=VALUE_MASK, return_attention_scores=True
    )
    expected = equation(layer, QUERY, VALUE, QUERY_MASK, VALUE_MASK)
    for tensor, array in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(tensor), array, rtol=1e-6, atol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("form", FORMS)
def test_gradients_equal_finite_differences_of_the_equation(form):
    layer = make(form)
    direction = RNG.normal(size=(BATCH, STEPS, VALUE_SIZE)).astype("float32")

    def call(query, value):
        context = layer(query, value, query_mask=QUERY_MASK, value_mask=VALUE_MASK)
        return context * ops.convert_to_tensor(direction)

    def total(query, value):
        context, _ = equation(layer, query, value, QUERY_MASK, VALUE_MASK)
        return (context * direction).sum()

    found = gradients(call, QUERY, VALUE)
    wanted = oracle.numerical_gradients(total, *(x.astype("float64") for x in (QUERY, VALUE)))
    for gradient, difference in zip(found, wanted, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), difference, rtol=5e-5, atol=1e-5)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("step", "width"), [(1.0, 10.0), (0.25, 2.0), (40.0, 1000.0)])
def test_an_untrained_layer_moves_as_told(step, width, normalized):
    layer = GaussianMixtureAttention(
        2, normalized=normalized, initial_step=step, initial_width=width
    )
    query, value = np.zeros((1, 3, SIZE), "float32"), np.zeros((1, 200, 1), "float32")
    layer.build(query.shape, value.shape)
    places = layer.places_after(query, layer.initial_places(1))
    np.testing.assert_allclose(oracle.float64(places), 3 * step, rtol=1e-5)
    _, weights = layer(query[:, :1], value, return_attention_scores=True)
    logs = np.log(oracle.float64(weights)[0, 0, :20])
    curvature = np.diff(logs, 2).mean()  # of a Gaussian
    np.testing.assert_allclose(curvature, -1 / width**2, rtol=0.02, atol=1e-6)


def test_weights_add_up_to_one_among_many_keys_and_fade_behind_the_last():
    layer = GaussianMixtureAttention(initial_step=10.0, initial_width=3.0)
    query, value = np.zeros((1, 12, SIZE), "float32"), np.zeros((1, 60, 1), "float32")
    _, weights = layer(query, value, return_attention_scores=True)
    sums = oracle.float64(weights)[0].sum(axis=-1)
    np.testing.assert_allclose(sums[1:5], 1.0, atol=2e-3)
    np.testing.assert_allclose(sums[8:], 0.0, atol=1e-6)


def by_hand(layer, encoded):
    """Returns outputs and weights by the equations of `AttentionCell`, with Keras' own cells."""
    cell, attention = layer.cell, layer.cell.attention
    state, fed_back = ops.convert_to_tensor(STATE), ops.zeros((BATCH, cell.output_size))
    queries, outputs, weights = [], [], []
    for now in range(STEPS):
        x = ops.convert_to_tensor(INPUTS[:, now])
        if cell.order == "luong":
            state, _ = cell.cell(ops.concatenate([x, fed_back], -1), [state])
        if cell.order == "conditional":
            state, _ = cell.cell(x, [state])
        queries.append(state)
        context, found = attention(
            ops.stack(queries, 1), encoded, value_mask=VALUE_MASK, return_attention_scores=True
        )
        context = context[:, -1]
        weights.append(found[:, -1])
        if cell.order == "luong":
            fed_back = cell.combine(ops.concatenate([context, state], -1))
            outputs.append(fed_back)
            continue
        if cell.order == "conditional":
            state, _ = cell.second_cell(context, [state])
        else:
            state, _ = cell.cell(ops.concatenate([x, context], -1), [state])
        outputs.append(ops.concatenate([state, context], -1))
    return ops.stack(outputs, 1), ops.stack(weights, 1)


@pytest.mark.few(1)
@pytest.mark.parametrize("order", ORDERS)
def test_decoder_equals_the_layer_with_all_queries(order):
    layer = AttentionRNN(AttentionCell(keras.layers.GRUCell(SIZE), make("normalized"), order=order))
    layer.build(INPUTS.shape, VALUE.shape)
    options = {"initial_state": STATE, "memory_mask": VALUE_MASK}
    outputs, weights = layer(INPUTS, VALUE, return_attention_scores=True, **options)
    for found, expected in zip((outputs, weights), by_hand(layer, VALUE), strict=True):
        np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=1e-5)
    memory = layer.cell.prepare(ops.convert_to_tensor(VALUE), VALUE_MASK)
    states = layer.cell.initial_state(ops.convert_to_tensor(STATE))
    for now in range(STEPS):
        output, states, of_step = layer.cell(INPUTS[:, now], states, memory)
        np.testing.assert_allclose(
            oracle.float64(output), oracle.float64(outputs)[:, now], atol=1e-5
        )
        np.testing.assert_allclose(
            oracle.float64(of_step), oracle.float64(weights)[:, now], atol=1e-5
        )
    assert all(len(state) == BATCH for state in states)  # so that beams can be reordered


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_places_stay_exact_in_half_precision(dtype):
    """After 300 steps of 1.01 keys, a sum in half precision would be off by several keys."""
    attention = GaussianMixtureAttention(1, initial_step=1.01, dtype=dtype)
    cell = AttentionCell(keras.layers.GRUCell(SIZE, dtype=dtype), attention, dtype=dtype)
    layer = AttentionRNN(cell, dtype=dtype)
    inputs, encoded = np.zeros((1, 300, 3), "float32"), np.zeros((1, 400, 2), "float32")
    outputs, weights = layer(inputs, encoded, return_attention_scores=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype.removeprefix("mixed_")
    assert oracle.float64(weights)[0, -1].argmax() == round(300 * 1.01) - 1


def test_every_weight_gets_a_gradient():
    layer = AttentionRNN(AttentionCell(keras.layers.GRUCell(SIZE), make("normalized")))
    layer.build(INPUTS.shape, VALUE.shape)
    for path, gradient in weight_gradients(layer, INPUTS, VALUE).items():
        assert np.abs(oracle.float64(gradient)).max() > 1e-6, path


@pytest.mark.full
def test_a_decoder_reads_texts_longer_than_those_in_training():
    """Each key lasts two steps: trained with 10 keys, it reads 30."""
    keras.utils.set_random_seed(0)
    classes, epochs = 5, 30

    def data(count, keys):
        symbols = RNG.integers(classes, size=(count, keys))
        parity = np.tile(np.eye(2)[np.arange(2 * keys) % 2], (count, 1, 1))
        return [parity, np.eye(classes)[symbols]], np.repeat(symbols, 2, axis=1)

    attention = GaussianMixtureAttention(2, 16, initial_step=0.5, initial_width=0.5)
    inputs, encoded = keras.Input((None, 2)), keras.Input((None, classes))
    outputs = AttentionRNN(AttentionCell(keras.layers.GRUCell(24), attention))(inputs, encoded)
    model = keras.Model([inputs, encoded], keras.layers.Dense(classes)(outputs))
    rate = keras.optimizers.schedules.CosineDecay(0.02, 16 * epochs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    model.fit(*data(256, 10), batch_size=16, epochs=epochs, verbose=0)
    _, accuracy = model.evaluate(*data(64, 30), verbose=0)
    assert accuracy > 0.95
