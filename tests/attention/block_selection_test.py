"""BlockSelectionAttention against softmax attention with an explicit mask, in float64 NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import BlockSelectionAttention, MultiHeadAttention
from keras_attention.compute import selected_blocks
from tests.attention import oracle, position_equations
from tests.attention.compiled import compiled
from tests.attention.gradients import gradients, layer_gradients
from tests.attention.mistakes import check_message

BATCH, HEADS, SIZE = 2, 4, 6
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def some(*shape):
    return RNG.random(shape) < 0.7


def make(**arguments):
    arguments = {"block_size": 4, "num_blocks": 3, **arguments}
    layer = BlockSelectionAttention(HEADS, 4, value_dim=3, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def selected(layer, queries, keys, visible, causal):
    """Which keys each query of one head of one sequence sees: booleans (queries, keys)."""
    places = np.flatnonzero(visible)
    blocks = [places[i : i + layer.block_size] for i in range(0, len(places), layer.block_size)]
    means = [keys[block].mean(0) for block in blocks]
    seen = np.zeros((len(queries), len(keys)), bool)
    for i, query in enumerate(queries):
        position = len(keys) - len(queries) + i
        earlier = int(visible[: max(position + 1, 0)].sum())
        own = max(earlier - 1, 0) // layer.block_size
        others = [b for b in range(len(blocks)) if (b < own if causal else b != own)]
        others.sort(key=lambda b: -query @ means[b])
        for b in [own, *others[: layer.num_blocks - 1]]:
            if b < len(blocks):
                seen[i, blocks[b]] = True
        if causal:
            seen[i, max(position + 1, 0) :] = False
    return seen


def expected_attention(layer, query, value, causal=False, query_mask=None, value_mask=None):
    """Returns output and weights, computed for each sequence and head."""
    query, value = query.astype("float64"), value.astype("float64")
    causal, groups = causal or layer.causal, layer.num_key_value_heads
    queries = oracle._heads(layer.query_projection, query, HEADS)
    keys = oracle._heads(layer.key_projection, value, groups)
    values = oracle._heads(layer.value_projection, value, groups)
    if layer.position is not None:
        of_query, of_key = oracle._places(query, value)
        queries = [position_equations.rotary(x, of_query) for x in queries]
        keys = [position_equations.rotary(x, of_key) for x in keys]
    shape = len(query), HEADS, query.shape[1], value.shape[1]
    shown = np.ones(query.shape[:2], bool) if query_mask is None else query_mask
    visible = np.ones(value.shape[:2], bool) if value_mask is None else value_mask
    weights, contexts = np.zeros(shape), np.zeros((len(query), HEADS, query.shape[1], 3))
    for b, h in np.ndindex(shape[:2]):
        group = h * groups // HEADS
        q, k = queries[h][b], keys[group][b]
        seen = selected(layer, q, k, visible[b], causal) & shown[b][:, None]
        weights[b, h] = oracle.softmax(q @ k.T / np.sqrt(4), seen)
        contexts[b, h] = weights[b, h] @ values[group][b]
    merged = contexts.swapaxes(1, 2).reshape(*query.shape[:2], HEADS * 3)
    return oracle._dense(layer.output_projection, merged), weights


def assert_equal(found, expected, tolerance=2e-5):
    found, expected = oracle.float64(found), oracle.float64(expected)
    np.testing.assert_allclose(found, expected, atol=tolerance, rtol=tolerance)


def check(layer, query, value, causal=False, **masks):
    found = layer(query, value, use_causal_mask=causal, return_attention_scores=True, **masks)
    for each, wanted in zip(
        found, expected_attention(layer, query, value, causal, **masks), strict=True
    ):
        np.testing.assert_allclose(oracle.float64(each), wanted, atol=2e-5)


# around multiples of the block size
@pytest.mark.few(3)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 17, 33, 50])
@pytest.mark.parametrize("causal", [True, False])
def test_equals_the_reference_at_every_length(length, causal):
    x = random(BATCH, length, SIZE)
    check(make(), x, x, causal)


CASES = {
    "own block only": {"num_blocks": 1},
    "two blocks": {"num_blocks": 2, "use_bias": False},
    "single keys": {"block_size": 1, "num_blocks": 5},
    "long blocks": {"block_size": 11, "num_blocks": 2},
    "rotary": {"position": "rotary", "num_key_value_heads": 2},
    "one key head": {"num_key_value_heads": 1, "num_blocks": 4},
}


@pytest.mark.few(2)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_options_and_padding_equal_the_reference(name, causal):
    x = random(BATCH, 37, SIZE)
    check(make(**CASES[name]), x, x, causal, value_mask=some(BATCH, 37), query_mask=some(BATCH, 37))


@pytest.mark.few(2)
@pytest.mark.parametrize("lengths", [(5, 21), (21, 5)])
@pytest.mark.parametrize("causal", [True, False])
def test_queries_end_with_the_keys(lengths, causal):
    query, value = (random(BATCH, length, SIZE) for length in lengths)
    check(make(causal=causal), query, value, value_mask=some(BATCH, lengths[1]))


@pytest.mark.few(1)
@pytest.mark.parametrize("causal", [True, False])
def test_steps_of_the_selection_change_nothing(causal, monkeypatch):
    layer, x = make(num_key_value_heads=2, causal=causal), random(BATCH, 30, SIZE)
    expected = layer(x, x)
    for rows in (7, 12, 60):  # 60 rows in each group of heads
        monkeypatch.setattr(selected_blocks, "ROWS_A_STEP", rows)
        assert_equal(layer(x, x), expected, 1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("causal", [True, False])
def test_a_few_blocks_are_exact_attention(causal):
    arguments = {"num_key_value_heads": 2, "position": "rotary"}
    layer, exact = make(**arguments), MultiHeadAttention(HEADS, 4, value_dim=3, **arguments)
    x = random(BATCH, 12, SIZE)
    exact.build(x.shape, x.shape)
    exact.set_weights(layer.get_weights())
    masks = {"value_mask": some(BATCH, 12), "use_causal_mask": causal}
    assert_equal(layer(x, x, **masks), exact(x, x, **masks))


@pytest.mark.few(1)
@pytest.mark.parametrize("causal", [True, False])
def test_padding_anywhere_changes_nothing(causal):
    layer, x = make(causal=causal, position="rotary"), random(1, 19, SIZE)
    expected = oracle.float64(layer(x, x))
    for before, after in ((7, 0), (0, 6), (3, 2)):
        padded = np.pad(x, [(0, 0), (before, after), (0, 0)], constant_values=9.0)
        mask = np.zeros(padded.shape[:2], bool)
        mask[:, before : before + 19] = True
        found = oracle.float64(layer(padded, padded, query_mask=mask, value_mask=mask))
        np.testing.assert_allclose(found[mask], expected[0], atol=2e-5)


def test_later_positions_have_no_effect():
    layer, x = make(causal=True), random(BATCH, 23, SIZE)
    other = np.concatenate([x[:, :14], random(BATCH, 9, SIZE)], axis=1)
    np.testing.assert_allclose(
        oracle.float64(layer(other, other))[:, :14], oracle.float64(layer(x, x))[:, :14], atol=1e-6
    )


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.full)])
def test_gradients_equal_finite_differences(causal):
    layer = make(block_size=2, num_blocks=2, num_key_value_heads=2)
    inputs = [random(1, 9, SIZE), random(1, 9, SIZE)]
    mask, direction = np.arange(9)[None] != 4, random(1, 9, SIZE)

    def total(query, value):
        output, _ = expected_attention(layer, query, value, causal, value_mask=mask)
        return (output * direction).sum()

    found, _ = layer_gradients(
        layer,
        *inputs,
        use_causal_mask=causal,
        value_mask=mask,
        direction=ops.convert_to_tensor(direction),
    )
    expected = oracle.numerical_gradients(total, *(each.astype("float64") for each in inputs))
    for gradient, difference in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), difference, atol=1e-4)


def test_large_scores_stay_finite():
    layer, x = make(causal=True), random(BATCH, 20, SIZE)
    layer.query_projection.kernel.assign(300.0 * layer.query_projection.kernel)
    found = [layer(x, x), *gradients(lambda x: layer(x, x), x)]
    assert all(np.isfinite(oracle.float64(each)).all() for each in found)


@pytest.mark.few(1)
@pytest.mark.parametrize(("split", "room"), [([9, *[1] * 6], 18), ([2, 7, 6], 15)], ids=str)
def test_steps_equal_the_whole(split, room):
    layer = make(causal=True, block_size=3, position="rotary", num_key_value_heads=2)
    x = random(BATCH, 15, SIZE)
    expected, expected_weights = layer(x, x, return_attention_scores=True)
    memory, outputs, start = layer.room_for(ops.zeros((BATCH, room, SIZE))), [], 0
    for length in split:
        output, weights, memory = layer.step(
            x[:, start : start + length], memory, start, return_attention_scores=True
        )
        outputs.append(output)
        rows = oracle.float64(expected_weights)[:, :, start : start + length]
        np.testing.assert_allclose(oracle.float64(weights)[..., :15], rows, atol=1e-5)
        start += length
    assert_equal(ops.concatenate(outputs, axis=1), expected)


@pytest.mark.full
def test_steps_after_padding_equal_the_whole_without_it():
    layer, x = make(causal=True, position="rotary"), random(BATCH, 13, SIZE)
    padded = np.concatenate([random(BATCH, 3, SIZE), x], axis=1)
    mask = np.arange(16)[None] >= np.full((BATCH, 1), 3)
    memory, outputs, start = layer.room_for(ops.zeros(padded.shape), mask), [], 0
    for length in (12, *[1] * 4):
        output, _, memory = layer.step(padded[:, start : start + length], memory, start)
        outputs.append(output)
        start += length
    assert_equal(ops.concatenate(outputs, axis=1)[:, 3:], layer(x, x))


@pytest.mark.full
def test_a_compiled_loop_of_steps():
    layer, x = make(causal=True), random(BATCH, 9, SIZE)

    def last(x):
        def body(place, _, *memory):
            memory = memory_of_nothing._replace(key=memory[0], value=memory[1])
            context, _, memory = layer.step(ops.take(x, place[None], axis=1), memory, place)
            return place + 1, context, memory.key, memory.value

        memory_of_nothing = layer.room_for(ops.zeros(x.shape))
        start = ops.convert_to_tensor(0, "int32"), ops.zeros((BATCH, 1, SIZE))
        loop = *start, memory_of_nothing.key, memory_of_nothing.value
        return ops.while_loop(lambda place, *_: place < 9, body, loop)[1]

    assert_equal(compiled(last)(x), oracle.float64(layer(x, x))[:, -1:])


@pytest.mark.parametrize("causal", [True, False])
def test_a_batch_of_no_rows_gives_none(causal):
    x = random(0, 10, SIZE)
    assert tuple(make(causal=causal)(x, x).shape) == (0, 10, SIZE)


@pytest.mark.parametrize("tile", [1, 2, 5])
def test_each_pair_stands_in_a_tile_of_its_block(tile):
    blocks = RNG.integers(0, 5, (3, 17)).astype("int32")  # the last is none
    found = selected_blocks.in_tiles(ops.convert_to_tensor(blocks), 4, tile)
    pairs, of_tiles, slots = map(ops.convert_to_numpy, found)
    for row in range(3):
        assert sorted(pairs[row]) == list(range(pairs.shape[1]))
        np.testing.assert_array_equal(pairs[row][slots[row]], np.arange(17))
        real = blocks[row] < 4
        np.testing.assert_array_equal(of_tiles[row][slots[row] // tile][real], blocks[row][real])


@pytest.mark.full
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="reads graphs of TensorFlow")
@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.full)])
def test_no_tensor_grows_with_the_square_of_the_length(causal):
    import tensorflow as tf

    layer = make(block_size=16, causal=causal)

    def largest(length):
        def step(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(layer(x, x) ** 2)
            return tape.gradient(loss, x)

        traced = tf.function(step).get_concrete_function(tf.TensorSpec((1, length, SIZE)))
        functions = traced.graph._functions.values()  # the bodies of loops
        graphs = [traced.graph, *(each.graph for each in functions)]
        outputs = (x for graph in graphs for each in graph.get_operations() for x in each.outputs)
        return max(x.shape.num_elements() or 0 for x in outputs)

    assert largest(8192) <= 2.1 * largest(4096)


MISTAKES = {
    "no block": (
        lambda: BlockSelectionAttention(2, 4, num_blocks=0),
        ["`num_blocks` of BlockSelectionAttention must be a positive integer", "num_blocks=0"],
    ),
    "blocks of nothing": (
        lambda: BlockSelectionAttention(2, 4, block_size=0),
        ["`block_size` of BlockSelectionAttention must be a positive integer", "block_size=0"],
    ),
    "heads that cannot be grouped": (
        lambda: BlockSelectionAttention(4, 4, num_key_value_heads=3),
        ["`num_key_value_heads` of BlockSelectionAttention must divide num_heads=4"],
    ),
    "position that rotates nothing": (
        lambda: BlockSelectionAttention(2, 4, position="alibi"),
        ["`position` of BlockSelectionAttention", "positions.Rotary", "'alibi'"],
    ),
    "mask of pairs": (
        lambda: make()(*[random(1, 3, SIZE)] * 2, attention_mask=np.ones((3, 3), bool)),
        ["BlockSelectionAttention cannot honour `attention_mask`", "value_mask", "causal=True"],
    ),
    "steps that look ahead": (
        lambda: make().room_for(ops.zeros((1, 3, SIZE))),
        ["BlockSelectionAttention must be causal for steps", "causal=False", "causal=True"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    check_message(*MISTAKES[name])
