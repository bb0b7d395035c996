"""Attention to channels and places against the equations of the papers in float64."""

import keras
import numpy as np
import pytest

from keras_attention import ChannelAttention, SpatialAttention
from tests.attention import oracle
from tests.attention.mistakes import check_message
from tests.attention.saved import check_config

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5, 6)).astype("float32")
MASK = RNG.random((3, 4, 5)) < 0.6
MASK[2] = False
LAYERS = {
    "squeeze and excitation": lambda **options: ChannelAttention(2, **options),
    "CBAM's channels": lambda **options: ChannelAttention(3, "both", **options),
    "maximum": lambda **options: ChannelAttention(7, "max", **options),
    "ECA": lambda **options: ChannelAttention(kernel_size=3, **options),
    "places": lambda **options: SpatialAttention(3, **options),
    "even kernel": lambda **options: SpatialAttention(2, **options),
}


def assert_close(found, expected, atol=1e-6):
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=atol)


def varied(layer, x=X):
    layer.build(x.shape)
    for number, weight in enumerate(layer.weights):
        weight.assign(np.random.default_rng(number).normal(0, 0.7, weight.shape))
    return layer


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def of_channels(layer, x, visible):
    """The weights of the channels of one image, from its visible vectors."""
    seen = x[visible] if visible.any() else np.zeros((1, x.shape[-1]))
    pooled = {"mean": [seen.mean(0)], "max": [seen.max(0)], "both": [seen.mean(0), seen.max(0)]}

    def logits(pooled):
        if layer.kernel_size is not None:
            kernel = oracle.float64(layer.convolution.kernel)[:, 0, 0]
            padded = np.pad(pooled, (len(kernel) - 1) // 2)
            return np.correlate(padded, kernel, "valid")
        squeeze, excite = layer.squeeze, layer.excite
        hidden = pooled @ oracle.float64(squeeze.kernel) + oracle.float64(squeeze.bias)
        hidden = np.maximum(hidden, 0)
        return hidden @ oracle.float64(excite.kernel) + oracle.float64(excite.bias)

    return sigmoid(sum(map(logits, pooled[layer.pooling])))


def of_places(layer, x, visible):
    """The weights of the places of one image."""
    kernel, bias = oracle.float64(layer.convolution.kernel), oracle.float64(layer.convolution.bias)
    size = layer.kernel_size
    pooled = np.stack([x.mean(-1), x.max(-1)], -1) * visible[..., None]
    before, after = (size - 1) // 2, size // 2
    padded = np.pad(pooled, [(before, after), (before, after), (0, 0)])
    weights = np.zeros(visible.shape)
    for row, column in np.argwhere(visible):
        window = padded[row : row + size, column : column + size]
        weights[row, column] = sigmoid((window * kernel[..., 0]).sum() + bias[0])
    return weights


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "mask"])
def test_equals_the_equations(name, mask):
    layer = varied(LAYERS[name]())
    visible = np.ones_like(MASK) if mask is None else mask
    x = np.where(visible[..., None], X, np.nan).astype("float32")
    y, weights = layer(x, mask=mask, return_attention_scores=True)
    seen = np.where(visible[..., None], X.astype("float64"), 0)
    equation = of_places if isinstance(layer, SpatialAttention) else of_channels
    expected = np.stack([equation(layer, *each) for each in zip(seen, visible, strict=True)])
    assert_close(weights, expected)
    expected = expected[..., None] if expected.ndim == 3 else expected[:, None, None]
    assert_close(y, expected * seen)


@pytest.mark.parametrize("name", ["CBAM's channels", "places"])
def test_channels_may_be_first(name):
    last = varied(LAYERS[name](data_format="channels_last"))
    first = LAYERS[name](data_format="channels_first")
    x = np.moveaxis(X, -1, 1)
    first.build(x.shape)
    first.set_weights(last.get_weights())
    y, weights = first(x, mask=MASK, return_attention_scores=True)
    expected, of_last = last(X, mask=MASK, return_attention_scores=True)
    assert_close(np.moveaxis(oracle.float64(y), 1, -1), expected)
    assert_close(weights, of_last)
    assert first.compute_output_shape(x.shape) == x.shape


@pytest.mark.parametrize("make", [ChannelAttention, SpatialAttention])
def test_padding_of_sequences_does_not_count(make):
    x = X[:2, 0]
    layer = varied(make(kernel_size=3), x)
    mask = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], bool)
    y = layer(x, mask=mask)
    assert_close(y[1, :2], layer(x[1:, :2])[0])
    embedded = keras.layers.Embedding(9, 6, mask_zero=True)(np.array([[5, 7, 0, 0, 0]]))
    found = layer(embedded)
    assert_close(found[:, :2], layer(embedded[:, :2]))
    assert tuple(found._keras_mask.shape) == (1, 5)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", ["CBAM's channels", "ECA", "places"])
def test_half_precision(name, dtype):
    whole, half = varied(LAYERS[name]()), LAYERS[name](dtype=dtype)
    half.build(X.shape)
    half.set_weights(whole.get_weights())
    y, weights = half(X, mask=MASK, return_attention_scores=True)
    assert keras.backend.standardize_dtype(y.dtype) == half.compute_dtype
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    assert_close(y, whole(X, mask=MASK), atol=0.05)


@pytest.mark.parametrize("shape", [(0, 4, 6), (2, 0, 6)])
@pytest.mark.parametrize("name", ["CBAM's channels", "places"])
def test_axes_may_be_empty(name, shape):
    y, weights = LAYERS[name]()(np.zeros(shape, "float32"), return_attention_scores=True)
    assert tuple(y.shape) == shape
    assert np.isfinite(oracle.float64(weights)).all()


def test_every_weight_learns():
    cbam = [ChannelAttention(1, "both"), SpatialAttention(3), ChannelAttention(kernel_size=3)]
    model = keras.Sequential([*cbam, keras.layers.Flatten(), keras.layers.Dense(1)])
    model.build(X.shape)
    before = model.get_weights()
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    model.fit(X, np.ones((3, 1)), verbose=0)
    for weight, old in zip(model.weights, before, strict=True):
        assert np.any(old != oracle.float64(weight)), weight.path


def test_config():
    check_config(ChannelAttention, {"reduction": 4, "pooling": "both"})
    check_config(ChannelAttention, {"kernel_size": 3, "data_format": "channels_first"})
    check_config(SpatialAttention, {"kernel_size": 5, "data_format": "channels_first"})


def test_errors():
    check_message(lambda: ChannelAttention(0), ["`reduction` of ChannelAttention", "0"])
    check_message(
        lambda: ChannelAttention(pooling="avg"),
        ["`pooling` of ChannelAttention must be one of mean, max, both", "pooling='avg'"],
    )
    check_message(lambda: SpatialAttention(0), ["`kernel_size` of SpatialAttention", "0"])
    check_message(
        lambda: SpatialAttention(data_format="last"),
        ["`data_format` of SpatialAttention must be one of channels_last, channels_first"],
    )
    check_message(
        lambda: ChannelAttention()(np.ones((2, 3))),
        ["ChannelAttention needs feature maps", "(batch, height, width, channels)", "(2, 3)"],
    )
    check_message(
        lambda: ChannelAttention()(X, mask=MASK[:, :3]), ["`mask` of ChannelAttention", "(3, 3, 5)"]
    )
