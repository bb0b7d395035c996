"""AttentionGate against the equation of its paper in float64, place by place."""

import itertools

import keras
import numpy as np
import pytest

from keras_attention import AttentionGate
from tests.attention import oracle
from tests.attention.compiled import compiled
from tests.attention.gradients import layer_gradients
from tests.attention.mistakes import check_message
from tests.attention.saved import check_config

RNG = np.random.default_rng(0)
GRIDS = {  # the sizes of the gate, and the strides
    "sequence": ((3,), (2,)),
    "image": ((3, 2), (2, 2)),
    "odd strides": ((2, 3), (3, 1)),
    "equal": ((4, 3), (1, 1)),
    "one place": ((1, 2), (4, 2)),
    "volume": ((2, 1, 2), (1, 2, 2)),
}


def assert_close(found, expected, atol=1e-6):
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=atol)


def inputs(name):
    """Random feature maps `x` of 4 channels, a gate of 5, and a mask of the places of `x`."""
    coarse, strides = GRIDS[name]
    places = [size * stride for size, stride in zip(coarse, strides, strict=True)]
    x, gate = RNG.normal(size=(2, *places, 4)), RNG.normal(size=(2, *coarse, 5))
    mask = RNG.random((2, *places)) < 0.3
    mask[0].flat[0] = True
    return x.astype("float32"), gate.astype("float32"), mask


def varied(layer, *shapes):
    layer.build(*shapes)
    for number, weight in enumerate(layer.weights):
        weight.assign(np.random.default_rng(number).normal(0, 0.7, weight.shape))
    return layer


def of_gate(layer, strides, x, gate, visible, seen):
    """The weights of the places of one example, with the visible ones of `x` and of `gate`."""
    kernel = oracle.float64(layer.convolution.kernel)
    dense = {
        name: (oracle.float64(each.kernel), oracle.float64(each.bias))
        for name, each in (("gate", layer.gate_projection), ("score", layer.score))
    }
    coarse = {}
    for place in np.ndindex(gate.shape[:-1]):
        cell = tuple(slice(p * n, (p + 1) * n) for p, n in zip(place, strides, strict=True))
        if not seen[place] or not visible[cell].any():
            continue
        hidden = np.tensordot(x[cell] * visible[cell][..., None], kernel, kernel.ndim - 1)
        hidden = np.maximum(hidden + gate[place] @ dense["gate"][0] + dense["gate"][1], 0)
        coarse[place] = 1 / (1 + np.exp(-(hidden @ dense["score"][0] + dense["score"][1])[0]))
    weights = np.zeros(visible.shape)
    for place in map(tuple, np.argwhere(visible)):
        shares, total = 0.0, 0.0
        for corner in itertools.product((0, 1), repeat=len(place)):
            near, share = [], 1.0
            for p, n, size, side in zip(place, strides, gate.shape, corner, strict=False):
                center = min(max((p + 0.5) / n - 0.5, 0), size - 1)
                low = int(center)
                near.append(min(low + side, size - 1))
                share *= center - low if side else 1 - center + low
            if tuple(near) in coarse:
                shares, total = shares + share * coarse[tuple(near)], total + share
        weights[place] = shares / total if total else 0.0
    return weights


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("masked", [False, True], ids=["all", "mask"])
def test_equals_the_equation(name, masked):
    x, gate, mask = inputs(name)
    layer = varied(AttentionGate(3), x.shape, gate.shape)
    assert layer.convolution.strides == GRIDS[name][1]
    mask = mask if masked else np.ones_like(mask)
    seen = RNG.random(gate.shape[:-1]) < (0.8 if masked else 1.0)
    given = {"mask": mask, "gate_mask": seen} if masked else {}
    dirty = [np.where(m[..., None], each, np.nan) for m, each in ((mask, x), (seen, gate))]
    y, weights = layer(*dirty, return_attention_scores=True, **given)
    clean = [x.astype("float64") * mask[..., None], gate.astype("float64") * seen[..., None]]
    strides = GRIDS[name][1]
    expected = [of_gate(layer, strides, *each) for each in zip(*clean, mask, seen, strict=True)]
    assert_close(weights, np.stack(expected))
    assert_close(y, np.stack(expected)[..., None] * clean[0])


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="resizes with TensorFlow")
@pytest.mark.parametrize("strides", [(2, 2), (3, 4)])
def test_weights_are_resized_as_images_are(strides):
    import tensorflow as tf

    gate = RNG.normal(size=(2, 3, 4, 5)).astype("float32")
    x = np.zeros((2, 3 * strides[0], 4 * strides[1], 4), "float32")
    layer = varied(AttentionGate(3), x.shape, gate.shape)
    _, weights = layer(x, gate, return_attention_scores=True)
    coarse = keras.ops.sigmoid(layer.score(keras.ops.relu(layer.gate_projection(gate))))
    assert_close(weights, tf.image.resize(coarse, x.shape[1:3])[..., 0])


