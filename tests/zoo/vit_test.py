"""The Vision Transformer: published sizes, its parts against NumPy, pictures of other sizes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention import EncoderBlock
from zoo.models.grid_position import interpolated, sinusoids_of_grid
from zoo.models.patches import PatchEmbedding
from zoo.models.rollout import attention_rollout
from zoo.models.vit import ViT, ViTConfig
from zoo.models.vit_blocks import ScaledBlock

TINY = {
    "image_size": 8,
    "channels": 1,
    "patch_size": 4,
    "num_layers": 1,
    "size": 8,
    "num_heads": 2,
    "hidden": 16,
}


def test_the_base_model_has_the_published_size():
    """86,567,656 weights of ViT-B/16 with 1,000 labels; all its blocks have the same size."""
    one, two = (ViT(1000, num_layers=layers) for layers in (1, 2))
    for core in (one, two):
        core.build()
    block = two.count_params() - one.count_params()
    assert one.count_params() + 11 * block == 86_567_656


def test_patches_are_products_of_a_matrix():
    images = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")
    layer = PatchEmbedding(size=5, patch_size=4)
    found = layer(images)
    kernel, bias = (weight.numpy() for weight in layer.weights)
    cut = images.reshape(2, 2, 4, 2, 4, 3).transpose(0, 1, 3, 2, 4, 5)  # rows and columns apart
    expected = cut.reshape(2, 2, 2, 48) @ kernel.reshape(48, 5) + bias
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("stem", [(4, 8), (4, 4, 8), ()])
def test_a_stem_leaves_as_many_patches(stem):
    layer = PatchEmbedding(size=5, patch_size=4, stem=stem)
    assert tuple(layer(np.zeros((1, 28, 28, 1), "float32")).shape) == (1, 7, 7, 5)


def test_rollout_is_a_product():
    generator = np.random.default_rng(0)
    weights = generator.dirichlet(np.ones(5), size=(3, 2, 4, 5)).astype("float32")
    expected = np.broadcast_to(np.eye(5), (2, 5, 5))
    for layer in weights.astype("float64"):
        expected = (0.5 * layer.mean(axis=1) + 0.5 * np.eye(5)) @ expected
    np.testing.assert_allclose(attention_rollout(list(weights)), expected, atol=1e-6)


def test_sinusoids_tell_rows_and_columns():
    table = sinusoids_of_grid(3, 4, 8).numpy()
    frequencies = np.array([1.0, 0.01])
    for row, column in np.ndindex(3, 4):
        parts = [f(place * frequencies) for place in (row, column) for f in (np.sin, np.cos)]
        np.testing.assert_allclose(table[row, column], np.concatenate(parts), atol=1e-6)


@pytest.mark.few(4)
@pytest.mark.pairwise
@pytest.mark.parametrize("pooling", ["first", "mean", "both"])
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("registers", [0, 2])
def test_pictures_of_other_sizes_have_interpolated_positions(pooling, position, registers):
    core = ViT(3, pooling=pooling, position=position, registers=registers, **TINY)
    images = np.random.default_rng(0).normal(size=(2, 16, 12, 1)).astype("float32")
    logits, weights = core(images, return_attention_scores=True)
    tokens = 12 + (pooling != "mean") + registers
    assert tuple(logits.shape) == (2, 3)
    assert [tuple(each.shape) for each in weights] == [(2, 2, tokens, tokens)]
    assert tuple(core.told(images, weights)["attention"].shape) == (2, 4, 3)


def test_blocks_are_recomputed_with_the_grid_of_their_image():
    generator = np.random.default_rng(0)
    images = [
        generator.normal(size=(1, *shape, 1)).astype("float32") for shape in ((8, 16), (12, 4))
    ]
    gradients = []
    for mode in (None, "list_of_layers"):
        with keras.RematScope(mode=mode, layer_names=["block_0"]):
            core = ViT(3, position="rotary", **TINY)
            core.build()
        if mode is None:
            weights = [generator.normal(size=weight.shape) for weight in core.weights]
        core.set_weights(weights)
        with tf.GradientTape() as tape:
            total = sum(tf.reduce_sum(tf.sin(core(each))) for each in images)
        gradients.append(tape.gradient(total, core.trainable_weights))
    for plain, recomputed in zip(*gradients, strict=True):
        np.testing.assert_allclose(recomputed, plain, atol=1e-5)


@pytest.mark.parametrize("grid", [(3, 9), (7, 5), (1, 1)])
@pytest.mark.parametrize("antialias", [False, True])
def test_interpolation_is_that_of_pytorch(grid, antialias):
    torch = pytest.importorskip("torch")
    table = np.random.default_rng(0).normal(size=(7, 5, 4)).astype("float32")
    expected = torch.nn.functional.interpolate(
        torch.tensor(table.transpose(2, 0, 1)[None]),
        grid,
        mode="bicubic",
        align_corners=False,
        antialias=antialias,
    )
    found = interpolated(tf.constant(table), grid, antialias)
    np.testing.assert_allclose(found, expected[0].numpy().transpose(1, 2, 0), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch_size": 3}, "multiple of `patch_size`.*image_size=8, patch_size=3"),
        ({"position_size": 9}, "multiple of `patch_size`.*position_size=9, patch_size=4"),
        ({"stem": (4,)}, r"at least as many convolutions.*stem=\(4,\), patch_size=4"),
        ({"pooling": "frist"}, "Did you mean 'first'"),
        ({"position": "alibi"}, "position of an image.*alibi"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ViTConfig(num_labels=3, **{**TINY, **options})


def test_pictures_of_a_wrong_shape_are_named():
    with pytest.raises(ValueError, match=r"multiples of 4. Received: shape \(1, 9, 8, 1\)"):
        ViT(3, **TINY)(np.zeros((1, 9, 8, 1), "float32"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_precisions_give_nearly_the_same(dtype):
    images = np.random.default_rng(0).normal(size=(2, 8, 8, 1)).astype("float32")
    core, other = (ViT(3, **TINY, dtype=each) for each in ("float32", dtype))
    for each in (core, other):
        each.build()
    other.set_weights(core.get_weights())
    np.testing.assert_allclose(other(images), core(images), atol=0.05)


@pytest.mark.parametrize("normalize", ["pre", "sandwich"])
def test_what_is_added_is_scaled_wherever_it_is_normalized(normalize):
    options = {"num_heads": 2, "hidden": 12, "normalize": normalize, "parallel": True}
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    plain, scaled = EncoderBlock(**options), ScaledBlock(**options, layer_scale=0.25)
    plain.build(x.shape)
    scaled.build(x.shape)
    for weight in plain.weights:
        path = weight.path.partition("/")[2]
        (same,) = [each for each in scaled.weights if each.path.partition("/")[2] == path]
        same.assign(weight)
    np.testing.assert_allclose(scaled(x) - x, 0.25 * (plain(x) - x), atol=1e-5)
