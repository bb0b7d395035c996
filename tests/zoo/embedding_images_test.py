"""Embeddings of images: training on pairs, presets, exports and the command."""

import json

import click.testing
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import zoo
from zoo.cli import main
from zoo.readers.images import image_bytes

OPTIONS = {"size": 8, "num_heads": 2, "hidden": 16, "num_layers": 1, "patch_size": 4}


@pytest.fixture(scope="module")
def model():
    reader = zoo.ImageReader(8, mean=0.5, deviation=0.5)
    return zoo.load("vit_embedding", weights=None, reader=reader, **OPTIONS)


@pytest.fixture(scope="module")
def photos():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (9, 7, 3), dtype="uint8") for _ in range(4)]


def test_vectors_and_their_cosines(model, photos, tmp_path):
    vectors = model.embed(photos)
    assert vectors.shape == (4, 8)
    np.testing.assert_allclose(model.embed(photos[0]), vectors[0], atol=1e-5)
    assert model.embed([]).shape == (0, 8)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(model.match(photos, photos[:2]), unit @ unit[:2].T, atol=1e-5)
    path = model.save_to_preset(tmp_path / "preset")
    readme = (tmp_path / "preset" / "README.md").read_text(encoding="utf-8")
    assert 'pipeline_tag: "image-feature-extraction"' in readme
    np.testing.assert_array_equal(zoo.load(path).embed(photos), vectors)


@pytest.mark.full
def test_training_brings_pairs_together(photos):
    reader = zoo.ImageReader(8)
    model = zoo.load("vit_embedding", weights=None, reader=reader, pooling="both", **OPTIONS)
    others = [np.ascontiguousarray(photo[:, ::-1]) for photo in photos]
    model.compile("adam")
    history = model.fit(photos, others, batch_size=4, epochs=8, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    encoded = [list(map(image_bytes, side)) for side in (photos, others)]
    pairs = tf.data.Dataset.from_tensor_slices(tuple(encoded))
    losses = [model.evaluate(*data, verbose=0) for data in ((photos, others), (pairs,))]
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_what_is_no_pair_of_images_is_told(model, photos):
    pairs = [image_bytes(photos[0])] * 2, [image_bytes(photos[1]), b"no image"]
    dataset = tf.data.Dataset.from_tensor_slices(pairs)
    message = r"1\] \[of\] \[2\] \[images cannot be decoded.*position\] \[1\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        list(model.batches(dataset))
    with pytest.raises(ValueError, match="learns from pairs of images: .*unbatch"):
        model.batches(dataset.batch(2))
    with pytest.raises(ValueError, match="`batch_size` must be at least 2.*batch_size=1"):
        model.batches(dataset, batch_size=1)


def test_export_takes_images(model, photos, tmp_path):
    model.export(tmp_path / "exported")
    serve = tf.saved_model.load(tmp_path / "exported" / "1").signatures["serving_default"]
    requests = tf.constant([*map(image_bytes, photos), b"no image"])
    found = serve(image_bytes=requests)["embedding"]
    np.testing.assert_allclose(found[:4], model.embed(photos), atol=1e-5)
    np.testing.assert_array_equal(found[4], 0.0)


def test_command(model, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "load", lambda name: model)
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, photo in enumerate(photos):
        Image.fromarray(photo).save(folder / f"{number}.png")

    def run(*arguments):
        arguments = ["embed", "toy", *map(str, arguments)]
        return click.testing.CliRunner().invoke(main, arguments)

    (line,) = run(folder / "1.png").stdout.splitlines()
    np.testing.assert_allclose(json.loads(line), model.embed(photos[1]), atol=1e-5)
    assert run("--input", folder, "--output", tmp_path / "out.jsonl").exit_code == 0
    rows = [json.loads(each) for each in (tmp_path / "out.jsonl").read_text().splitlines()]
    found = [row["embedding"] for row in rows]
    np.testing.assert_allclose(found, model.embed(photos), atol=1e-5)
    missing = run(tmp_path / "missing.png")
    assert missing.exit_code == 1
    assert "missing.png" in missing.stderr


def test_parts_must_match():
    core = zoo.load("vit_embedding", weights=None, reader=zoo.ImageReader(8), **OPTIONS).core
    with pytest.raises(ValueError, match="either tokenizer=.* or reader="):
        zoo.Embedder(core)
    with pytest.raises(ValueError, match="`max_tokens` must be None for a model of images"):
        zoo.Embedder(core, max_tokens=8, reader=zoo.ImageReader(8))
