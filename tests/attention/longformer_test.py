"""LongformerAttention against its equations in float64 NumPy, and against masked attention."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import LongformerAttention, MultiHeadAttention, TransformerBlock, masks
from keras_attention.compute import windows
from tests.attention import oracle
from tests.attention.compiled import compiled
from tests.attention.gradients import layer_gradients
from tests.attention.mistakes import check_message

BATCH, HEADS, SIZE = 2, 2, 6
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Blocks as short as half of a window, so that short sequences have several."""
    monkeypatch.setattr(windows, "SHORTEST_BLOCK", 1)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def some(*shape, share=0.7):
    return RNG.random(shape) < share


def make(**arguments):
    arguments = {"window": 4, **arguments}
    layer = LongformerAttention(HEADS, 4, value_dim=3, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def expected_attention(
    layer, query, value, key=None, query_mask=None, value_mask=None, global_mask=None
):
    """Returns output and weights, computed for each query of each head."""
    batch, length, _ = query.shape
    query, value = query.astype("float64"), value.astype("float64")
    key = value if key is None else key.astype("float64")
    shown = np.ones((batch, length), bool) if query_mask is None else query_mask
    visible = np.ones((batch, length), bool) if value_mask is None else value_mask
    if global_mask is None:
        global_mask = np.broadcast_to(np.arange(length) < layer.num_global_tokens, (batch, length))
    kinds = ["", "global_"] if layer.num_global_tokens else [""]
    queries, keys, values = (
        [oracle._heads(getattr(layer, f"{kind}{name}_projection"), x, HEADS) for kind in kinds]
        for name, x in (("query", query), ("key", key), ("value", value))
    )
    weights = np.zeros((batch, HEADS, length, length))
    contexts = np.zeros((batch, HEADS, length, layer.value_dim))
    for b, h, i in np.ndindex(batch, HEADS, length):
        kind = int(global_mask[b, i])
        near = np.abs(np.arange(length) - i) <= layer.window // 2
        seen = visible[b] & shown[b, i] & (near | global_mask[b] | bool(kind))
        scores = keys[kind][h][b] @ queries[kind][h][b, i] / np.sqrt(layer.key_dim)
        weights[b, h, i] = oracle.softmax(scores[None], seen[None])[0]
        contexts[b, h, i] = weights[b, h, i] @ values[kind][h][b]
    merged = contexts.swapaxes(1, 2).reshape(batch, length, -1)
    return oracle._dense(layer.output_projection, merged), weights


def check(layer, query, value, *key, **given):
    found = layer(query, value, *key, return_attention_scores=True, **given)
    wanted = expected_attention(layer, query, value, *key, **given)
    for each, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(oracle.float64(each), other, atol=2e-5)


# around multiples of a block, from one block to many
@pytest.mark.few(6)
@pytest.mark.parametrize("length", [1, 2, 3, 5, 6, 7, 8, 9, 13, 24])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_equals_the_equations_at_every_length(length, number):
    x = random(BATCH, length, SIZE)
    check(make(num_global_tokens=number), x, x)


CASES = {
    "narrow": {"window": 2},
    "wide": {"window": 10},
    "wider than the sequence": {"window": 80},
    "without biases": {"use_bias": False, "num_global_tokens": 2},
    "some biases": {"use_bias": ["key", "global_value"]},
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_padding_and_global_tokens_of_each_sequence(name):
    query, value, key = (random(BATCH, 21, SIZE) for _ in range(3))
    given = {"query_mask": some(BATCH, 21), "value_mask": some(BATCH, 21)}
    layer = make(**CASES[name])
    check(layer, query, value, key, **given)
    for share in (0.2, 0.9):
        check(layer, query, value, key, **given, global_mask=some(BATCH, 21, share=share))


@pytest.mark.parametrize("numbers", [(0, 0), (0, 3), (5, 17)])
def test_sequences_may_have_different_numbers_of_global_tokens(numbers):
    x, global_mask = random(BATCH, 17, SIZE), np.arange(17) < np.array(numbers)[:, None]
    layer = make()
    check(layer, x, x, global_mask=global_mask)
    if numbers == (0, 0):
        alone = make(num_global_tokens=0)
        for name in ("query", "key", "value", "output"):
            weights = getattr(layer, f"{name}_projection").get_weights()
            getattr(alone, f"{name}_projection").set_weights(weights)
        found = oracle.float64(layer(x, x, global_mask=global_mask))
        np.testing.assert_allclose(found, oracle.float64(alone(x, x)), atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 7), (2, 0), (0, 0)])
