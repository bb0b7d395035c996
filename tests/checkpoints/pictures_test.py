"""Hugging Face picture classifiers: the same numbers as transformers."""

import json

import numpy as np
import PIL.Image
import pytest

import zoo
from zoo.readers.images import image_bytes

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.numpy")

from tests.checkpoints import tiny  # noqa: E402

KINDS = [
    ("ViT", "ForImageClassification"),
    pytest.param(
        "DeiT", "ForImageClassification", marks=pytest.mark.full
    ),  # a subset of the next one
    ("DeiT", "ForImageClassificationWithTeacher"),
]


def save(folder, family, kind, processor=None, layers=1, **settings):
    sizes = {**tiny.VIT, "num_hidden_layers": layers}
    config = getattr(transformers, f"{family}Config")(
        **sizes, id2label={0: "crane", 1: "dog", 2: "crane"}, **settings
    )
    model = tiny.random_model(getattr(transformers, f"{family}{kind}"), config)
    model.save_pretrained(folder)
    if processor is not None:
        processor.save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def photo():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (3, 4, 3), dtype="uint8")
    return PIL.Image.fromarray(pixels).resize((48, 36), PIL.Image.Resampling.BICUBIC)


def check_numbers(model, theirs):
    """Checks logits and attention of a classifier."""
    rows = model.core.config.image_size
    pixels = np.random.default_rng(1).normal(size=(2, rows, rows, 3)).astype("float32")
    expected = theirs(tiny.torch.tensor(pixels.transpose(0, 3, 1, 2)), output_attentions=True)
    found, weights = model.core(pixels, return_attention_scores=True)
    np.testing.assert_allclose(found, expected.logits.detach(), atol=1e-4)
    for ours, others in zip(weights, expected.attentions, strict=True):
        np.testing.assert_allclose(ours, others.detach(), atol=1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize(("family", "kind"), KINDS)
@pytest.mark.usefixtures("eagerly")
def test_numbers_are_those_of_transformers(tmp_path, family, kind, photo):
    size = {"height": 16, "width": 16}
    processor = transformers.ViTImageProcessor(size=size, image_mean=[0.4, 0.5, 0.6])
    theirs = save(tmp_path, family, kind, processor, layers=2)
    model = zoo.load(str(tmp_path))
    assert model.labels == ["crane", "dog", "crane (2)"]
    check_numbers(model, theirs)
    inputs = processor(photo, return_tensors="pt")
    found, _ = model.reader.read([image_bytes(photo)])
    theirs = inputs["pixel_values"].numpy().transpose(0, 2, 3, 1)
    np.testing.assert_allclose(found, theirs, atol=0.02)  # transformers rounds in between
    result = model.classify([photo], return_attention=True)
    assert result.attention.shape == (1, 4, 4)


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_the_activation_of_gpt2(tmp_path):
    theirs = save(tmp_path, "ViT", "ForImageClassification", hidden_act="gelu_new")
    pixels = np.random.default_rng(1).normal(size=(1, 16, 16, 3)).astype("float32")
    expected = theirs(tiny.torch.tensor(pixels.transpose(0, 3, 1, 2))).logits.detach()
    np.testing.assert_allclose(zoo.load(tmp_path).core(pixels), expected, atol=1e-4)


@pytest.mark.usefixtures("eagerly")
def test_pictures_are_cropped_as_the_processor_does(tmp_path, photo):
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 20}, crop_size={"height": 16, "width": 16}
    )
    save(tmp_path, "ViT", "ForImageClassification", processor)
    model = zoo.load(str(tmp_path))
    theirs = processor(photo, return_tensors="pt")["pixel_values"].numpy().transpose(0, 2, 3, 1)
    found, _ = model.reader.read([image_bytes(photo)])
    np.testing.assert_allclose(found, theirs, atol=0.03)


def check_written(model, family, path):
    """Checks that transformers reads a model with new labels."""
    theirs = getattr(transformers, f"{family}ForImageClassification")
    zoo.save_checkpoint(model, path)
    again, told = theirs.from_pretrained(path, output_loading_info=True)
    assert not told["unexpected_keys"] | told["missing_keys"] | told["mismatched_keys"]
    assert list(again.config.id2label.values()) == model.labels
    rows = model.core.config.image_size
    pixels = np.random.default_rng(1).normal(size=(2, rows, rows, 3)).astype("float32")
    expected = again(tiny.torch.tensor(pixels.transpose(0, 3, 1, 2))).logits.detach()
    np.testing.assert_allclose(model.core(pixels), expected, atol=1e-4)
    assert zoo.load(path).labels == model.labels


