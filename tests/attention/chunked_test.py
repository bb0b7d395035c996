"""The chunked computation: outputs and gradients of the reference, tile by tile."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention, masks, positions, scores
from keras_attention.compute import WeightDropout, tiles
from tests.attention import oracle
from tests.attention.gradients import gradients, layer_gradients

BATCH, QUERIES, KEYS, SIZE = 2, 11, 13, 6
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of 4 × 4, so that these lengths give several tiles, the last of them partial."""
    monkeypatch.setattr(tiles, "LONGEST_TILE", 4)
    monkeypatch.setattr(tiles, "SHORTEST_TILE", 4)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def some(*shape):
    return RNG.random(shape) < 0.6


def single_head(**arguments):
    return Attention(**arguments)


def multi_head(**arguments):
    return MultiHeadAttention(2, 4, value_dim=3, **arguments)


def both(make, query, value, **arguments):
    """Returns a reference layer and a chunked one with the same weights."""
    reference = make(implementation="reference", **arguments)
    reference.build(query.shape, value.shape)
    for weight in reference.trainable_weights:
        weight.assign(weight + 0.3 * random(*weight.shape))
    chunked = type(reference).from_config({**reference.get_config(), "implementation": "chunked"})
    chunked.build(query.shape, value.shape)
    chunked.set_weights(reference.get_weights())
    return reference, chunked


def assert_equal(reference, chunked, query, value, tolerance=2e-5, **masks):
    """Compares contexts, and their gradients with respect to inputs and weights."""
    expected, found = (layer(query, value, **masks) for layer in (reference, chunked))
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=tolerance)
    direction = ops.convert_to_tensor(random(*expected.shape))
    (of_inputs, of_weights), (tiled_of_inputs, tiled_of_weights) = (
        layer_gradients(layer, query, value, direction=direction, **masks)
        for layer in (reference, chunked)
    )
    for expected, found in zip(of_inputs, tiled_of_inputs, strict=True):
        np.testing.assert_allclose(
            oracle.float64(found), oracle.float64(expected), rtol=1e-5, atol=tolerance
        )
    for expected, found in zip(of_weights.values(), tiled_of_weights.values(), strict=True):
        np.testing.assert_allclose(
            oracle.float64(found), oracle.float64(expected), rtol=1e-5, atol=10 * tolerance
        )


MASKS = {
    "nothing": {},
    "causal": {"use_causal_mask": True},
    "padding": {"query_mask": some(BATCH, QUERIES), "value_mask": some(BATCH, KEYS)},
    "pairs": {"attention_mask": some(BATCH, QUERIES, KEYS)},
    "nobody sees anything": {"value_mask": np.zeros((BATCH, KEYS), bool)},
}
SCORES = {
    **dict.fromkeys(scores.names(), scores.get),
    "location": lambda _: scores.Location(max_length=KEYS),
    "dense_synthesizer": lambda _: scores.DenseSynthesizer(max_length=KEYS),
    "random_synthesizer": lambda _: scores.RandomSynthesizer(max_length=KEYS),
}


@pytest.mark.few(3)
@pytest.mark.pairwise
@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("score_name", SCORES)
def test_equals_the_reference(make, score_name, name):
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    layers = both(make, query, value, score=SCORES[score_name](score_name))
    assert_equal(*layers, query, value, **MASKS[name])


@pytest.mark.few(1)
@pytest.mark.pairwise
@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("score_name", ["boxcar", "triangular", "epanechnikov"])
def test_sum_equals_the_reference(make, score_name, name):
    # Positive and close together, so that no sum is nearly 0.
    query, value = (abs(random(BATCH, length, SIZE)) * 0.2 for length in (QUERIES, KEYS))
    layers = both(make, query, value, score=score_name, normalizer="sum")
    assert_equal(*layers, query, value, tolerance=1e-4, **MASKS[name])


@pytest.mark.full
@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("score_name", ["scaled_dot", "additive"])
def test_softmax_with_one_more_key_equals_the_reference(make, score_name, name):
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    layers = both(make, query, value, score=score_name, normalizer="softmax_one")
    assert_equal(*layers, query, value, **MASKS[name])