def test_sequences_with_masks_may_be_empty(shape):
    x, mask = np.zeros((*shape, SIZE), "float32"), np.ones(shape, bool)
    given = {"value_mask": mask, "global_mask": mask, "return_attention_scores": True}
    output, weights = make()(x, x, **given)
    assert tuple(output.shape) == x.shape
    assert tuple(weights.shape) == (shape[0], HEADS, shape[1], shape[1])


def test_blocks_are_only_a_way_to_compute(monkeypatch):
    layer, x, mask = make(), random(BATCH, 50, SIZE), some(BATCH, 50)
    found = [layer(x, x, value_mask=mask)]
    for shortest in (3, 64):
        monkeypatch.setattr(windows, "SHORTEST_BLOCK", shortest)
        found.append(layer(x, x, value_mask=mask))
    for each in found[1:]:
        np.testing.assert_allclose(oracle.float64(each), oracle.float64(found[0]), atol=1e-6)


def test_with_equal_projections_it_is_masked_attention():
    layer, x, mask = make(num_global_tokens=2), random(BATCH, 23, SIZE), some(BATCH, 23)
    mask_of_pairs = masks.Longformer(window=4, num_global_tokens=2)
    exact = MultiHeadAttention(HEADS, 4, value_dim=3, mask=mask_of_pairs)
    exact(x, x)
    for name in ("query", "key", "value", "output"):
        weights = getattr(layer, f"{name}_projection").get_weights()
        getattr(exact, f"{name}_projection").set_weights(weights)
        if name != "output":
            getattr(layer, f"global_{name}_projection").set_weights(weights)
    given = {"query_mask": mask, "value_mask": mask, "return_attention_scores": True}
    for found, expected in zip(layer(x, x, **given), exact(x, x, **given), strict=True):
        np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=1e-5)


@pytest.mark.parametrize("has_mask", [True, pytest.param(False, marks=pytest.mark.full)])
def test_gradients_equal_finite_differences(has_mask):
    layer, inputs = make(window=2), [random(1, 9, SIZE), random(1, 9, SIZE)]
    given = {"value_mask": np.arange(9)[None] != 4}
    if has_mask:
        given["global_mask"] = np.isin(np.arange(9), [2, 3, 7])[None]
    direction = random(1, 9, SIZE)

    def total(query, value):
        return (expected_attention(layer, query, value, **given)[0] * direction).sum()

    found, of_weights = layer_gradients(
        layer, *inputs, **given, direction=ops.convert_to_tensor(direction)
    )
    expected = oracle.numerical_gradients(total, *(each.astype("float64") for each in inputs))
    for gradient, difference in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), difference, atol=1e-4)
    assert len(of_weights) == 14


@pytest.mark.full  # the test below also traces a mask
def test_compiled_with_a_mask_of_global_tokens():
    layer, x, mask = make(), random(BATCH, 19, SIZE), some(BATCH, 19, share=0.3)
    jit_compile = False if keras.backend.backend() == "tensorflow" else None
    found = compiled(lambda x, mask: layer(x, x, global_mask=mask), jit_compile)(x, mask)
    expected = oracle.float64(layer(x, x, global_mask=mask))
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="reads graphs of TensorFlow")
@pytest.mark.parametrize("has_mask", [True, pytest.param(False, marks=pytest.mark.full)])
def test_unknown_lengths_and_numbers_in_one_graph(has_mask):
    import tensorflow as tf

    layer = make(num_global_tokens=2)

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None, SIZE)),
            tf.TensorSpec((None, None), "bool"),
            tf.TensorSpec((None, None), "bool"),
        ]
    )
    def call(x, mask, global_mask):
        of_tokens = {"global_mask": global_mask} if has_mask else {}
        return layer(x, x, query_mask=mask, value_mask=mask, **of_tokens)

    for length in (1, 7, 30):
        x, mask = random(BATCH, length, SIZE), some(BATCH, length)
        global_mask = some(BATCH, length, share=0.3)
        of_tokens = {"global_mask": global_mask} if has_mask else {}
        expected, _ = expected_attention(layer, x, x, query_mask=mask, value_mask=mask, **of_tokens)
        found = call(x, mask, global_mask)
        np.testing.assert_allclose(oracle.float64(found), expected, atol=2e-5)