def test_padding_of_whole_cells_does_not_count():
    x, gate = (RNG.normal(size=(1, *size)).astype("float32") for size in ((6, 4), (3, 5)))
    layer = varied(AttentionGate(), x.shape, gate.shape)
    y, weights = layer(x[:, :4], gate[:, :2], return_attention_scores=True)
    mask = np.array([[1, 1, 1, 1, 0, 0]], bool)
    found, of_padded = layer(x, gate, mask=mask, return_attention_scores=True)
    assert_close(found[:, :4], y)
    assert_close(of_padded, np.pad(oracle.float64(weights), [(0, 0), (0, 2)]))
    hidden = keras.layers.Masking()(np.where(mask[..., None], x, 0))
    found = layer(hidden, gate)
    assert_close(found[:, :4], y)
    assert tuple(found._keras_mask.shape) == (1, 6)
    coarse = keras.layers.Masking()(np.where([[[1], [1], [0]]], gate, 0))
    assert_close(layer(x, coarse)[:, :4], y)


def test_channels_may_be_first():
    x, gate, mask = inputs("image")
    last = varied(AttentionGate(3, data_format="channels_last"), x.shape, gate.shape)
    y, weights = last(x, gate, mask=mask, return_attention_scores=True)
    turned = [np.moveaxis(each, -1, 1) for each in (x, gate)]
    first = AttentionGate(3, data_format="channels_first")
    first.build(*(each.shape for each in turned))
    first.set_weights(last.get_weights())
    found, of_first = first(*turned, mask=mask, return_attention_scores=True)
    assert_close(np.moveaxis(oracle.float64(found), 1, -1), y)
    assert_close(of_first, weights)
    assert first.compute_output_shape(*(each.shape for each in turned)) == turned[0].shape


def test_model_of_unknown_sizes():
    layer = AttentionGate(3, strides=(2, 3))
    sizes = keras.Input((None, None, 4)), keras.Input((None, None, 5))
    outputs = layer(*sizes, return_attention_scores=True)
    assert [each.shape for each in outputs] == [(None, None, None, 4), (None, None, None)]
    model = keras.Model(sizes, outputs)
    for coarse in ((1, 2), (3, 1)):
        gate = RNG.normal(size=(2, *coarse, 5)).astype("float32")
        x = RNG.normal(size=(2, 2 * coarse[0], 3 * coarse[1], 4)).astype("float32")
        expected = layer(x, gate, return_attention_scores=True)
        for each, wanted in zip(model.predict([x, gate], verbose=0), expected, strict=True):
            assert_close(each, wanted)


@pytest.mark.few(2)
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="knows no other sizes")
@pytest.mark.parametrize(("size", "coarse"), [(3, 1), (5, 2), (8, 1), (2, 4)])
def test_sizes_that_do_not_fit_are_never_broadcast(size, coarse):
    import tensorflow as tf

    layer = varied(AttentionGate(3, strides=2), (None, None, 4), (None, None, 5))
    shapes = [tf.TensorSpec([None, None, channels]) for channels in (4, 5)]
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.function(layer, input_signature=shapes)(tf.ones((1, size, 4)), tf.ones((1, coarse, 5)))


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="knows no other sizes")
def test_rows_are_never_columns():
    import tensorflow as tf

    layer = varied(AttentionGate(3, strides=1), (None, None, None, 4), (None, None, None, 5))
    shapes = [tf.TensorSpec([None, None, None, channels]) for channels in (4, 5)]
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.function(layer, input_signature=shapes)(tf.ones((1, 1, 6, 4)), tf.ones((1, 6, 1, 5)))


