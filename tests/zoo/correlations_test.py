"""Where the matching recipe starts: canonical correlations, and towers that compute them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.pictures import CAPTIONS, IMAGES, MeanColors
from zoo.readers.images import image_bytes
from zoo.training.correlations import canonical_maps, start_from_correlations

TOWER = {"num_layers": 0, "size": 4, "num_heads": 2, "normalize": "post", "dropout": 0.0}


def test_the_maps_are_those_of_whitened_data():
    generator = np.random.default_rng(0)
    pictures = generator.normal(size=(90, 5)) @ generator.normal(size=(5, 5)) + 3.0
    texts = pictures @ generator.normal(size=(5, 7)) + generator.normal(size=(90, 7))
    covariance = np.cov(texts.T, bias=True)
    maps = canonical_maps(pictures, texts, covariance, 3)

    def whitening(covariance):
        values, vectors = np.linalg.eigh(covariance)
        return vectors * (values + values.mean()) ** -0.5 @ vectors.T

    of_pictures, of_texts = whitening(np.cov(pictures.T, bias=True)), whitening(covariance)
    both = (pictures - pictures.mean(0)).T @ (texts - texts.mean(0)) / 90
    u, s, vt = np.linalg.svd(of_pictures @ both @ of_texts)
    expected = of_pictures @ (u[:, :3] * s[:3]), of_texts @ (vt[:3].T * s[:3])
    for found, right in zip(maps, expected, strict=True):
        np.testing.assert_allclose(np.abs(found), np.abs(right), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(maps[0] @ maps[1].T, expected[0] @ expected[1].T, atol=1e-9)


@pytest.mark.full
def test_towers_start_with_the_canonical_vectors():
    keras.utils.set_random_seed(1)
    tokenizer = zoo.ByteBPETokenizer.train(CAPTIONS, vocabulary_size=280)
    towers = {"text": {**TOWER, "scaled": False}, "image": TOWER}
    sizes = {"channels": MeanColors().channels, "positions": 4, "embedding_size": 4}
    model = zoo.load(
        "clip", weights=None, tokenizer=tokenizer, backbone=MeanColors(), **sizes, **towers
    )
    pictures = model.annotate(tf.constant([image_bytes(image) for image in IMAGES])).numpy()
    captions = [[each, each + " there"] for each in CAPTIONS]
    view = tf.data.Dataset.from_tensor_slices({"annotations": pictures, "captions": captions})
    start_from_correlations(model, [view, view])

    normal = (pictures - pictures.mean(-1, keepdims=True)) / np.sqrt(
        pictures.var(-1, keepdims=True) + model.core.image_tower.input_norm.epsilon
    )
    normal = normal.mean(axis=1)
    flat = [each for pair in captions for each in pair]
    shares = np.zeros((len(flat), 280))
    for row, ids in zip(shares, model.read_texts(tf.constant(flat)).numpy(), strict=True):
        ids = ids[ids != 0]
        np.add.at(row, ids, 1 / len(ids))
    seen = np.concatenate([model.read_texts(tf.constant([each])).numpy()[0] for each in flat])
    shares *= np.log1p(len(flat) / (1 + np.bincount(seen, minlength=280)))
    means = shares.reshape(len(pictures), 2, -1).mean(1)
    maps = canonical_maps(normal, means, np.cov(shares.T, bias=True), 4)
    expected = (normal - normal.mean(0)) @ maps[0], (shares - shares.mean(0)) @ maps[1]
    found = (
        model.core.embed_images(pictures),
        model.core.embed_texts(model.read_texts(tf.constant(flat))),
    )
    unit = [each / np.linalg.norm(each, axis=-1, keepdims=True) for each in expected]
    cosines = found[0].numpy() @ found[1].numpy().T
    assert cosines == pytest.approx(unit[0] @ unit[1].T, abs=1e-2)
