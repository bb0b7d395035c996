"""The dense layers and the sizes inside of layers are those of Keras, in fewer operations."""

import ast
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

import keras_attention
from keras_attention._backend import shape_of
from keras_attention._dense import Dense
from tests.attention.gradients import gradients

RNG = np.random.default_rng(0)
SHAPES = [(3, 4), (2, 3, 4), (2, 5, 3, 4), (0, 3, 4), (2, 0, 4), (0, 0, 4)]


def both(**options):
    """Returns Keras' layer and this one, with the same weights."""
    layers = [kind(5, bias_initializer="normal", **options) for kind in (keras.layers.Dense, Dense)]
    for layer in layers:
        layer.build((None, None, 4))
    layers[1].set_weights(layers[0].get_weights())
    return layers


@pytest.mark.few(8)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("options", [{}, {"activation": "gelu"}, {"use_bias": False}], ids=str)
def test_it_equals_that_of_keras(shape, options):
    x = RNG.normal(size=shape).astype("float32")
    wanted, layer = both(**options)
    np.testing.assert_allclose(layer(x), wanted(x), atol=1e-6)
    found = gradients(lambda x: ops.sum(ops.sin(layer(x))), x)
    np.testing.assert_allclose(
        found, gradients(lambda x: ops.sum(ops.sin(wanted(x))), x), atol=1e-6
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("change", ["lora", "int8", "mixed_bfloat16"])
def test_it_changes_as_that_of_keras(change):
    x = RNG.normal(size=(2, 3, 4)).astype("float32")
    wanted, layer = both(dtype=change) if "float" in change else both()
    if change == "lora":
        for each in (wanted, layer):
            each.enable_lora(2)
            each.lora_kernel_b.assign(ops.ones(each.lora_kernel_b.shape))
        layer.lora_kernel_a.assign(wanted.lora_kernel_a)
    elif change == "int8":
        wanted.quantize("int8"), layer.quantize("int8")
    assert layer(x).dtype == wanted(x).dtype
    np.testing.assert_allclose(
        ops.cast(layer(x), "float32"), ops.cast(wanted(x), "float32"), atol=1e-5
    )


def test_it_learns_by_lora_again_after_weights_were_loaded(tmp_path):
    x = RNG.normal(size=(3, 4)).astype("float32")
    model = keras.Sequential([keras.Input((4,)), Dense(5)])
    layer = model.layers[0]
    layer.enable_lora(2)
    layer.lora_kernel_b.assign(RNG.normal(size=(2, 5)))
    of_layer = layer._kernel, layer.bias, layer.lora_kernel_a, layer.lora_kernel_b
    kernel, bias, first, second = map(ops.convert_to_numpy, of_layer)
    model.save_weights(tmp_path / "sums.weights.h5")
    model.load_weights(tmp_path / "sums.weights.h5")
    np.testing.assert_allclose(model(x), x @ (kernel + first @ second) + bias, atol=1e-5)
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    model.fit(x, np.ones((3, 5)), verbose=0)
    assert np.abs(ops.convert_to_numpy(layer.lora_kernel_b)).max() > 1e-3


def test_lora_in_half_precision_keeps_small_updates_and_saves_all_digits():
    layer = Dense(1, dtype="mixed_bfloat16", use_bias=False, kernel_initializer="ones")
    layer.build((None, 2))
    layer.enable_lora(1)
    layer.lora_kernel_a.assign([[1.0], [-1.0]])
    layer.lora_kernel_b.assign([[0.001]])  # bfloat16 rounds 1.001 to 1
    found = ops.convert_to_numpy(ops.cast(layer(np.array([[1.0, -1.0]])), "float32"))
    np.testing.assert_allclose(found, [[0.002]], rtol=0.01)
    saved = {}
    layer.save_own_variables(saved)
    np.testing.assert_allclose(ops.convert_to_numpy(saved["0"]), [[1.001], [0.999]], rtol=1e-6)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("sizes", "given"),
    [
        ((2, 3), (2, 3)),
        ((None, 3), (2, 3)),
        ((None, 3), (0, 3)),
        ((2, None), (2, 0)),
        ((None, 0), (2, 0)),
        ((None, None), (2, 3)),
        ((None, None), (0, 3)),
        ((None, None), (2, 0)),
    ],
    ids=str,
)
def test_graphs_of_unknown_sizes_are_small(sizes, given):
    tf = pytest.importorskip("tensorflow")
    x = RNG.normal(size=(*given, 4)).astype("float32")
    layers = both()
    numbers = []
    for layer in layers:
        graph = tf.function(layer, [tf.TensorSpec([*sizes, 4])], autograph=False)
        graph = graph.get_concrete_function()
        np.testing.assert_allclose(graph(x), layers[0](x), atol=1e-6)
        numbers.append(len(graph.graph.get_operations()))
    assert numbers[1] <= numbers[0] - (12 if None in sizes else 0)


@pytest.mark.parametrize("shape", [(2, 3), (2, 0), (0, 3)], ids=str)
def test_sizes_of_a_tensor(shape):
    tf = pytest.importorskip("tensorflow")
    x = np.zeros(shape)
    for known in (shape, (None, shape[1]), (None, None)):
        sizes = tf.function(shape_of, [tf.TensorSpec(known, "float64")])(x)
        assert tuple(map(int, sizes)) == shape == shape_of(x)


def test_no_layer_asks_keras_for_sizes():
    found = []
    for file in Path(keras_attention.__file__).parent.rglob("*.py"):
        calls = (
            node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)
        )
        found += [file.name for call in calls if ast.unparse(call.func) == "ops.shape"]
    assert not found
