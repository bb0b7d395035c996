"""The captioner: images in every form, training, words with their maps, presets, export."""

import io
import json
import random

import click.testing
import keras
import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

import zoo
from tests.images.pictures import FILES, scene, with_orientation
from tests.zoo.pictures import CAPTIONS, CHANNELS, COLORS, GRID, IMAGES, NAMES, SIZE, MeanColors
from zoo.cli import main
from zoo.readers.images import image_bytes, read_images
from zoo.storage import presets
from zoo.training.evaluation import captioner_quality, evaluate_captioner

TINY = {"channels": CHANNELS, "size": 24, "units": 24, "dropout": 0.0}


@pytest.fixture(scope="module")
def tokenizer():
    return zoo.ByteBPETokenizer.train(CAPTIONS, vocabulary_size=280)


def make(tokenizer, **arguments):
    random.seed(0)
    arguments = {"backbone": MeanColors(), **TINY, **arguments}
    return zoo.load("show_attend_tell", weights=None, tokenizer=tokenizer, **arguments)


def learn(model, steps):
    model.compile(optimizer=keras.optimizers.Adam(0.02))
    encoded = tf.constant([image_bytes(image) for image in IMAGES])
    annotations = model.annotate(encoded).numpy()
    features = {"annotations": annotations, "captions": [[caption] for caption in CAPTIONS]}
    features = tf.data.Dataset.from_tensor_slices(features).cache().repeat(steps)
    model.fit(features, batch_size=len(IMAGES), shuffle=False, verbose=0)
    return model


@pytest.fixture(scope="module")
def captioner(tokenizer):
    """A captioner that knows the pictures by heart."""
    return learn(make(tokenizer), steps=80)


# ------------------------------------------------------------------------------------- captioning


def test_it_learns_what_it_sees(captioner):
    assert captioner.caption(IMAGES) == CAPTIONS
    assert captioner.caption(IMAGES, sampler="greedy") == CAPTIONS


