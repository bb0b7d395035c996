"""The Swin Transformer: windows against masks of the whole image, its sizes, its tasks."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from keras_attention import EncoderBlock, masks, positions
from zoo.models.swin import PatchMerging, Swin, SwinConfig
from zoo.models.windows import WindowBlock, cut, joined

TINY = {"num_layers": (1, 2), "num_heads": (1, 2), "size": 4, "window": 2, "patch_size": 2}
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


@pytest.mark.full
def test_the_smallest_model_has_the_published_size():
    """28,288,354 weights of Swin-T; all blocks of its third stage have the same size."""
    cores = [
        Swin(1000, num_layers=(1, 1, number, 1), num_heads=(3, 6, 12, 24)) for number in (1, 2)
    ]
    for core in cores:
        core.build()
    numbers = [sum(each.count_params() for each in core.stages[stage]) for stage in (0, 1, 3)]
    of_third = cores[1].count_params() - cores[0].count_params()
    assert cores[0].count_params() + sum(numbers) + 5 * of_third == 28_288_354


# Windows that divide the image, and an image of the size of one.
@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("grid", "window", "shift", "effective"),
    [((6, 9), 3, 0, 3), ((6, 9), 3, 1, 3), ((8, 4), 4, 2, 4), ((2, 4), 3, 1, 2)],
)
def test_windows_are_what_a_mask_leaves_of_the_image(grid, window, shift, effective):
    shift_of_mask = shift if min(grid) > window else 0
    patches, options = grid[0] * grid[1], {"normalize": "pre", "activation": "gelu"}
    ours = WindowBlock(2, 12, position=positions.GridBias(window), shift=shift, **options)
    others = EncoderBlock(
        2,
        12,
        mask=masks.GridWindows(grid, effective, shift_of_mask),
        position=positions.GridBias(grid, window),
        **options,
    )
    ours.build((None, None, None, 8))
    others.build((None, None, 8))
    weights = [0.5 * random(*weight.shape) for weight in ours.weights]
    ours.set_weights(weights)
    others.set_weights(weights)
    x = random(2, *grid, 8)
    with tf.GradientTape(persistent=True) as tape:
        found, of_windows = ours(x, return_attention_scores=True)
        expected, whole = others(x.reshape(2, patches, 8), return_attention_scores=True)
        totals = [tf.reduce_sum(tf.sin(each)) for each in (found, expected)]
    np.testing.assert_allclose(found, np.reshape(expected, found.shape), atol=1e-5)
    np.testing.assert_allclose(ours(x), found, atol=1e-5)
    assert ours.position.grid == (window, window), "no call changes it"
    np.testing.assert_allclose(ours.weights_of_grid(of_windows, grid), whole, atol=1e-6)
    gradients = [
        tape.gradient(total, block.trainable_weights)
        for total, block in zip(totals, (ours, others), strict=True)
    ]
    for gradient, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(gradient, other, atol=2e-4)
    again = WindowBlock.from_config(ours.get_config())
    again.build((None, None, None, 8))
    again.set_weights(weights)
    np.testing.assert_array_equal(again(x), ours(x))


@pytest.mark.parametrize("shift", [0, 2])
def test_windows_are_joined_again(shift):
    x = random(2, 7, 8, 3)
    windows = cut(x, 3, shift)
    assert tuple(windows.shape) == (2, 9, 9, 3)
    padded = np.roll(np.pad(x, [(0, 0), (0, 2), (0, 1), (0, 0)]), (-shift, -shift), (1, 2))
    np.testing.assert_array_equal(windows[:, 5], padded[:, 3:6, 6:9].reshape(2, 9, 3))
    np.testing.assert_array_equal(joined(windows, (7, 8), 3, shift), x)


def test_merging_is_a_product_of_four_neighbors():
    layer = PatchMerging(5)
    x = random(2, 3, 4, 2)
    found = layer(x).numpy()
    padded = np.pad(x, [(0, 0), (0, 1), (0, 0), (0, 0)]).astype("float64")
    parts = [padded[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
    four = np.concatenate(parts, axis=-1)
    four -= four.mean(axis=-1, keepdims=True)
    four /= np.sqrt((four**2).mean(axis=-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, four @ layer.reduction.kernel.numpy(), atol=1e-5)


@pytest.mark.full
def test_blocks_are_recomputed_with_the_windows_of_their_image():
    images = [random(1, *shape, 3) for shape in ((12, 16), (4, 7))]
    gradients = []
    for mode in (None, "list_of_layers"):
        with keras.RematScope(mode=mode, layer_names=["block_0_1"]):
            core = Swin(3, **{**TINY, "num_layers": (2,), "num_heads": (1,)})
            core.build()
        if mode is None:
            weights = [random(*weight.shape) for weight in core.weights]
        core.set_weights(weights)
        with tf.GradientTape() as tape:
            total = sum(tf.reduce_sum(tf.sin(core(each))) for each in images)
        gradients.append(tape.gradient(total, core.trainable_weights))
    for plain, recomputed in zip(*gradients, strict=True):
        np.testing.assert_allclose(recomputed, plain, atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_precisions_give_nearly_the_same(dtype):
    images = random(2, 9, 14, 3)
    core, other = (Swin(3, **TINY, dtype=each) for each in ("float32", dtype))
    for each in (core, other):
        each.build()
    other.set_weights(core.get_weights())
    np.testing.assert_allclose(other(images), core(images), atol=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 2}, r"`num_layers` of Swin must be a tuple .* num_layers=2\."),
        ({"num_layers": (1, 0)}, r"integers of at least 1.* num_layers=\(1, 0\)"),
        ({"expansion": -1.0}, r"`expansion` of Swin must be .* above 0.* expansion=-1\.0, size=4"),
        ({"num_heads": (1, 2, 4)}, r"a number for each stage.*\(1, 2\), num_heads=\(1, 2, 4\)"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        SwinConfig(**{**TINY, **options})


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"Swin needs images .*, 3\).* shape \(1, 9, 8, 1\)"):
        Swin(3, **TINY)(np.zeros((1, 9, 8, 1), "float32"))
    with pytest.raises(ValueError, match=r"needs x of shape \(batch, rows, columns, size\)"):
        WindowBlock(2, 8, position=positions.GridBias(3, 3))(np.zeros((1, 9, 8), "float32"))
    for arguments in ((6, 3), ((3, 4),)):
        with pytest.raises(ValueError, match=r"must be a GridBias of a square.*Received: grid=\("):
            WindowBlock(2, 8, position=positions.GridBias(*arguments))


def classifier():
    reader = zoo.ImageReader(size=20)
    return zoo.load("swin", weights=None, reader=reader, labels=["dark", "light"], **TINY)


PHOTOS = [np.full((20, 30, 3), 255 * side, "uint8") for side in (0, 1)]


@pytest.mark.usefixtures("eagerly")
def test_a_classifier_tells_where_it_looks(tmp_path):
    model = classifier()
    result = model.classify(PHOTOS, return_attention=True)
    images, _ = model.reader.read(result.images)
    logits, weights = model.core(images, return_attention_scores=True)
    np.testing.assert_allclose(result.probabilities, keras.ops.softmax(logits), atol=1e-5)
    told = model.core.told(images, weights)
    np.testing.assert_allclose(result.attention, told["attention"], atol=1e-5)
    assert result.attention.shape == (2, 5, 5)
    assert result.heads.shape == (2, 2, 2, 5, 5)  # the two blocks of the last stage
    np.testing.assert_allclose(result.attention.sum(axis=(1, 2)), 1.0, atol=1e-5)
    np.testing.assert_allclose(result.heads.sum(axis=(-2, -1)), 1.0, atol=1e-5)
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    np.testing.assert_array_equal(again.core(images), logits)
    other = zoo.load(tmp_path / "preset", labels=["a", "b", "c"])
    assert other.core.head.units == 3
    blocks = [each.core.stage_1[1] for each in (other, again)]
    for found, trained in zip(*(block.get_weights() for block in blocks), strict=True):
        np.testing.assert_array_equal(found, trained)


@pytest.mark.full
def test_a_classifier_learns_from_images_and_its_export_takes_them(tmp_path):
    model = classifier()
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(PHOTOS * 4, ["dark", "light"] * 4, batch_size=4, epochs=6, verbose=0)
    result = model.classify(PHOTOS, return_attention=True)
    assert result.labels == ["dark", "light"]
    assert len(result.plot(0, layer=1).axes) == 3
    model.export(tmp_path / "exported")
    served = tf.saved_model.load(tmp_path / "exported" / "1").signatures["explain"]
    found = served(image_bytes=tf.constant([*result.images, b"no image"]))
    np.testing.assert_allclose(found["attention"][:2], result.attention, atol=1e-5)
    np.testing.assert_allclose(found["probabilities"][:2], result.probabilities, atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("file_format", ["onnx", "litert"])
def test_graphs_of_other_runtimes(tmp_path, file_format):
    pytest.importorskip("tf2onnx")
    model = zoo.load("swin_embedding", weights=None, reader=zoo.ImageReader(size=20), **TINY)
    folder = model.export(tmp_path / "graphs", format=file_format)
    pixels = random(2, 20, 20, 3)
    if file_format == "onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(folder / "model.onnx")
        (found,) = session.run(None, {"pixels": pixels})
    else:
        lite = pytest.importorskip("ai_edge_litert.interpreter")
        run = lite.Interpreter(str(folder / "model.tflite")).get_signature_runner("model")
        rows = [next(iter(run(pixels=each[None]).values())) for each in pixels]
        found = np.concatenate(rows)
    np.testing.assert_allclose(found, model.core(pixels), atol=1e-5)
