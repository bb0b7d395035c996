"""Alignments against the loops of their papers in float64 NumPy, alone and in decoders."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    Attention,
    AttentionCell,
    AttentionRNN,
    MultiHeadAttention,
    alignments,
    scores,
)
from keras_attention.alignments._passing import passed_on
from keras_attention.recurrent_cell import ORDERS
from tests.attention import alignment_equations, oracle
from tests.attention.alignment_equations import Following
from tests.attention.compiled import compiled
from tests.attention.gradients import gradients, weight_gradients

BATCH, STEPS, KEYS, INPUT_SIZE, KEY_SIZE, UNITS = 3, 4, 7, 3, 5, 4
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(BATCH, STEPS, INPUT_SIZE)).astype("float32")
ENCODED = RNG.normal(size=(BATCH, KEYS, KEY_SIZE)).astype("float32")
STATE = RNG.normal(size=(BATCH, UNITS)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1, 0, 0], [0, 1, 0, 0, 1, 1, 1], [1] * 7], bool)
NOTHING = np.array([[True], [True], [False]])  # hides all of the last row
ALIGNMENTS = {
    "forward": alignments.Forward,
    "monotonic": lambda: alignments.Monotonic(noise=0.0, initial_bias=-0.5),
    "stepwise": lambda: alignments.Stepwise(noise=0.0, initial_bias=0.5),
}
ATTENTIONS = {
    "additive": lambda: Attention(scores.Additive(normalized=True)),
    "general": lambda: "general",
    "several heads": lambda: MultiHeadAttention(2, 3, score="additive"),
    "shared keys": lambda: MultiHeadAttention(4, 3, num_key_value_heads=2),
}


def make_layer(alignment, attention="additive", order="bahdanau", dtype=None):
    """A built `AttentionRNN` whose weights are all random, including biases."""
    alignment = ALIGNMENTS[alignment]() if isinstance(alignment, str) else alignment
    attention = ATTENTIONS[attention]() if isinstance(attention, str) else attention
    cell = AttentionCell(
        keras.layers.GRUCell(UNITS, dtype=dtype),
        attention,
        order=order,
        alignment=alignment,
        dtype=dtype,
    )
    layer = AttentionRNN(cell, dtype=dtype)
    layer.build(INPUTS.shape, ENCODED.shape)
    for weight in layer.weights:
        weight.assign(weight + 0.3 * RNG.normal(size=weight.shape))
    return layer


def run(layer, inputs=INPUTS, memory=ENCODED, **arguments):
    arguments = {"initial_state": STATE, "memory_mask": MASK, **arguments}
    return layer(inputs, memory, return_attention_scores=True, **arguments)


def expected(layer, training, inputs=INPUTS, memory=ENCODED, state=STATE, mask=MASK):
    follow = Following(layer.cell.alignment, training)
    return oracle.attention_rnn(layer, inputs, memory, state, mask, normalize=follow)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ALIGNMENTS)
def test_equals_the_equations_of_the_paper(name, training):
    alignment = ALIGNMENTS[name]()
    mask = (MASK & NOTHING)[:, None]
    weights = alignment.initial_weights(ops.zeros((BATCH, 2, KEYS)), ops.convert_to_tensor(mask))
    follow = Following(alignment, training)
    for _ in range(3):
        numbers = RNG.normal(size=(BATCH, 2, 1, KEYS)).astype("float32")
        numbers[1, 1] *= 50.0  # weights that vanish in float32
        dirty = np.where(mask[:, :, None], numbers, np.nan)
        weights = alignment(dirty, weights[:, :, None], mask[:, :, None], training=training)
        visible = np.broadcast_to(mask[:, :, None], numbers.shape)
        for head in range(2):
            alone = follow(numbers[:, head], visible[:, head], head=head)
            found = oracle.float64(weights[:, head])
            np.testing.assert_allclose(found, alone, atol=1e-6)
            np.testing.assert_array_equal(found[~visible[:, head]], 0.0)
        weights = weights[:, :, 0]


@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
def test_monotonic_is_exact_for_a_thousand_keys(scale):
    numbers = scale * RNG.normal(size=(3, 1000))
    previous = np.stack([RNG.dirichlet(np.ones(1000)), np.eye(1000)[0], np.eye(1000)[500]])
    alignment = alignments.Monotonic(noise=0.0, initial_bias=0.0)
    numbers, previous = numbers.astype("float32"), previous.astype("float32")
    found = oracle.float64(alignment(numbers, previous, training=True))
    stop = 1 / (1 + np.exp(-numbers.astype("float64")))
    rows = zip(stop, previous.astype("float64"), strict=True)
    wanted = np.stack([alignment_equations.monotonic_by_recursion(*row) for row in rows])
    counts = wanted > 1e-35  # below, float32 underflows
    np.testing.assert_allclose(found[counts], wanted[counts], rtol=2e-5)
    np.testing.assert_allclose(found[~counts], 0.0, atol=1e-35)


def test_the_two_equations_of_monotonic_attention_are_the_same():
    stop, previous = RNG.random(9), RNG.dirichlet(np.ones(9))
    found = alignment_equations.monotonic_by_recursion(stop, previous)
    np.testing.assert_allclose(found, alignment_equations.monotonic(stop, previous), rtol=1e-12)


@pytest.mark.pairwise
@pytest.mark.few(2)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_decoder_equals_the_equations(alignment, attention, order, training):
    layer = make_layer(alignment, attention, order)
    found = run(layer, training=training)
    for tensor, array in zip(found, expected(layer, training), strict=True):
        np.testing.assert_allclose(oracle.float64(tensor), array, atol=1e-5)


@pytest.mark.pairwise
@pytest.mark.few(1)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_step_by_step_equals_the_whole_sequence(alignment, attention, order):
    layer = make_layer(alignment, attention, order)
    outputs, weights = map(oracle.float64, run(layer))
    memory = layer.cell.prepare(ops.convert_to_tensor(ENCODED), MASK)
    states = layer.cell.initial_state(ops.convert_to_tensor(STATE), memory)
    for now in range(STEPS):
        output, states, of_step = layer.cell(INPUTS[:, now], states, memory)
        np.testing.assert_allclose(oracle.float64(output), outputs[:, now], atol=1e-5)
        np.testing.assert_allclose(oracle.float64(of_step), weights[..., now, :], atol=1e-5)
    assert all(len(state) == BATCH for state in states)  # so that beams can be reordered


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ALIGNMENTS)
def test_gradients_equal_finite_differences_of_the_equations(name):
    alignment, mask = ALIGNMENTS[name](), (MASK & NOTHING)[:, None]
    numbers = RNG.normal(size=(3, BATCH, 1, KEYS)).astype("float32")
    direction = RNG.normal(size=numbers.shape).astype("float32")
    alignment.build(numbers[0].shape)

    def call(numbers):
        seen, found = ops.convert_to_tensor(mask), []
        weights = alignment.initial_weights(ops.zeros((BATCH, 1, KEYS)), seen)
        for step in range(3):
            weights = alignment(numbers[step], weights, seen, training=True)
            found.append(weights)
        return ops.stack(found) * ops.convert_to_tensor(direction)

    def total(numbers):
        follow = Following(alignment, True)
        return sum(
            (follow(each, mask) * to).sum() for each, to in zip(numbers, direction, strict=True)
        )

    (found,) = gradients(call, numbers)
    (wanted,) = oracle.numerical_gradients(total, numbers.astype("float64"))
    np.testing.assert_allclose(oracle.float64(found), wanted, atol=1e-5)
    np.testing.assert_array_equal(oracle.float64(found)[:, ~mask], 0.0)


@pytest.mark.few(1)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_gradients_flow_through_the_steps_of_a_decoder(alignment):
    layer = make_layer(alignment)
    rows = slice(1, 3)
    arrays = [INPUTS[rows, :2], ENCODED[rows], STATE[rows]]
    mask = (MASK & NOTHING)[rows]
    direction = RNG.normal(size=(2, 2, KEYS)).astype("float32")

    def call(inputs, memory, state):
        _, weights = run(
            layer, inputs, memory, initial_state=state, memory_mask=mask, training=True
        )
        return weights * ops.convert_to_tensor(direction)

    def total(inputs, memory, state):
        return (expected(layer, True, inputs, memory, state, mask)[1] * direction).sum()

    found = gradients(call, *arrays, forms=["graph"])
    wanted = oracle.numerical_gradients(total, *(each.astype("float64") for each in arrays))
    for gradient, difference in zip(found, wanted, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), difference, atol=1e-5)
        np.testing.assert_array_equal(oracle.float64(gradient)[1], 0.0)  # sees nothing


@pytest.mark.few(1)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_padding_has_no_effect_even_if_it_is_nan(alignment):
    layer, mask = make_layer(alignment), MASK & NOTHING
    dirty = np.where(mask[:, :, None], ENCODED, np.nan).astype("float32")
    outputs, weights = run(layer, memory=dirty, memory_mask=mask, training=True)
    hidden = ~np.broadcast_to(mask[:, None], weights.shape)
    np.testing.assert_array_equal(oracle.float64(weights)[hidden], 0.0)
    np.testing.assert_array_equal(oracle.float64(outputs)[2, :, UNITS:], 0.0)

    def call(memory):
        return run(layer, memory=memory, memory_mask=mask, training=True)[0]

    (gradient,) = gradients(call, dirty, forms=["graph"])
    np.testing.assert_array_equal(oracle.float64(gradient)[~mask], 0.0)
    assert np.isfinite(oracle.float64(gradient)).all()


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_half_precision_is_near_the_equations(alignment, dtype):
    layer = make_layer(alignment, Attention("additive", dtype=dtype), dtype=dtype)
    outputs, weights = run(layer, training=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    tolerance = 1e-2 if dtype == "mixed_float16" else 5e-2
    for found, array in zip((outputs, weights), expected(layer, True), strict=True):
        np.testing.assert_allclose(oracle.float64(found), array, atol=tolerance)


@pytest.mark.few(1)
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_every_weight_gets_a_gradient(alignment, attention):
    layer = make_layer(alignment, attention)
    found = weight_gradients(layer, INPUTS, ENCODED, memory_mask=MASK, training=True)
    for path, gradient in found.items():
        # A key bias cancels in a softmax of dot products.
        assert np.abs(oracle.float64(gradient)).max() > (0 if "key/bias" in path else 1e-6), path


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [alignments.Monotonic, alignments.Stepwise])
def test_noise_is_new_in_every_step_and_only_in_training(kind):
    layer = make_layer(kind(noise=2.0, seed=0))
    for weight in layer.cell.attention.weights:
        weight.assign(np.zeros(weight.shape))  # equal scores
    still, again = (oracle.float64(run(layer)[1]) for _ in range(2))
    np.testing.assert_array_equal(still, again)
    assert set(np.unique(still)) <= {0.0, 1.0}
    first, second = (oracle.float64(run(layer, training=True)[1]) for _ in range(2))
    assert np.abs(first - second).max() > 0.1
    assert (first.sum(-1) < 1 + 1e-6).all()
    ratios = first[:, 1:, :2].sum(-1) / first[:, :-1, :2].sum(-1)
    assert np.ptp(ratios[np.isfinite(ratios)]) > 0.01


@pytest.mark.few(1)
@pytest.mark.parametrize("training", [True, False])
def test_compiled_alignments_equal_others(training):
    numbers = RNG.normal(size=(BATCH, KEYS)).astype("float32")
    previous = RNG.dirichlet(np.ones(KEYS), BATCH).astype("float32")
    layers = [make() for make in ALIGNMENTS.values()]

    def weights(numbers, previous):
        return [layer(numbers, previous, MASK, training=training) for layer in layers]

    wanted = weights(numbers, previous)
    for found, each in zip(compiled(weights)(numbers, previous), wanted, strict=True):
        np.testing.assert_allclose(oracle.float64(found), oracle.float64(each), atol=1e-6)


@pytest.mark.parametrize("keys", [0, 1, 2, 5, 8])
def test_number_of_keys_may_be_any(keys):
    x, fractions, direction = RNG.random((3, 2, keys)).astype("float32")

    def total(x, fractions):
        rows = []
        for key in range(keys):
            before = fractions[:, key - 1] * rows[-1] if rows else 0.0
            rows.append(x[:, key] + before)
        return (np.stack(rows, axis=-1) * direction).sum() if rows else 0.0

    def call(x, fractions):
        return passed_on(x, fractions) * ops.convert_to_tensor(direction)

    found = gradients(call, x, fractions)
    arrays = x.astype("float64"), fractions.astype("float64")
    wanted = oracle.numerical_gradients(total, *arrays)
    for gradient, difference in zip(found, wanted, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), difference, atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others know all lengths")
def test_number_of_keys_may_be_unknown():
    import tensorflow as tf

    def total_and_gradients(x, fractions):
        with tf.GradientTape() as tape:
            tape.watch([x, fractions])
            total = passed_on(x, fractions)
        return total, *tape.gradient(total, [x, fractions])

    of_any_length = tf.function(total_and_gradients, [tf.TensorSpec((2, None))] * 2)
    for keys in (0, 1, 6):
        inputs = [tf.constant(each, "float32") for each in RNG.random((2, 2, keys))]
        pairs = zip(of_any_length(*inputs), total_and_gradients(*inputs), strict=True)
        for found, known in pairs:
            np.testing.assert_allclose(found, known, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_works_with_every_score(alignment, score):
    layer = make_layer(alignment, MultiHeadAttention(2, KEY_SIZE, score=score))
    found = run(layer, training=True)
    for tensor, array in zip(found, expected(layer, True), strict=True):
        np.testing.assert_allclose(oracle.float64(tensor), array, atol=1e-5)


@pytest.mark.full
def test_a_decoder_learns_to_read_aloud():
    """Each key lasts two steps: trained with probabilities, it then decides step by step."""
    keys, steps, classes = 6, 12, 5
    symbols = RNG.integers(classes, size=(64, keys))
    targets = np.repeat(symbols, 2, axis=1)
    cell = AttentionCell(keras.layers.GRUCell(24), alignment=alignments.Stepwise(seed=1))
    inputs, encoded = keras.Input((steps, 2)), keras.Input((keys, classes))
    outputs = AttentionRNN(cell)(inputs, encoded)
    model = keras.Model([inputs, encoded], keras.layers.Dense(classes)(outputs))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
    parity = np.tile(np.eye(2)[np.arange(steps) % 2], (64, 1, 1))
    model.fit([parity, np.eye(classes)[symbols]], targets, batch_size=16, epochs=60, verbose=0)
    _, accuracy = model.evaluate([parity, np.eye(classes)[symbols]], targets, verbose=0)
    assert accuracy > 0.9
