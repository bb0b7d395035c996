"""CLIP checkpoints: the same numbers as transformers, in both towers and in preprocessing."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints.loading import read_checkpoint
from zoo.readers.images import image_bytes

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_images  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

TEXTS = [*tiny.TEXTS, "  A   CAT's 2 hats\u2026 ", "", "the " * 40]
LENGTH = 24


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip")
    return folder, *tiny_images.save_clip(folder, LENGTH)


@pytest.fixture(scope="module")
def model(checkpoint):
    return zoo.load(str(checkpoint[0]))


@pytest.fixture(scope="module")
def photos():
    return tiny_images.photos()


def read(processor, photos):
    return torch.tensor(np.stack(processor(photos)["pixel_values"]))


@pytest.mark.usefixtures("eagerly")
def test_numbers_are_those_of_transformers(checkpoint, model, photos):
    _, theirs, pieces, processor = checkpoint
    cut = {"padding": True, "truncation": True, "max_length": LENGTH}
    inputs = pieces(TEXTS, return_tensors="pt", **cut)
    pixels = read(processor, photos)
    with torch.no_grad():
        expected = theirs(**inputs, pixel_values=pixels, output_attentions=True)
    ids = model.read_texts(tf.constant(TEXTS))
    seen = inputs["attention_mask"].numpy() > 0
    np.testing.assert_array_equal(ids.numpy()[seen], inputs["input_ids"].numpy()[seen])
    pooled, weights = model.core.text_tower(ids, return_attention_scores=True)
    projected = model.core.text_projection(pooled)
    np.testing.assert_allclose(projected, expected.text_model_output.pooler_output, atol=1e-4)
    for ours, others in zip(weights, expected.text_model_output.attentions, strict=True):
        rows = seen[:, None, :, None]
        np.testing.assert_allclose(ours * rows, others.numpy() * rows, atol=1e-4)
    images = pixels.numpy().transpose(0, 2, 3, 1)
    pooled, weights = model.core.image_tower(images, return_attention_scores=True)
    projected = model.core.image_projection(pooled)
    np.testing.assert_allclose(projected, expected.vision_model_output.pooler_output, atol=1e-4)
    for ours, others in zip(weights, expected.vision_model_output.attentions, strict=True):
        np.testing.assert_allclose(ours, others.numpy(), atol=1e-4)
    found = model.core({"images": images, "token_ids": ids})
    np.testing.assert_allclose(found, expected.logits_per_image, atol=1e-4)
    np.testing.assert_allclose(model.embed(texts=TEXTS), expected.text_embeds, atol=1e-4)


def test_texts_may_be_truncated_on_the_left(checkpoint, model, monkeypatch):
    *_, pieces, _ = checkpoint
    for each in (pieces, model.tokenizer):
        monkeypatch.setattr(each, "truncation_side", "left")
    texts = ["one cat, two cats, " * 9 + "the mat", "a cat"]
    expected = pieces(texts, truncation=True, max_length=LENGTH)["input_ids"]
    found = model.read_texts(tf.constant(texts)).numpy().tolist()
    assert found[0] == expected[0]
    assert found[1][: len(expected[1])] == expected[1]


@pytest.mark.usefixtures("eagerly")
def test_pictures_are_seen_as_the_processor_does(checkpoint, model, photos):
    *_, theirs, _, processor = checkpoint
    pixels = read(processor, photos)
    found, _ = model.reader.read([image_bytes(each) for each in photos])
    # transformers rounds to 256 shades in between, which are 0.015 apart.
    np.testing.assert_allclose(found, pixels.numpy().transpose(0, 2, 3, 1), atol=0.03)
    with torch.no_grad():
        expected = theirs.get_image_features(pixel_values=pixels)
    expected = getattr(expected, "pooler_output", expected)
    expected = expected / expected.norm(dim=-1, keepdim=True)
    np.testing.assert_allclose(model.embed(images=photos), expected, atol=0.02)


@pytest.mark.usefixtures("eagerly")
def test_any_labels(model, photos):
    labels = ["a cat", "a mat"]
    cosines = model.match(photos, labels)
    result = model.classify(photos, labels, return_probabilities=True)
    logits = np.exp(float(model.core.log_scale.numpy())) * cosines
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        result.probabilities, shares / shares.sum(axis=1, keepdims=True), atol=1e-5
    )
    assert model.classify(photos[0], labels) == labels[cosines[0].argmax()]


@pytest.mark.full  # `matching_test` always exports
def test_exported(model, photos, tmp_path):
    texts, images = model.embed(texts=TEXTS), model.embed(images=photos)
    served = tf.saved_model.load(model.export(tmp_path / "exported")).signatures
    found = served["serving_default"](text=tf.constant(TEXTS))["embedding"]
    np.testing.assert_allclose(found, texts, atol=1e-5)
    encoded = tf.constant([image_bytes(each) for each in photos])
    found = served["images"](image_bytes=encoded)["embedding"]
    np.testing.assert_allclose(found, images, atol=1e-5)


def test_saved_and_back(checkpoint, model, tmp_path):
    check_saved_and_back(model, checkpoint[1], tmp_path)


@pytest.mark.full
def test_batches_hold_pixels(model, photos):
    captions = [["the cats", "a cat"], ["a mat"], ["boats"]]
    (inputs, belongs, _), *_ = model.batches(photos, captions, batch_size=3)
    pixels, _ = model.reader.read([image_bytes(each) for each in photos])
    np.testing.assert_allclose(inputs["images"], pixels, atol=1e-5)
    assert belongs.numpy().tolist() == [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


@pytest.mark.full
def test_trained(checkpoint, photos):
    tuned = zoo.load(str(checkpoint[0]))
    tuned.compile(keras.optimizers.Adam(0.003))
    captions = [["the cats"], ["a mat"], ["boats"]]
    history = tuned.fit(photos, captions, batch_size=3, epochs=6, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text_config": {"rotary": 1}}, "not implemented: rotary=1"),
        ({"vision_config": {"hidden_act": "mish"}}, "activation 'mish'"),
        ({"architectures": ["CLIPVisionModel"]}, "CLIPVisionModel, which is not implemented"),
        ({"vision_config": {"patch_size": 8}}, "lacks|has the shape"),
    ],
)
def test_settings_that_do_not_fit(checkpoint, tmp_path, change, message):
    for path in checkpoint[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    for name, value in change.items():
        config[name] = {**config[name], **value} if isinstance(value, dict) else value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        zoo.load(str(tmp_path))


def test_the_second_copy_of_settings_in_older_configs_counts(checkpoint, tmp_path):
    """What it lacks has the usual value, whatever the first copy says."""
    for path in checkpoint[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["text_config"]["hidden_act"] = "gelu"
    config["text_config_dict"] = {"hidden_size": 16, "vocab_size": 400}
    (tmp_path / "config.json").write_text(json.dumps(config))
    expected = transformers.CLIPConfig.from_pretrained(tmp_path).text_config
    found = read_checkpoint(tmp_path)[0].options["text"]
    assert found["activation"] == expected.hidden_act == "quick_gelu"
    assert found["num_layers"] == expected.num_hidden_layers == 12
    assert found["size"] == expected.hidden_size == 16


@pytest.mark.full
def test_configs_of_older_versions(checkpoint, model, tmp_path):
    """They name another end token, hold generation settings, and give the text settings twice."""
    for path in checkpoint[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    old = {"eos_token_id": 2, "top_k": 50, "num_beams": 1, "typical_p": 1.0, "prefix": None}
    config["text_config"] |= {"hidden_act": "relu", **old, "tie_word_embeddings": True}
    config["text_config_dict"] = {**config["text_config"], "hidden_act": "quick_gelu"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    path = tmp_path / "preprocessor_config.json"
    of_pictures = json.loads(path.read_text())
    path.unlink()
    found, _ = read_checkpoint(tmp_path)
    assert found.options["text"] == model.core.config.text
    assert found.options["end_id"] == model.core.config.end_id
    assert found.options["reader"]["config"] == model.reader.get_config()
    path.write_text(json.dumps({**of_pictures, "size": 20, "crop_size": 16}))
    seen = read_checkpoint(tmp_path)[0].options["reader"]["config"]
    assert (seen["size"], seen["resized"], seen["keeps_shape"]) == (16, 20, True)
    path.unlink()
    nested = {"image_processor": {**of_pictures, "image_std": 0.5}}
    (tmp_path / "processor_config.json").write_text(json.dumps(nested))
    assert read_checkpoint(tmp_path)[0].options["reader"]["config"]["deviation"] == 0.5
