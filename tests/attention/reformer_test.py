"""ReformerAttention against a brute-force implementation with the same random rotations."""

import keras
import numpy as np
import pytest

from keras_attention.reformer import ReformerAttention
from tests.attention import oracle
from tests.attention.gradients import gradients

BATCH, HEADS, SIZE = 2, 2, 5
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def some(*shape):
    return RNG.random(shape) < 0.75


def make(**arguments):
    arguments = {"bucket_size": 4, "num_hashes": 2, "seed": 0, **arguments}
    layer = ReformerAttention(HEADS, 4, value_dim=3, output_dim=6, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def number_of_batches(layer, length):
    """One, or an even number that gives buckets of about `bucket_size`, at most half more."""
    if length <= layer.bucket_size:
        return 1
    fitting = (n for n in range(2, layer.max_buckets) if length <= (n + 1) * layer.bucket_size)
    return next((n for n in fitting if n % 2 == 0), layer.max_buckets)


def meetings(layer, queries, visible):
    """Pairs that meet in any round, for one sequence of queries (length, size) of one head."""
    length, chunk = len(queries), 2 * layer.bucket_size
    meets = np.zeros((length, length), bool)
    half = number_of_batches(layer, length) // 2
    for rotation in oracle.weight(layer, "rotations"):
        rotated = queries @ rotation[:, :half]
        both = np.concatenate([rotated, -rotated], axis=-1)
        buckets = both.argmax(-1) if half else np.zeros(length, int)
        members = [i for i in range(length) if visible[i]]
        members.sort(key=lambda i: (buckets[i], i))
        for place, i in enumerate(members):
            for other, j in enumerate(members):
                behind = place // chunk - other // chunk
                meets[i, j] |= bool(buckets[i] == buckets[j] and behind in (0, 1))
    return meets


def expected_attention(layer, x, value, causal=False, visible=None):
    """Returns output and weights, computed for each sequence and head."""
    x, value = x.astype("float64"), value.astype("float64")
    visible = np.ones(x.shape[:2], bool) if visible is None else visible
    queries = oracle._heads(layer.query_projection, x, HEADS)
    values = oracle._heads(layer.value_projection, value, HEADS)
    length = x.shape[1]
    weights, contexts = np.zeros((len(x), HEADS, length, length)), []
    for head in range(HEADS):
        for b in range(len(x)):
            query = queries[head][b]
            meets = meetings(layer, query, visible[b])
            np.fill_diagonal(meets, False)
            meets &= np.tri(length, dtype=bool) if causal else True
            for i in np.flatnonzero(visible[b]):
                meets[i, i] = not meets[i].any()
            keys = query / np.linalg.norm(query, axis=-1, keepdims=True)
            weights[b, head] = oracle.softmax(query @ keys.T, meets)
        contexts.append(weights[:, head] @ values[head])
    output = oracle._dense(layer.output_projection, np.concatenate(contexts, axis=-1))
    return output, weights


def assert_like_brute_force(layer, x, value, causal=False, visible=None, **masks):
    output, weights = layer(x, value, use_causal_mask=causal, return_attention_scores=True, **masks)
    expected = expected_attention(layer, x, value, causal or layer.causal, visible)
    np.testing.assert_allclose(oracle.float64(weights), expected[1], atol=1e-5)
    np.testing.assert_allclose(oracle.float64(output), expected[0], atol=1e-5)
    alone = layer(x, value, use_causal_mask=causal, **masks)
    np.testing.assert_array_equal(oracle.float64(alone), oracle.float64(output))


# around multiples of the bucket and chunk sizes
@pytest.mark.few(3)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 33, 50])
@pytest.mark.parametrize("causal", [True, False])
def test_equals_brute_force_at_every_length(length, causal):
    x, value = random(BATCH, length, SIZE), random(BATCH, length, SIZE)
    assert_like_brute_force(make(), x, value, causal)


@pytest.mark.few(2)
@pytest.mark.parametrize("num_hashes", [1, 3])
@pytest.mark.parametrize("causal", [True, False])
def test_padding_of_queries_keys_and_values_is_that_of_one_sequence(num_hashes, causal):
    x, value = random(BATCH, 21, SIZE), random(BATCH, 21, SIZE)
    masks = {name: some(BATCH, 21) for name in ("query_mask", "value_mask", "key_mask")}
    visible = masks["query_mask"] & masks["value_mask"] & masks["key_mask"]
    layer = make(num_hashes=num_hashes, causal=causal)
    assert_like_brute_force(layer, x, value, visible=visible, **masks)
    _, weights = layer(x, value, return_attention_scores=True, **masks)
    weights = oracle.float64(weights).swapaxes(1, 2)
    assert (weights[~visible] == 0).all()
    np.testing.assert_allclose(weights[visible].sum(-1), 1.0, atol=1e-5)


def test_hidden_positions_do_not_even_take_a_place_in_a_chunk():
    layer = make(num_hashes=1)
    x, junk = random(BATCH, 20, SIZE), 100 * random(BATCH, 20, SIZE)
    mask = np.repeat(np.arange(20) % 3 != 1, BATCH).reshape(20, BATCH).T
    expected = oracle.float64(layer(x, x, value_mask=mask))
    x = np.where(mask[:, :, None], x, junk).astype("float32")
    np.testing.assert_array_equal(oracle.float64(layer(x, x, value_mask=mask)), expected)


