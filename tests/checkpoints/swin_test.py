"""Swin checkpoints: the same numbers as transformers."""

import copy
import json

import numpy as np
import pytest

import zoo
from tests.checkpoints.round_trips import check_saved_and_back
from zoo.readers.images import image_bytes

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.numpy")

from tests.checkpoints import tiny, tiny_images  # noqa: E402

SIZES = {
    "image_size": 24,
    "patch_size": 2,
    "embed_dim": 8,
    "depths": [1, 2],
    "num_heads": [1, 2],
    "window_size": 3,
    "mlp_ratio": 1.5,
}


def save(folder, kind, **settings):
    labels = {0: "crane", 1: "dog", 2: "crane"}
    config = transformers.SwinConfig(**SIZES | settings, id2label=labels)
    model = tiny.random_model(getattr(transformers, f"Swin{kind}"), config)
    model.save_pretrained(folder)
    size = {"height": 24, "width": 24}
    transformers.ViTImageProcessor(size=size, resample=3).save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """The folder, the model of transformers, and that of the zoo."""
    folder = tmp_path_factory.mktemp("swin")
    theirs = save(folder, "ForImageClassification")
    return folder, theirs, zoo.load(folder)


def pixels_of(*shape):
    return np.random.default_rng(1).normal(size=(2, *shape, 3)).astype("float32")


@torch.no_grad()
def outputs(model, pixels, **options):
    model = copy.deepcopy(model)  # its layers keep the windows of the smallest image they have seen
    return model(torch.tensor(pixels.transpose(0, 3, 1, 2)), **options)


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(41, 52), (11, 17)])
def test_numbers_are_those_of_transformers(classifier, shape):
    _, theirs, model = classifier
    assert model.labels == ["crane", "dog", "crane (2)"]
    pixels = pixels_of(*shape)
    expected = outputs(theirs, pixels, output_attentions=True, output_hidden_states=True)
    logits, weights = model.core(pixels, return_attention_scores=True)
    np.testing.assert_allclose(logits, expected.logits, atol=1e-5)
    np.testing.assert_allclose(model.core(pixels), expected.logits, atol=1e-5)
    states, _ = model.core.encode(pixels)
    for ours, others in zip(states, expected.reshaped_hidden_states, strict=True):
        np.testing.assert_allclose(ours, others.permute(0, 2, 3, 1), atol=5e-5)
    last = [weights[number] for number in (0, 2)]  # of each stage
    for ours, others in zip(last, expected.attentions, strict=True):
        np.testing.assert_allclose(np.reshape(ours, others.shape), others, atol=1e-5)


def test_saved_and_back(classifier, tmp_path):
    _, theirs, model = classifier
    again, _ = check_saved_and_back(model, theirs, tmp_path)
    pixels = pixels_of(24, 24)
    np.testing.assert_array_equal(again.core(pixels), model.core(pixels))


@pytest.mark.usefixtures("eagerly")
def test_a_vector_is_the_mean_of_the_last_stage(tmp_path):
    options = {"depths": [1, 1], "qkv_bias": False, "hidden_act": "relu"}
    theirs = save(tmp_path / "hf", "Model", **options)
    model = zoo.load(tmp_path / "hf")
    assert isinstance(model, zoo.Embedder)
    images, _ = model.reader.read([image_bytes(tiny_images.photos()[0])])
    expected = outputs(theirs, images.numpy()).pooler_output[0]
    np.testing.assert_allclose(model.core(images)[0], expected, atol=1e-5)
    model = zoo.load(tmp_path / "hf", labels=["left", "right"])
    kernel, bias = model.core.head.get_weights()
    np.testing.assert_allclose(model.core(images)[0], expected @ kernel + bias, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_new_labels_in_place_of_others(classifier, tmp_path):
    folder, _, _ = classifier
    model = zoo.load(folder, labels=["left", "right"])
    zoo.save_checkpoint(model, tmp_path / "ours")
    theirs = transformers.SwinForImageClassification
    again, told = theirs.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not told["unexpected_keys"] | told["missing_keys"] | told["mismatched_keys"]
    assert list(again.config.id2label.values()) == model.labels
    pixels = pixels_of(24, 24)
    np.testing.assert_allclose(model.core(pixels), outputs(again, pixels).logits, atol=1e-5)


def test_files_of_earlier_versions_hold_places_in_windows(classifier, tmp_path):
    folder, theirs, model = classifier
    tensors = safetensors.load_file(folder / "model.safetensors")
    places = theirs.swin.encoder.layers[0].blocks[0].attention.relative_position_bias
    for name in [name for name in tensors if name.endswith("bias_table")]:
        place = name.replace("bias_table", "index")
        tensors[place] = places.relative_position_index.reshape(9, 9).numpy()
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    safetensors.save_file(tensors, tmp_path / "model.safetensors")
    again = zoo.load(tmp_path)
    for ours, others in zip(again.core.get_weights(), model.core.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, others)
    zoo.save_checkpoint(again, tmp_path / "ours")
    assert safetensors.load_file(tmp_path / "ours" / "model.safetensors").keys() == tensors.keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"use_absolute_embeddings": True}, "use_absolute_embeddings=True, which is not impl"),
        ({"window_shape": 3}, "not implemented: window_shape=3"),
        ({"architectures": ["SwinBackbone"]}, "SwinBackbone.*SwinForImageClassification, SwinM"),
        ({"window_size": 4}, r"bias_table has the shape \(25, 1\).*needs \(1, 7, 7\)"),
        ({"depths": [1, 10**6]}, "asks for 1000001 layers"),
        ({"num_heads": [1]}, "must have a number for each stage"),
    ],
)
def test_configs_that_do_not_fit(classifier, tmp_path, change, message):
    folder, _, _ = classifier
    config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | change
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    with pytest.raises(ValueError, match=message):
        zoo.load(tmp_path)
