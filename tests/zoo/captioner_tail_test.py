"""A captioner whose backbone ends in a tail: the weights of another model, which do not learn."""

import dataclasses
import random

import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.pictures import CAPTIONS, IMAGES
from zoo.models.network_tail import NetworkTail
from zoo.readers.images import image_bytes
from zoo.training import captioning
from zoo.training.captioning import CaptioningRecipe
from zoo.training.self_critical import self_critical_captions

SIZE, BELOW = 64, "conv_pw_11_relu"
TAIL = {"network": "MobileNet", "image_size": SIZE, "after": BELOW, "layers": ["conv_pw_13_relu"]}
OPTIONS = {"channels": 512, "size": 16, "units": 16, "dropout": 0.0, "tail": TAIL}
BACKBONE = {"name": "MobileNet", "layers": [BELOW], "image_size": SIZE, "weights": None}
ENCODED = tf.constant([image_bytes(image) for image in IMAGES])


def make(tokenizer, backbone=BACKBONE):
    random.seed(0)
    return zoo.load(
        "show_attend_tell",
        weights=None,
        tokenizer=tokenizer,
        backbone=zoo.Backbone(**backbone),
        **OPTIONS,
    )


@pytest.fixture(scope="module")
def model():
    captioner = make(zoo.ByteBPETokenizer.train(CAPTIONS, vocabulary_size=280))
    generator = np.random.default_rng(0)
    for variable in captioner.core.tail.weights:
        variable.assign(generator.uniform(0.0, 0.1, variable.shape))
    return captioner


@pytest.fixture(scope="module")
def vectors(model):
    return model.annotate(ENCODED).numpy()


@pytest.fixture(scope="module")
def annotations(model, vectors):
    """What the layers of the tail make of the vectors."""
    return model.core.tail.upper(vectors.reshape(-1, 4, 4, 512)).numpy().reshape(-1, 4, 1024)


@pytest.mark.full  # `network_tail_test` shows the tail, `captioner_test` vectors of a backbone
def test_images_and_vectors_of_the_backbone_give_the_same(model, vectors, annotations):
    assert vectors.shape[1:] == (16, 512)
    assert np.ptp(annotations, axis=0).max() > 0.01
    captions = [[caption, caption] for caption in CAPTIONS]
    features = tf.data.Dataset.from_tensor_slices({"annotations": vectors, "captions": captions})
    for data in ((IMAGES, captions), (features,)):
        ((inputs, _, _),) = model.batches(*data, batch_size=12)
        expected = np.repeat(annotations, 2, axis=0)
        np.testing.assert_allclose(inputs["annotations"], expected, rtol=1e-4, atol=1e-5)
    told = model.caption(IMAGES, "random", seed=1, max_length=5, return_attention=True)
    assert told.texts == model.caption_annotations(vectors, "random", seed=1, max_length=5)
    assert {maps.shape[1:] for maps in told.attention} == {model.core.tail.grid} == {(2, 2)}


@pytest.mark.full
def test_rewards_are_earned_by_annotations(model, vectors, annotations):
    captions = [[caption] for caption in CAPTIONS]
    features = tf.data.Dataset.from_tensor_slices(
        {"annotations": vectors.astype("float16"), "captions": captions}
    )
    ((inputs, _, _),) = self_critical_captions(model, features, samples=2, max_length=4)
    found = inputs["annotations"].numpy()
    places = [np.abs(annotations - each).max(axis=(1, 2)).argmin() for each in found]
    assert sorted(places) == list(range(len(IMAGES)))
    np.testing.assert_allclose(found, annotations[places], rtol=1e-2, atol=1e-2)


@pytest.mark.full
def test_a_preset_and_an_export_hold_the_tail_which_does_not_learn(model, tmp_path):
    before = [weight.numpy() for weight in model.core.tail.weights]
    model.compile("sgd")
    model.fit(IMAGES, CAPTIONS, verbose=0)
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    for weight, old in zip(again.core.tail.weights, before, strict=True):
        np.testing.assert_array_equal(weight, old)
    texts = model.caption(IMAGES, "greedy")
    assert again.caption(IMAGES, "greedy") == texts
    exported = again.export(tmp_path / "exported", sampler="greedy", jit_compile=False)
    served = tf.saved_model.load(str(exported)).signatures["serving_default"](image_bytes=ENCODED)
    assert [text.decode() for text in served["text"].numpy()] == texts


def test_a_backbone_that_the_tail_does_not_take(model):
    with pytest.raises(ValueError, match=r"takes 16 vectors of size 512 .*'conv_pw_11_relu'"):
        make(model.tokenizer, {**BACKBONE, "layers": ["conv_pw_13_relu"]})


@pytest.mark.full
def test_a_recipe_gives_the_tail_its_weights(model, tmp_path, monkeypatch):
    recipe = CaptioningRecipe("show_attend_tell", OPTIONS, backbone=BACKBONE, dtype="float32")
    images = tf.data.Dataset.from_tensor_slices(
        {"image": ENCODED, "captions": [[caption] for caption in CAPTIONS]}
    )
    model.save_to_preset(tmp_path / "trained")
    tail = NetworkTail(**{**TAIL, "layers": ["conv_dw_13_relu", "conv_pw_13_relu"], "grid": [1, 1]})
    tail.start_from(model.core.tail)

    def matcher(name):
        tower = type("Tower", (), {"tail": tail})
        return type("Matcher", (), {"core": type("Core", (), {"image_tower": tower})})

    for change in ({"begin_with": str(tmp_path / "trained")}, {"tail_of": "a_matcher"}):
        if "tail_of" in change:
            monkeypatch.setattr(captioning, "load", matcher)
        found = dataclasses.replace(recipe, **change)._begin(images, tmp_path).core.tail
        for weight, expected in zip(found.weights, model.core.tail.weights, strict=True):
            np.testing.assert_array_equal(weight, expected)