@pytest.mark.parametrize("form", ["path", "str", "bytes", "pil", "array", "float array"])
def test_images_come_in_many_forms(captioner, form, tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(image_bytes(IMAGES[1]))
    image = {
        "path": path,
        "str": str(path),
        "bytes": path.read_bytes(),
        "pil": PIL.Image.fromarray(IMAGES[1]),
        "array": IMAGES[1],
        "float array": IMAGES[1] / 255.0,
    }[form]
    assert captioner.caption(image) == CAPTIONS[1]
    assert captioner.caption([image, IMAGES[2]]) == [CAPTIONS[1], CAPTIONS[2]]


def test_an_array_of_four_axes_is_a_list(captioner):
    assert captioner.caption(np.stack(IMAGES[:2])) == CAPTIONS[:2]
    assert captioner.caption([]) == []


def test_several_images_come_in_any_order_of_things(captioner, tmp_path):
    paths = []
    for number, image in enumerate(IMAGES[:3]):
        paths.append(tmp_path / f"{number}.png")
        paths[-1].write_bytes(image_bytes(image))
    for several in (tuple(paths), iter(paths), np.array([str(path) for path in paths])):
        assert captioner.caption(several) == CAPTIONS[:3]


def test_what_an_image_gives_does_not_depend_on_the_others(captioner):
    alone = [captioner.caption([image], sampler="random", seed=3)[0] for image in IMAGES[:1]]
    together = captioner.caption(IMAGES, sampler="random", seed=3, batch_size=4)
    assert together[:1] == alone
    assert captioner.caption(IMAGES, batch_size=1) == CAPTIONS


def test_words_and_where_they_looked(captioner):
    result = captioner.caption(IMAGES, return_attention=True)
    assert result.texts == CAPTIONS
    for words, attention, text in zip(result.words, result.attention, CAPTIONS, strict=True):
        assert words == text.split()
        assert attention.shape == (len(words), *GRID)
        np.testing.assert_allclose(attention.sum(axis=(1, 2)), 1.0, atol=1e-5)
    assert (result.log_probs < 0).all()
    assert len(result.plot(1).axes) == 1 + len(result.words[1])


def test_a_photograph_is_drawn_as_the_model_sees_it(captioner):
    """Upright, and over white where it is transparent: otherwise the maps would be misplaced."""
    result = captioner.caption(
        [with_orientation(6), FILES["PNG with alpha"]], return_attention=True
    )
    turned, over_white = (result.plot(place).axes[0].images[0].get_array() for place in (0, 1))
    expected = np.asarray(scene().transpose(PIL.Image.Transpose.ROTATE_270), "float32")
    np.testing.assert_allclose(turned, expected, atol=12)  # JPEG is lossy
    picture = scene("RGBA")
    white = PIL.Image.new("RGBA", picture.size, "white")
    expected = np.asarray(PIL.Image.alpha_composite(white, picture).convert("RGB"), "float32")
    np.testing.assert_allclose(over_white, expected, atol=1.01)


def test_attention_of_a_word_is_the_average_of_its_pieces(captioner):
    pieces = zoo.tasks.captioning._of_words(
        ["gre", "·en", "dog", "·s", "·!"], np.eye(5).reshape(5, 1, 5)
    )
    assert pieces[0] == ["green", "dogs!"]
    np.testing.assert_allclose(pieces[1][:, 0], [[0.5, 0.5, 0, 0, 0], [0, 0, 1 / 3, 1 / 3, 1 / 3]])
    assert zoo.tasks.captioning._of_words([], np.zeros((0, 2, 2)))[1].shape == (0, 2, 2)


@pytest.mark.full
def test_several_captions_come_best_first(captioner):
    (several,) = captioner.caption(IMAGES[:1], num_beams=4, num_return_sequences=3)
    assert len(set(several)) == 3
    assert several[0] == CAPTIONS[0]
    options = {"num_beams": 4, "return_attention": True}
    log_probs = captioner.caption(IMAGES[:1], num_return_sequences=3, **options).log_probs
    assert log_probs.shape == (1, 3)
    assert log_probs[0, 0] == captioner.caption(IMAGES[:1], **options).log_probs[0]


def test_captions_of_annotations_equal_those_of_images(captioner):
    encoded = tf.constant([image_bytes(image) for image in IMAGES])
    images, is_image = read_images(encoded, SIZE)
    assert is_image.numpy().all()
    annotations = captioner.backbone(images).numpy()
    assert captioner.caption_annotations(annotations, batch_size=4) == CAPTIONS
    assert captioner.caption_annotations(annotations.astype("float16")) == CAPTIONS
    with pytest.raises(ValueError, match=r"`annotations` must .*positions, 4\).*shape \(4, 4\)"):
        captioner.caption_annotations(annotations[0])
    with pytest.raises(ValueError, match=r"Received: an array of shape \(6, 0, 4\)"):
        captioner.caption_annotations(annotations[:, :0])


def test_max_length_cuts(captioner):
    assert captioner.caption(IMAGES[0], max_length=1, sampler="greedy") in ("", "red")


def test_what_is_no_image_is_named(captioner):
    with pytest.raises(ValueError, match="must be a complete JPEG, PNG") as caught:
        captioner.caption([IMAGES[0], b"no image"])
    assert caught.value.__notes__ == ["This is number 1 of 2 images, from 0."]
    with pytest.raises(FileNotFoundError, match="missing.jpg"):
        captioner.caption(["missing.jpg"])
    with pytest.raises(ValueError, match="max_length"):
        captioner.caption(IMAGES, max_length=0)
    assert captioner.caption(IMAGES[:1], max_length=np.int64(5)) == CAPTIONS[:1]


def test_images_where_annotations_belong_are_told_the_way(captioner):
    with pytest.raises(ValueError, match="Captioner takes batches of numbers .* `caption`"):
        captioner.predict(np.zeros((2, 64, 64, 3), "uint8"))


# --------------------------------------------------------------------------------------- training


def test_batches_teach_the_next_token(tokenizer):
    captions = [["red before blue", "blue"], ["green"]]
    batches = make(tokenizer).batches(IMAGES[:2], captions, batch_size=3)
    rows = [
        (inputs["annotations"][0], inputs["target_ids"][0], labels[0], weights[0])
        for inputs, labels, weights in batches.unbatch().batch(1)
    ]
    assert len(rows) == 3
    for annotations, inputs, labels, weights in rows:
        words = int(np.sum(weights))
        assert inputs[0] == tokenizer.start_id
        assert labels[words - 1] == tokenizer.end_id
        np.testing.assert_array_equal(inputs[1:words], labels[: words - 1])
        text = tokenizer.detokenize([labels[: words - 1]]).numpy()[0].decode()
        owner = [text in each for each in captions].index(True)
        color = np.array(COLORS[NAMES[owner][0]]) / 255
        np.testing.assert_allclose(annotations[0, :3], color, atol=0.03)


@pytest.mark.full
def test_images_and_their_annotations_are_the_same_batches(tokenizer):
    encoded = [image_bytes(image) for image in IMAGES]
    captions = [[caption, caption] for caption in CAPTIONS]
    model = make(tokenizer)
    examples = {"image": encoded, "captions": captions}
    features = {"annotations": model.annotate(tf.constant(encoded)), "captions": captions}
    (of_lists,) = model.batches(IMAGES, captions, batch_size=12)
    for several in (examples, features):
        (batch,) = model.batches(tf.data.Dataset.from_tensor_slices(several), batch_size=12)
        tf.nest.map_structure(np.testing.assert_allclose, batch, of_lists)


@pytest.mark.full
def test_images_and_their_annotations_teach_the_same(tokenizer):
    histories = []
    encoded = [image_bytes(image) for image in IMAGES]
    captions = [[caption, caption] for caption in CAPTIONS]
    examples = tf.data.Dataset.from_tensor_slices({"image": encoded, "captions": captions})
    for kind in ("lists", "images", "annotations"):
        model = make(tokenizer)
        model.compile(optimizer="sgd")
        data = (IMAGES, captions) if kind == "lists" else (examples,)
        if kind == "annotations":
            features = {"annotations": model.annotate(tf.constant(encoded)), "captions": captions}
            data = (tf.data.Dataset.from_tensor_slices(features),)
        history = model.fit(*data, batch_size=4, epochs=2, seed=1, verbose=0)
        histories.append(history.history["loss"])
    np.testing.assert_allclose(histories[0], histories[1], rtol=1e-5)
    np.testing.assert_allclose(histories[0], histories[2], rtol=1e-5)


def test_evaluate_is_the_plain_loss_of_a_word(captioner):
    scores = captioner.evaluate(IMAGES, CAPTIONS, return_dict=True, verbose=0)
    log_probs = captioner.caption(IMAGES, return_attention=True).log_probs
    tokens = [len(ids) + 1 for ids in captioner.tokenizer.tokenize(CAPTIONS).to_list()]
    expected = -log_probs.sum() / sum(tokens)
    np.testing.assert_allclose(scores["loss"], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.log(scores["perplexity"]), expected, rtol=1e-3, atol=1e-4)
    assert scores["token_accuracy"] == 1.0


def test_training_adds_the_loss_of_the_attention(tokenizer):
    model = make(tokenizer, doubly_stochastic=0.5)
    model.compile(optimizer=keras.optimizers.SGD(0.0), run_eagerly=True)
    batches = model.batches(IMAGES, CAPTIONS, batch_size=len(IMAGES))
    (inputs, labels, weights), *rest = list(batches)
    assert not rest
    outputs = model(inputs, training=True)
    trained = model.train_on_batch(inputs, labels, weights, return_dict=True)["loss"]
    tested = model.test_on_batch(inputs, labels, weights, return_dict=True)["loss"]
    added = model.core.attention_loss(outputs, labels, weights)
    np.testing.assert_allclose(trained, tested + added, rtol=1e-5)
    assert float(added) > 1e-3
    without = model.train_on_batch(inputs, labels, return_dict=True)["loss"]
    of_ones = model.train_on_batch(inputs, labels, np.ones_like(weights), return_dict=True)["loss"]
    np.testing.assert_allclose(without, of_ones, rtol=1e-5)


@pytest.mark.full  # `normalizers_test` checks the gradient
def test_hard_attention_learns_where_to_look_by_reinforce(tokenizer):
    """One of four places shows the color, the others are empty; drawing it is rewarded."""
    rng = np.random.default_rng(0)
    colors, places = rng.integers(3, size=240), rng.integers(4, size=240)
    annotations = np.zeros((240, 4, 4), "float32")
    annotations[range(240), places, colors] = 1.0
    annotations[range(240), places, 3] = 1.0
    captions = [[list(COLORS)[color]] for color in colors]
    features = tf.data.Dataset.from_tensor_slices(
        {"annotations": annotations, "captions": captions}
    )

    model = make(tokenizer, attention="hard", seed=1, entropy=0.05)
    # At a higher rate, the model often settles on a place before it has tried the others enough.
    model.compile(optimizer=keras.optimizers.Adam(0.002))
    model.fit(features.repeat(24), batch_size=16, seed=1, verbose=0)
    start = np.full((240, 1), tokenizer.start_id)
    weights = model({"annotations": annotations, "target_ids": start})["weights"]
    assert np.mean(np.argmax(weights[:, 0], axis=-1) == places) > 0.9


def test_wrong_data_gets_a_clear_error(captioner, tokenizer):
    with pytest.raises(ValueError, match=r"`captions`, strings \(n,\).*Received: a data set of"):
        captioner.fit(tf.data.Dataset.from_tensor_slices({"image": ["a"]}))
    with pytest.raises(ValueError, match=r"Received: 2 images and 1 captions"):
        captioner.fit(IMAGES[:2], ["red"])
    with pytest.raises(ValueError, match=r"a list of captions. Received: 'ab'"):
        captioner.fit(IMAGES[:2], "ab")
    with pytest.raises(ValueError, match=r"`validation_data` must be"):
        captioner.fit(IMAGES[:1], ["red"], validation_data=(IMAGES[:1],))
    broken = tf.data.Dataset.from_tensors({"image": b"none", "captions": ["red"]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="images cannot be decoded"):
        captioner.evaluate(broken)
    with pytest.raises(ValueError, match=r"1 of them empty"):
        captioner.fit(IMAGES[:2], ["red", []])
    for wrong in (None, [None]):
        with pytest.raises(ValueError, match="for the image at position 1: None of type NoneType"):
            captioner.fit(IMAGES[:2], ["red", wrong])
    with pytest.raises(ValueError, match="list of images. Received: one image. Put it into"):
        captioner.fit(IMAGES[0], ["red"])
    with pytest.raises(ValueError, match="cannot be read") as raised:
        captioner.fit([IMAGES[0], b"none"], ["red", "blue"])
    assert raised.value.__notes__ == ["This is number 1 of 2 images, from 0."]
    with pytest.raises(ValueError, match=r"takes vectors of 5.*channels=4"):
        make(tokenizer, channels=5)
    with pytest.raises(ValueError, match="`backbone` must be a zoo.Backbone, .*='MobileNetV2'"):
        zoo.load("show_attend_tell", weights=None, tokenizer=tokenizer, backbone="MobileNetV2")


# -------------------------------------------------------------------------------------- measuring


@pytest.mark.full
def test_evaluate_captioner_measures_captions_of_images(captioner, monkeypatch):
    monkeypatch.setenv("PATH", "")  # METEOR takes seconds to start Java
    encoded = [image_bytes(image) for image in IMAGES]
    captions = [[caption, "something else"] for caption in CAPTIONS]
    examples = tf.data.Dataset.from_tensor_slices({"image": encoded, "captions": captions})
    scores = evaluate_captioner(captioner, examples, batch_size=4)
    assert scores["captions"].bleu_1 == pytest.approx(100.0)
    loss = captioner.evaluate(examples, batch_size=12, return_dict=True, verbose=0)
    assert scores["perplexity"] == pytest.approx(loss["perplexity"], rel=1e-4)
    entries = captioner_quality(scores, "validation", captioner.default_sampler)
    assert [entry["metric"] for entry in entries][:3] == ["perplexity", "BLEU-1", "BLEU-2"]
    assert "BeamSampler" in entries[1]["protocol"]


# ----------------------------------------------------------------------------------- command line


def test_caption_command(captioner, monkeypatch, tmp_path):
    monkeypatch.setattr(zoo, "load", lambda name: captioner)
    paths = [tmp_path / f"{number}.png" for number in range(2)]
    for path, image in zip(paths, IMAGES, strict=False):
        path.write_bytes(image_bytes(image))
    panel = tmp_path / "panel.png"
    options = ["--length-penalty", 0.5, "--show-attention", panel]
    command = [str(each) for each in ["caption", "toy", *paths, *options]]
    result = click.testing.CliRunner().invoke(main, command)
    expected = [f"{path}\t{text}" for path, text in zip(paths, CAPTIONS, strict=False)]
    assert result.stdout.splitlines() == expected
    assert PIL.Image.open(panel).size[0] > 300
    missing = click.testing.CliRunner().invoke(main, ["caption", "toy", "missing.png"])
    assert missing.exit_code == 1
    assert "missing.png" in missing.output


# ------------------------------------------------------------------------------- saving and export


def test_loaded_equals_saved(captioner, tmp_path):
    captioner.save(tmp_path / "captioner.keras")
    again = keras.models.load_model(tmp_path / "captioner.keras")
    assert again.caption(IMAGES, "greedy") == CAPTIONS
    assert again.default_sampler == captioner.default_sampler


def test_preset_knows_its_backbone(captioner, tmp_path, monkeypatch):
    folder = tmp_path / "preset"
    card = {
        "task": "captioning",
        "description": "",
        "data": {"name": "toy"},
        "quality": [],
        "training": {"command": ""},
    }
    presets.save(captioner, folder, card)
    loaded = zoo.load(folder)
    assert loaded.tokenizer.get_config() == captioner.tokenizer.get_config()
    assert loaded.backbone.get_config() == captioner.backbone.get_config()
    for found, weight in zip(loaded.core.weights, captioner.core.weights, strict=True):
        np.testing.assert_array_equal(found, weight)
    told = json.loads((folder / "card.json").read_text())
    assert told["fingerprint"] == [1.0]
    told["fingerprint"] = [0.5]
    (folder / "card.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match=r"fingerprint should be \[0.5\]"):
        zoo.load(folder)
    monkeypatch.delattr(MeanColors, "fingerprint")  # of a backbone of the user
    assert captioner.fingerprint is None


def test_exported_equals_in_memory_and_a_broken_image_spoils_its_row_only(captioner, tmp_path):
    exported = captioner.export(tmp_path / "captioner", jit_compile=False)
    signatures = tf.saved_model.load(str(exported)).signatures
    images = []
    for number, image in enumerate(IMAGES):
        buffer = io.BytesIO()
        PIL.Image.fromarray(image).save(buffer, "PNG" if number % 2 else "BMP")
        images.append(buffer.getvalue())
    images = tf.constant([*images, b"broken"])
    served = signatures["serving_default"](image_bytes=images)
    assert [text.decode() for text in served["text"].numpy()] == [*CAPTIONS, ""]
    assert sorted(served) == ["log_prob", "text", "token_ids"]
    told = signatures["explain"](image_bytes=images)
    assert told["text"].numpy().tolist() == served["text"].numpy().tolist()
    assert (told["attention"].shape[0], *told["attention"].shape[2:]) == (7, 2, 2)
    assert told["tokens"].numpy()[0, 0] == b" red" or told["tokens"].numpy()[0, 0] == b"red"
    none = signatures["serving_default"](image_bytes=tf.constant([], tf.string))
    assert none["text"].shape == (0,)