@pytest.mark.few(2)
@pytest.mark.parametrize("lengths", [(1, 1), (1, 13), (13, 1), (4, 8), (16, 3)])
@pytest.mark.parametrize("score_name", ["scaled_dot", "additive"])
def test_odd_lengths(score_name, lengths):
    query, value = (random(BATCH, length, SIZE) for length in lengths)
    layers = both(multi_head, query, value, score=score_name)
    assert_equal(*layers, query, value)
    assert_equal(*layers, query, value, use_causal_mask=True)


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_bfloat16"])
def test_half_precision(dtype):
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    reference, chunked = both(multi_head, query, value, score="additive", dtype=dtype)
    expected, found = (layer(query, value, **MASKS["padding"]) for layer in (reference, chunked))
    assert expected.dtype == found.dtype
    ulp = 2**-7  # of bfloat16
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=0.02, rtol=ulp)


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("position", positions.names())
def test_positions(make, position):
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    layers = both(make, query, value, score="general", position=position)
    assert_equal(*layers, query, value, tolerance=1e-4, use_causal_mask=True)


def test_grouped_heads():
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    arguments = {"num_heads": 4, "key_dim": 4, "num_key_value_heads": 2}
    assert_equal(*both(MultiHeadAttention, query, value, **arguments), query, value)


@pytest.mark.full
def test_soft_cap():
    query, value = 5 * random(BATCH, QUERIES, SIZE), 5 * random(BATCH, KEYS, SIZE)
    layers = both(multi_head, query, value, soft_cap=2.0)
    assert_equal(*layers, query, value, tolerance=1e-4, use_causal_mask=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [single_head, multi_head])
def test_dropout_is_the_same_forward_and_backward(make):
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    layer = make(implementation="chunked", dropout=0.4, seed=3)
    layer(query, value)
    generator = getattr(layer, "attention", layer).seed_generator.state

    def function(query, value):
        generator.assign(ops.convert_to_tensor([3, 7], generator.dtype))
        return ops.sum(ops.sin(layer(query, value, training=True)))

    found = gradients(function, query, value, forms=["graph"])  # XLA draws different numbers
    arrays = [query.astype("float64"), value.astype("float64")]
    for array, gradient in zip(arrays, found, strict=True):
        for index in [(1, 5, 2), (0, 10, 5)]:
            values = []
            for step in (1e-2, -1e-2):
                moved = [each.astype("float32") for each in arrays]
                moved[0 if array is arrays[0] else 1][index] += step
                values.append(float(function(*moved)))
            expected = (values[0] - values[1]) / 2e-2
            assert float(gradient[index]) == pytest.approx(expected, abs=2e-3)


def test_dropout_drops_the_fraction_and_draws_anew(monkeypatch):
    monkeypatch.setattr(tiles, "LONGEST_TILE", 16)
    monkeypatch.setattr(tiles, "SHORTEST_TILE", 16)
    query, key = random(1, 64, SIZE), random(1, 64, SIZE)
    value = np.ones((1, 64, SIZE), "float32")  # a context is the sum of the kept weights, scaled
    layer = Attention(implementation="chunked", dropout=0.25)
    layer(query, value, key)
    first, second = (oracle.float64(layer(query, value, key, training=True)) for _ in range(2))
    assert abs(first - second).max() > 0.01
    assert first.mean() == pytest.approx(1.0, abs=0.05)
    assert len(np.unique(first[0, :, 0].round(4))) > 32, "tiles drop the same places"
    whole = layer(query, value, key, training=False)
    np.testing.assert_allclose(oracle.float64(whole), 1.0, atol=1e-6)


def test_every_tile_of_every_call_drops_other_places():
    dropout = WeightDropout(0.5, keras.random.SeedGenerator(0))
    calls, weights = [dropout.for_tiles() for _ in range(3)], ops.ones((64, 64))
    places = list(itertools.product(calls, map(ops.convert_to_tensor, range(3))))
    kept = [oracle.float64(call(weights, tile)) > 0 for call, tile in places]
    for first, second in itertools.combinations(kept, 2):
        assert (first == second).mean() == pytest.approx(0.5, abs=0.05)
    for (call, tile), expected in zip(places, kept, strict=True):
        np.testing.assert_array_equal(oracle.float64(call(weights, tile)) > 0, expected)


