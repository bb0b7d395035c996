"""What the less common attention layers share with all others."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    BlockSelectionAttention,
    CrossCovarianceAttention,
    DifferentialAttention,
    ForgettingAttention,
    TalkingHeadsAttention,
)
from keras_attention.gated_delta import GatedDeltaAttention
from keras_attention.gated_linear import GatedLinearAttention
from keras_attention.kimi_delta import KimiDeltaAttention
from keras_attention.latent import LatentAttention
from keras_attention.linear import LinearAttention
from keras_attention.linformer import LinformerAttention
from keras_attention.local import LocalAttention
from keras_attention.longformer import LongformerAttention
from keras_attention.nystrom import NystromAttention
from keras_attention.performer import PerformerAttention
from keras_attention.reformer import ReformerAttention
from keras_attention.retention import RetentionAttention
from tests.attention import oracle
from tests.attention.compiled import compiled
from tests.attention.gradients import gradients, gradients_in_every_form, weight_gradients

BATCH, SIZE = 2, 5
LAYERS = {
    "local, monotonic": lambda **also: LocalAttention("monotonic", 2, **also),
    "local, predictive": lambda **also: LocalAttention("predictive", 3, **also),
    "differential": lambda **also: DifferentialAttention(2, 4, **also),
    "forgetting": lambda **also: ForgettingAttention(2, 4, **also),
    "talking heads": lambda **also: TalkingHeadsAttention(2, 4, **also),
    "block selection": lambda seed, **also: BlockSelectionAttention(
        2, 4, block_size=16, num_blocks=2, **also
    ),
    "block selection, causal": lambda seed, **also: BlockSelectionAttention(
        2, 4, block_size=4, num_blocks=3, causal=True, num_key_value_heads=1, **also
    ),
    "latent": lambda **also: LatentAttention(2, 4, latent_dim=6, rotary_dim=2, **also),
    "linear": lambda seed, **also: LinearAttention(2, 4, **also),  # nothing random
    "performer": lambda **also: PerformerAttention(2, 4, **also),
    "performer, relu": lambda **also: PerformerAttention(2, 4, kernel="relu", **also),
    "performer, causal": lambda **also: PerformerAttention(2, 4, causal=True, **also),
    "linformer": lambda **also: LinformerAttention(
        2, 4, projected_length=3, max_length=200, **also
    ),
    "longformer": lambda **also: LongformerAttention(2, 4, window=4, **also),
    "longformer, no global tokens": lambda **also: LongformerAttention(
        2, 4, window=6, num_global_tokens=0, **also
    ),
    "nystrom": lambda seed, **also: NystromAttention(2, 4, num_landmarks=4, **also),
    "nystrom, convolution": lambda seed, **also: NystromAttention(
        2, 4, num_landmarks=4, kernel_size=3, **also
    ),
    "cross-covariance": lambda seed, **also: CrossCovarianceAttention(2, 4, **also),
    "reformer": lambda **also: ReformerAttention(2, 4, bucket_size=4, **also),
    "reformer, causal": lambda **also: ReformerAttention(2, 4, bucket_size=4, causal=True, **also),
    "gated delta": lambda seed, **also: GatedDeltaAttention(2, 4, **also),
    "DeltaNet": lambda seed, **also: GatedDeltaAttention(
        2, 4, num_key_heads=1, use_decay=False, use_gate=False, kernel_size=None, **also
    ),
    "retention": lambda seed, **also: RetentionAttention(2, 4, **also),
    "gated linear": lambda seed, **also: GatedLinearAttention(2, 4, **also),
    "Kimi delta": lambda seed, **also: KimiDeltaAttention(2, 4, **also),
}
WITHOUT_CAUSAL = "cross-covariance", "linformer", "longformer", "nystrom"
CAUSAL = [name for name in LAYERS if not name.startswith(WITHOUT_CAUSAL)]
VARIANTS = (
    "block selection",
    "linear",
    "performer, relu",
    "longformer, no global tokens",
    "nystrom",
    "reformer, causal",
    "DeltaNet",
    "gated linear",
)  # of layers in `LAYERS`
MOST = [pytest.param(name, marks=[pytest.mark.full] if name in VARIANTS else []) for name in LAYERS]
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def make(name, **arguments):
    """A built layer with perturbed weights, so that zero biases matter, too."""
    layer = LAYERS[name](seed=0, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def assert_close(found, expected, tolerance=1e-5):
    """Compares nested tensors, with a tolerance relative to the largest number."""
    for each, other in zip(keras.tree.flatten(found), keras.tree.flatten(expected), strict=True):
        each, other = oracle.float64(each), oracle.float64(other)
        scale = max(1.0, np.abs(other).max(initial=0.0))
        np.testing.assert_allclose(each, other, atol=tolerance * scale)


# lengths that are no multiples of chunks, buckets and windows
@pytest.mark.few(2)
@pytest.mark.parametrize("length", [pytest.param(7, marks=pytest.mark.full), 150])
@pytest.mark.parametrize("name", MOST)
def test_compiled_equals_eager(name, length):
    layer, x = make(name), random(BATCH, length, SIZE)
    mask = RNG.random((BATCH, length)) < 0.75

    def call(x, mask):
        return layer(x, x, query_mask=mask, value_mask=mask, return_attention_scores=True)

    assert_close(compiled(call)(x, mask), call(x, mask))


@pytest.mark.full
@pytest.mark.parametrize(("length", "forms"), [(22, ["graph"]), (150, None)])
def test_compiled_gradients_equal_eager_ones(length, forms):
    x, mask = random(BATCH, length, SIZE), RNG.random((BATCH, length)) < 0.75
    layers = [make(name) for name in LAYERS]
    calls = [lambda x, layer=layer: layer(x, x, value_mask=mask) for layer in layers]
    cases = {name: (call, x) for name, call in zip(LAYERS, calls, strict=True)}
    gradients_in_every_form(cases, tolerance=1e-4, forms=forms)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", MOST)
def test_model_of_unknown_length_equals_the_layer_at_every_length(name):
    layer = make(name)
    x, visible = keras.Input((None, SIZE)), keras.Input((None,), dtype="bool")
    model = keras.Model([x, visible], layer(x, x, value_mask=visible, return_attention_scores=True))
    for length in (1, 2, 7, 8, 130, 150):
        inputs = random(BATCH, length, SIZE), RNG.random((BATCH, length)) < 0.75
        found = model.predict(inputs, verbose=0)
        expected = layer(inputs[0], inputs[0], value_mask=inputs[1], return_attention_scores=True)
        assert_close(found, expected)


@pytest.mark.few(4)
@pytest.mark.parametrize("lengths", [(None, None), (6, None), (6, 6)])
@pytest.mark.parametrize("name", LAYERS)
def test_symbolic_shapes_equal_real_shapes(name, lengths):
    query, value = (keras.Input((length, SIZE)) for length in lengths)
    symbolic = make(name)(query, value, return_attention_scores=True)
    model = keras.Model([query, value], symbolic)
    real = model([random(BATCH, 6, SIZE), random(BATCH, 6, SIZE)])
    for expected, tensor in zip(symbolic, real, strict=True):
        assert len(expected.shape) == len(tensor.shape)
        pairs = zip(expected.shape, tensor.shape, strict=True)
        assert all(size in (None, there) for size, there in pairs)
    assert symbolic[0].shape[-1] == real[0].shape[-1]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", MOST)
def test_model_takes_the_arguments_in_the_order_of_the_call(name):
    layer = make(name)
    x, visible = keras.Input((6, SIZE)), keras.Input((6,), dtype="bool")
    model = keras.Model([x, visible], layer(x, x, None, visible, visible, visible))
    inputs = random(BATCH, 6, SIZE), RNG.random((BATCH, 6)) < 0.75
    expected = layer(inputs[0], inputs[0], query_mask=inputs[1], value_mask=inputs[1])
    assert_close(model.predict(inputs, verbose=0), expected)


@pytest.mark.few(4)
@pytest.mark.parametrize("shape", [(0, 6), (BATCH, 0), (BATCH, 1)])
@pytest.mark.parametrize("name", LAYERS)
def test_axes_may_be_empty_or_of_length_one(name, shape):
    layer, x = make(name), random(*shape, SIZE)
    for given in ({}, {"value_mask": np.ones(shape, bool)}):
        output, weights = layer(x, x, return_attention_scores=True, **given)
        assert tuple(output.shape) == (*shape, SIZE)
        assert tuple(weights.shape)[:1] == shape[:1]
        assert np.isfinite(oracle.float64(output)).all()


@pytest.mark.few(12)
@pytest.mark.parametrize("name", MOST)
def test_output_is_the_same_with_and_without_weights(name):
    layer, x = make(name), random(BATCH, 11, SIZE)
    output, _ = layer(x, x, return_attention_scores=True)
    np.testing.assert_array_equal(oracle.float64(layer(x, x)), oracle.float64(output))


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LAYERS)
def test_implicit_and_explicit_masks_count_together(name):
    layer, x = make(name), random(BATCH, 11, SIZE)
    implicit, explicit = RNG.random((2, BATCH, 11)) < 0.8
    masked = keras.layers.Masking(0.0)(np.where(implicit[:, :, None], x, 0.0))
    given = {"query_mask": explicit, "value_mask": explicit}
    both = dict.fromkeys(given, implicit & explicit)
    assert_close(
        layer(masked, masked, return_attention_scores=True, **given),
        layer(x, x, return_attention_scores=True, **both),
    )


@pytest.mark.few(3)
@pytest.mark.parametrize("name", MOST)
def test_output_carries_the_mask_of_the_query(name):
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, SIZE, mask_zero=True)(tokens)
    output = make(name)(x, x)
    pooled = keras.layers.GlobalAveragePooling1D()(output)
    model = keras.Model(tokens, [output, pooled])
    output, pooled = map(oracle.float64, model(np.array([[1, 2, 0], [3, 0, 0]])))
    np.testing.assert_allclose(pooled[0], output[0, :2].mean(0), atol=1e-5)
    np.testing.assert_allclose(pooled[1], output[1, 0], atol=1e-5)


@pytest.mark.few(5)
@pytest.mark.parametrize("junk", [np.nan, pytest.param(np.inf, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", MOST)
def test_what_stands_at_hidden_places_has_no_effect(name, junk):
    layer, x = make(name), random(BATCH, 20, SIZE)
    mask = RNG.random((BATCH, 20)) < 0.7

    def call(x):
        return layer(x, x, query_mask=mask, value_mask=mask)

    dirty = np.where(mask[:, :, None], x, junk).astype("float32")
    np.testing.assert_array_equal(oracle.float64(call(dirty)), oracle.float64(call(x)))
    (found,), (expected,) = gradients(call, dirty), gradients(call, x)
    np.testing.assert_array_equal(oracle.float64(found), oracle.float64(expected))
    np.testing.assert_array_equal(oracle.float64(found)[~mask], 0.0)


@pytest.mark.few(2)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_who_sees_nothing_gets_zeros_and_zero_gradients(name, causal):
    if causal and name not in CAUSAL:
        pytest.skip("has no causal mask")
    layer, x = make(name), random(BATCH, 9, SIZE)
    if hasattr(layer, "output_projection"):
        layer.output_projection.bias.assign(np.zeros(SIZE))
    mask = np.array([[True] * 9, [False] * 9])
    given = {"value_mask": mask, "use_causal_mask": causal}
    output, weights = layer(x, x, return_attention_scores=True, **given)
    np.testing.assert_array_equal(oracle.float64(output)[1], 0.0)
    np.testing.assert_array_equal(oracle.float64(weights)[1], 0.0)
    (gradient,) = gradients(lambda x: layer(x, x, **given), x)
    assert np.isfinite(oracle.float64(gradient)).all()
    np.testing.assert_array_equal(oracle.float64(gradient)[1], 0.0)


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_half_precision_equals_float32_up_to_its_rounding(name, dtype):
    rounding = dtype.removeprefix("mixed_")
    half, exact, x = make(name, dtype=dtype), make(name), random(BATCH, 40, SIZE)
    x = oracle.float64(ops.cast(x, rounding)).astype("float32")
    if "reformer" in name:  # one bucket only, as rounding would move queries to others
        half.bucket_size = exact.bucket_size = 40
    if "selection" in name:  # and to other blocks
        half.num_blocks = exact.num_blocks = 10
    for variable, other in zip(exact.weights, half.weights, strict=True):
        variable.assign(ops.cast(other, "float32"))
    mask = RNG.random((BATCH, 40)) < 0.75
    output, weights = half(x, x, value_mask=mask, return_attention_scores=True)
    expected = exact(x, x, value_mask=mask, return_attention_scores=True)
    assert keras.backend.standardize_dtype(output.dtype) == rounding
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    # A key at the edge of a window may fall on either side, so only the mean is compared.
    for found, wanted in zip((output, weights), expected, strict=True):
        difference = np.abs(oracle.float64(found) - oracle.float64(wanted))
        scale = np.abs(oracle.float64(wanted)).max()
        assert difference.mean() < scale * {"float16": 2e-3, "bfloat16": 2e-2}[rounding]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", MOST)
def test_every_weight_gets_a_gradient(name):
    layer, x = make(name), random(BATCH, 20, SIZE)
    for path, gradient in weight_gradients(layer, x, x).items():
        assert np.abs(oracle.float64(gradient)).max() > (0 if "key/bias" in path else 1e-6), path


@pytest.mark.full  # `symbolic_test` always trains layers in such a model
@pytest.mark.few(1)
@pytest.mark.parametrize("name", MOST)
def test_trains_in_a_functional_model(name):
    x = keras.Input((None, SIZE))
    model = keras.Model(x, keras.layers.Dense(1)(make(name)(x, x)))
    model.compile("adam", "mse", jit_compile=False)
    history = model.fit(random(4, 9, SIZE), np.ones((4, 9, 1)), epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
