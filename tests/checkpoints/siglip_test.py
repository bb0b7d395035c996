"""SigLIP checkpoints: the same numbers as transformers, in both towers and in preprocessing."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints.loading import read_checkpoint
from zoo.checkpoints.siglip import tokenizer
from zoo.metrics import SigmoidLoss
from zoo.readers.images import image_bytes

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_images  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This sequence already has </s>")
TEXTS = [*tiny.TEXTS, "  A   CAT's 2 hats\u2026 ", "", "?!", "the " * 40, "a </s> Cat</s>"]
LENGTH = 24


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("siglip")
    return folder, *tiny_images.save_siglip(folder, LENGTH)


@pytest.fixture(scope="module")
def model(checkpoint):
    return zoo.load(str(checkpoint[0]))


@pytest.fixture(scope="module")
def photos():
    return tiny_images.photos()


def read(pieces, texts, length=LENGTH):
    fixed = {"padding": "max_length", "truncation": True, "max_length": length}
    return pieces(texts, return_tensors="pt", **fixed)


def seen(processor, photos):
    return torch.tensor(np.stack(processor(photos)["pixel_values"]))


def check_numbers(theirs, pieces, model, pixels):
    """Compares everything from texts and pixels to logits."""
    inputs = read(pieces, TEXTS)
    assert list(inputs) == ["input_ids"]  # nothing is masked
    with torch.no_grad():
        expected = theirs(**inputs, pixel_values=pixels, output_attentions=True)
    ids = model.read_texts(tf.constant(TEXTS))
    np.testing.assert_array_equal(ids, inputs["input_ids"])
    pooled, weights = model.core.text_tower(ids, return_attention_scores=True)
    projected = model.core.text_projection(pooled)
    np.testing.assert_allclose(projected, expected.text_model_output.pooler_output, atol=1e-4)
    for ours, others in zip(weights, expected.text_model_output.attentions, strict=True):
        np.testing.assert_allclose(ours, others.numpy(), atol=1e-4)
    images = pixels.numpy().transpose(0, 2, 3, 1)
    pooled, (*weights, of_pool) = model.core.image_tower(images, return_attention_scores=True)
    np.testing.assert_allclose(pooled, expected.vision_model_output.pooler_output, atol=1e-4)
    for ours, others in zip(weights, expected.vision_model_output.attentions, strict=True):
        np.testing.assert_allclose(ours, others.numpy(), atol=1e-4)
    np.testing.assert_allclose(np.sum(of_pool, axis=-1), 1.0, rtol=1e-5)
    found = model.core({"images": images, "token_ids": ids})
    np.testing.assert_allclose(found, expected.logits_per_image, atol=1e-4)
    return expected


@pytest.mark.usefixtures("eagerly")
def test_numbers_are_those_of_transformers(checkpoint, model, photos):
    _, theirs, pieces, processor = checkpoint
    expected = check_numbers(theirs, pieces, model, seen(processor, photos))
    np.testing.assert_allclose(model.embed(texts=TEXTS), expected.text_embeds, atol=1e-4)


@pytest.mark.parametrize(
    "name", ["GemmaTokenizer", pytest.param("Siglip2Tokenizer", marks=pytest.mark.full)]
)
@pytest.mark.usefixtures("eagerly")
def test_siglip_2(tmp_path, photos, name):
    """With images of another size, and texts that keep their punctuation."""
    theirs, pieces, processor = tiny_images.save_siglip(tmp_path, LENGTH, image_size=27, name=name)
    loaded = zoo.load(str(tmp_path))
    assert (loaded.core.config.end_id, loaded.core.config.pad_id) == (1, 0)
    check_numbers(theirs, pieces, loaded, seen(processor, photos))


@pytest.mark.usefixtures("eagerly")
def test_pictures_are_seen_as_the_processor_does(checkpoint, model, photos):
    *_, theirs, _, processor = checkpoint
    pixels = seen(processor, photos)
    found, _ = model.reader.read([image_bytes(each) for each in photos])
    # transformers rounds to 256 shades in between, which are 0.008 apart.
    np.testing.assert_allclose(found, pixels.numpy().transpose(0, 2, 3, 1), atol=0.016)
    with torch.no_grad():
        expected = theirs.get_image_features(pixel_values=pixels).pooler_output
    expected = expected / expected.norm(dim=-1, keepdim=True)
    np.testing.assert_allclose(model.embed(images=photos), expected, atol=0.02)


@pytest.mark.usefixtures("eagerly")
def test_labels_have_probabilities_of_their_own(checkpoint, model, photos):
    _, theirs, pieces, processor = checkpoint
    labels = ["A cat.", "a mat", "the boats"]
    result = model.classify(photos, labels, return_probabilities=True)
    with torch.no_grad():
        logits = theirs(**read(pieces, labels), pixel_values=seen(processor, photos))
    expected = torch.sigmoid(logits.logits_per_image).numpy()
    np.testing.assert_allclose(result.probabilities, expected, atol=0.02)  # as pictures are rounded
    cosines = model.match(photos, labels)
    scale, bias = (float(each.numpy()) for each in (model.core.log_scale, model.core.bias))
    expected = 1.0 / (1.0 + np.exp(-(np.exp(scale) * cosines + bias)))
    np.testing.assert_allclose(result.probabilities, expected, atol=1e-6)
    alone = model.classify(photos, labels[:1], return_probabilities=True).probabilities
    np.testing.assert_allclose(alone, result.probabilities[:, :1], atol=1e-6)
    assert model.classify(photos[0], labels) == labels[cosines[0].argmax()]


def test_loss_and_gradients_are_those_of_transformers(checkpoint, model, photos):
    _, theirs, pieces, processor = checkpoint
    texts, pixels = TEXTS[: len(photos)], seen(processor, photos)
    expected = theirs(**read(pieces, texts), pixel_values=pixels, return_loss=True).loss
    expected.backward()
    core = model.core
    model.compile("sgd")
    assert isinstance(model.loss, SigmoidLoss)
    inputs = {"images": pixels.numpy().transpose(0, 2, 3, 1)}
    inputs["token_ids"] = model.read_texts(tf.constant(texts))
    with tf.GradientTape() as tape:
        loss = model.compute_loss(y=np.eye(3, dtype="float32"), y_pred=core(inputs))
    assert float(loss) == pytest.approx(expected.item(), abs=1e-4)
    pairs = {
        "logit_bias": core.bias,
        "logit_scale": core.log_scale,
        "vision_model.head.probe": core.image_tower.pool.query,
        "vision_model.head.mlp.fc2.bias": core.image_tower.pool_feed_forward.outer.bias,
        "text_model.embeddings.token_embedding.weight": core.text_tower.embedding.table,
    }
    found = tape.gradient(loss, [each.value for each in pairs.values()])
    for name, ours in zip(pairs, found, strict=True):
        others = theirs.get_parameter(name).grad.numpy()
        ours = np.reshape(tf.convert_to_tensor(ours), others.shape)
        np.testing.assert_allclose(ours, others, atol=1e-3, rtol=1e-3, err_msg=name)
    theirs.zero_grad()


@pytest.mark.full
def test_trained(checkpoint, photos):
    tuned = zoo.load(str(checkpoint[0]))
    scale, bias = tuned.core.scale(), np.array(tuned.core.bias)
    tuned.compile(keras.optimizers.Adam(0.01))
    captions = [["the cats", "a cat"], ["a mat"], ["boats"]]
    history = tuned.fit(photos, captions, batch_size=3, epochs=4, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    assert tuned.core.scale() != scale
    assert tuned.core.bias != bias


@pytest.mark.full  # `matching_test` always exports
def test_exported(model, photos, tmp_path):
    texts, images = model.embed(texts=TEXTS), model.embed(images=photos)
    served = tf.saved_model.load(model.export(tmp_path / "exported")).signatures
    found = served["serving_default"](text=tf.constant(TEXTS))["embedding"]
    np.testing.assert_allclose(found, texts, atol=1e-5)
    encoded = tf.constant([image_bytes(each) for each in photos])
    found = served["images"](image_bytes=encoded)["embedding"]
    np.testing.assert_allclose(found, images, atol=1e-5)


@pytest.mark.full
def test_saved_and_back(checkpoint, model, tmp_path):
    _, theirs, pieces, _ = checkpoint
    again, path = check_saved_and_back(model, theirs, tmp_path)
    ids = again.read_texts(tf.constant(TEXTS))
    np.testing.assert_array_equal(ids, model.read_texts(tf.constant(TEXTS)))
    again = transformers.AutoTokenizer.from_pretrained(path)
    assert again(TEXTS)["input_ids"] == pieces(TEXTS)["input_ids"]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text_config": {"rotary": 1}}, "not implemented: rotary=1"),
        ({"text_config": {"projection_size": 16}}, "projection_size=16 of texts, and hidden_size="),
        ({"vision_config": {"hidden_act": "mish"}}, "activation 'mish'"),
        ({"vision_config": {"image_size": [16, 20]}}, r"image_size=\[16, 20\], which is not impl"),
        ({"vision_config": {"vision_use_head": False}}, "vision_use_head=False"),
        ({"vision_config": {"patch_size": 8}}, "lacks|has the shape"),
        ({"architectures": ["SiglipForImageClassification"]}, "Classification, which is not impl"),
        ({"model_type": "siglip2"}, "of a 'siglip2', which is not implemented"),
    ],
)
def test_settings_that_do_not_fit(checkpoint, tmp_path, change, message):
    check_refused(checkpoint[0], tmp_path, "config.json", change, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"padding_side": "left"}, "padding_side='left', which is not implemented"),
        ({"tokenizer_class": "DebertaV2Tokenizer"}, "for DebertaV2Tokenizer, there should be"),
    ],
)
def test_tokenizers_that_do_not_fit(checkpoint, tmp_path, change, message):
    check_refused(checkpoint[0], tmp_path, "tokenizer_config.json", change, message)


def test_texts_end_with_a_token_and_do_not_begin_with_one(tmp_path):
    pieces = tiny.tokenizer("GemmaTokenizer")
    transformers.GemmaTokenizer(pieces.get_vocab(), [], add_eos_token=False).save_pretrained(
        tmp_path
    )
    with pytest.raises(ValueError, match="The post_processor.*an end token behind"):
        tokenizer(tmp_path, len(pieces))


def check_refused(folder, copy, name, change, message):
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    config = json.loads((copy / name).read_text())
    for key, value in change.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    (copy / name).write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        zoo.load(str(copy))


def test_configs_without_sizes_are_of_the_base_model(checkpoint, tmp_path):
    """The files of Google leave out what transformers has as defaults."""
    for path in checkpoint[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"text_config": {"vocab_size": 60}, "vision_config": {"model_type": "siglip_vision"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "preprocessor_config.json").unlink()
    found = read_checkpoint(tmp_path)[0].options
    theirs = transformers.SiglipConfig()
    for ours, others in (("text", theirs.text_config), ("image", theirs.vision_config)):
        assert found[ours] == {
            "num_layers": others.num_hidden_layers,
            "size": others.hidden_size,
            "num_heads": others.num_attention_heads,
            "hidden": others.intermediate_size,
            "activation": "tanh_gelu",
            "epsilon": others.layer_norm_eps,
            "attention_dropout": others.attention_dropout,
        }
    assert (found["max_length"], found["positions"], found["patch_size"]) == (64, 196, 16)
    reader, usual = found["reader"]["config"], zoo.ImageReader(interpolation="bicubic")
    assert reader == usual.get_config()