def save_dinov2(folder, kind, family="Dinov2", layers=1):
    """Saves a model with positions for 20 × 20 pixels that gets 12 × 12."""
    sizes = {**tiny.VIT, "image_size": 20, "mlp_ratio": 2, "num_hidden_layers": layers}
    del sizes["intermediate_size"]
    config = getattr(transformers, f"{family}Config")(
        **sizes, id2label={0: "cat", 1: "dog"}, layerscale_value=0.5
    )
    model = tiny.random_model(getattr(transformers, f"{family}{kind}"), config)
    model.save_pretrained(folder)
    transformers.BitImageProcessor(
        crop_size={"height": 12, "width": 12}, size={"shortest_edge": 16}
    ).save_pretrained(folder)
    return model


def test_dinov2(tmp_path):
    theirs = save_dinov2(tmp_path, "ForImageClassification", layers=2)
    model = zoo.load(tmp_path)
    assert model.reader.size == 12
    check_numbers(model, theirs)
    model.save_to_preset(tmp_path / "preset")
    check_numbers(zoo.load(tmp_path / "preset"), theirs)


@pytest.mark.parametrize(
    "kind", ["ForImageClassification", pytest.param("Model", marks=pytest.mark.full)]
)
def test_dinov2_with_registers(tmp_path, kind):
    theirs = save_dinov2(tmp_path / "hf", kind, "Dinov2WithRegisters")
    model = zoo.load(tmp_path / "hf")
    if kind == "ForImageClassification":
        check_numbers(model, theirs)
        theirs = theirs.dinov2_with_registers
    pixels = np.random.default_rng(1).normal(size=(2, 12, 24, 3)).astype("float32")
    expected = theirs(tiny.torch.tensor(pixels.transpose(0, 3, 1, 2))).last_hidden_state
    states, _ = model.core.encode(pixels)
    np.testing.assert_allclose(states, expected.detach(), atol=1e-4)
    zoo.save_checkpoint(model, tmp_path / "ours")
    of_kind = getattr(transformers, f"Dinov2WithRegisters{kind}")
    _, told = of_kind.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not told["unexpected_keys"] | told["missing_keys"] | told["mismatched_keys"]


@pytest.mark.usefixtures("eagerly")
def test_dinov2_with_registers_and_new_labels(tmp_path):
    """The head reads the class token and the mean of the patches, without the registers."""
    theirs = save_dinov2(tmp_path / "hf", "Model", "Dinov2WithRegisters")
    model = zoo.load(tmp_path / "hf", labels=["left", "right", "both"])
    pixels = np.random.default_rng(1).normal(size=(2, 12, 12, 3)).astype("float32")
    states = theirs(tiny.torch.tensor(pixels.transpose(0, 3, 1, 2))).last_hidden_state
    states = states.detach().numpy()
    kernel, bias = model.core.head.get_weights()
    features = np.concatenate([states[:, 0], states[:, 5:].mean(axis=1)], axis=1)
    np.testing.assert_allclose(model.core(pixels), features @ kernel + bias, atol=1e-4)
    check_written(model, "Dinov2WithRegisters", tmp_path / "ours")


@pytest.mark.usefixtures("eagerly")
def test_only_the_head_learns(tmp_path):
    """As in the guide: a token that is trained needs the gradients of all blocks."""
    save_dinov2(tmp_path, "Model", "Dinov2WithRegisters")
    model = zoo.load(tmp_path, labels=["left", "right"])
    assert len(model.trainable_weights) == len(model.weights)
    model.core.trainable = False
    model.core.head.trainable = True
    assert [each.path for each in model.trainable_weights] == [
        each.path for each in model.core.head.weights
    ]


@pytest.mark.few(1)
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("family", ["ViT", "Dinov2"])
def test_a_reader_of_larger_images(tmp_path, family):
    if family == "ViT":
        theirs = save(tmp_path, "ViT", "ForImageClassification")
        options = {"interpolate_pos_encoding": True}
    else:
        theirs, options = save_dinov2(tmp_path, "ForImageClassification"), {}
    model = zoo.load(tmp_path, reader=zoo.ImageReader(size=24))
    assert model.reader.size == 24
    pixels = np.random.default_rng(1).normal(size=(1, 24, 24, 3)).astype("float32")
    expected = theirs(tiny.torch.tensor(pixels.transpose(0, 3, 1, 2)), **options).logits
    np.testing.assert_allclose(model.core(pixels), expected.detach(), atol=1e-4)
    with pytest.raises(ValueError, match=r"with a reader of its own.*save_to_preset"):
        zoo.save_checkpoint(model, tmp_path / "ours")