@pytest.mark.parametrize("causal", [True, False])
def test_one_bucket_is_exact_attention_to_all_others(causal):
    layer = make(bucket_size=16)
    x, value = random(BATCH, 16, SIZE), random(BATCH, 16, SIZE)
    _, weights = layer(x, value, use_causal_mask=causal, return_attention_scores=True)
    for head, queries in enumerate(oracle._heads(layer.query_projection, x, HEADS)):
        keys = queries / np.linalg.norm(queries, axis=-1, keepdims=True)
        sees = ~np.eye(16, dtype=bool) & (np.tri(16, dtype=bool) if causal else True)
        sees[0, 0] = causal  # the first sees only itself
        expected = oracle.softmax(queries @ keys.swapaxes(1, 2), np.stack([sees] * BATCH))
        np.testing.assert_allclose(oracle.float64(weights)[:, head], expected, atol=1e-5)


def test_who_meets_in_several_rounds_counts_once():
    once, often = make(num_hashes=1), make(num_hashes=3)
    for variable, other in zip(often.trainable_variables, once.trainable_variables, strict=True):
        variable.assign(other)
    often.rotations.assign(np.repeat(oracle.weight(once, "rotations"), 3, axis=0))
    x = random(BATCH, 40, SIZE)
    np.testing.assert_allclose(oracle.float64(often(x, x)), oracle.float64(once(x, x)), atol=1e-6)


def test_a_query_sees_itself_only_if_it_sees_nobody_else():
    layer = make(num_hashes=1)
    _, weights = layer(*[random(BATCH, 30, SIZE)] * 2, return_attention_scores=True)
    weights = oracle.float64(weights)
    itself = np.diagonal(weights, axis1=2, axis2=3)
    others = weights.sum(-1) - itself
    assert ((itself > 0.999) ^ (others > 0.999)).all()
    assert (itself > 0.999).any()


def test_buckets_are_at_most_max_buckets():
    layer = make(max_buckets=2)
    x = random(BATCH, 50, SIZE)
    assert_like_brute_force(layer, x, x)
    assert layer.rotations.shape == (2, 4, 1)


@pytest.mark.few(1)
@pytest.mark.parametrize("causal", [True, False])
def test_gradients_equal_finite_differences(causal):
    layer = make()
    inputs = [random(1, 9, SIZE), random(1, 9, SIZE)]
    mask = np.arange(9)[None] != 4

    def total(x, value):
        return expected_attention(layer, x, value, causal, mask)[0].sum()

    found = gradients(lambda *x: layer(*x, use_causal_mask=causal, value_mask=mask), *inputs)
    expected = oracle.numerical_gradients(total, *(each.astype("float64") for each in inputs))
    for gradient, difference in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), difference, atol=1e-4)


def test_large_numbers_stay_finite_and_exact():
    layer = make()
    layer.query_projection.kernel.assign(100.0 * layer.query_projection.kernel)
    x = random(BATCH, 20, SIZE)
    output, _ = expected_attention(layer, x, x)
    # scores reach 1000, where the rounding error of float32 is 1e-4
    np.testing.assert_allclose(oracle.float64(layer(x, x)), output, atol=2e-3)
    for gradient in gradients(lambda x: layer(x, x), x, tolerance=1e-3):
        assert np.isfinite(oracle.float64(gradient)).all()


def test_seed_reproduces_the_rotations_and_redraw_changes_them():
    first, same, other = (make(seed=seed) for seed in (1, 1, 2))
    expected = oracle.weight(first, "rotations")
    np.testing.assert_array_equal(oracle.weight(same, "rotations"), expected)
    assert np.abs(oracle.weight(other, "rotations") - expected).max() > 0.1
    first.redraw(seed=2)
    np.testing.assert_array_equal(
        oracle.weight(first, "rotations"), oracle.weight(other, "rotations")
    )
    assert not any("rotations" in variable.path for variable in first.trainable_variables)


@pytest.mark.full
@pytest.mark.few(1)
@pytest.mark.parametrize("causal", [True, False])
def test_error_against_attention_to_all_others_falls_as_hashes_grow(causal):
    x = np.random.default_rng(1).normal(size=(2, 96, SIZE)).astype("float32")
    kernel = keras.initializers.GlorotUniform(seed=0)
    arguments = {"causal": causal, "kernel_initializer": kernel}
    exact = ReformerAttention(HEADS, 4, bucket_size=96, **arguments)
    expected, errors, seen = oracle.float64(exact(x, x)), [], []
    for hashes in (1, 2, 4, 8):
        layer = ReformerAttention(HEADS, 4, bucket_size=8, num_hashes=hashes, **arguments)
        layer.build(x.shape, x.shape)
        for name in ("query_projection", "value_projection", "output_projection"):
            getattr(layer, name).set_weights(getattr(exact, name).get_weights())
        squares = []
        for seed in range(6):
            layer.redraw(seed)
            output, weights = layer(x, x, return_attention_scores=True)
            squares.append(np.mean((oracle.float64(output) - expected) ** 2))
        errors.append(np.sqrt(np.mean(squares)))
        seen.append(np.mean(oracle.float64(weights) > 0))
    # The error comes from the keys that are never met. Twice the rounds would leave 1/√2 of the
    # standard deviation of a mean if each round met different keys.
    assert (np.array(errors[1:]) < 0.9 * np.array(errors[:-1])).all(), errors
    assert errors[-1] < 0.6 * errors[0], errors
    assert (np.diff(seen) > 0).all()
