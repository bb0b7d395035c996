"""Linear attention step by step gives what a causal call gives, with a memory of constant size."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    GatedDeltaAttention,
    GatedLinearAttention,
    KimiDeltaAttention,
    LinearAttention,
    PerformerAttention,
    RetentionAttention,
)
from keras_attention._keras import set_keras_mask
from keras_attention.compute.features import CHUNK
from tests.attention import linear_test, oracle, performer_test
from tests.attention.compiled import compiled
from tests.attention.gradients import gradients
from tests.attention.linear_test import BATCH, SIZE, random

LENGTH = 7
RANDOM = {"causal": True, "num_features": 24, "seed": 0}
LAYERS = {
    "linear": (LinearAttention, {"causal": True}),
    "softmax": (PerformerAttention, RANDOM),
    "relu": (PerformerAttention, {"kernel": "relu", **RANDOM}),
    "gated delta": (GatedDeltaAttention, {}),
    "DeltaNet": (
        GatedDeltaAttention,
        {"num_key_heads": 1, "use_decay": False, "use_gate": False, "kernel_size": None},
    ),
    "retention": (RetentionAttention, {}),
    "gated retention": (RetentionAttention, {"gated": True}),
    "gated linear": (GatedLinearAttention, {}),
    "Kimi delta": (KimiDeltaAttention, {}),
}
STATES = {  # shapes without the batch
    "linear": {"largest": (2, 1, 4), "sums": (2, 4, 4)},
    "softmax": {"largest": (2, 1, 24), "sums": (2, 24, 4)},
    "relu": {"largest": (2, 1, 24), "sums": (2, 24, 4)},
    "gated delta": {"state": (2, 4, 3), "recent": (3, 2 * 2 * 4 + 2 * 3)},
    "DeltaNet": {"state": (2, 4, 3), "recent": (0, 0)},
    "retention": {"state": (2, 4, 3), "recent": (0, 0)},
    "gated retention": {"state": (2, 4, 3), "recent": (0, 0)},
    "gated linear": {"state": (2, 4, 3), "recent": (0, 0)},
    "Kimi delta": {"state": (2, 4, 3), "recent": (3, 2 * 2 * 4 + 2 * 3)},
}
SPLITS = {
    "one by one": [1] * LENGTH,
    "all at once": [LENGTH],
    "prompt": [4, 1, 1, 1],
    "parts": [2, 3, 2],
    "none": [0, 3, 0, 4],
    "chunks": [CHUNK + 3, 1, 1, CHUNK, 2],
}


def make(name, **arguments):
    layer_class, options = LAYERS[name]
    return linear_test.make(layer_class, **options, **arguments)


def steps(layer, x, split):
    """Returns the outputs of all steps, and the last memory."""
    memory, outputs, start = layer.room_for(x), [], 0
    for length in split:
        context, weights, memory = layer.step(x[:, start : start + length], memory, start)
        assert weights is None
        outputs.append(context)
        start += length
    return ops.concatenate(outputs, axis=1), memory


def assert_equal(found, expected, tolerance=2e-5):
    found, expected = oracle.float64(found), oracle.float64(expected)
    np.testing.assert_allclose(found, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.few(6)
@pytest.mark.pairwise
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("split", SPLITS)
def test_steps_equal_the_causal_call(split, name):
    layer, x = make(name), random(BATCH, sum(SPLITS[split]), SIZE)
    found, _ = steps(layer, x, SPLITS[split])
    assert_equal(found, layer(x, x))


@pytest.mark.parametrize("scales", [(30.0, 0.1), (0.1, 30.0)], ids=["rising", "falling"])
def test_largest_feature_may_change_by_any_factor(scales):
    """A causal call relates features to later keys; steps do not, so early sums never vanish."""
    layer = performer_test.make(causal=True)
    x = random(BATCH, LENGTH, SIZE) * np.geomspace(*scales, LENGTH, dtype="float32")[:, None]
    found, memory = steps(layer, x, SPLITS["one by one"])
    expected, _ = performer_test.expected_attention(layer, x, x, use_causal_mask=True)
    # log features reach -3000, where the rounding error of float32 is 2e-4
    assert_equal(found, expected, 1e-3)
    assert np.isfinite(oracle.float64(memory.sums)).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", ["linear", "softmax", "gated delta", "retention", "Kimi delta"])
def test_steps_in_half_precision_have_a_memory_in_float32(name, dtype):
    layer, x = make(name, dtype=dtype), random(BATCH, LENGTH, SIZE)
    found, memory = steps(layer, x, SPLITS["prompt"])
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    sums = memory[1] if "sums" in STATES[name] else memory.state
    assert keras.backend.standardize_dtype(sums.dtype) == "float32"
    assert_equal(found, layer(x, x), 0.01 if dtype == "mixed_float16" else 0.06)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "length"),
    [("linear", 2000), ("softmax", LENGTH), ("gated delta", 2000), ("Kimi delta", LENGTH)],
)
def test_a_compiled_loop_of_steps(name, length):
    """A loop of TensorFlow and JAX requires that a step keeps the shapes and dtypes."""
    if keras.backend.backend() == "torch":
        length = LENGTH  # there is no loop to compile
    layer, x = make(name), random(BATCH, length, SIZE)

    def last(x):
        def body(place, _, memory):
            context, _, memory = layer.step(ops.take(x, place[None], axis=1), memory, place)
            return place + 1, context, memory

        outputs = ops.zeros((BATCH, 1, layer.output_dim))
        start = ops.convert_to_tensor(0, "int32"), outputs, layer.room_for(x)
        return ops.while_loop(lambda place, *_: place < length, body, start)[1]

    assert_equal(compiled(last)(x), layer(x, x)[:, -1:])


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LAYERS)
def test_size_of_the_memory_does_not_depend_on_the_length(name):
    layer = make(name)
    sizes = {part: (BATCH, *shape) for part, shape in STATES[name].items()}
    for length in (1, 40):
        x = random(BATCH, length, SIZE)
        for memory in (layer.room_for(x), steps(layer, x, [length])[1]):
            shapes = {key: tuple(part.shape) for key, part in memory._asdict().items()}
            assert shapes == {**sizes, "length": (BATCH,)}


@pytest.mark.parametrize("name", ["softmax", "gated delta"])
def test_rows_of_the_memory_can_be_exchanged_and_repeated(name):
    """As beam search does."""
    layer, x = make(name), random(3, LENGTH, SIZE)
    order = np.array([2, 0, 0, 1])
    _, memory = steps(layer, x[:, :4], [3, 1])
    memory = type(memory)(*(ops.take(part, order, axis=0) for part in memory))
    found, _, _ = layer.step(x[order, 4:], memory, 4)
    assert_equal(found, oracle.float64(layer(x, x))[order, 4:])


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["linear", "softmax", "gated delta", "retention", "Kimi delta"])
def test_gradients_pass_through_the_memory(name):
    layer, x = make(name), random(BATCH, LENGTH, SIZE)
    direction = ops.convert_to_tensor(random(BATCH, LENGTH, 6))
    (found,) = gradients(lambda x: steps(layer, x, SPLITS["parts"])[0] * direction, x)
    (expected,) = gradients(lambda x: layer(x, x) * direction, x)
    assert_equal(found, expected, 1e-4)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["softmax", "gated delta", "retention", "gated linear"])
def test_positions_that_an_implicit_mask_hides_are_not_added(name):
    layer, x = make(name), random(BATCH, LENGTH, SIZE)
    visible = np.array([[True, True, False, True, True, True, True], [False] * 3 + [True] * 4])
    memory, outputs = layer.room_for(x), []
    for part in (slice(0, 3), slice(3, 4), slice(4, LENGTH)):
        new = ops.convert_to_tensor(x[:, part])
        set_keras_mask(new, ops.convert_to_tensor(visible[:, part]))
        context, _, memory = layer.step(new, memory, part.start)
        outputs.append(context)
    expected = layer(x, x, query_mask=visible, value_mask=visible)
    assert_equal(ops.concatenate(outputs, axis=1), expected)
