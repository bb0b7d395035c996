"""A captioner that reads images by a reader, without a backbone: BLIP with fresh weights."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.pictures import CAPTIONS, IMAGES, SIZE
from zoo.models.blip import Blip
from zoo.models.vision_encoder_decoder import VisionEncoderDecoder
from zoo.readers.images import image_bytes

STACK = {"num_layers": 1, "size": 32, "num_heads": 2, "hidden": 64}
OPTIONS = {**STACK, "image": {**STACK, "size": 24}, "patch_size": SIZE // 2, "max_length": 12}
OPTIONS |= {"dropout": 0.0, "attention_dropout": 0.0}
ENCODED = [image_bytes(image) for image in IMAGES]


@pytest.fixture(scope="module")
def tokenizer():
    return zoo.readers.text.Tokenizer.train(CAPTIONS, vocabulary_size=60)


def make(tokenizer, **options):
    random.seed(0)
    parts = {"tokenizer": tokenizer, "reader": zoo.ImageReader(SIZE)}
    return zoo.load("blip", weights=None, **{**parts, **OPTIONS, **options})


@pytest.fixture(scope="module")
def captioner(tokenizer):
    model = make(tokenizer, sampler="greedy")
    model.compile(keras.optimizers.Adam(0.005), run_eagerly=True)
    return model


@pytest.mark.full
def test_it_learns_what_it_sees_and_is_exported(tokenizer, tmp_path):
    model = make(tokenizer)
    model.compile(keras.optimizers.Adam(0.005))
    examples = tf.data.Dataset.from_tensor_slices(
        {"image": ENCODED, "captions": [[caption] for caption in CAPTIONS]}
    )
    model.fit(examples.cache().repeat(100), batch_size=len(IMAGES), shuffle=False, verbose=0)
    for sampler in ("greedy", "beam", "top_p"):
        assert model.caption(IMAGES, sampler) == CAPTIONS
    pixels = model.annotate(tf.constant(ENCODED)).numpy()
    assert pixels.shape == (len(IMAGES), SIZE, SIZE, 3)
    assert model.caption_annotations(pixels) == CAPTIONS
    served = tf.saved_model.load(str(model.export(tmp_path / "exported"))).signatures
    images = tf.constant([*ENCODED, b"broken"])
    for name in ("serving_default", "serving_jit", "explain"):
        told = served[name](image_bytes=images)
        assert [text.decode() for text in told["text"].numpy()] == [*CAPTIONS, ""]
    np.testing.assert_allclose(told["attention"][0, 0].numpy().sum(), 1.0, atol=1e-5)
    assert told["attention"].shape[2:] == (2, 2)


def test_training_and_the_maps_of_words(captioner):
    history = captioner.fit(IMAGES, CAPTIONS, batch_size=6, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    result = captioner.caption(IMAGES[:2], max_length=4, return_attention=True)
    assert [len(words) for words in result.words] == [len(text.split()) for text in result.texts]
    for words, attention in zip(result.words, result.attention, strict=True):
        assert attention.shape == (len(words), 2, 2)
        np.testing.assert_allclose(attention.sum(axis=(1, 2)), 1.0, atol=1e-5)


def test_loaded_equals_saved(captioner, tmp_path):
    captioner.save_to_preset(tmp_path / "preset")
    captioner.save(tmp_path / "captioner.keras")
    loaded = zoo.load(tmp_path / "preset")
    assert loaded.settings == captioner.settings
    for again in (loaded, keras.models.load_model(tmp_path / "captioner.keras")):
        assert again.core.config == captioner.core.config
        assert again.reader.get_config() == captioner.reader.get_config()
        pairs = zip(again.core.get_weights(), captioner.core.get_weights(), strict=True)
        for ours, others in pairs:
            np.testing.assert_array_equal(ours, others)


@pytest.mark.full
def test_lists_and_data_sets_are_the_same_batches(captioner):
    several = [[caption, caption] for caption in CAPTIONS]
    examples = tf.data.Dataset.from_tensor_slices({"image": ENCODED, "captions": several})
    (of_lists,) = captioner.batches(IMAGES, several, batch_size=12)
    (batch,) = captioner.batches(examples, batch_size=12)
    tf.nest.map_structure(np.testing.assert_array_equal, batch, of_lists)
    inputs, labels, weights = batch
    assert (inputs["images"].shape, labels.shape) == ((12, SIZE, SIZE, 3), weights.shape)
    tokens = captioner.tokenizer.tokenize(CAPTIONS).to_list()
    first = [captioner.tokenizer.start_id, *tokens[0]]
    np.testing.assert_array_equal(inputs["target_ids"][0, : len(first)], first)
    np.testing.assert_array_equal(inputs["images"][::2], captioner.annotate(tf.constant(ENCODED)))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kind", "dtype", "options"),
    [
        (Blip, "float32", {}),
        (Blip, "mixed_bfloat16", {}),
        (VisionEncoderDecoder, "float32", {"projected": True, "first_position": 2}),
        pytest.param(
            VisionEncoderDecoder,
            "mixed_bfloat16",
            {"position": "rotary", "normalize": "pre"},
            marks=pytest.mark.full,
        ),
    ],
)
def test_steps_equal_a_call(kind, dtype, options):
    core = kind(20, **OPTIONS, **options, channels=1, image_size=8, dtype=dtype)
    core.build()
    rng = np.random.default_rng(0)
    images = rng.normal(size=(2, 8, 8, 1)).astype("float32")
    ids = rng.integers(1, 20, (2, 7))
    inputs = {"images": images, "target_ids": ids}
    expected, weights = core(inputs, return_attention_scores=True)
    context, state = core.start(images, 7)
    tolerance = 1e-5 if dtype == "float32" else 0.05
    for place in range(7):
        logits, state, maps = core.step(ids[:, place], state, context)
        np.testing.assert_allclose(logits, expected[:, place], atol=tolerance)
        of_patches = np.mean(weights["cross"][0], axis=1)[:, place, 1:]
        of_patches /= of_patches.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(maps, of_patches, atol=tolerance)


def test_mistakes_are_named(captioner, tokenizer):
    with pytest.raises(ValueError, match="blip with fresh weights needs reader and tokenizer"):
        zoo.load("blip", weights=None, tokenizer=tokenizer)
    with pytest.raises(ValueError, match=r"needs reader=zoo.ImageReader.*a model of images, read"):
        zoo.Captioner(captioner.core, tokenizer)
    with pytest.raises(ValueError, match=r"a model of annotations, reader=ImageReader\(size=224\)"):
        zoo.load("show_attend_tell", weights=None, tokenizer=tokenizer, reader=zoo.ImageReader())
    with pytest.raises(ValueError, match=r"takes image_size=8, and the reader 16. Create both"):
        zoo.Captioner(captioner.core, tokenizer, reader=zoo.ImageReader(16))
    with pytest.raises(ValueError, match="takes image_size=16, and the reader 8"):
        make(tokenizer, image_size=16)
    with pytest.raises(ValueError, match="position of BLIP 'rotary'"):
        make(tokenizer, position="rotary")
    with pytest.raises(ValueError, match="option in `image` 'patch_size'"):
        make(tokenizer, image={"patch_size": 4})
    features = {"annotations": np.zeros((1, 4, 12), "float32"), "captions": [["red"]]}
    with pytest.raises(ValueError, match="learns from the images. Received: a data set of `annot"):
        captioner.fit(tf.data.Dataset.from_tensor_slices(features))
    with pytest.raises(ValueError, match=r"\(images, 8, 8, 3\). Received: .* \(4, 12\)"):
        captioner.caption_annotations(np.zeros((4, 12)))
    assert captioner.longest_answer(None) == 12


@pytest.mark.full
def test_mistakes_in_data_are_named(captioner):
    with pytest.raises(tf.errors.InvalidArgumentError, match="more tokens than the"):
        captioner.evaluate(IMAGES[:1], ["red " * 20], verbose=0)
    broken = tf.data.Dataset.from_tensors({"image": b"none", "captions": ["red"]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="images cannot be decoded"):
        captioner.evaluate(broken, verbose=0)
