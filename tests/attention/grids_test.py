"""Attention in images against Swin, DINOv3 and Qwen2-VL of transformers, and against NATTEN."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import EncoderBlock, MultiHeadAttention, masks, positions
from tests.attention import oracle

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
GRID, WINDOW, SIZE, HEADS = (6, 9), 3, 16, 4
PATCHES = GRID[0] * GRID[1]
SWIN = {
    "attention_norm": "layernorm_before",
    "attention/query": "attention.q_proj",
    "attention/key": "attention.k_proj",
    "attention/value": "attention.v_proj",
    "attention/output": "attention.o_proj",
    "attention/attention/grid_bias": "attention.relative_position_bias",
    "feed_forward_norm": "layernorm_after",
    "feed_forward/inner": "mlp.fc1",
    "feed_forward/outer": "mlp.fc2",
}


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def swin(shift):
    """Returns a layer of Swin."""
    config = transformers.SwinConfig(
        window_size=WINDOW, mlp_ratio=1.5, attn_implementation="eager", hidden_size=SIZE
    )
    layers = transformers.models.swin.modeling_swin
    return layers.SwinLayer(config, SIZE, GRID, HEADS, shift_size=shift).eval()


def windows(array, shift):
    """Moves a grid cyclically, and cuts it into windows: (number, patches of a window)."""
    moved = torch.roll(torch.tensor(array.reshape(1, *GRID, 1)), (-shift, -shift), (1, 2))
    cut = transformers.models.swin.modeling_swin.window_partition(moved, WINDOW)
    return cut.reshape(-1, WINDOW * WINDOW).numpy()


@pytest.mark.few(1)
@pytest.mark.parametrize("shift", [1, 2])
def test_windows_are_those_of_swin(shift):
    allowed = swin(shift).get_attn_mask(*GRID, torch.float32, "cpu").numpy() == 0
    expected = np.zeros((PATCHES, PATCHES), bool)
    for places, inside in zip(windows(np.arange(PATCHES), shift), allowed, strict=True):
        expected[np.ix_(places, places)] = inside
    found = masks.GridWindows(GRID, WINDOW, shift)(PATCHES, PATCHES)
    np.testing.assert_array_equal(ops.convert_to_numpy(found)[0, 0], expected)


@pytest.mark.parametrize("shift", [0, 1])
def test_a_block_is_that_of_swin(shift):
    theirs = swin(shift)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    table = theirs.attention.relative_position_bias.relative_position_bias_table.detach().numpy()
    position = positions.GridBias(GRID, WINDOW)
    ours = EncoderBlock(
        HEADS,
        24,
        normalize="pre",
        activation="gelu",
        mask=masks.GridWindows(GRID, WINDOW, shift),
        position=position,
    )
    ours.build((None, PATCHES, SIZE))
    given = {name: each.detach().numpy() for name, each in theirs.named_parameters()}
    for weight in ours.weights:
        part, _, name = weight.path.removeprefix(f"{ours.name}/").rpartition("/")
        if name == "embeddings":
            side = 2 * WINDOW - 1
            weight.assign(table.T.reshape(HEADS, side, side))
            continue
        array = given[f"{SWIN[part]}.{'bias' if name in ('bias', 'beta') else 'weight'}"]
        weight.assign(array.T if name == "kernel" else array)
    x = random(2, PATCHES, SIZE)
    with torch.no_grad():
        expected, _ = theirs(torch.tensor(x), GRID)
    np.testing.assert_allclose(oracle.float64(ours(x)), expected.numpy(), atol=2e-5)


def natten_start(index, length, window, dilation):
    """First key of a query in NATTEN, `get_window_start` of its reference kernels."""
    half = window // 2
    if index - half * dilation < 0:
        return index % dilation
    if index + half * dilation >= length:
        rest, whole = index % dilation, length // dilation * dilation
        left = length - whole
        if rest < left:
            return length - left + rest - 2 * half * dilation
        return whole + rest - window * dilation
    return index - half * dilation


@pytest.mark.parametrize(
    ("grid", "window", "dilation"),
    [((7, 7), (3, 3), (1, 1)), ((5, 9), (5, 3), (1, 3)), ((13, 4), (3, 1), (4, 2))],
)
def test_neighborhoods_are_those_of_natten(grid, window, dilation):
    number = grid[0] * grid[1]
    expected = np.zeros((number, *grid), bool)
    for query in range(number):
        rows, columns = (
            start + step * np.arange(size)
            for start, step, size in zip(
                map(natten_start, divmod(query, grid[1]), grid, window, dilation),
                dilation,
                window,
                strict=True,
            )
        )
        expected[query][np.ix_(rows, columns)] = True
    visible = masks.Neighborhood(grid, window, dilation)(number, number)
    visible = ops.convert_to_numpy(visible)[0, 0]
    np.testing.assert_array_equal(visible, expected.reshape(number, number))
    assert (visible.sum(axis=1) == window[0] * window[1]).all()


@pytest.mark.parametrize(
    "mask",
    [
        masks.GridWindows(GRID, 4, shift=(1, 3), num_prefix_tokens=2),
        masks.Neighborhood(GRID, (3, 5), num_prefix_tokens=2),
    ],
    ids=repr,
)
def test_implementations_agree_on_images_and_on_sequences(mask):
    x = random(2, 2 + PATCHES, SIZE)
    layer = MultiHeadAttention(HEADS, 4, mask=mask, position=positions.GridBias(GRID, 4, 2))
    layer.build(x.shape, x.shape)
    layer.attention.position.embeddings.assign(random(HEADS, 7, 7))
    expected, weights = layer(x, x, return_attention_scores=True)
    outside = ~ops.convert_to_numpy(mask(2 + PATCHES, 2 + PATCHES))[0, 0]
    assert not oracle.float64(weights)[..., outside].any()
    for implementation in ("blocked", "chunked"):
        layer.attention.implementation = implementation
        np.testing.assert_allclose(oracle.float64(layer(x, x)), oracle.float64(expected), atol=2e-5)

    without = type(mask)(**mask.get_config() | {"num_prefix_tokens": 0})
    position = positions.GridBias(GRID, 4)
    layer = MultiHeadAttention(HEADS, 4, mask=without, position=position)
    images = x[:, 2:].reshape(2, *GRID, SIZE)
    found, flat = layer(images, images), layer(x[:, 2:], x[:, 2:])
    assert tuple(found.shape) == images.shape
    np.testing.assert_allclose(
        oracle.float64(found).reshape(flat.shape), oracle.float64(flat), atol=1e-5
    )


def dinov3(x, grid, prefix):
    """Returns vectors as DINOv3 rotates them."""
    size = 4
    config = transformers.DINOv3ViTConfig(
        hidden_size=HEADS * x.shape[-1], num_attention_heads=HEADS, patch_size=size
    )
    layers = transformers.models.dinov3_vit.modeling_dinov3_vit
    rotary = layers.DINOv3ViTRopePositionEmbedding(config).eval()
    waves = rotary(torch.zeros(1, 3, *(size * number for number in grid)))
    return layers.apply_rotary_pos_emb(*2 * [torch.tensor(x)], *waves)[0].numpy()


def qwen2_vl(x, grid, prefix):
    """Returns vectors as Qwen2-VL rotates them."""
    settings = transformers.models.qwen2_vl.configuration_qwen2_vl.Qwen2VLVisionConfig(
        embed_dim=HEADS * x.shape[-1], num_heads=HEADS
    )
    layers = transformers.models.qwen2_vl.modeling_qwen2_vl
    places = np.stack(np.indices(grid), axis=-1).reshape(-1, 2)  # (patches, 2)
    settings.num_attention_heads = HEADS
    waves = layers.Qwen2VLVisionRotaryEmbedding(settings)(torch.zeros(()), torch.tensor(places))
    patches = torch.tensor(x[..., prefix:, :]).transpose(-2, -3)
    turned = layers.apply_rotary_pos_emb_vision(patches, patches, *waves)[0].transpose(-2, -3)
    return np.concatenate([x[..., :prefix, :], turned.numpy()], axis=-2)


@pytest.mark.parametrize("prefix", [0, 5])
@pytest.mark.parametrize(
    ("of_model", "options"),
    [(dinov3, {}), (qwen2_vl, {"max_wavelength": 10000, "coordinates": "indices"})],
)
def test_rotation_is_that_of(of_model, options, prefix):
    x = random(2, HEADS, prefix + PATCHES, 8)
    position = positions.GridRotary(GRID, num_prefix_tokens=prefix, **options)
    position.build((HEADS,), 8)
    places = ops.arange(x.shape[2], dtype="int32")
    found = position.rotate(ops.convert_to_tensor(x), places)
    np.testing.assert_allclose(oracle.float64(found), of_model(x, GRID, prefix), atol=1e-5)
    position.grid = GRID[::-1]  # an image of another size
    found = position.rotate(ops.convert_to_tensor(x), places)
    np.testing.assert_allclose(oracle.float64(found), of_model(x, GRID[::-1], prefix), atol=1e-5)


@pytest.mark.parametrize("coordinates", ["normalized", "indices"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rotation_of_any_patches_equals_its_equation(coordinates, dtype):
    places = np.array([3, 0, 53, 2, 17, 17], "int32")
    x = ops.cast(random(2, len(places), 8), dtype)
    position = positions.GridRotary(GRID, 50, coordinates, num_prefix_tokens=1)
    position.build((), 8)
    expected = oracle.float64(x)
    for row, place in enumerate(places - 1):
        if place < 0:
            continue
        along = np.array(divmod(int(place), GRID[1]), "float64")
        if coordinates == "normalized":
            along = 2 * np.pi * (2 * (along + 0.5) / GRID - 1)
        angles = np.outer(along, 50.0 ** -np.array([0.0, 0.5])).ravel()
        first, second = np.split(expected[:, row].copy(), 2, axis=-1)
        expected[:, row, :4] = first * np.cos(angles) - second * np.sin(angles)
        expected[:, row, 4:] = second * np.cos(angles) + first * np.sin(angles)
    found = position.rotate(x, places)
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    rounding = {"float32": 2.0**-18, "float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    np.testing.assert_allclose(oracle.float64(found), expected, rtol=rounding, atol=4 * rounding)


def test_products_of_rotated_patches_depend_on_their_distance_alone():
    layer = MultiHeadAttention(HEADS, 8, position=positions.GridRotary(GRID))
    x = np.broadcast_to(random(1, 1, SIZE), (1, PATCHES, SIZE))
    _, weights = layer(x, x, return_attention_scores=True)
    ratios = np.log(oracle.float64(weights)).reshape(HEADS, *GRID, *GRID)

    def difference(query, key):
        return ratios[:, *query, *key] - ratios[:, *query, *query]

    np.testing.assert_allclose(difference((0, 1), (2, 4)), difference((3, 5), (5, 8)), atol=1e-4)
    assert np.abs(difference((0, 1), (2, 4)) - difference((0, 1), (3, 4))).min() > 1e-4
