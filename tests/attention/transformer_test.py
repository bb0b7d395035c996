"""Transformer blocks against their equations in float64 NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    ConvolutionModule,
    MultiHeadAttention,
    SpatialAttention,
    masks,
    normalizers,
    positions,
    scores,
)
from keras_attention._keras import get_keras_mask
from keras_attention.feed_forward import FeedForward
from keras_attention.transformer import DecoderBlock, EncoderBlock
from tests.attention import oracle
from tests.attention.blocks import (
    BATCH,
    ENCODED,
    FORMS,
    LENGTH,
    RNG,
    SIZE,
    assert_all_close,
    decoder,
    decoder_block,
    dense,
    embedded,
    encoder,
    encoder_block,
    random,
    randomize,
    some,
)
from tests.attention.gradients import weight_gradients
from tests.attention.saved import check_config, check_file

TOLERANCE = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1.5e-1}
needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="is about TensorFlow"
)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


# The equations


@pytest.mark.few(6)
@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "mixed_bfloat16"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("masked", [False, True])
def test_encoder_block_equals_the_equations(form, masked, dtype):
    rounding = dtype.removeprefix("mixed_")
    block = encoder(**form, dtype=dtype)
    x = ops.cast(random(BATCH, LENGTH, SIZE), rounding)
    given = {"mask": some(BATCH, LENGTH)} if masked else {}
    found = block(x, **given, return_attention_scores=True)
    assert keras.backend.standardize_dtype(found[0].dtype) == rounding
    assert keras.backend.standardize_dtype(found[1].dtype) == "float32"
    expected = encoder_block(block, oracle.float64(x), **given)
    assert_all_close(found, expected, TOLERANCE[rounding])
    assert_all_close([block(x, **given)], [oracle.float64(found[0])], TOLERANCE[rounding])


@pytest.mark.few(4)
@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "mixed_float16"])
@pytest.mark.parametrize("normalize", ["post", "pre", "sandwich", "output"])
@pytest.mark.parametrize("masked", [False, True])
def test_decoder_block_equals_the_equations(normalize, masked, dtype):
    rounding = dtype.removeprefix("mixed_")
    block = decoder(normalize=normalize, dtype=dtype)
    x, encoded = random(BATCH, LENGTH, SIZE), random(BATCH, ENCODED, 6)
    x, encoded = ops.cast(x, rounding), ops.cast(encoded, rounding)
    given = {}
    if masked:
        given = {"mask": some(BATCH, LENGTH), "encoded_mask": some(BATCH, ENCODED)}
    found = block(x, encoded, **given, return_attention_scores=True)
    assert keras.backend.standardize_dtype(found[0].dtype) == rounding
    expected = decoder_block(block, oracle.float64(x), oracle.float64(encoded), **given)
    assert_all_close(found, expected, TOLERANCE[rounding])


@pytest.mark.parametrize("normalize", ["post", "pre"])
def test_arguments_reach_the_parts(normalize):
    arguments = {"key_dim": 3, "use_bias": False, "score": "additive", "epsilon": 0.1}
    arguments["soft_cap"] = 0.5
    x, encoded = random(BATCH, LENGTH, SIZE), random(BATCH, ENCODED, 6)
    block = encoder(normalize=normalize, mask="causal", **arguments)
    expected = encoder_block(block, x, use_causal_mask=True)
    assert_all_close(block(x, return_attention_scores=True), expected, 2e-5)
    block = decoder(normalize=normalize, **arguments)
    expected = decoder_block(block, x, encoded)
    assert_all_close(block(x, encoded, return_attention_scores=True), expected, 2e-5)
    norms = block.self_attention_norm, block.cross_attention_norm, block.feed_forward_norm
    assert [norm.epsilon for norm in norms] == [0.1] * 3  # the oracle reads it from them
    scores = (part.attention.score for part in (block.self_attention, block.cross_attention))
    assert len(set(map(id, scores))) == 2
    for part in (block.feed_forward, block.self_attention.output_projection):
        assert all(weight.name == "kernel" for weight in part.weights)


def test_mask_of_the_constructor_holds_besides_the_causal_one():
    pairs = np.abs(np.arange(LENGTH)[:, None] - np.arange(LENGTH)) < 2
    block = decoder(mask=masks.Array(pairs))
    x, encoded = random(BATCH, LENGTH, SIZE), random(BATCH, ENCODED, 6)
    _, weights, cross = block(x, encoded, return_attention_scores=True)
    seen = np.broadcast_to(np.tril(pairs), (BATCH, 2, LENGTH, LENGTH))
    np.testing.assert_array_equal(oracle.float64(weights) > 0, seen)
    assert (oracle.float64(cross) > 0).all()


def test_decoder_never_looks_ahead():
    block = decoder()
    x, encoded = random(BATCH, LENGTH, SIZE), random(BATCH, ENCODED, 6)
    whole = oracle.float64(block(x, encoded))
    for now in range(1, LENGTH):
        np.testing.assert_allclose(
            oracle.float64(block(x[:, :now], encoded)), whole[:, :now], atol=1e-5
        )


@pytest.mark.parametrize("activation", ["gelu", keras.activations.silu])
def test_activation_is_that_of_the_feed_forward_network(activation):
    layer = FeedForward(12, activation)
    x = random(BATCH, LENGTH, SIZE)
    layer(x)
    randomize(layer)
    inner = dense(layer.inner, x).astype("float32")
    inner = oracle.float64(keras.activations.get(activation)(ops.convert_to_tensor(inner)))
    np.testing.assert_allclose(oracle.float64(layer(x)), dense(layer.outer, inner), atol=1e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("position", positions.names())
def test_position_reaches_self_attention_alone(position):
    block = decoder(position=position)
    assert isinstance(block.self_attention.attention.position, positions.Position)
    assert block.cross_attention.attention.position is None
    block = encoder(position=position)
    x = random(1, LENGTH, SIZE)
    # without positions, a token that moves to the other end has the same output
    moved = np.concatenate([x[:, 1:], x[:, :1]], axis=1)
    assert np.abs(oracle.float64(block(moved))[:, -1] - oracle.float64(block(x))[:, 0]).max() > 1e-4
    bare = encoder()
    assert np.abs(oracle.float64(bare(moved))[:, -1] - oracle.float64(bare(x))[:, 0]).max() < 1e-5


# Number of weights


def test_six_and_six_blocks_have_the_weights_of_the_base_model():
    attention = 4 * (512 * 512 + 512)  # queries, keys, values, output
    hidden = (512 * 2048 + 2048) + (2048 * 512 + 512)
    norm = 2 * 512
    encoder_layer = attention + hidden + 2 * norm
    decoder_layer = 2 * attention + hidden + 3 * norm
    assert (encoder_layer, decoder_layer) == (3_152_384, 4_204_032)

    x = keras.Input((None, 512))
    decoded = DecoderBlock(8, 2048)(x, EncoderBlock(8, 2048)(x))
    count = 6 * keras.Model(x, decoded).count_params()
    assert count == 6 * encoder_layer + 6 * decoder_layer == 44_138_496
    # with the paper's 37,000 tokens, this is its 65 million, apart from biases and rounding
    assert 62e6 < count + 37_000 * 512 < 66e6


# Masks


@pytest.mark.few(1)
@pytest.mark.parametrize("normalize", ["post", "pre"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_implicit_masks_equal_explicit_masks(normalize, dtype):
    tokens, source = RNG.integers(0, 3, (BATCH, LENGTH)), RNG.integers(0, 3, (BATCH, ENCODED))
    x, encoded = embedded(tokens), embedded(source, 6)
    bare_x, bare_encoded = oracle.float64(x), oracle.float64(encoded)
    block = encoder(normalize=normalize, dtype=dtype)
    implicit = block(x, return_attention_scores=True)
    explicit = block(bare_x, mask=tokens > 0, return_attention_scores=True)
    for found, expected in zip(implicit, explicit, strict=True):
        np.testing.assert_array_equal(oracle.float64(found), oracle.float64(expected))
    block = decoder(normalize=normalize, dtype=dtype)
    implicit = block(x, encoded, return_attention_scores=True)
    explicit = block(
        bare_x,
        bare_encoded,
        mask=tokens > 0,
        encoded_mask=source > 0,
        return_attention_scores=True,
    )
    for found, expected in zip(implicit, explicit, strict=True):
        np.testing.assert_array_equal(oracle.float64(found), oracle.float64(expected))


@pytest.mark.parametrize("normalize", ["post", "pre"])
def test_implicit_and_explicit_masks_count_together_and_are_handed_on(normalize):
    tokens, visible = RNG.integers(0, 3, (BATCH, LENGTH)), some(BATCH, LENGTH)
    x = embedded(tokens)
    both = visible & (tokens > 0)
    block = encoder(normalize=normalize)
    found, weights = block(x, mask=visible, return_attention_scores=True)
    expected = encoder_block(block, oracle.float64(x), mask=both)
    assert_all_close([found, weights], expected, 2e-5)
    again, _ = block(found, return_attention_scores=True)
    expected_again, _ = encoder_block(block, expected[0], mask=both)
    assert_all_close([again], [expected_again], 1e-4)


KINDS_OF_MASKS = {
    "by position": lambda block, x, mask: block(x, ops.convert_to_tensor(mask)),
    "integers": lambda block, x, mask: block(x, mask=mask.astype("int32")),
    "a list": lambda block, x, mask: block(x, mask=mask.tolist()),
}


@pytest.mark.parametrize("kind", KINDS_OF_MASKS)
@pytest.mark.parametrize("layer", [encoder, lambda: ConvolutionModule(3), SpatialAttention])
def test_masks_are_handed_on_as_booleans(layer, kind):
    mask, x = some(BATCH, LENGTH), random(BATCH, LENGTH, SIZE)
    found = get_keras_mask(KINDS_OF_MASKS[kind](layer(), x, mask))
    assert keras.backend.standardize_dtype(found.dtype) == "bool"
    np.testing.assert_array_equal(ops.convert_to_numpy(found), mask)


def test_feed_forward_tells_its_shape():
    layer = FeedForward(16)
    each = keras.layers.TimeDistributed(layer)
    assert each(keras.Input((3, 5, SIZE))).shape == (None, 3, 5, SIZE)
    x = random(BATCH, 3, 5, SIZE)
    assert_all_close(ops.unstack(each(x), axis=1), [layer(x[:, i]) for i in range(3)], 1e-5)


@pytest.mark.few(1)
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("normalize", ["post", "pre"])
def test_functional_model_of_unknown_lengths_equals_the_blocks(normalize):
    source, target = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    visible = keras.Input((None,), dtype="bool")
    table = keras.layers.Embedding(50, SIZE, mask_zero=True)
    first, second = encoder(normalize=normalize), encoder(normalize=normalize)
    last = decoder(SIZE, normalize=normalize)
    encoded = second(first(table(source), mask=visible))
    outputs = last(table(target), encoded, return_attention_scores=True)
    assert [each.shape for each in outputs] == [
        (None, None, SIZE),
        (None, 2, None, None),
        (None, 2, None, None),
    ]
    pooled = keras.layers.GlobalAveragePooling1D()(outputs[0])
    model = keras.Model([source, visible, target], [*outputs, pooled])
    model.compile(jit_compile=False)
    for length, other in [(4, 6), (1, 3)]:
        sources = RNG.integers(0, 3, (BATCH, length))
        targets = RNG.integers(0, 3, (BATCH, other))
        targets[:, 0] = 1
        seen = some(BATCH, length)
        found = model.predict([sources, seen, targets], verbose=0)
        both = seen & (sources > 0)
        x = encoder_block(first, oracle.float64(table(sources)), mask=both)[0]
        x = encoder_block(second, x, mask=both)[0]
        y = oracle.float64(table(targets))
        expected = decoder_block(last, y, x, mask=targets > 0, encoded_mask=both)
        assert_all_close(found[:3], expected, 1e-4)
        means = [row[kept].mean(0) for row, kept in zip(expected[0], targets > 0, strict=True)]
        np.testing.assert_allclose(found[3], means, atol=1e-4)


@pytest.mark.parametrize("make", [encoder, decoder])
def test_axes_may_be_empty(make):
    block = make()
    for batch, length in [(0, 3), (2, 0)]:
        inputs = [random(batch, length, SIZE), random(batch, 2, 6)]
        found = block(*inputs[: 1 if make is encoder else 2])
        assert tuple(found.shape) == (batch, length, SIZE)


# Training


def test_dropout_acts_in_training_alone_and_on_the_parts_it_is_for():
    x = random(BATCH, LENGTH, SIZE)
    for name in ("dropout", "hidden_dropout", "attention_dropout"):
        arguments = {name: 0.5}
        block = encoder(**arguments)
        plain = oracle.float64(block(x))
        np.testing.assert_allclose(plain, encoder_block(block, x)[0], atol=2e-5)
        assert np.abs(oracle.float64(block(x, training=True)) - plain).max() > 0.01
    assert block.attention.attention.dropout == 0.5


@pytest.mark.few(2)
@pytest.mark.parametrize("normalize", ["post", "pre"])
@pytest.mark.parametrize("position", [None, "t5", "shaw"])
def test_every_weight_of_a_block_gets_a_gradient(normalize, position):
    block = decoder(normalize=normalize, position=position)
    found = weight_gradients(block, random(BATCH, LENGTH, SIZE), random(BATCH, ENCODED, 6))
    for path, gradient in found.items():
        gradient = np.abs(oracle.float64(ops.convert_to_tensor(gradient)))
        # a key bias shifts all logits of a query equally
        assert gradient.max() > (0 if "key/bias" in path else 1e-6), path


@pytest.mark.few(1)
@needs_tensorflow
@pytest.mark.parametrize("normalize", ["post", "pre"])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_blocks_compile(normalize, jit_compile):
    import tensorflow as tf

    first = encoder(normalize=normalize, position="rotary")
    last = decoder(SIZE, normalize=normalize, position="t5")

    def run(x, y, mask):
        return last(y, first(x, mask=mask), encoded_mask=mask, return_attention_scores=True)

    vectors = tf.TensorSpec((None, None, SIZE))
    unknown = [vectors, vectors, tf.TensorSpec((None, None), tf.bool)]
    signature = None if jit_compile else unknown
    compiled = tf.function(run, signature, jit_compile=jit_compile, autograph=False)
    lengths = [(4, 6)] if jit_compile else [(4, 6), (5, 1)]  # XLA compiles anew for each
    for length, other in lengths:
        x, y = random(BATCH, length, SIZE), random(BATCH, other, SIZE)
        inputs = [tf.constant(each) for each in (x, y, some(BATCH, length))]
        assert_all_close(compiled(*inputs), map(oracle.float64, run(*inputs)), 1e-4)


@pytest.mark.full
def test_trains_in_half_precision_and_compiled():
    x = keras.Input((None, SIZE))
    y = EncoderBlock(2, 12, normalize="pre", dropout=0.1, attention_dropout=0.1)(x)
    y = DecoderBlock(2, 12, position="rotary", dropout=0.1, dtype="mixed_float16")(y, x)
    model = keras.Model(x, keras.layers.Dense(1, dtype="float32")(y))
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=True)
    inputs = random(16, LENGTH, SIZE)
    losses = model.fit(inputs, inputs[..., :1], epochs=30, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]


# Files

FEED_FORWARD = {
    "hidden": 5,
    "activation": "squared_relu",
    "dropout": 0.25,
    "use_bias": False,
    "gated": True,
}
BLOCK = {
    "num_heads": 3,
    "hidden": 5,
    "key_dim": 4,
    "normalize": "pre",
    "epsilon": 0.01,
    "dropout": 0.25,
    "attention_dropout": 0.125,
    "hidden_dropout": 0.375,
    "activation": "gelu",
    "use_bias": False,
    "score": scores.Additive(units=3),
    "mask": ~masks.Array(np.eye(LENGTH, dtype=bool)),
    "position": positions.T5Bias(6, 20),
    "norm": "rms",
    "gated": True,
    "num_key_value_heads": 1,
    "query_key_norm": 1e-3,
    "joint_query_key_norm": True,
    "soft_cap": 2.5,
    "normalizer": normalizers.Sparsemax(),
    "implementation": "reference",
    "residual_scale": 0.5,
    "name": "layer",
}
EVERY_ARGUMENT = [
    (FeedForward, FEED_FORWARD),
    (EncoderBlock, {**BLOCK, "parallel": True, "shared_norm": True}),
    (DecoderBlock, {**BLOCK, "normalize": "sandwich"}),
    (EncoderBlock, {**BLOCK, "dtype": "mixed_bfloat16"}),
]


@pytest.mark.parametrize(("layer_class", "arguments"), EVERY_ARGUMENT)
def test_config_has_every_argument_and_makes_the_same_layer(layer_class, arguments):
    check_config(layer_class, arguments)


def model_of_everything():
    """A model with both blocks and every position, on embeddings and inside the heads."""
    x = keras.Input((LENGTH, SIZE), name="x")
    visible = keras.Input((LENGTH,), dtype="bool", name="visible")
    arguments = {**BLOCK, "score": scores.Additive(units=3), "position": positions.Shaw(3)}
    y = positions.SinusoidalPosition("concatenate", 2, max_wavelength=50)(x)
    y = positions.LearnedPosition(9, embeddings_initializer="ones")(y, start=2)
    outputs = {"full": EncoderBlock(**arguments)(y, mask=visible)}
    arguments |= {"name": "other", "score": scores.Additive(units=3)}
    arguments["position"] = positions.T5Bias(6, 20, bidirectional=False)
    outputs["decoded"], outputs["weights"], outputs["cross"] = DecoderBlock(**arguments)(
        y, x, mask=visible, return_attention_scores=True
    )
    for name in positions.names():
        outputs[name] = EncoderBlock(2, 5, position=name, key_dim=4)(y)
    outputs["fraction"] = EncoderBlock(2, 5, position=positions.Rotary(50, 0.4))(y)
    outputs["ff"] = FeedForward(**FEED_FORWARD)(y)
    return keras.Model({"x": x, "visible": visible}, outputs)


@pytest.mark.full
def test_saved_file_gives_the_same_in_a_process_that_only_imports_the_package(tmp_path):
    model = model_of_everything()
    randomize(model)
    inputs = {"x": random(BATCH, LENGTH, SIZE), "visible": some(BATCH, LENGTH)}
    modules = ["keras_attention.positions", "keras_attention.transformer"]
    check_file(model, inputs, tmp_path, modules)


def test_parts_of_a_block_are_within_reach():
    block = decoder()
    assert isinstance(block.self_attention, MultiHeadAttention)
    assert isinstance(block.cross_attention, MultiHeadAttention)
    assert isinstance(block.feed_forward, FeedForward)
    shared = positions.T5Bias()
    first, second = encoder(position=shared), encoder(position=shared)
    assert first.attention.attention.position is second.attention.attention.position is shared
