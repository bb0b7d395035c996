"""The Conformer block and its convolution: against torch, masks, and batch statistics."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import ConformerBlock, ConvolutionModule
from keras_attention._depthwise import DepthwiseConv1D, DepthwiseConv2D
from keras_attention._keras import get_keras_mask
from keras_attention.positions import Rotary
from tests.attention import oracle
from tests.attention.gradients import weight_gradients
from tests.attention.saved import check_config

BATCH, LENGTH, SIZE, HIDDEN, KERNEL = 2, 7, 8, 12, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, SIZE)).astype("float32")
MASK = np.arange(LENGTH) < np.array([[LENGTH], [4]])


def randomized(layer, x_shape=(None, None, SIZE)):
    layer.build(x_shape)
    for weight in layer.weights:
        if "seed" not in weight.path:
            weight.assign(weight + 0.3 * RNG.random(weight.shape))  # variances stay above 0
    return layer


def conformer_of_torch():
    """`torchaudio.models.conformer.ConformerLayer`, with the same modules in the same order."""
    import torch
    from torch import nn

    class Convolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer_norm = nn.LayerNorm(SIZE)
            self.sequential = nn.Sequential(
                nn.Conv1d(SIZE, 2 * SIZE, 1),
                nn.GLU(dim=1),
                nn.Conv1d(SIZE, SIZE, KERNEL, padding=KERNEL // 2, groups=SIZE),
                nn.BatchNorm1d(SIZE),
                nn.SiLU(),
                nn.Conv1d(SIZE, SIZE, 1),
            )

        def forward(self, x):
            return self.sequential(self.layer_norm(x).transpose(1, 2)).transpose(1, 2)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.ffn1, self.ffn2 = (
                nn.Sequential(
                    nn.LayerNorm(SIZE), nn.Linear(SIZE, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, SIZE)
                )
                for _ in range(2)
            )
            self.self_attn_layer_norm = nn.LayerNorm(SIZE)
            self.self_attn = nn.MultiheadAttention(SIZE, 2, batch_first=True)
            self.conv_module = Convolution()
            self.final_layer_norm = nn.LayerNorm(SIZE)

        def forward(self, x):
            x = x + 0.5 * self.ffn1(x)
            normal = self.self_attn_layer_norm(x)
            x = x + self.self_attn(normal, normal, normal, need_weights=False)[0]
            x = x + self.conv_module(x)
            return self.final_layer_norm(x + 0.5 * self.ffn2(x))

    torch.manual_seed(0)
    layer = Layer()
    with torch.no_grad():
        for each in layer.parameters():
            each.add_(0.2 * torch.randn_like(each))
    return layer


def fill(block, layer):
    """Copies the weights of a torch layer into a block."""

    def array(tensor):
        return tensor.detach().numpy()

    def norm(own, other):
        own.set_weights([array(other.weight), array(other.bias)])

    def dense(own, weight, bias):
        own.set_weights([array(weight).reshape(len(weight), -1).T, array(bias)])

    for own, own_norm, other in (
        (block.feed_forward, block.feed_forward_norm, layer.ffn1),
        (block.second_feed_forward, block.second_feed_forward_norm, layer.ffn2),
    ):
        norm(own_norm, other[0])
        dense(own.inner, other[1].weight, other[1].bias)
        dense(own.outer, other[3].weight, other[3].bias)
    norm(block.attention_norm, layer.self_attn_layer_norm)
    norm(block.output_norm, layer.final_layer_norm)
    attention = block.attention
    projections = attention.query_projection, attention.key_projection, attention.value_projection
    weights = layer.self_attn.in_proj_weight.chunk(3), layer.self_attn.in_proj_bias.chunk(3)
    for own, weight, bias in zip(projections, *weights, strict=True):
        dense(own, weight, bias)
    out = layer.self_attn.out_proj
    dense(attention.output_projection, out.weight, out.bias)
    norm(block.convolution_input_norm, layer.conv_module.layer_norm)
    first, _, depthwise, batch_norm, _, last = layer.conv_module.sequential
    dense(block.convolution.inner, first.weight, first.bias)
    dense(block.convolution.outer, last.weight, last.bias)
    kernel = array(depthwise.weight).transpose(2, 0, 1)  # (kernel, size, 1)
    block.convolution.depthwise.set_weights([kernel, array(depthwise.bias)])
    statistics = batch_norm.weight, batch_norm.bias, batch_norm.running_mean, batch_norm.running_var
    block.convolution.normalization.set_weights([array(each) for each in statistics])


@pytest.mark.parametrize("training", [False, True])
def test_block_equals_the_conformer_of_torchaudio(training):
    """torchaudio has no positions, and its convolution sees padding: they agree without both."""
    import torch

    layer = conformer_of_torch().train(training)
    block = ConformerBlock(2, HIDDEN, kernel_size=KERNEL, position=None)
    block.build(X.shape)
    fill(block, layer)
    expected = layer(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(oracle.float64(block(X, training=training)), expected, atol=2e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("normalize", ["pre", "sandwich", "output"])
def test_half_of_a_feed_forward_network_is_added_wherever_it_is_normalized(normalize):
    block = randomized(ConformerBlock(2, HIDDEN, kernel_size=KERNEL, normalize=normalize))
    parts = {
        "feed_forward": (block.feed_forward, 0.5),
        "attention": (lambda y: block.attention(y, y), 1.0),
        "convolution_input": (block.convolution, 1.0),
        "second_feed_forward": (block.second_feed_forward, 0.5),
    }
    x = ops.array(X)
    for name, (part, share) in parts.items():
        norm = getattr(block, f"{name}_norm")
        added = part(x if normalize == "output" else norm(x))
        added = norm(added) if normalize == "output" else added
        if normalize == "sandwich":
            added = getattr(block, f"{name.removesuffix('_input')}_output_norm")(added)
        x = x + share * added
    np.testing.assert_allclose(block(X), block.output_norm(x), atol=2e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"convolution_norm": "layer", "normalize": "post", "position": "rotary", "gated": True},
        {"position": "shaw", "use_bias": ["query", "convolution"], "norm": "rms"},
        {"normalize": "sandwich", "soft_cap": 2.0},
        {"normalize": "output", "query_key_norm": 1e-5, "joint_query_key_norm": True},
    ],
)
def test_what_is_hidden_changes_nothing(options):
    block = randomized(ConformerBlock(2, HIDDEN, kernel_size=5, **options))
    found, weights = block(X, mask=MASK, return_attention_scores=True)
    alone = block(X[1:, :4])
    np.testing.assert_allclose(oracle.float64(found)[1:, :4], oracle.float64(alone), atol=1e-5)
    other = np.where(MASK[:, :, None], X, 9.0)
    again = block(other, mask=MASK, return_attention_scores=True)
    np.testing.assert_array_equal(oracle.float64(again[0])[1, :4], oracle.float64(found)[1, :4])
    np.testing.assert_array_equal(oracle.float64(weights)[1, :, :, 4:], 0.0)


def test_an_implicit_mask_hides_as_well():
    block = randomized(ConformerBlock(2, HIDDEN, kernel_size=KERNEL))
    x = np.where(MASK[:, :, None], X, 0.0).astype("float32")
    found = block(keras.layers.Masking(0.0)(x))
    np.testing.assert_array_equal(
        oracle.float64(found)[MASK], oracle.float64(block(x, mask=MASK))[MASK]
    )


def test_convolution_joins_its_mask_with_an_implicit_one():
    layer = randomized(ConvolutionModule(KERNEL))
    x = np.where(MASK[:, :, None], X, 0.0).astype("float32")
    other = np.arange(LENGTH) > 0
    found = layer(keras.layers.Masking(0.0)(x), mask=np.tile(other, (BATCH, 1)))
    np.testing.assert_array_equal(found, layer(x, mask=MASK & other))
    np.testing.assert_array_equal(get_keras_mask(found), MASK & other)


@pytest.mark.parametrize("kernel_size", [1, 4, 5])
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_convolution_equals_its_equation(kernel_size, norm):
    layer = randomized(ConvolutionModule(kernel_size, "tanh", norm))
    inner = X @ oracle.weight(layer.inner, "kernel") + oracle.weight(layer.inner, "bias")
    value = inner[..., :SIZE] / (1.0 + np.exp(-inner[..., SIZE:])) * MASK[..., None]
    kernel = oracle.weight(layer.depthwise, "kernel")[..., 0]  # (kernel, size)
    y = np.zeros_like(value) + oracle.weight(layer.depthwise, "bias")
    for place, shift in np.ndindex(LENGTH, kernel_size):
        other = place + shift - (kernel_size - 1) // 2
        if 0 <= other < LENGTH:
            y[:, place] += kernel[shift] * value[:, other]
    normalization = layer.normalization
    if norm == "batch":
        mean, variance = (
            oracle.weight(normalization, f"moving_{name}") for name in ("mean", "variance")
        )
    else:
        mean, variance = y.mean(-1, keepdims=True), y.var(-1, keepdims=True)
    y = (y - mean) / np.sqrt(variance + 1e-5) * oracle.weight(normalization, "gamma")
    y = np.tanh(y + oracle.weight(normalization, "beta"))
    expected = y @ oracle.weight(layer.outer, "kernel") + oracle.weight(layer.outer, "bias")
    np.testing.assert_allclose(oracle.float64(layer(X, mask=MASK)), expected, atol=2e-5)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_empty_sequences_are_not_convolved(norm):
    assert tuple(ConvolutionModule(3, norm=norm)(np.zeros((2, 0, 4))).shape) == (2, 0, 4)


@pytest.mark.parametrize("has_mask", [False, True])
def test_nothing_is_learned_where_nothing_is_seen(has_mask):
    """A replica of distributed training may get no rows of the last batch."""
    layer = randomized(ConvolutionModule(3))
    before = layer.get_weights()
    shape = (2, 5, SIZE) if has_mask else (0, 5, SIZE)
    mask = np.zeros(shape[:2], bool) if has_mask else None
    x = np.ones(shape, "float32")
    layer(x, mask=mask, training=True)
    for old, new in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-6)
    found = weight_gradients(layer, x, mask=mask, training=True)
    assert all(np.isfinite(oracle.float64(each)).all() for each in found.values())


@pytest.mark.parametrize("kind", [DepthwiseConv1D, DepthwiseConv2D])
def test_a_kernel_learns_nothing_from_an_empty_batch(kind):
    """TensorFlow hands out memory as it is for the gradient of a depthwise kernel."""
    layer = kind(3, padding="same", use_bias=False)
    shape = (5,) * layer.rank + (SIZE,)
    layer.build((None, *shape))
    for _ in range(20):
        freed = [ops.full((*layer.kernel.shape, 1), np.nan) + 0.0 for _ in range(20)]
        del freed
        (found,) = weight_gradients(layer, np.ones((0, *shape), "float32")).values()
        np.testing.assert_array_equal(oracle.float64(found), 0.0)


def test_channels_are_last_even_if_those_of_images_are_first():
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        test_convolution_equals_its_equation(4, "layer")
    finally:
        keras.config.set_image_data_format(before)


def test_batches_teach_what_they_show_alone():
    layer = randomized(ConvolutionModule(1))
    layer(X, mask=MASK, training=True)
    learned = oracle.weight(layer.normalization, "moving_mean")
    again = randomized(ConvolutionModule(1))
    again.set_weights(layer.get_weights())
    before = oracle.weight(layer.normalization, "moving_mean")
    layer(X[MASK][None], training=True)
    again(X, mask=MASK, training=True)
    np.testing.assert_allclose(
        oracle.weight(layer.normalization, "moving_mean"),
        oracle.weight(again.normalization, "moving_mean"),
        atol=1e-5,
    )
    assert np.abs(oracle.weight(again.normalization, "moving_mean") - before).max() > 1e-4
    assert np.isfinite(learned).all()


def test_statistics_are_not_lost_in_silence():
    with keras.RematScope():
        block = ConformerBlock(2, HIDDEN, kernel_size=KERNEL)
        module = ConvolutionModule(KERNEL)
    for layer in (block, module):
        with pytest.raises(ValueError, match=f"{type(layer).__name__} with batch normalization"):
            layer(X)
    with keras.RematScope():
        block = ConformerBlock(2, HIDDEN, kernel_size=KERNEL, convolution_norm="layer")
    assert block(X).shape == X.shape


def test_statistics_are_learned_by_what_is_not_recomputed():
    learned = []
    for scope in ({"mode": None}, {"mode": "activations"}, {"mode": "list_of_layers"}):
        with keras.RematScope(**scope, layer_names=["another"]):
            layer = ConvolutionModule(KERNEL)
        layer.build(X.shape)
        for weight in layer.trainable_variables:
            weight.assign(np.ones(weight.shape))
        layer(X, training=True)
        learned.append(oracle.weight(layer.normalization, "moving_mean"))
    assert np.abs(learned[0]).max() > 1e-3
    np.testing.assert_allclose(learned[1:], learned[:1] * 2, rtol=1e-6)


ARGUMENTS = {
    "num_heads": 2,
    "hidden": np.int64(HIDDEN),
    "key_dim": 3,
    "normalize": "post",
    "kernel_size": np.int32(5),
    "convolution_norm": "layer",
    "activation": "gelu",
    "use_bias": ["query", "convolution"],
    "position": Rotary(99, pairs="halves"),
    "dropout": 0.1,
    "norm": "rms",
    "gated": True,
}
OF_MODULE = {
    "kernel_size": np.int64(5),
    "activation": "gelu",
    "norm": "layer",
    "epsilon": 1e-3,
    "use_bias": False,
}


@pytest.mark.parametrize(
    ("layer_class", "arguments"), [(ConformerBlock, ARGUMENTS), (ConvolutionModule, OF_MODULE)]
)
def test_config_has_every_argument_and_makes_the_same_layer(layer_class, arguments):
    check_config(layer_class, arguments)


@pytest.mark.full
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="one backend is enough")
def test_trains_in_a_functional_model_that_a_file_keeps(tmp_path):
    inputs, visible = keras.Input((None, SIZE)), keras.Input((None,), dtype="bool")
    block = ConformerBlock(2, HIDDEN, kernel_size=KERNEL, dropout=0.1)
    y, weights = block(inputs, mask=visible, return_attention_scores=True)
    assert y.shape == (None, None, SIZE)
    assert weights.shape[1] == 2
    model = keras.Model([inputs, visible], keras.layers.GlobalAveragePooling1D()(y))
    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
    target = np.ones((BATCH, SIZE), "float32")
    losses = model.fit([X, MASK], target, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded([X, MASK]), model([X, MASK]), atol=1e-5)
    assert block.compute_output_shape((None, 5, SIZE)) == (None, 5, SIZE)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_near(dtype):
    block = randomized(ConformerBlock(2, HIDDEN, kernel_size=KERNEL))
    half = ConformerBlock(2, HIDDEN, kernel_size=KERNEL, dtype=dtype)
    half.build(X.shape)
    half.set_weights(block.get_weights())
    found = half(X, mask=MASK)
    assert keras.backend.standardize_dtype(found.dtype) == dtype.removeprefix("mixed_")
    expected = oracle.float64(block(X, mask=MASK))
    tolerance = 2e-2 if dtype == "mixed_float16" else 1.5e-1
    np.testing.assert_allclose(oracle.float64(found), expected, atol=tolerance)


def test_integers_count_as_floats():
    block = ConformerBlock(2, HIDDEN, kernel_size=KERNEL)
    x = np.round(X).astype("int32")
    np.testing.assert_array_equal(
        ops.convert_to_numpy(block(x)), ops.convert_to_numpy(block(x.astype("float32")))
    )
