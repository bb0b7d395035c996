"""AttentionCell and AttentionRNN against a plain loop in float64 NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    Attention,
    AttentionCell,
    AttentionRNN,
    Coverage,
    LinearAttention,
    MultiHeadAttention,
    PerformerAttention,
)
from keras_attention.normalizers import Hard
from keras_attention.recurrent_cell import ORDERS
from tests.attention import oracle
from tests.attention.gradients import gradients, gradients_in_every_form, weight_gradients

BATCH, LENGTH, MEMORY, INPUT_SIZE, MEMORY_SIZE, UNITS = 2, 4, 5, 3, 6, 4
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(BATCH, LENGTH, INPUT_SIZE)).astype("float32")
ENCODED = RNG.normal(size=(BATCH, MEMORY, MEMORY_SIZE)).astype("float32")
STATE = RNG.normal(size=(BATCH, UNITS)).astype("float32")
MASK = np.array([[True, True, True, False, False], [False, True, False, True, True]])

ATTENTIONS = {
    "additive": lambda: "additive",
    "general": lambda: Attention("general"),
    "multi_head": lambda: MultiHeadAttention(2, 3, score="additive", output_dim=5),
    "grouped": lambda: MultiHeadAttention(4, 3, num_key_value_heads=2),
}


def make_layer(cell=keras.layers.GRUCell, attention="additive", order="bahdanau", **arguments):
    """A built `AttentionRNN` whose weights are all random, including biases."""
    attention = ATTENTIONS[attention]() if isinstance(attention, str) else attention
    layer = AttentionRNN(AttentionCell(cell(UNITS), attention, order=order, **arguments))
    layer.build(INPUTS.shape, ENCODED.shape)
    for variable in layer.weights:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def run(layer, inputs=INPUTS, **arguments):
    arguments = {"initial_state": STATE, "memory_mask": MASK, **arguments}
    return layer(inputs, ENCODED, return_attention_scores=True, **arguments)


@pytest.mark.pairwise
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cell", [keras.layers.GRUCell, keras.layers.LSTMCell])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_equals_the_equations(order, cell, attention):
    layer = make_layer(cell, attention, order)
    expected_outputs, expected_weights = oracle.attention_rnn(layer, INPUTS, ENCODED, STATE, MASK)
    outputs, weights = run(layer)
    np.testing.assert_allclose(oracle.float64(outputs), expected_outputs, atol=1e-5)
    np.testing.assert_allclose(oracle.float64(weights), expected_weights, atol=1e-5)


def test_luong_order_takes_the_size_of_its_output():
    layer = make_layer(order="luong", units=7)
    expected, _ = oracle.attention_rnn(layer, INPUTS, ENCODED, STATE, MASK)
    outputs, _ = run(layer)
    assert outputs.shape == (BATCH, LENGTH, 7)
    np.testing.assert_allclose(oracle.float64(outputs), expected, atol=1e-5)


@pytest.mark.few(3)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("attention", ["additive", "multi_head"])
def test_gate_scales_the_context(order, attention):
    layer = make_layer(keras.layers.LSTMCell, attention, order, gated=True)
    expected, expected_weights = oracle.attention_rnn(layer, INPUTS, ENCODED, STATE, MASK)
    outputs, weights = run(layer)
    np.testing.assert_allclose(oracle.float64(outputs), expected, atol=1e-5)
    np.testing.assert_allclose(oracle.float64(weights), expected_weights, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_every_state_of_the_cell_can_be_given(order):
    layer = make_layer(keras.layers.LSTMCell, order=order)
    states = [STATE, STATE[::-1] - 0.5]
    expected, _ = oracle.attention_rnn(layer, INPUTS, ENCODED, states, MASK)
    outputs, _ = run(layer, initial_state=states)
    np.testing.assert_allclose(oracle.float64(outputs), expected, atol=1e-5)
    assert np.abs(expected - oracle.attention_rnn(layer, INPUTS, ENCODED, STATE, MASK)[0]).max() > 0


@pytest.mark.few(2)
@pytest.mark.pairwise
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cell", [keras.layers.GRUCell, keras.layers.LSTMCell])
@pytest.mark.parametrize("attention", ["additive", "multi_head"])
def test_step_by_step_equals_the_whole_sequence(order, cell, attention):
    layer = make_layer(cell, attention, order)
    outputs, weights = run(layer)
    memory = layer.cell.prepare(ops.convert_to_tensor(ENCODED), MASK)
    states = layer.cell.initial_state(ops.convert_to_tensor(STATE))
    for now in range(LENGTH):
        output, states, step_weights = layer.cell(INPUTS[:, now], states, memory)
        np.testing.assert_allclose(
            oracle.float64(output), oracle.float64(outputs[:, now]), atol=1e-6
        )
        np.testing.assert_allclose(
            oracle.float64(step_weights), oracle.float64(weights[..., now, :]), atol=1e-6
        )


@pytest.mark.parametrize("order", ORDERS)
def test_states_have_the_batch_first_so_that_beams_can_be_reordered(order):
    cell = make_layer(keras.layers.LSTMCell, order=order).cell
    memory = cell.prepare(ops.convert_to_tensor(ENCODED), MASK)
    _, states, _ = cell(INPUTS[:, 0], cell.initial_state(STATE), memory)
    expected, _, _ = cell(INPUTS[:, 1], states, memory)
    swapped = [ops.flip(state, axis=0) for state in states]
    memory = type(memory)(*(ops.flip(each, axis=0) for each in memory))
    output, _, _ = cell(INPUTS[::-1, 1], swapped, memory)
    np.testing.assert_allclose(oracle.float64(output)[::-1], oracle.float64(expected), atol=1e-6)


def test_weights_sum_to_one_and_hidden_memory_weighs_nothing():
    _, weights = run(make_layer())
    weights = oracle.float64(weights)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(weights[~np.broadcast_to(MASK[:, None], weights.shape)], 0.0)


def test_hidden_memory_has_no_effect_even_if_it_is_nan():
    layer = make_layer()
    dirty = np.where(MASK[:, :, None], ENCODED, np.nan).astype("float32")

    def call(memory):
        return layer(INPUTS, memory, memory_mask=MASK)

    np.testing.assert_array_equal(oracle.float64(call(dirty)), oracle.float64(call(ENCODED)))
    pair = (gradients(call, memory, forms=["graph"]) for memory in (dirty, ENCODED))
    (spoiled,), (expected,) = pair
    np.testing.assert_array_equal(oracle.float64(spoiled), oracle.float64(expected))


def test_implicit_mask_of_the_memory_counts_together_with_the_explicit_one():
    layer = make_layer()
    implicit = np.array([[True, True, True, True, False]] * BATCH)
    memory = keras.layers.Masking(0.0)(np.where(implicit[:, :, None], ENCODED, 0.0))
    _, weights = layer(INPUTS, memory, memory_mask=MASK, return_attention_scores=True)
    both = np.broadcast_to((MASK & implicit)[:, None], weights.shape)
    np.testing.assert_array_equal(oracle.float64(weights) > 0, both)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        {"attention": "multi_head", "order": "luong", "alignment": "forward"},
        {"cell": keras.layers.LSTMCell, "coverage": Coverage(2, 3, "both")},
    ],
)
def test_padding_of_the_inputs_does_not_change_the_state(options):
    layer = make_layer(**options)
    visible = np.array([[True, False, True, True], [False, True, True, False]])
    padded = np.where(visible[:, :, None], INPUTS, np.nan).astype("float32")
    found, _ = run(layer, inputs=padded, inputs_mask=visible)
    implicit = keras.layers.Masking(9.0)(np.where(visible[:, :, None], INPUTS, 9.0))
    by_keras, _ = run(layer, inputs=implicit)
    for row, shown in enumerate(visible):
        alone = {"initial_state": STATE[row : row + 1], "memory_mask": MASK[row : row + 1]}
        expected = layer(INPUTS[row : row + 1, shown], ENCODED[row : row + 1], **alone)
        for outputs in (found, by_keras):
            part = oracle.float64(outputs)[row, shown]
            np.testing.assert_allclose(part, oracle.float64(expected)[0], atol=1e-6)


def test_initial_state_is_zero_by_default():
    layer = make_layer(keras.layers.LSTMCell)
    given, _ = run(layer, initial_state=np.zeros_like(STATE))
    default, _ = run(layer, initial_state=None)
    np.testing.assert_array_equal(oracle.float64(default), oracle.float64(given))


@pytest.mark.parametrize("order", ORDERS)
def test_every_weight_gets_a_gradient(order):
    layer = make_layer(keras.layers.LSTMCell, "multi_head", order)
    for path, gradient in weight_gradients(layer, INPUTS, ENCODED, memory_mask=MASK).items():
        assert np.abs(oracle.float64(gradient)).max() > (0 if "key/bias" in path else 1e-6), path


# XLA rejects gradients of a loop whose length is not static in TensorFlow.
@pytest.mark.full
@pytest.mark.parametrize("order", ORDERS)
def test_gradients_equal_finite_differences_of_the_equations(order):
    layer = make_layer(order=order)
    arrays = [INPUTS[:, :2], ENCODED, STATE]

    def call(inputs, memory, state):
        return layer(inputs, memory, initial_state=state, memory_mask=MASK)

    def expected_total(inputs, memory, state):
        return oracle.attention_rnn(layer, inputs, memory, state, MASK)[0].sum()

    (found,) = gradients_in_every_form({order: (call, *arrays)}, forms=["graph"]).values()
    expected = oracle.numerical_gradients(expected_total, *(a.astype("float64") for a in arrays))
    for gradient, difference in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), difference, atol=2e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("order", ORDERS)
def test_half_precision_is_near_the_equations(dtype, order):
    cell = keras.layers.LSTMCell(UNITS, dtype=dtype)
    layer = AttentionRNN(AttentionCell(cell, order=order, dtype=dtype), dtype=dtype)
    outputs, weights = run(layer)
    expected, expected_weights = oracle.attention_rnn(layer, INPUTS, ENCODED, STATE, MASK)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype.removeprefix("mixed_")
    tolerance = 5e-3 if dtype == "mixed_float16" else 5e-2
    np.testing.assert_allclose(oracle.float64(outputs), expected, atol=tolerance)
    np.testing.assert_allclose(oracle.float64(weights), expected_weights, atol=tolerance)


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [LinearAttention, PerformerAttention])
def test_linear_attention_in_half_precision_is_near_float32(make):
    layers = {}
    for dtype in ("float32", "mixed_float16"):
        cell = keras.layers.GRUCell(UNITS, dtype=dtype)
        cell = AttentionCell(cell, make(2, 3, dtype=dtype), dtype=dtype)
        layers[dtype] = AttentionRNN(cell, dtype=dtype)
        layers[dtype].build(INPUTS.shape, ENCODED.shape)
    layers["mixed_float16"].set_weights(layers["float32"].get_weights())
    expected, found = (map(oracle.float64, run(layer)) for layer in layers.values())
    for half, single in zip(found, expected, strict=True):
        np.testing.assert_allclose(half, single, atol=1e-2)


@pytest.mark.few(5)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_output_shape_is_that_of_the_output(order, attention):
    attention = ATTENTIONS[attention]()
    layer = AttentionRNN(AttentionCell(keras.layers.LSTMCell(UNITS), attention, order=order))
    found = layer.compute_output_shape((None, *INPUTS.shape[1:]), (None, None, MEMORY_SIZE))
    assert found == (None, *layer(INPUTS, ENCODED).shape[1:])


@pytest.mark.parametrize("shape", [(0, LENGTH, MEMORY), (BATCH, 0, MEMORY), (BATCH, 1, 1)])
def test_axes_may_be_empty_or_one(shape):
    batch, length, memory = shape
    outputs, weights = make_layer()(
        np.ones((batch, length, INPUT_SIZE)),
        np.ones((batch, memory, MEMORY_SIZE)),
        memory_mask=np.ones((batch, memory), bool),
        return_attention_scores=True,
    )
    assert outputs.shape == (batch, length, UNITS + MEMORY_SIZE)
    assert weights.shape == (batch, length, memory)


@pytest.mark.few(1)
@pytest.mark.parametrize("dropouts", [{"dropout": 0.5}, {"recurrent_dropout": 0.5}])
@pytest.mark.parametrize("cell", [keras.layers.GRUCell, keras.layers.LSTMCell])
def test_dropout_of_the_cell_is_new_for_every_sequence(cell, dropouts):
    layer = make_layer(lambda units: cell(units, seed=0, **dropouts))
    first, second = (run(layer, training=True)[0] for _ in range(2))
    assert np.abs(oracle.float64(first - second)).max() > 0.01
    smaller_batch = layer(INPUTS[:1], ENCODED[:1], training=True)
    assert smaller_batch.shape[0] == 1
    still, again = (run(layer)[0] for _ in range(2))
    np.testing.assert_array_equal(oracle.float64(still), oracle.float64(again))


def test_inference_draws_no_dropout_of_the_cell():
    # Keras' SimpleRNNCell would, and JAX could not assign the state of the seed inside a scan.
    layer = make_layer(
        lambda units: keras.layers.SimpleRNNCell(units, dropout=0.5, recurrent_dropout=0.5, seed=0)
    )
    run(layer)
    state = layer.cell.cell.seed_generator.state
    before = ops.convert_to_numpy(state)
    outputs, _ = run(layer)
    np.testing.assert_array_equal(ops.convert_to_numpy(state), before)
    dropped, _ = run(layer, training=True)
    assert np.abs(oracle.float64(outputs - dropped)).max() > 0.01


def test_dropout_of_the_cell_is_the_same_in_every_step_of_a_sequence():
    cell = make_layer(lambda units: keras.layers.GRUCell(units, dropout=0.5, seed=0)).cell
    memory = cell.prepare(ops.convert_to_tensor(ENCODED))
    state = ops.convert_to_tensor(STATE)
    states = cell.initial_state(state)
    first, same = (cell(INPUTS[:, 0], states, memory, training=True)[0] for _ in range(2))
    np.testing.assert_array_equal(oracle.float64(first), oracle.float64(same))
    states = cell.initial_state(state)
    other, _, _ = cell(INPUTS[:, 0], states, memory, training=True)
    assert np.abs(oracle.float64(first - other)).max() > 0.01


def test_dropout_of_the_attention_changes_outputs_but_not_the_first_weights():
    layer = make_layer(attention=Attention("additive", dropout=0.5, seed=0))
    outputs, weights = run(layer)
    dropped, weights_in_training = run(layer, training=True)
    assert np.abs(oracle.float64(outputs - dropped)).max() > 0.01
    np.testing.assert_allclose(oracle.float64(weights_in_training).sum(-1), 1.0, atol=1e-6)
    np.testing.assert_allclose(
        oracle.float64(weights_in_training[:, 0]), oracle.float64(weights[:, 0]), atol=1e-6
    )


RANDOM = [{"dropout": 0.5}, {"normalizer": Hard(stochastic=True, seed=0)}]


@pytest.mark.parametrize("random", RANDOM, ids=["dropout", "hard"])
def test_what_an_attention_draws_is_new_in_every_step_and_call(random):
    layer = make_layer(attention=Attention("additive", seed=0, **random))
    for weight in layer.cell.attention.weights:
        weight.assign(np.zeros(weight.shape))  # contexts differ only by random draws
    first, second = (
        oracle.float64(run(layer, memory_mask=None, training=True)[0])[..., UNITS:]
        for _ in range(2)
    )
    assert np.ptp(first, axis=1).max() > 0.1
    assert np.abs(first - second).max() > 0.1


@pytest.mark.full  # a captioner also tests this
@pytest.mark.few(1)
@pytest.mark.parametrize("random", RANDOM, ids=["dropout", "hard"])
def test_learns_with_an_attention_that_draws(random):
    layer = make_layer(attention=Attention("additive", seed=0, **random))
    inputs, encoded = keras.Input(INPUTS.shape[1:]), keras.Input(ENCODED.shape[1:])
    model = keras.Model([inputs, encoded], keras.layers.Dense(1)(layer(inputs, encoded)))
    targets = 3.0 * np.ones((BATCH, LENGTH, 1))
    model.compile(keras.optimizers.SGD(0.0), "mean_squared_error", run_eagerly=True)
    still = model.fit([INPUTS, ENCODED], targets, epochs=3, verbose=0).history["loss"]
    assert len(set(still)) == 3  # new draws in every training step
    model.compile(keras.optimizers.Adam(0.05), "mean_squared_error")
    model.fit([INPUTS, ENCODED], targets, epochs=20, verbose=0)
    after = model.evaluate([INPUTS, ENCODED], targets, verbose=0)
    assert after < 0.5 * np.mean(still)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="is about XLA in TensorFlow")
def test_trains_without_xla_which_cannot_differentiate_a_scan():
    layer = make_layer()
    inputs, encoded = keras.Input((None, INPUT_SIZE)), keras.Input((None, MEMORY_SIZE))
    model = keras.Model([inputs, encoded], layer(inputs, encoded))
    with pytest.warns(UserWarning, match="jit_compile=False"):
        model.compile("sgd", "mse", jit_compile=True)
    before = [oracle.float64(weight) for weight in layer.trainable_weights]
    model.fit([INPUTS, ENCODED], np.ones((BATCH, LENGTH, UNITS + MEMORY_SIZE)), verbose=0)
    for weight, old in zip(layer.trainable_weights, before, strict=True):
        assert np.abs(oracle.float64(weight) - old).max() > 0.0


def test_one_cell_may_serve_two_layers():
    layer = make_layer()
    shared = AttentionRNN(layer.cell)
    np.testing.assert_array_equal(oracle.float64(run(shared)[0]), oracle.float64(run(layer)[0]))


@pytest.mark.filterwarnings("error::UserWarning")
def test_a_masked_embedding_of_the_previous_token_is_no_cause_for_a_warning():
    cell = make_layer().cell
    embed = keras.layers.Embedding(9, INPUT_SIZE, mask_zero=True)
    memory = cell.prepare(ops.convert_to_tensor(ENCODED))
    output, _, _ = cell(embed(np.array([1, 0])), cell.initial_state(STATE), memory)
    assert output.shape == (BATCH, UNITS + MEMORY_SIZE)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="is about tf.function")
@pytest.mark.few(1)  # `symbolic_test` always makes graphs of the other orders
@pytest.mark.parametrize("order", ["luong", "conditional", "bahdanau"])
def test_traces_once_for_all_lengths(order):
    import tensorflow as tf

    layer = make_layer(keras.layers.LSTMCell, "multi_head", order)

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None, INPUT_SIZE)),
            tf.TensorSpec((None, None, MEMORY_SIZE)),
            tf.TensorSpec((None, None), tf.bool),
        ]
    )
    def compiled(inputs, memory, mask):
        return layer(inputs, memory, memory_mask=mask, return_attention_scores=True)

    for length, memory in [(LENGTH, MEMORY), (1, 2), (2, 1)]:
        inputs, encoded, mask = INPUTS[:, :length], ENCODED[:, :memory], MASK[:, :memory]
        traced = compiled(inputs, encoded, mask)
        eager = layer(inputs, encoded, memory_mask=mask, return_attention_scores=True)
        for found, expected in zip(traced, eager, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-6)
    assert compiled.experimental_get_tracing_count() == 1