# ----------------------------------------------------------------------------------- computed tiles


class Counting(scores.Dot):
    """Counts the computed tiles if Keras calls it eagerly."""

    tiles = 0

    def pairwise(self, query, key):
        type(self).tiles += 1
        return super().pairwise(query, key)


@pytest.mark.few(2)
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="a loop is traced once")
@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (None, 16),
        (masks.Causal(), 10),
        (masks.SlidingWindow(left=3, right=0), 7),
        (masks.SlidingWindow(left=3, right=0) | masks.GlobalTokens(1), 12),
    ],
)
def test_tiles_that_a_mask_hides_are_never_computed(mask, expected):
    x = random(1, 16, SIZE)
    layer = Attention(Counting(), mask=mask, implementation="chunked")
    layer(x, x)
    Counting.tiles = 0
    layer(x, x)
    assert Counting.tiles == expected


@pytest.mark.full
def test_tiles_are_no_longer_than_the_blocks_of_a_mask(monkeypatch):
    monkeypatch.setattr(tiles, "LONGEST_TILE", 16)
    x = random(1, 64, SIZE)
    mask = masks.BigBird(block_size=8, window=3, num_global=1, num_random=1, length=64)
    reference = Attention("dot", mask=mask, implementation="reference")
    chunked = Attention(Counting(), mask=mask, implementation="chunked")
    chunked(x, x)
    Counting.tiles = 0
    found = chunked(x, x)
    if keras.backend.backend() != "jax":  # which traces a loop once
        # 8 each in the first row and column, 3 per row at the diagonal, and a random one
        assert Counting.tiles <= 8 + 7 + 7 * 3 + 7 < 64
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(reference(x, x)), atol=1e-5)


def test_auto_takes_it_when_the_scores_are_many():
    layer = MultiHeadAttention(8, 4)
    layer.build((None, None, 32), (None, None, 32))
    assert layer.choose_implementation((1, 2896, 32), (1, 2896, 32)) == "blocked"  # 8 · 2896² < 2²⁶
    assert layer.choose_implementation((1, 4096, 32), (1, 4096, 32)) == "chunked"
    assert layer.choose_implementation((None, 4096, 32), (1, 4096, 32)) == "blocked"
    assert layer.choose_implementation((1, 4096, 32), (1, 4096, 32), True) == "reference"


def test_auto_counts_the_positions_along_all_attended_axes():
    image = 1, 64, 64, 32
    layer = MultiHeadAttention(8, 4)
    layer.build(image, image)
    assert layer.choose_implementation(image, image) == "chunked"  # as for a length of 4096
    assert layer.choose_implementation((1, None, 64, 32), (1, 64, 64, 32)) == "blocked"
    rows = MultiHeadAttention(8, 4, attention_axes=2)
    rows.build(image, image)
    assert rows.choose_implementation(image, image) == "blocked"


def test_auto_counts_only_the_pairs_of_blocks():
    window = masks.SlidingWindow(left=255, right=0)
    layer = MultiHeadAttention(8, 4, mask=window)
    layer.build((None, None, 32), (None, None, 32))
    assert layer.choose_implementation((1, 4096, 32), (1, 4096, 32)) == "blocked"
    assert layer.choose_implementation((1, 65536, 32), (1, 65536, 32)) == "chunked"
    kernel = Attention("boxcar", "sum", window)  # which blocks do not support
    kernel.build((None, None, 32), (None, None, 32))
    assert kernel.choose_implementation((8, 4096, 32), (8, 4096, 32)) == "chunked"


def test_auto_counts_what_a_score_holds_for_a_pair():
    layer = Attention(scores.Additive(units=512))
    layer.build((None, None, 32), (None, None, 32))
    assert layer.choose_implementation((1, 512, 32), (1, 512, 32)) == "chunked"


# ------------------------------------------------------------------------------------- compilation


