"""NystromAttention against float64 NumPy, exact attention, and Nyströmformer of transformers."""

import keras
import numpy as np
import pytest

from keras_attention import AttentionCell, AttentionRNN, MultiHeadAttention
from keras_attention.compute import landmarks
from keras_attention.nystrom import NystromAttention
from tests.attention import oracle
from tests.attention.gradients import gradients

BATCH, HEADS, SIZE = 2, 2, 5
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def some(*shape):
    return RNG.random(shape) < 0.75


def make(**arguments):
    arguments = {"value_dim": 3, "output_dim": 6, "num_landmarks": 4, **arguments}
    layer = NystromAttention(HEADS, 4, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def averages(length, number):
    """The matrix of the means of segments, or the identity if there are not enough positions."""
    ends = [-(-length * segment // number) for segment in range(number + 1)]
    rows = [np.zeros(length) for _ in range(number)]
    for row, first, last in zip(rows, ends[:-1], ends[1:], strict=True):
        row[first:last] = 1 / (last - first)
    return np.stack(rows) if length > number else np.eye(length)


def iterated(matrix, steps):
    norms = np.abs(matrix).sum(0).max(), np.abs(matrix).sum(1).max()
    found, identity = matrix.T / np.prod(norms), np.eye(len(matrix))
    for _ in range(steps):
        a = matrix @ found
        found = found @ (13 * identity - a @ (15 * identity - a @ (7 * identity - a))) / 4
    return found


def softmax_of(query, key):
    scores = query @ key.T / np.sqrt(query.shape[-1])
    return oracle.softmax(scores, np.ones(scores.shape, bool))


def expected_weights(layer, query, key, inverse=iterated):
    """The weights of one head of one sequence, without what is hidden."""
    if min(len(query), len(key)) <= layer.num_landmarks:
        return softmax_of(query, key)
    queries, keys = (averages(len(x), layer.num_landmarks) @ x for x in (query, key))
    between = inverse(softmax_of(queries, keys), layer.num_iterations)
    return softmax_of(query, keys) @ between @ softmax_of(queries, key)


def convolved(kernel, value):
    before = (len(kernel) - 1) // 2
    padded = np.pad(value, ((before, len(kernel) - 1 - before), (0, 0)))
    return sum(k * padded[n : n + len(value)] for n, k in enumerate(kernel))


def all_of(masks, batch, length):
    return np.all([np.ones((batch, length), bool), *(m for m in masks if m is not None)], axis=0)


def expected_attention(
    layer,
    query,
    value,
    key=None,
    query_mask=None,
    value_mask=None,
    key_mask=None,
    inverse=iterated,
):
    """Returns output and weights, sequence by sequence and head by head."""
    query, value = query.astype("float64"), value.astype("float64")
    key = value if key is None else key.astype("float64")
    lengths = query.shape[1], key.shape[1]
    of_query = all_of([query_mask], len(query), lengths[0])
    of_key = all_of([value_mask, key_mask], len(query), lengths[1])
    heads = [
        oracle._heads(projection, x, HEADS)
        for projection, x in [
            (layer.query_projection, query),
            (layer.key_projection, key),
            (layer.value_projection, value),
        ]
    ]
    weights = np.zeros((len(query), HEADS, *lengths))
    contexts = np.zeros((len(query), lengths[0], HEADS, layer.value_dim))
    for head, (queries, keys, values) in enumerate(zip(*heads, strict=True)):
        for row, (sees, seen) in enumerate(zip(of_query, of_key, strict=True)):
            if seen.any():
                found = expected_weights(layer, queries[row, sees], keys[row, seen], inverse)
                weights[row, head][np.ix_(sees, seen)] = found
            contexts[row, :, head] = weights[row, head] @ values[row]
            if layer.kernel_size:
                kernel = oracle.float64(layer.convolution.kernel)[:, 0, head, 0]
                skipped = convolved(kernel, np.where(seen[:, None], values[row], 0))
                contexts[row, sees, head] += skipped[sees]
    return oracle._dense(layer.output_projection, contexts.reshape(*query.shape[:2], -1)), weights


MASKS = {
    "nothing": {},
    "query": {"query_mask": some(BATCH, 13)},
    "value": {"value_mask": some(BATCH, 13)},
    "few keys": {"key_mask": np.arange(13) < [[3], [13]]},
    "few queries": {"query_mask": np.arange(13) > [[3], [10]]},
    "nobody sees anything": {"value_mask": np.zeros((BATCH, 13), bool)},
    "everything at once": {
        "query_mask": some(BATCH, 13),
        "value_mask": some(BATCH, 13),
        "key_mask": some(BATCH, 13),
    },
}


def assert_like_formula(layer, *inputs, tolerance=2e-5, inverse=iterated, **masks):
    output, weights = layer(*inputs, return_attention_scores=True, **masks)
    expected = expected_attention(layer, *inputs, inverse=inverse, **masks)
    np.testing.assert_allclose(oracle.float64(weights), expected[1], atol=tolerance)
    np.testing.assert_allclose(oracle.float64(output), expected[0], atol=tolerance, rtol=tolerance)


@pytest.mark.few(2)
@pytest.mark.parametrize("kernel_size", [None, 3, 4])
@pytest.mark.parametrize("name", MASKS)
def test_equals_the_equations_under_every_mask(name, kernel_size):
    inputs = [random(BATCH, 13, SIZE) for _ in range(3)]
    assert_like_formula(make(kernel_size=kernel_size), *inputs, **MASKS[name])


@pytest.mark.few(2)
@pytest.mark.parametrize("lengths", [(1, 9), (3, 4), (4, 5), (5, 4), (8, 8), (9, 6), (6, 30)])
def test_equals_the_equations_at_every_length(lengths):
    query, value = (random(BATCH, length, SIZE) for length in lengths)
    masks = {"query_mask": some(BATCH, lengths[0]), "value_mask": some(BATCH, lengths[1])}
    assert_like_formula(make(), query, value)
    assert_like_formula(make(), query, value, **masks)


def pseudo_inverse(matrix, _):
    return np.linalg.pinv(matrix)


def test_empty_sequences_stay_empty():
    layer = NystromAttention(HEADS, 4, num_landmarks=4, kernel_size=3)
    for length in (1, 0):
        x = random(BATCH, length, SIZE)
        assert tuple(layer(x, x).shape) == (BATCH, length, SIZE)


def directions(length):
    """Four segments of vectors, each along an axis of its own."""
    return 3 * np.eye(4, SIZE, dtype="float32")[None, np.arange(length) * 4 // length]


def compare_inputs(layer):
    """Makes queries and keys the inputs themselves, so that the matrix of directions is regular."""
    for projection in (layer.query_projection, layer.key_projection):
        projection.set_weights([np.tile(np.eye(SIZE, 4), HEADS), np.zeros(4 * HEADS)])


def test_converges_to_the_pseudo_inverse():
    layer = make(num_iterations=20)
    compare_inputs(layer)
    query, value = (directions(n) + 0.5 * random(BATCH, n, SIZE) for n in (13, 18))
    assert_like_formula(layer, query, value, tolerance=1e-4, inverse=pseudo_inverse)


@pytest.mark.parametrize(("rows", "columns"), [(6, 6), (4, 6), (6, 4), (1, 6)])
def test_inverse_is_that_of_what_is_not_hidden(rows, columns):
    matrix = np.zeros((3, 7, 7))
    seen = RNG.permutation(7)[:rows], RNG.permutation(7)[:columns]
    for each in matrix[:2]:
        each[np.ix_(*seen)] = softmax_of(RNG.normal(size=(rows, 4)), RNG.normal(size=(columns, 4)))
    for steps, expected, tolerance in [(6, iterated, 1e-4), (20, pseudo_inverse, 1e-3)]:
        found = oracle.float64(landmarks.inverse(matrix.astype("float32"), steps))
        for each, one in zip(found[:2], matrix[:2], strict=True):
            wanted = expected(one, steps)
            np.testing.assert_allclose(each, wanted, atol=tolerance * np.abs(wanted).max())
            is_hidden = np.ones((7, 7), bool)
            is_hidden[np.ix_(*seen[::-1])] = False
            np.testing.assert_array_equal(each[is_hidden], 0.0)
        np.testing.assert_array_equal(found[2], 0.0)


@pytest.mark.parametrize(("length", "number"), [(5, 4), (13, 4), (16, 4), (999, 64), (65, 64)])
def test_segments_differ_by_at_most_one_position(length, number):
    mask = np.zeros((2, length + 20), bool)
    mask[0, :length] = True
    mask[1, RNG.permutation(length + 20)[:length]] = True
    found = oracle.float64(landmarks.Segments(mask, length + 20, number).averaging)[:, 0]
    for row, seen in zip(found, mask, strict=True):
        np.testing.assert_allclose(row[:, seen], averages(length, number), atol=1e-7)
        assert set((row > 0).sum(1)) <= {length // number, -(-length // number)}


def share_projections(layer, exact, x):
    layer.build(x.shape, x.shape)
    for name in ("query", "key", "value", "output"):
        weights = getattr(exact, f"{name}_projection").get_weights()
        getattr(layer, f"{name}_projection").set_weights(weights)
    return layer


def assert_exact(layer, exact, *inputs, tolerance=1e-5, **masks):
    share_projections(layer, exact, inputs[0])
    expected = exact(*inputs, return_attention_scores=True, **masks)
    found = layer(*inputs, return_attention_scores=True, **masks)
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(each), oracle.float64(other), atol=tolerance)


@pytest.mark.few(2)
@pytest.mark.parametrize("lengths", [(7, 7), (3, 3), (3, 20), (20, 5)])
def test_as_many_landmarks_as_positions_are_exact_attention(lengths):
    query, value = (random(BATCH, length, SIZE) for length in lengths)
    masks = {"query_mask": some(BATCH, lengths[0]), "value_mask": some(BATCH, lengths[1])}
    exact = MultiHeadAttention(HEADS, 4)
    exact.build(query.shape, value.shape)
    for given in ({}, masks):
        assert_exact(NystromAttention(HEADS, 4, num_landmarks=7), exact, query, value, **given)


def test_segments_of_equal_positions_are_exact_attention():
    layer = NystromAttention(HEADS, 4, num_landmarks=4, num_iterations=20)
    x, exact = directions(12), MultiHeadAttention(HEADS, 4)
    exact.build(x.shape, x.shape)
    compare_inputs(exact)
    assert_exact(layer, exact, x, x, tolerance=1e-4)


def test_error_against_exact_attention_falls_as_landmarks_grow():
    length = 64
    steps = np.random.default_rng(1).normal(size=(8, length, SIZE)).astype("float32")
    x = np.cumsum(steps, axis=1) / 3
    exact = MultiHeadAttention(
        HEADS, 4, kernel_initializer=keras.initializers.GlorotUniform(seed=0)
    )
    expected, errors = oracle.float64(exact(x, x)), []
    for number in (2, 8, 32, 64):
        layer = share_projections(NystromAttention(HEADS, 4, num_landmarks=number), exact, x)
        errors.append(np.sqrt(np.mean((oracle.float64(layer(x, x)) - expected) ** 2)))
    assert (np.diff(errors) < 0).all(), errors
    assert errors[-2] < 0.1 * errors[0], errors
    assert errors[-1] < 1e-6


@pytest.mark.few(1)
@pytest.mark.parametrize(("length", "kernel_size"), [(3, None), (9, None), (9, 3)])
def test_padding_changes_nothing(length, kernel_size):
    layer, x = make(kernel_size=kernel_size), random(1, length, SIZE)
    expected = layer(x, x, return_attention_scores=True)
    places = [np.arange(length), np.arange(16 - length, 16)]
    if kernel_size is None:  # a convolution covers a gap
        places.append(np.sort(RNG.permutation(16)[:length]))
    for seen in places:
        padded, mask = random(1, 16, SIZE), np.zeros((1, 16), bool)
        padded[:, seen], mask[:, seen] = x, True
        masks = {"query_mask": mask, "value_mask": mask}
        output, weights = map(
            oracle.float64, layer(padded, padded, return_attention_scores=True, **masks)
        )
        np.testing.assert_allclose(output[:, seen], oracle.float64(expected[0]), atol=1e-5)
        of_seen = weights[:, :, seen][..., seen]
        np.testing.assert_allclose(of_seen, oracle.float64(expected[1]), atol=1e-5)
        assert np.abs(weights).sum() == pytest.approx(np.abs(of_seen).sum())


def test_a_sequence_does_not_depend_on_the_others_of_its_batch():
    layer, x = make(), random(3, 13, SIZE) * np.array([1.0, 5.0, 0.1], "float32")[:, None, None]
    together = oracle.float64(layer(x, x))
    for row in range(3):
        alone = oracle.float64(layer(x[row : row + 1], x[row : row + 1]))
        np.testing.assert_allclose(together[row], alone[0], atol=1e-5)


def test_equals_the_layer_of_transformers():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.NystromformerConfig(
        hidden_size=8,
        num_attention_heads=2,
        num_landmarks=4,
        segment_means_seq_len=24,
        conv_kernel_size=5,
    )
    theirs = transformers.models.nystromformer.modeling_nystromformer.NystromformerSelfAttention(
        config
    ).eval()
    theirs.init_option = "exact"  # by default, the inverse depends on the whole batch
    layer = NystromAttention(2, 4, num_landmarks=4, kernel_size=5)
    layer.build((None, None, 8), (None, None, 8))
    with torch.no_grad():
        for name in ("query", "key", "value"):
            linear, dense = getattr(theirs, name), getattr(layer, f"{name}_projection")
            linear.weight.copy_(torch.tensor(random(8, 8)))
            linear.bias.copy_(torch.tensor(random(8)))
            dense.set_weights([linear.weight.numpy().T, linear.bias.numpy()])
        layer.output_projection.set_weights([np.eye(8), np.zeros(8)])
        # (heads, 1, kernel_size, 1) -> (kernel_size, 1, heads, 1)
        layer.convolution.set_weights([theirs.conv.weight.numpy().transpose(2, 1, 0, 3)])
        x = random(3, 24, 8)
        expected = theirs(torch.tensor(x))[0].numpy()
    np.testing.assert_allclose(oracle.float64(layer(x, x)), expected, atol=1e-4)


def test_gradients_equal_finite_differences_of_the_formula():
    layer, x = make(num_landmarks=2, num_iterations=3, kernel_size=3), random(1, 6, SIZE)
    masks = {"query_mask": np.array([[1, 1, 0, 1, 1, 1]]) > 0, "value_mask": np.arange(6)[None] < 5}
    (found,) = gradients(lambda x: layer(x, x, **masks), x)
    (expected,) = oracle.numerical_gradients(
        lambda x: expected_attention(layer, x, x, **masks)[0].sum(), x.astype("float64")
    )
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-3)


@pytest.mark.parametrize("scale", [0.0, 30.0])
def test_output_and_gradients_of_singular_and_sharp_weights_are_finite(scale):
    layer, x = make(), scale * random(BATCH, 13, SIZE)  # equal landmarks; single keys
    mask = some(BATCH, 13)
    assert_like_formula(layer, x, x, tolerance=1e-3, query_mask=mask, value_mask=mask)
    masks = {"query_mask": mask, "value_mask": mask}
    (gradient,) = gradients(lambda x: layer(x, x, **masks), x, tolerance=1e-3)
    assert np.isfinite(oracle.float64(gradient)).all()


def test_is_exact_step_by_step_inside_of_a_recurrent_decoder():
    query, memory = random(2, 3, 4), random(2, 9, 7)
    layers = [
        AttentionRNN(AttentionCell(keras.layers.GRUCell(5), attention))
        for attention in (NystromAttention(2, 4, num_landmarks=3), MultiHeadAttention(2, 4))
    ]
    for layer in layers:
        layer(query, memory)
    layers[0].set_weights(layers[1].get_weights())
    mask = np.arange(9) < np.array([[9], [4]])
    found, expected = (
        layer(query, memory, memory_mask=mask, return_attention_scores=True) for layer in layers
    )
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(each), oracle.float64(other), atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others know all lengths")
def test_a_convolution_is_never_broadcast_to_other_lengths():
    import tensorflow as tf

    layer = NystromAttention(HEADS, 4, kernel_size=3)
    layer.build((None, None, SIZE), (None, None, SIZE))
    any_length = tf.TensorSpec((None, None, SIZE))
    attend = tf.function(lambda *x: layer(*x), input_signature=[any_length, any_length])
    x = random(BATCH, 9, SIZE)
    np.testing.assert_allclose(attend(x, x), layer(x, x), atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError):
        attend(x[:, :1], x)