def test_a_size_without_a_reader_is_refused(tmp_path):
    save_dinov2(tmp_path, "Model")
    way_out = r"12\. Received: image_size=24\..* reader=zoo.ImageReader\(size=24, mean=\[0.4"
    with pytest.raises(ValueError, match=way_out):
        zoo.load(tmp_path, image_size=24)
    with pytest.raises(ValueError, match="must be a reader of the zoo.*Received: reader=24"):
        zoo.load(tmp_path, reader=24)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ForImageClassification", "Model"])
def test_dinov2_learns_new_labels(tmp_path, kind):
    save_dinov2(tmp_path, kind)
    model = zoo.load(tmp_path, labels=["left", "right", "both"])
    check_written(model, "Dinov2", tmp_path / "ours")
    model.compile("adam")
    photos = [np.full((20, 30, 3), 255 * side, "uint8") for side in (0, 1)] * 2
    model.fit(photos, ["left", "right"] * 2, verbose=0)
    assert model.classify(photos[0], return_attention=True).attention.shape == (1, 3, 3)


def save_dinov3(folder, **settings):
    """Saves a model for 16 × 16 pixels."""
    sizes = {**tiny.OF_BLOCKS, "image_size": 16, "patch_size": 4, "layerscale_value": 0.5}
    config = transformers.DINOv3ViTConfig(**sizes, **settings)
    model = tiny.random_model(transformers.DINOv3ViTModel, config)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(OF_DINOV3))
    return model


OF_DINOV3 = {  # its class in transformers needs torchvision
    "crop_size": None,
    "do_center_crop": None,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_processor_type": "DINOv3ViTImageProcessorFast",
    "image_std": [0.229, 0.224, 0.225],
    "resample": 2,
    "rescale_factor": 1 / 255,
    "size": {"height": 16, "width": 16},
}
GATED = {"use_gated_mlp": True, "hidden_act": "silu", "rope_theta": 50.0}
OTHER_BIASES = {"key_bias": True, "value_bias": False, "proj_bias": False, "mlp_bias": False}


@pytest.mark.parametrize(
    "settings",
    [
        {"num_register_tokens": 3, **GATED},
        pytest.param(OTHER_BIASES, marks=pytest.mark.full),
    ],
    ids=["gated", "other biases"],
)
def test_dinov3(tmp_path, settings):
    theirs = save_dinov3(tmp_path / "hf", **settings)
    model = zoo.load(tmp_path / "hf")
    assert isinstance(model, zoo.Embedder)
    for shape in ((16, 16), (12, 20)):  # rotary positions of any image
        pixels = np.random.default_rng(1).normal(size=(2, *shape, 3)).astype("float32")
        output = theirs(tiny.torch.tensor(pixels.transpose(0, 3, 1, 2)), output_attentions=True)
        found, weights = model.core(pixels, return_attention_scores=True)
        np.testing.assert_allclose(found, output.pooler_output.detach(), atol=1e-4)
        states, _ = model.core.encode(pixels)
        np.testing.assert_allclose(states, output.last_hidden_state.detach(), atol=1e-4)
        for ours, others in zip(weights, output.attentions, strict=True):
            np.testing.assert_allclose(ours, others.detach(), atol=1e-5)
    zoo.save_checkpoint(model, tmp_path / "ours")
    _, told = transformers.DINOv3ViTModel.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not told["unexpected_keys"] | told["missing_keys"] | told["mismatched_keys"]
    model.save_to_preset(tmp_path / "preset")
    for folder in ("ours", "preset"):
        np.testing.assert_array_equal(zoo.load(tmp_path / folder).core(pixels), found)