@pytest.mark.few(1)
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("score_name", ["scaled_dot", "additive"])
def test_compiles_with_unknown_lengths(score_name, jit):
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("TensorFlow's tf.function")
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    reference, chunked = both(multi_head, query, value, score=score_name, dropout=0.1)
    spec = tf.TensorSpec([None, None, SIZE])

    @tf.function(input_signature=[spec, spec], jit_compile=jit, autograph=False)
    def run(query, value):
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            context = chunked(query, value, use_causal_mask=True)
        return context, *tape.gradient(context, [query, value])

    def call(query, value):
        return reference(query, value, use_causal_mask=True)

    expected = call(query, value), *gradients(call, query, value)
    for found, of_reference in zip(run(query, value), expected, strict=True):
        np.testing.assert_allclose(found, of_reference, atol=2e-5)


@pytest.mark.full
def test_trains_in_a_model_as_the_reference_does():
    x = random(8, 10, SIZE)
    losses = []
    for layer in both(multi_head, x, x, mask="causal"):
        inputs = keras.Input((None, SIZE))
        model = keras.Model(inputs, layer(inputs, inputs))
        model.compile(keras.optimizers.SGD(0.5), "mse")
        history = model.fit(x, np.roll(x, 1, axis=1), epochs=8, shuffle=False, verbose=0).history
        losses.append(history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert losses[0][-1] < 0.95 * losses[0][0]


# ------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("lengths", [(0, 5), (5, 0)])
def test_empty_lengths(lengths):
    query, value = (random(BATCH, length, SIZE) for length in lengths)
    assert_equal(*both(single_head, query, value), query, value)


@pytest.mark.parametrize("mask", [masks.Lengths([0, 0]), ~masks.Causal()])
def test_mask_that_leaves_no_tile(mask):
    query, value = random(BATCH, 1, SIZE), random(BATCH, KEYS, SIZE)
    layers = both(single_head, query, value, mask=mask)
    assert_equal(*layers, query, value)


class RadialBasis(scores.Kernel):
    def of_squared(self, u_squared):
        return ops.exp(-u_squared / 2)


@pytest.mark.parametrize("implementation", ["reference", "chunked"])
def test_gradients_of_tiny_sums(implementation):
    # Sums of weights go down to 5e-32. A query of 13.2 would give a weight close to the smallest
    # float32, which TensorFlow's graph optimizer halves first.
    query = np.array([[[11.0], [12.5], [13.0]]])
    key, value = np.array([[[0.0], [1.0]]]), np.array([[[1.0], [0.0]]])
    layer = Attention(RadialBasis(), normalizer="sum", implementation=implementation)

    def expected(query, key, value):
        weights = np.exp(-((query - key.swapaxes(1, 2)) ** 2) / 2)
        return (weights @ value / weights.sum(-1, keepdims=True)).sum()

    def call(query, key, value):
        return layer(query, value, key)

    found = gradients(call, *(each.astype("float32") for each in (query, key, value)))
    wanted = oracle.numerical_gradients(expected, query, key, value)
    for gradient, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(oracle.float64(gradient), other, rtol=2e-3, atol=1e-9)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="the others have it")
def test_gradient_of_a_gradient_is_refused():
    import torch

    layer, x = Attention(implementation="chunked"), torch.tensor(random(1, 5, SIZE))
    output = layer(x.requires_grad_(), x)
    with pytest.raises(RuntimeError, match="create_graph=True.*implementation='reference'"):
        torch.autograd.grad(output.sum(), x, create_graph=True)


class Weighed(scores.Dot):
    """Scales the logits of each pair with a weight that its base class does not have."""

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self.factor = self.add_weight(name="factor", shape=(1,), initializer="ones")

    def pairwise(self, query, key):
        return super().pairwise(query, key) * ops.cast(self.factor, query.dtype)


def test_a_score_carries_the_weights_that_its_pairs_use():
    used = {
        scores.General(): [],
        scores.Cosine(learned_sharpness=True): [],
        scores.Additive(): ["scale"],
        scores.Additive(normalized=True): ["gain", "scale"],
        scores.Gaussian(learned_width=True): ["log_width"],
        Weighed(): ["factor"],
    }
    for score, expected in used.items():
        layer = Attention(score)
        layer.build((None, 4, SIZE), (None, 4, SIZE))
        assert sorted(each.name for each in layer.scoring.variables) == expected
