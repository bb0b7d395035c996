"""Presets of images and sounds as the beginning of classifiers with other labels."""

import numpy as np
import pytest

import zoo

TINY = {"num_layers": 2, "size": 8, "num_heads": 2, "hidden": 12}
IMAGES = {"reader": zoo.ImageReader(size=8, channels=1), "patch_size": 4}
SOUNDS = {"kernel_size": 3, "channels": 4, "reader": zoo.SoundReader(rate=8000, bands=8)}
SPECTROGRAMS = {
    "reader": zoo.SpectrogramReader(rate=8000, bands=16, frames=20, seconds=1.0),
    "patch_size": 8,
}
WAVES = {
    "reader": zoo.WaveReader(),
    "filters": (4, 4),
    "kernel_sizes": (10, 3),
    "strides": (5, 2),
    "position_groups": 2,
    "projection_size": 6,
}
OLD = {"labels": ["x", "y"]}
KINDS = {  # -> the architecture of its classifier, and the options of the preset
    "vit": ("vit", {**IMAGES, **OLD, "distillation": "head"}),
    "vit_embedding": ("vit", IMAGES),
    "conformer": ("conformer", {**SOUNDS, **OLD}),
    "spectrogram_transformer": ("spectrogram_transformer", {**SPECTROGRAMS, **OLD}),
    "wav2vec2": ("wav2vec2", {**WAVES, **OLD}),
}


@pytest.fixture
def preset(tmp_path):
    """Saves a preset, with weights unlike fresh ones; returns its folder and its model."""

    def save(kind):
        _, options = KINDS[kind]
        model = zoo.load(kind, weights=None, **TINY, **options)
        generator = np.random.default_rng(0)
        for weight in model.core.weights:
            weight.assign(np.abs(generator.normal(size=weight.shape)))
        model.save_to_preset(tmp_path / "toy")
        return tmp_path / "toy", model

    return save


def inputs_of(config):
    generator = np.random.default_rng(1)
    if hasattr(config, "image_size"):
        return generator.normal(size=(2, 8, 8, 1)).astype("float32")
    if hasattr(config, "filters"):
        samples = generator.normal(size=(2, 400)).astype("float32")
        return {"samples": samples, "lengths": np.array([400, 313], "int32")}
    frames = generator.normal(size=(2, 20, config.bands)).astype("float32")
    return {"frames": frames, "lengths": np.array([20, 13], "int32")}


def heads_of(core):
    return [core.head, *filter(None, [getattr(core, "distillation_head", None)])]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_all_but_the_head_is_trained(kind, preset):
    folder, trained = preset(kind)
    model = zoo.load(folder, labels=["a", "b"], dropout=0.5)
    assert model.core.architecture == KINDS[kind][0]
    assert (model.labels, model.core.config.dropout) == (["a", "b"], 0.5)
    assert model.reader.get_config() == trained.reader.get_config()
    inputs = inputs_of(model.core.config)
    expected = trained.core(inputs).numpy()
    before = model.core(inputs).numpy()
    if kind == "vit_embedding":
        model.core.head.set_weights([np.eye(TINY["size"])[:, :2], np.zeros(2)])
        expected = expected[:, :2]
    else:
        for head, other in zip(heads_of(model.core), heads_of(trained.core), strict=True):
            head.set_weights(other.get_weights())
    np.testing.assert_allclose(model.core(inputs), expected, rtol=1e-5)
    assert np.abs(before - expected).min() > 1e-3


def test_a_file_has_the_head_too(preset, tmp_path):
    folder, _ = preset("vit")
    model = zoo.load(folder, labels=["a", "b", "c"], problem_type="multi_label_classification")
    model.save_weights(tmp_path / "new.weights.h5")
    again = zoo.load(folder, tmp_path / "new.weights.h5", labels=["a", "b", "c"])
    for found, weight in zip(again.core.get_weights(), model.core.get_weights(), strict=True):
        np.testing.assert_array_equal(found, weight)


def test_images_of_another_size_have_interpolated_positions(preset):
    folder, trained = preset("vit")
    reader = zoo.ImageReader(size=16, channels=1)
    model = zoo.load(folder, labels=["a", "b"], reader=reader)
    config = model.core.config
    assert (config.image_size, config.position_size) == (16, 8)
    np.testing.assert_array_equal(model.core.place.table, trained.core.place.table)
    assert tuple(model.core(np.ones((1, 16, 16, 1), "float32")).shape) == (1, 2)
    with pytest.raises(ValueError, match=r"image_size=16. .* pass reader=zoo.ImageReader\(size=16"):
        zoo.load(folder, labels=["a", "b"], image_size=16)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 16}, r"the shape \(16,\) of .*/class_token, which is \(8,\) in the trained"),
        ({"num_layers": 1}, r"the shape \(8,\) of .*/norm/gamma, which is \(8, 8\) in the trained"),
        (
            {"reader": zoo.ImageReader(size=8)},
            r"shape \(4, 4, 3, 8\) of .*kernel, which is \(4, 4, 1",
        ),
        ({"labels": ["a"]}, "at least two labels"),
        ({"color": 1}, "Unknown option of vit 'color'"),
    ],
)
def test_mistakes_are_named(options, message, preset):
    folder, _ = preset("vit")
    with pytest.raises(ValueError, match=message):
        zoo.load(folder, **{"labels": ["a", "b"], **options})
