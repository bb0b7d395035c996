"""Coverage against plain loops in float64 NumPy, one for each paper, and the coverage loss."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    AttentionCell,
    AttentionRNN,
    Coverage,
    MultiHeadAttention,
    coverage_loss,
)
from keras_attention.recurrent_cell import ORDERS
from tests.attention import oracle
from tests.attention.alignment_equations import Following
from tests.attention.compiled import compiled
from tests.attention.gradients import gradients, weight_gradients

BATCH, STEPS, KEYS, INPUT_SIZE, KEY_SIZE, UNITS = 2, 4, 6, 3, 5, 4
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(BATCH, STEPS, INPUT_SIZE)).astype("float32")
ENCODED = RNG.normal(size=(BATCH, KEYS, KEY_SIZE)).astype("float32")
STATE = RNG.normal(size=(BATCH, UNITS)).astype("float32")
MASK = np.array([[True, True, True, True, False, False], [False, True, False, True, True, True]])
COVERAGES = {
    "Chorowski": {"filters": 3, "kernel_size": 4, "history": "previous"},
    "Tacotron 2": {"filters": 3, "kernel_size": 5},
    "both": {"filters": 2, "kernel_size": 3, "history": "both"},
    "See": {},
}
ATTENTIONS = {
    "additive": lambda: "additive",
    "cosine": lambda: MultiHeadAttention(1, UNITS, score="cosine"),
    "several heads": lambda: MultiHeadAttention(2, 3, score="additive"),
    "shared keys": lambda: MultiHeadAttention(4, 3, num_key_value_heads=2),
}


def make_layer(attention="additive", dtype=None, order="bahdanau", alignment=None, **coverage):
    """A built `AttentionRNN` whose weights are all random, including biases."""
    cell = AttentionCell(
        keras.layers.GRUCell(UNITS, dtype=dtype),
        attention,
        order=order,
        coverage=Coverage(**coverage, dtype=dtype),
        alignment=alignment,
        dtype=dtype,
    )
    layer = AttentionRNN(cell, dtype=dtype)
    layer.build(INPUTS.shape, ENCODED.shape)
    for weight in layer.weights:
        weight.assign(weight + 0.3 * RNG.normal(size=weight.shape))
    for weight in cell.coverage.weights:
        weight.assign(2.0 * RNG.normal(size=weight.shape))
    return layer


def run(layer, inputs=INPUTS, memory=ENCODED, **arguments):
    arguments = {"initial_state": STATE, "memory_mask": MASK, **arguments}
    return layer(inputs, memory, return_attention_scores=True, **arguments)


def weights_of(part, *names):
    return [oracle.float64(getattr(part, name)) for name in names]


def convolved(weights, filters):
    """Returns `filters * weights`, `(batch, keys, number of filters)`."""
    size = len(filters)
    ends = (0, 0), ((size - 1) // 2, size // 2)
    rows = [[np.correlate(row, one, "valid") for one in filters.T] for row in np.pad(weights, ends)]
    return np.swapaxes(rows, 1, 2)


def chorowski(coverage, previous, total):
    filters, projection = weights_of(coverage, "convolution", "projection")
    return convolved(previous, filters) @ projection


def tacotron_2(coverage, previous, total):
    filters, projection = weights_of(coverage, "convolution", "projection")
    return convolved(total, filters) @ projection


def both(coverage, previous, total):
    filters, projection = weights_of(coverage, "convolution", "projection")
    of_previous, of_total = np.split(filters, 2)
    return (convolved(previous, of_previous) + convolved(total, of_total)) @ projection


def see(coverage, previous, total):
    (w_c,) = weights_of(coverage, "projection")
    return total[:, :, None] * w_c[0]


PAPERS = {"Chorowski": chorowski, "Tacotron 2": tacotron_2, "both": both, "See": see}


def softmax(scores, mask):
    scores = np.where(mask, np.exp(scores), 0.0)
    return scores / scores.sum(-1, keepdims=True)


def loop(layer, paper, inputs=INPUTS, memory=ENCODED, state=STATE, mask=MASK, normalize=softmax):
    """Returns outputs and weights of a layer with the additive score, computed step by step."""
    cell, (move, _) = layer.cell, oracle.CELL_STEPS["GRUCell"]
    names = "query_kernel", "key_kernel", "scale", "bias"
    query_kernel, key_kernel, scale, bias = weights_of(cell.attention.score, *names)
    previous = total = np.zeros(memory.shape[:2])
    outputs, history = [], []
    for x in inputs.swapaxes(0, 1):
        key = memory @ key_kernel + bias + PAPERS[paper](cell.coverage, previous, total)
        scores = np.tanh((state @ query_kernel)[:, None] + key) @ scale[0]
        previous = normalize(scores, mask)
        total = total + previous
        context = np.einsum("bk,bkd->bd", previous, memory)
        state, _ = move(cell.cell, np.concatenate([x, context], axis=-1), [state])
        outputs.append(np.concatenate([state, context], axis=-1))
        history.append(previous)
    return np.stack(outputs, 1), np.stack(history, 1)


@pytest.mark.few(2)
@pytest.mark.parametrize("paper", PAPERS)
def test_equals_the_equations_of_the_paper(paper):
    layer = make_layer(**COVERAGES[paper])
    for found, expected in zip(run(layer), loop(layer, paper), strict=True):
        np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("alignment", ["forward", "monotonic", "stepwise"])
def test_works_together_with_an_alignment(alignment):
    layer = make_layer(alignment=alignment, **COVERAGES["both"])
    expected = loop(layer, "both", normalize=Following(layer.cell.alignment, training=False))
    for found, wanted in zip(run(layer), expected, strict=True):
        np.testing.assert_allclose(oracle.float64(found), wanted, atol=1e-5)


def test_each_head_has_a_history_and_filters_of_its_own():
    layer = make_layer(ATTENTIONS["shared keys"](), **COVERAGES["both"])
    cell, (move, _) = layer.cell, oracle.CELL_STEPS["GRUCell"]
    attention, size = cell.attention, 3

    def heads(projection, x):
        x = x @ oracle.float64(projection.kernel) + oracle.float64(projection.bias)
        x = np.stack(np.split(x, x.shape[-1] // size, axis=-1))
        return np.repeat(x, 4 // len(x), axis=0)  # (heads, batch, length, size)

    keys, values = (
        heads(each, ENCODED) for each in (attention.key_projection, attention.value_projection)
    )
    filters, projections = weights_of(cell.coverage, "convolution", "projection")
    state, previous, total = STATE, *np.zeros((2, 4, BATCH, KEYS))
    expected = []
    for x in INPUTS.swapaxes(0, 1):
        features = [
            convolved(previous[head], filters[head, :3]) + convolved(total[head], filters[head, 3:])
            for head in range(4)
        ]
        key = keys + np.stack(features) @ projections[:, None]
        query = heads(attention.query_projection, state[:, None])
        previous = softmax((query * key).sum(-1) / np.sqrt(size), MASK)
        total = total + previous
        context = np.concatenate(list(np.einsum("hbk,hbkd->hbd", previous, values)), axis=-1)
        output = attention.output_projection
        context = context @ oracle.float64(output.kernel) + oracle.float64(output.bias)
        state, _ = move(cell.cell, np.concatenate([x, context], axis=-1), [state])
        expected.append(previous)
    expected = np.moveaxis(expected, 0, 2).swapaxes(0, 1)  # (batch, heads, steps, keys)
    np.testing.assert_allclose(oracle.float64(run(layer)[1]), expected, atol=1e-5)


@pytest.mark.pairwise
@pytest.mark.few(1)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_step_by_step_equals_the_whole_sequence(order, coverage, attention):
    layer = make_layer(ATTENTIONS[attention](), order=order, **COVERAGES[coverage])
    outputs, weights = map(oracle.float64, run(layer))
    memory = layer.cell.prepare(ops.convert_to_tensor(ENCODED), MASK)
    states = layer.cell.initial_state(ops.convert_to_tensor(STATE), memory)
    for now in range(STEPS):
        output, states, of_step = layer.cell(INPUTS[:, now], states, memory)
        np.testing.assert_allclose(oracle.float64(output), outputs[:, now], atol=1e-5)
        np.testing.assert_allclose(oracle.float64(of_step), weights[..., now, :], atol=1e-5)
    assert all(len(state) == BATCH for state in states)  # so that beams can be reordered


def test_weights_of_padding_stay_zero_even_if_it_is_nan():
    layer = make_layer(**COVERAGES["both"])
    mask = MASK & [[True], [False]]  # the second row has nothing to attend to
    dirty = np.where(mask[:, :, None], ENCODED, np.nan).astype("float32")
    outputs, weights = run(layer, memory=dirty, memory_mask=mask)
    np.testing.assert_array_equal(
        oracle.float64(weights) > 0, np.broadcast_to(mask[:, None], weights.shape)
    )
    np.testing.assert_array_equal(oracle.float64(outputs[1, :, UNITS:]), 0.0)

    def call(memory):
        return run(layer, memory=memory, memory_mask=mask)[0]

    (gradient,) = gradients(call, dirty, forms=["graph"])
    np.testing.assert_array_equal(oracle.float64(gradient)[~mask], 0.0)
    assert np.isfinite(oracle.float64(gradient)).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_near_the_equations(dtype):
    layer = make_layer(dtype=dtype, **COVERAGES["both"])
    outputs, weights = run(layer)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype.removeprefix("mixed_")
    tolerance = 1e-2 if dtype == "mixed_float16" else 5e-2
    for found, expected in zip((outputs, weights), loop(layer, "both"), strict=True):
        np.testing.assert_allclose(oracle.float64(found), expected, atol=tolerance)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_sum_of_the_weights_stays_exact_in_half_precision(dtype):
    cell = make_layer(dtype=dtype).cell
    memory = cell.prepare(ops.convert_to_tensor(ENCODED))
    *state, total = cell.initial_state(ops.convert_to_tensor(STATE), memory)
    large = total + 1000.0
    output, states, weights = cell(INPUTS[:, 0], [*state, large], memory)
    assert keras.backend.standardize_dtype(output.dtype) == dtype.removeprefix("mixed_")
    np.testing.assert_array_equal(*map(oracle.float64, (states[-1], large + weights)))


def test_gradients_flow_through_the_earlier_weights():
    layer = make_layer(**COVERAGES["both"])
    arrays = [INPUTS[:1, :3], ENCODED[:1], STATE[:1]]
    rows = RNG.normal(size=(3, KEYS)).astype("float32")

    def call(inputs, memory, state):
        outputs_and_weights = run(layer, inputs, memory, initial_state=state, memory_mask=MASK[:1])
        return outputs_and_weights[1] * ops.convert_to_tensor(rows)

    def expected_total(inputs, memory, state):
        return (loop(layer, "both", inputs, memory, state, MASK[:1])[1] * rows).sum()

    found = gradients(call, *arrays, forms=["graph"])
    expected = oracle.numerical_gradients(expected_total, *(a.astype("float64") for a in arrays))
    for gradient, difference in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), difference, atol=1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_every_weight_gets_a_gradient(attention):
    layer = make_layer(ATTENTIONS[attention](), **COVERAGES["both"])
    for path, gradient in weight_gradients(layer, INPUTS, ENCODED).items():
        # A key bias cancels in a softmax of dot products.
        assert np.abs(oracle.float64(gradient)).max() > (0 if "key/bias" in path else 1e-6), path


def test_compiled_steps_equal_the_whole_sequence():
    layer = make_layer(**COVERAGES["both"])
    cell, expected = layer.cell, oracle.float64(run(layer)[1])

    @compiled
    def two_steps(first, second, encoded):
        memory = cell.prepare(encoded, MASK)
        _, states, _ = cell(first, cell.initial_state(STATE, memory), memory)
        return cell(second, states, memory)[2]

    found = two_steps(INPUTS[:, 0], INPUTS[:, 1], ENCODED)
    np.testing.assert_allclose(oracle.float64(found), expected[:, 1], atol=1e-5)


def test_tells_keys_apart_that_differ_in_position_only():
    same = np.repeat(ENCODED[:, :1], KEYS, axis=1)
    layers = make_layer(), make_layer(kernel_size=2, history="previous")
    blind, aware = (oracle.float64(run(each, INPUTS, same, memory_mask=None)[1]) for each in layers)
    np.testing.assert_allclose(blind, 1 / KEYS, atol=1e-6)  # of sums over each key by itself
    assert np.ptp(aware, axis=-1).max() > 0.001  # it sees where the keys end


def coverage_loss_of(weights, mask):
    """See et al. 2017, equations 10 and 12, of one sequence."""
    loss, covered = 0.0, np.zeros(weights.shape[-1])
    for of_step, counts in zip(weights, mask, strict=True):
        if counts:
            loss += np.minimum(of_step, covered).sum()
            covered = covered + of_step
    return loss


def test_coverage_loss_equals_the_equation():
    weights = RNG.dirichlet(np.ones(KEYS), (BATCH, 3, STEPS))
    mask = np.array([[True, True, False, True], [True, True, True, False]])
    everything = np.ones_like(mask)
    for each in (mask, everything):
        expected = [
            [coverage_loss_of(head, row) for head in heads]
            for heads, row in zip(weights, each, strict=True)
        ]
        given = None if each is everything else each
        found = oracle.float64(coverage_loss(weights, given))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        found = oracle.float64(coverage_loss(weights[:, 1], given))
        np.testing.assert_allclose(found, np.array(expected)[:, 1], rtol=1e-5)


def test_coverage_loss_is_zero_if_no_key_is_seen_twice():
    assert oracle.float64(coverage_loss(np.eye(4)[None])).tolist() == [0.0]
    same = np.tile(np.eye(4)[:1], (3, 1))[None]  # one key in three steps: 0 + 1 + 1
    assert oracle.float64(coverage_loss(same)).tolist() == [2.0]
