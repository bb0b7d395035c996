"""Positions inside heads, against their equations in float64 NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    Attention,
    EncoderBlock,
    MultiHeadAttention,
    normalizers,
    positions,
    scores,
)
from keras_attention.positions.alibi import slopes
from keras_attention.positions.t5 import bucket
from tests.attention import oracle
from tests.attention.gradients import gradients
from tests.attention.position_equations import (
    alibi_bias,
    grid_bias,
    kerple_bias,
    rotary,
    shaw_bias,
    t5_bias,
    transformer_xl_bias,
)
from tests.attention.saved import check_config

RNG = np.random.default_rng(0)
HALF = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # largest relative rounding error
BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 3, 4, 6, 8
needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="is about tf.function"
)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def randomize(layer):
    for variable in layer.weights:
        variable.assign(RNG.normal(size=variable.shape))


@pytest.mark.parametrize("heads", [(), (HEADS,)])
@pytest.mark.parametrize(("fraction", "rotated"), [(1.0, 8), (0.5, 4), (0.25, 2)])
def test_rotary_equals_its_matrix(heads, fraction, rotated):
    x, places = random(BATCH, *heads, QUERIES, SIZE), np.array([7, 0, 3, 1023], "int32")
    position = positions.Rotary(fraction=fraction, max_wavelength=500)
    position.build(heads, SIZE)
    found = position.rotate(ops.convert_to_tensor(x), places)
    expected = rotary(oracle.float64(x), places, 500, rotated)
    np.testing.assert_allclose(oracle.float64(found), expected, atol=3e-4)
    assert position.features(x) is None
    assert position.bias(None, places, places) is None


@pytest.mark.parametrize("position", [positions.Rotary(), positions.GridRotary((2, 3))])
def test_integers_are_rotated_as_floats(position):
    x, places = RNG.integers(-2, 3, (BATCH, QUERIES, SIZE)), np.arange(QUERIES, dtype="int32")
    found, expected = position.rotate(x, places), position.rotate(x.astype("float32"), places)
    np.testing.assert_array_equal(oracle.float64(found), oracle.float64(expected))


def test_rotary_serves_all_sizes():
    position, places = positions.Rotary(), np.arange(QUERIES, dtype="int32")
    position.build((HEADS,), SIZE)
    for size in (2, SIZE, 16):
        x = random(BATCH, HEADS, QUERIES, size)
        expected = rotary(oracle.float64(x), places, 10000, size)
        found = oracle.float64(position.rotate(ops.convert_to_tensor(x), places))
        np.testing.assert_allclose(found, expected, atol=1e-5)
    layer = Attention(position="rotary")
    layer(random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE))
    query, value = random(BATCH, QUERIES, 16), random(BATCH, KEYS, 16)
    np.testing.assert_allclose(
        oracle.float64(layer(query, value)),
        oracle.float64(Attention(position="rotary")(query, value)),
        atol=1e-6,
    )


@pytest.mark.parametrize("shift", [1, 100, 3000])
def test_products_of_rotated_vectors_depend_on_the_distance_alone(shift):
    position = positions.Rotary()
    position.build((), SIZE)
    query, key = (ops.convert_to_tensor(random(1, 5, SIZE)) for _ in range(2))

    def products(first):
        places = np.arange(first, first + 5, dtype="int32")
        rotated = [position.rotate(each, places) for each in (query, key)]
        return oracle.float64(ops.matmul(rotated[0], ops.swapaxes(rotated[1], -1, -2)))

    np.testing.assert_allclose(products(shift), products(0), atol=2e-3)
    assert (
        np.abs(products(0) - oracle.float64(ops.matmul(query, ops.swapaxes(key, 1, 2)))).max() > 0.1
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rotation_is_rounded_once_in_half_precision(dtype):
    x = ops.cast(random(1, 64, SIZE), dtype)
    places = np.arange(960, 1024, dtype="int32")
    position = positions.Rotary(dtype=dtype)
    position.build((), SIZE)
    found = position.rotate(x, places)
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    expected = rotary(oracle.float64(x), places)
    difference = np.abs(oracle.float64(found) - expected)
    assert (difference <= HALF[dtype] * np.abs(expected) + 5e-4).all()


def test_slopes_are_those_of_the_paper():
    np.testing.assert_allclose(slopes(8), [2.0**-h for h in range(1, 9)])
    np.testing.assert_allclose(slopes(16), [2.0 ** (-h / 2) for h in range(1, 17)])
    twelve = [2.0**-h for h in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]
    np.testing.assert_allclose(slopes(12), twelve)
    np.testing.assert_allclose(slopes(3), [2.0**-4, 2.0**-8, 2.0**-2])
    np.testing.assert_allclose(slopes(1), [2.0**-8])
    for heads in range(1, 70):
        assert len(set(slopes(heads))) == heads


# First distances of the buckets of T5's two standard forms, by hand: 8 · 2^(m/2) and 16 · 2^(3m/16)
# rounded up. T5's own code computes them with float32 logarithms.
BOTH_SIDES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
ONE_SIDE = [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]


def test_buckets_are_those_of_t5():
    for distance in range(400):
        side = sum(distance >= first for first in BOTH_SIDES) - 1
        assert bucket(-distance, 32, 128, True) == side
        assert bucket(distance, 32, 128, True) == side + (16 if distance else 0)
        assert bucket(-distance, 32, 128, False) == sum(distance >= n for n in ONE_SIDE) - 1
        assert bucket(distance, 32, 128, False) == 0


@pytest.mark.parametrize(
    ("num_buckets", "max_distance"), [(32, 128), (64, 256), (8, 20), (2, 2), (7, 50)]
)
def test_buckets_equal_their_formula(num_buckets, max_distance):
    exact = num_buckets // 2
    for distance in range(1, 3 * max_distance):
        ratio = np.log(distance / exact) / np.log(max_distance / exact)
        place = exact + ratio * (num_buckets - exact)
        if distance >= exact and abs(place - round(place)) < 1e-9:
            place = round(place)
        expected = distance if distance < exact else min(int(place), num_buckets - 1)
        assert bucket(-distance, num_buckets, max_distance, False) == expected


def bias_of(position, query, queries, keys, key=None):
    """Returns the bias of a position for queries and keys at the positions `queries` and `keys`."""
    features = position.features(query)
    if position.uses_key:
        features = features, position.key_features(key)
    return position.bias(features, queries, keys)


BIASES = {
    "alibi": (positions.ALiBi, alibi_bias),
    "kerple": (positions.Kerple, kerple_bias),
    "kerple, power": (lambda **arguments: positions.Kerple("power", **arguments), kerple_bias),
    "t5": (lambda **arguments: positions.T5Bias(8, 6, **arguments), t5_bias),
    "shaw": (lambda **arguments: positions.Shaw(2, **arguments), shaw_bias),
    "transformer_xl": (positions.TransformerXL, transformer_xl_bias),
    "grid": (lambda **arguments: positions.GridBias((3, 4), (2, 3), 1, **arguments), grid_bias),
}
PLACES = {
    "all": (np.arange(QUERIES) + KEYS - QUERIES, np.arange(KEYS)),
    "a tile": (np.array([10, 11]), np.array([4, 5, 6])),
    "any": (np.array([3, 900, 0, 12]), np.array([7, 0, 12, 12, 3000])),
    "one query": (np.array([5]), np.arange(6)),
    "none": (np.zeros(0, int), np.arange(3)),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("kind", BIASES)
@pytest.mark.parametrize("heads", [(), (1,), (HEADS,)])
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_bias_equals_the_equation_in_float32(kind, heads, places, dtype):
    make, expect = BIASES[kind]
    queries, keys = (each.astype("int32") for each in PLACES[places])
    position = make(dtype=dtype)
    position.build(heads, SIZE)
    randomize(position)
    compute = dtype.removeprefix("mixed_")
    query = ops.cast(random(BATCH, *heads, len(queries), SIZE), compute)
    with_autocast = keras.layers.Layer(dtype=dtype)  # calls run in its scope
    with_autocast.call = lambda x: bias_of(position, x, queries, keys)
    bias = with_autocast(query)
    assert keras.backend.standardize_dtype(bias.dtype) == "float32"
    expected = expect(position, oracle.float64(query), queries, keys)
    found = np.broadcast_to(oracle.float64(bias), expected.shape)
    # The angles of sines are float32, so their error grows with the position.
    far = 2.0**-20 * np.abs([*queries, *keys]).max() if kind == "transformer_xl" else 0.0
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 + 10.0 * far)
    np.testing.assert_array_equal(
        oracle.float64(position.rotate(query, queries)), oracle.float64(query)
    )


@pytest.mark.parametrize("kind", ["t5", "shaw", "grid"])
def test_weights_of_a_bias_get_their_gradient(kind):
    make, expect = BIASES[kind]
    position = make()
    position.build((HEADS,), SIZE)
    randomize(position)
    query = random(BATCH, HEADS, QUERIES, SIZE)
    queries, keys = (each.astype("int32") for each in PLACES["all"])
    weights = random(BATCH, HEADS, QUERIES, KEYS)

    def call(table):
        with keras.StatelessScope([(position.embeddings, table)]):
            bias = bias_of(position, query, queries, keys)
        return ops.multiply(bias, weights)

    (found,) = gradients(call, position.embeddings.value)
    kept = oracle.weight(position, "embeddings")

    def expected_total(table):
        position.embeddings.assign(table)
        return (expect(position, oracle.float64(query), queries, keys) * weights).sum()

    (expected,) = oracle.numerical_gradients(expected_total, kept, step=1e-2)  # it is linear
    np.testing.assert_allclose(oracle.float64(ops.convert_to_tensor(found)), expected, atol=2e-3)


def test_shaw_sends_a_gradient_to_its_query():
    position = positions.Shaw(2)
    position.build((), SIZE)
    randomize(position)
    queries, keys = (each.astype("int32") for each in PLACES["all"])
    query = random(1, QUERIES, SIZE)
    (found,) = gradients(lambda x: bias_of(position, x, queries, keys), query)
    clipped = np.clip(keys[None] - queries[:, None], -2, 2) + 2
    expected = oracle.weight(position, "embeddings")[clipped].sum(1) / np.sqrt(SIZE)
    np.testing.assert_allclose(oracle.float64(found)[0], expected, atol=1e-5)


def test_transformer_xl_is_the_attention_of_its_paper():
    """All four terms of section 3.3; `u` is the bias of the queries."""
    layer = MultiHeadAttention(2, SIZE, position="transformer_xl")
    x = random(1, KEYS, SIZE)
    layer.build(x.shape, x.shape)
    randomize(layer)
    _, weights = layer(x, x, return_attention_scores=True)
    position = layer.attention.position

    def heads(projection):
        kernel = oracle.weight(projection, "kernel")
        return (x[0].astype("float64") @ kernel).reshape(KEYS, 2, SIZE).transpose(1, 0, 2)

    query = heads(layer.query_projection)  # without the bias, which is u
    key = heads(layer.key_projection)
    key = key + oracle.weight(layer.key_projection, "bias").reshape(2, 1, SIZE)
    u = oracle.weight(layer.query_projection, "bias").reshape(2, SIZE)
    v = u + oracle.weight(position, "bias_vector")
    kernel = oracle.weight(position, "kernel").transpose(0, 2, 1)  # W_R, per head
    logits = np.zeros((2, KEYS, KEYS))
    for head, i, j in np.ndindex(logits.shape):
        angles = (i - j) * 10000.0 ** (-np.arange(SIZE) / SIZE)
        wave = np.concatenate([np.sin(angles), np.cos(angles)]) @ kernel[head]
        content = query[head, i] @ key[head, j] + u[head] @ key[head, j]
        logits[head, i, j] = content + query[head, i] @ wave + v[head] @ wave
    logits /= np.sqrt(SIZE)
    expected = np.exp(logits - logits.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(oracle.float64(weights)[0], expected, atol=1e-4)


@pytest.mark.few(3)
@needs_tensorflow
@pytest.mark.parametrize("kind", positions.names())
@pytest.mark.parametrize("jit_compile", [False, True])
def test_positions_compile_for_unknown_lengths(kind, jit_compile):
    import tensorflow as tf

    position = positions.get(kind)
    position.build((HEADS,), SIZE)

    def act(x, key, queries, keys):
        rotated = position.rotate(x, queries)
        bias = bias_of(position, x, queries, keys, key)
        return [rotated] if bias is None else [rotated, bias]

    places = tf.TensorSpec((None,), tf.int32)
    vectors = tf.TensorSpec((None, HEADS, None, SIZE))
    unknown = [vectors, vectors, places, places]
    compiled = tf.function(
        act, input_signature=None if jit_compile else unknown, jit_compile=jit_compile
    )
    for lengths in [(4, 6), (1, 9)]:
        inputs = [tf.constant(random(BATCH, HEADS, length, SIZE)) for length in lengths]
        inputs += [tf.range(length, dtype=tf.int32) + 20 for length in lengths]
        pairs = zip(compiled(*inputs), act(*inputs), strict=True)
        for found, expected in pairs:
            np.testing.assert_allclose(
                oracle.float64(found), oracle.float64(expected), atol=1e-4, rtol=1e-4
            )


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [name for name in positions.names() if name != "disentangled"])
def test_layers_of_equally_many_heads_share_a_position(name):
    position = positions.get(name)
    x = random(BATCH, KEYS, SIZE)
    first, second = (MultiHeadAttention(HEADS, 4, position=position) for _ in range(2))
    first(x, x)
    second(x, x)
    second.set_weights(first.get_weights())
    np.testing.assert_array_equal(oracle.float64(second(x, x)), oracle.float64(first(x, x)))


@pytest.mark.parametrize("name", ["rotary", "shaw"])
def test_what_is_the_same_in_all_heads_serves_any_number_of_them(name):
    position = positions.get(name)
    x = random(BATCH, KEYS, SIZE)
    Attention(position=position)(x, x)
    layer = MultiHeadAttention(HEADS, SIZE, position=position)
    found = layer(x, x)
    own = MultiHeadAttention(HEADS, SIZE, position=name)
    own.build(x.shape, x.shape)
    own.set_weights(layer.get_weights())
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(own(x, x)), atol=1e-6)


def two_layers(layer_class, *arguments):
    parts = {
        "position": positions.T5Bias(),
        "score": scores.General(),
        "normalizer": normalizers.Hard(stochastic=True, seed=0),
    }
    inputs = x = keras.Input((None, SIZE))
    for _ in range(2):
        layer = layer_class(HEADS, *arguments, **parts)
        x = layer(x, x) if layer_class is MultiHeadAttention else layer(x)
    return keras.Model(inputs, x)


@pytest.mark.few(1)
@pytest.mark.parametrize("arguments", [(MultiHeadAttention, 4), (EncoderBlock, 16, 4)])
def test_files_of_functional_models_keep_parts_shared(arguments, tmp_path):
    model = two_layers(*arguments)
    names = [weight.name for weight in model.weights]
    assert names.count("embeddings") == 1
    for weight in model.trainable_weights:
        weight.assign(random(*weight.shape))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert [weight.name for weight in again.weights] == names
    x = random(BATCH, KEYS, SIZE)
    np.testing.assert_allclose(oracle.float64(again(x)), oracle.float64(model(x)), atol=1e-5)


def test_files_keep_vectors_of_distances_shared(tmp_path):
    embedding = positions.DistanceEmbedding(20, 8, 1e-5)
    inputs = x = keras.Input((None, SIZE))
    for _ in range(2):
        x = MultiHeadAttention(HEADS, 4, position=positions.Disentangled(embedding))(x, x)
    model = keras.Model(inputs, x)
    randomize(model)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert len(again.weights) == len(model.weights) == 2 * 8 + 3
    x = random(BATCH, KEYS, SIZE)
    np.testing.assert_allclose(oracle.float64(again(x)), oracle.float64(model(x)), atol=1e-5)


def test_names_make_the_positions_inside_heads():
    assert set(positions.names()) == {
        *("alibi", "disentangled", "kerple", "rotary", "shaw", "t5", "transformer_xl")
    }
    for name in positions.names():
        position = positions.get(name)
        assert positions.get(position) is position
        config = keras.saving.serialize_keras_object(position)
        assert type(positions.get(config)) is type(position)


ARGUMENTS = [
    (positions.SinusoidalPosition, {"mode": "concatenate", "size": 6, "max_wavelength": 50}),
    (positions.SinusoidalPosition, {"name": "where", "dtype": "mixed_bfloat16"}),
    (
        positions.LearnedPosition,
        {
            "max_length": 9,
            "mode": "concatenate",
            "size": 3,
            "embeddings_initializer": keras.initializers.HeNormal(seed=1),
        },
    ),
    (positions.Rotary, {"max_wavelength": 77, "fraction": 0.5, "name": "turn"}),
    (positions.ALiBi, {"name": "line"}),
    (positions.Kerple, {"kind": "power"}),
    (
        positions.T5Bias,
        {
            "num_buckets": 6,
            "max_distance": 20,
            "bidirectional": False,
            "embeddings_initializer": keras.initializers.HeNormal(seed=2),
        },
    ),
    (
        positions.Shaw,
        {"max_distance": 3, "embeddings_initializer": keras.initializers.HeNormal(seed=3)},
    ),
    (
        positions.GridBias,
        {
            "grid": (3, 5),
            "window": (2, 3),
            "num_prefix_tokens": 4,
            "embeddings_initializer": keras.initializers.HeNormal(seed=6),
        },
    ),
    (
        positions.GridRotary,
        {
            "grid": (3, 5),
            "max_wavelength": 50,
            "coordinates": "indices",
            "num_prefix_tokens": 1,
            "name": "turn",
        },
    ),
    (
        positions.DistanceEmbedding,
        {
            "max_distance": 7,
            "num_buckets": 8,
            "epsilon": 1e-7,
            "embeddings_initializer": keras.initializers.HeNormal(seed=5),
        },
    ),
    (
        positions.TransformerXL,
        {"max_wavelength": 99, "kernel_initializer": keras.initializers.HeNormal(seed=4)},
    ),
]


@pytest.mark.parametrize(("layer_class", "arguments"), ARGUMENTS)
def test_config_has_every_argument_and_makes_the_same_layer(layer_class, arguments):
    check_config(layer_class, arguments)


@pytest.mark.parametrize("heads", [(), (HEADS,)])
@pytest.mark.parametrize("name", positions.names())
def test_config_of_a_built_position_builds_it_again(name, heads):
    position = positions.get(name)
    position.build(heads, SIZE)
    again = positions.get(keras.saving.serialize_keras_object(position))
    assert again.built
    assert again.heads == heads
    assert again.size == SIZE
    assert [each.shape for each in again.weights] == [each.shape for each in position.weights]