@pytest.mark.full
def test_compiled_equals_eager():
    x, gate, mask = inputs("image")
    layer = varied(AttentionGate(3), x.shape, gate.shape)

    def call(x, gate, mask):
        return layer(x, gate, mask=mask)

    assert_close(compiled(call)(x, gate, mask), call(x, gate, mask))


def test_gradients_equal_finite_differences():
    x, gate, mask = (each[:1] for each in inputs("sequence"))
    layer = varied(AttentionGate(2), x.shape, gate.shape)
    direction = RNG.normal(size=x.shape).astype("float32")
    seen = np.ones(gate.shape[:-1], bool)

    def total(x, gate):
        masked = x * mask[..., None]
        rows = [of_gate(layer, (2,), *each) for each in zip(masked, gate, mask, seen, strict=True)]
        return (np.stack(rows)[..., None] * masked * direction).sum()

    by_inputs, by_weights = layer_gradients(
        layer, x, gate, mask=mask, direction=keras.ops.convert_to_tensor(direction)
    )
    expected = oracle.numerical_gradients(total, x.astype("float64"), gate.astype("float64"))
    for found, wanted in zip(by_inputs, expected, strict=True):
        assert_close(found, wanted, atol=1e-4)
    for path, gradient in by_weights.items():
        assert np.abs(oracle.float64(gradient)).max() > 1e-4, path


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision(dtype):
    x, gate, mask = inputs("image")
    whole, half = varied(AttentionGate(3), x.shape, gate.shape), AttentionGate(3, dtype=dtype)
    half.build(x.shape, gate.shape)
    half.set_weights(whole.get_weights())
    y, weights = half(x, gate, mask=mask, return_attention_scores=True)
    assert keras.backend.standardize_dtype(y.dtype) == half.compute_dtype
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    assert_close(y, whole(x, gate, mask=mask), atol=0.05)


@pytest.mark.parametrize(("shape", "coarse"), [((0, 4, 6), (0, 2, 3)), ((2, 0, 6), (2, 0, 3))])
def test_axes_may_be_empty(shape, coarse):
    layer = AttentionGate()
    y, weights = layer(
        np.zeros(shape, "float32"), np.zeros(coarse, "float32"), return_attention_scores=True
    )
    assert tuple(y.shape) == shape
    assert tuple(weights.shape) == shape[:-1]


def test_config():
    check_config(AttentionGate, {"units": 3, "strides": (2, 1), "data_format": "channels_first"})
    check_config(AttentionGate, {"strides": 2})


def test_errors():
    x, gate, _ = inputs("image")
    for strides in (0, 1.5, (2, 0), (), "2", True):
        check_message(
            lambda strides=strides: AttentionGate(strides=strides),
            ["`strides` of AttentionGate must be a positive integer", f"strides={strides!r}"],
        )
    check_message(lambda: AttentionGate(0), ["`units` of AttentionGate", "0"])
    check_message(
        lambda: AttentionGate()(x[:, :5], gate),
        ["whose sizes are those of `gate` times whole numbers", "x of shape (2, 5, 4, 4)", "Pad"],
    )
    check_message(lambda: AttentionGate()(gate, x), ["times whole numbers", "gate of shape (2, 6"])
    check_message(lambda: AttentionGate(strides=3)(x, gate), ["the strides (3, 3)"])
    check_message(
        lambda: AttentionGate(strides=(2,))(x, gate), ["one integer or 2", "strides=(2,)"]
    )
    check_message(lambda: AttentionGate()(x, gate[:, 0]), ["equally many axes", "(2, 2, 5)"])
    check_message(lambda: AttentionGate()(x, gate[:1]), ["for every example", "(1, 3, 2, 5)"])
    check_message(
        lambda: AttentionGate()(keras.Input((None, None, 4)), keras.Input((3, 2, 5))),
        ["reads its strides from the sizes", "(None, None, None, 4)", "Pass strides=2"],
    )
    layer = AttentionGate()
    layer(x, gate)
    check_message(lambda: layer(x[:, :3, :2], gate), ["the strides (2, 2)", "(2, 3, 2, 4)"])
    check_message(
        lambda: layer(x, gate, gate_mask=np.ones((2, 6, 4), bool)),
        ["`gate_mask` of AttentionGate", "(2, 3, 2)"],
    )