@pytest.mark.few(1)
@pytest.mark.parametrize("prefix", ["", "model."])
def test_files_of_dinov3_name_their_layers_with_and_without_a_prefix(tmp_path, prefix):
    save_dinov3(tmp_path)
    tensors = safetensors.load_file(tmp_path / "model.safetensors")
    names = {name: name.removeprefix("model.") for name in tensors}
    renamed = {
        prefix + short if short.startswith("layer.") else short: tensors[name]
        for name, short in names.items()
    }
    assert any(name.startswith(f"{prefix}layer.") for name in renamed)
    found = zoo.load(tmp_path).core.get_weights()
    safetensors.save_file(renamed, tmp_path / "model.safetensors")
    for ours, others in zip(found, zoo.load(tmp_path).core.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, others)


@pytest.mark.full
def test_dinov3_learns_new_labels(tmp_path):
    save_dinov3(tmp_path / "hf", num_register_tokens=3)
    model = zoo.load(tmp_path / "hf", labels=["left", "right"])
    photos = [np.full((20, 30, 3), 255 * side, "uint8") for side in (0, 1)] * 2
    model.compile("adam")
    model.fit(photos, ["left", "right"] * 2, verbose=0)
    answer = model.classify(photos[0], return_attention=True)
    assert answer.attention.shape == (1, 4, 4)
    np.testing.assert_allclose(answer.attention.sum(), 1.0, atol=1e-5)
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    assert again.labels == ["left", "right"]
    np.testing.assert_array_equal(again.core.get_weights()[-1], model.core.get_weights()[-1])
    with pytest.raises(ValueError, match=r"no class of this model with labels.*save_to_preset"):
        zoo.save_checkpoint(model, tmp_path / "ours")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("family", "kind"), [("DeiT", "ForImageClassificationWithTeacher"), ("ViT", "Model")]
)
def test_new_labels_in_place_of_another_head(tmp_path, family, kind):
    theirs = save(tmp_path, family, kind)
    model = zoo.load(str(tmp_path), labels=["left", "right"])
    check_written(model, family, tmp_path / "ours")
    theirs = getattr(theirs, family.lower(), theirs)
    pixels = np.random.default_rng(1).normal(size=(2, 16, 16, 3)).astype("float32")
    inputs = tiny.torch.tensor(pixels.transpose(0, 3, 1, 2))
    first = theirs(inputs).last_hidden_state.detach().numpy()[:, 0]
    kernel, bias = model.core.head.get_weights()
    np.testing.assert_allclose(model.core(pixels), first @ kernel + bias, atol=1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize("family", ["ViT", "Dinov2", "DeiT"])
@pytest.mark.usefixtures("eagerly")
def test_embeddings(tmp_path, family, photo):
    folder = tmp_path / "hf"
    if family == "Dinov2":
        theirs = save_dinov2(folder, "Model")
    else:
        processor = transformers.ViTImageProcessor(size={"height": 16, "width": 16})
        theirs = save(folder, family, "Model", processor)
    model = zoo.load(folder)
    assert isinstance(model, zoo.Embedder)
    images, _ = model.reader.read([image_bytes(photo)])
    output = theirs(tiny.torch.tensor(images.numpy().transpose(0, 3, 1, 2)))
    expected = output.last_hidden_state[0, 0].detach()  # of the class token
    if family == "Dinov2":
        np.testing.assert_array_equal(expected, output.pooler_output[0].detach())
    np.testing.assert_allclose(model.embed(photo), expected, atol=1e-4)
    again = zoo.load(zoo.save_checkpoint(model, tmp_path / "ours"))
    np.testing.assert_array_equal(again.embed([photo])[0], model.embed(photo))
    getattr(transformers, f"{family}Model").from_pretrained(tmp_path / "ours")


@pytest.mark.full
def test_new_labels_and_another_process(tmp_path, photo):
    save(tmp_path / "hf", "DeiT", "ForImageClassification")
    model = zoo.load(str(tmp_path / "hf"), labels=["left", "right"])
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    np.testing.assert_array_equal(
        again.classify(photo, return_probabilities=True).probabilities,
        model.classify(photo, return_probabilities=True).probabilities,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"do_normalize": False}, "do_normalize=False, which is not implemented"),
        ({"do_pad": False, "crop_pct": 0.9}, "not implemented: crop_pct=0.9"),
        ({"resample": 1}, "resample=1, which is not implemented"),
        ({"size": {"height": 16, "width": 20}}, "it should be a square"),
        ({"size": {"shortest_edge": 20}}, "not square"),
    ],
)
def test_preprocessors_that_are_not_implemented(tmp_path, change, message):
    save(tmp_path, "ViT", "ForImageClassification")
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(change))
    with pytest.raises(ValueError, match=message):
        zoo.load(str(tmp_path))