def test_dropout_is_of_weights_and_seeded():
    x = np.repeat(random(1, 20, SIZE), 300, axis=0)
    first, same = (make(dropout=0.5, seed=3) for _ in range(2))
    same.set_weights(first.get_weights())
    found, weights = first(x, x, training=True, return_attention_scores=True)
    np.testing.assert_allclose(oracle.float64(weights).sum(-1), 1.0, atol=1e-5)
    found, expected = oracle.float64(found), oracle.float64(first(x, x))
    np.testing.assert_array_equal(oracle.float64(same(x, x, training=True)), found)
    assert found.std(axis=0).max(axis=-1).min() > 0.05  # also at the global token
    np.testing.assert_allclose(found.mean(0), expected[0], atol=0.3)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="reads graphs of TensorFlow")
@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.full), 1])
def test_no_tensor_grows_with_the_square_of_the_length(number):
    import tensorflow as tf

    layer = make(window=16, num_global_tokens=number)

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


def test_blocks_around_it_take_global_tokens():
    x, mask = random(BATCH, 15, SIZE), some(BATCH, 15, share=0.3)
    block = TransformerBlock(LongformerAttention(HEADS, 4, window=2, name="attention"), 8)
    inputs, tokens = keras.Input((None, SIZE)), keras.Input((None,), dtype="bool")
    outputs = block(inputs, return_attention_scores=True, global_mask=tokens)
    found, weights = keras.Model([inputs, tokens], outputs)([x, mask])
    _, expected = block.attention(x, x, return_attention_scores=True, global_mask=mask)
    np.testing.assert_allclose(oracle.float64(weights), oracle.float64(expected), atol=1e-6)
    assert np.abs(oracle.float64(found) - oracle.float64(block(x))).max() > 1e-3


X = np.ones((1, 5, SIZE), "float32")
MISTAKES = {
    "odd window": (
        lambda: LongformerAttention(2, 4, window=5),
        ["`window` of LongformerAttention must be an even number of at least 2", "window=5"],
    ),
    "no window": (
        lambda: LongformerAttention(2, 4, window=0),
        ["`window` of LongformerAttention must be an even number of at least 2", "window=0"],
    ),
    "window that is no number": (
        lambda: LongformerAttention(2, 4, window=None),
        ["`window` of LongformerAttention must be an integer", "window=None"],
    ),
    "fewer than no global tokens": (
        lambda: LongformerAttention(2, 4, num_global_tokens=-1),
        ["`num_global_tokens` of LongformerAttention must be an integer of at least 0"],
    ),
    "dropout of everything": (
        lambda: LongformerAttention(2, 4, dropout=1.0),
        ["`dropout` of LongformerAttention must be at least 0 and below 1"],
    ),
    "mask of pairs": (
        lambda: make()(X, X, attention_mask=np.ones((5, 5), bool)),
        ["LongformerAttention cannot honour `attention_mask`", "its window", "value_mask"],
    ),
    "causal mask": (
        lambda: make()(X, X, use_causal_mask=True),
        ["LongformerAttention cannot honour `use_causal_mask`", "use MultiHeadAttention"],
    ),
    "other lengths": (
        lambda: make()(X, X[:, :3]),
        ["LongformerAttention attends within one sequence", "use MultiHeadAttention"],
    ),
    "global tokens of another length": (
        lambda: make()(X, X, global_mask=np.ones((1, 4), bool)),
        ["`global_mask` of LongformerAttention", "(batch, length) = (1, 5)", "shape (1, 4)"],
    ),
    "global tokens without projections": (
        lambda: make(num_global_tokens=0)(X, X, global_mask=np.ones((1, 5), bool)),
        ["without global tokens", "num_global_tokens=0", "num_global_tokens=1"],
    ),
    "global tokens of another layer": (
        lambda: TransformerBlock(MultiHeadAttention(2, 3), 8)(X, global_mask=X[..., 0] > 0),
        ["Only LongformerAttention takes a `global_mask`", "TransformerBlock around MultiHead"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    check_message(*MISTAKES[name])
