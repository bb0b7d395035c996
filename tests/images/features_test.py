"""Features on disk: their content, resuming after a crash, and errors."""

import json
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

from tests.images import pictures
from tests.images.comparison import assert_same_features
from zoo.atomic import UNFINISHED
from zoo.data import features
from zoo.data.feature_manifest import Manifest
from zoo.data.feature_shards import compute_shard
from zoo.data.features import cache_features, load_features
from zoo.models.backbone import Backbone
from zoo.readers.images import read_images

SHARDS = 3


@pytest.fixture(scope="module")
def folder(backbone, images, tmp_path_factory):
    """Two views of ten pictures in three shards each."""
    folder = tmp_path_factory.mktemp("features")
    return cache_features(backbone, images, folder, views=2, batch_size=4, shards=SHARDS)


@pytest.fixture
def computed(monkeypatch):
    """The views and files that are computed during the test."""
    calls = []

    def compute(backbone, examples, path, view, *arguments):
        calls.append((view, path.name))
        return compute_shard(backbone, examples, path, view, *arguments)

    monkeypatch.setattr(features, "compute_shard", compute)
    return calls


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("view", [0, 1])
def test_features_are_those_of_the_pictures_in_order(folder, backbone, examples, view):
    data = load_features(folder, view)
    assert data.cardinality() == len(examples)
    assert data.element_spec == {
        "name": tf.TensorSpec((), tf.string),
        "annotations": tf.TensorSpec((16, 192), tf.float16),
        "captions": tf.TensorSpec((3,), tf.string),
    }
    images, _ = read_images([example["image"] for example in examples], backbone.image_size)
    expected = backbone(images[:, :, ::-1] if view else images)
    for found, example, annotations in zip(data, examples, expected, strict=True):
        assert found["name"].numpy().decode() == example["name"]
        captions = [caption.decode() for caption in found["captions"].numpy()]
        assert captions == example["captions"]
        np.testing.assert_allclose(found["annotations"], annotations, rtol=1e-3, atol=1e-3)


def test_the_folder_tells_what_it_holds(folder, backbone):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["examples"] == 10
    assert manifest["views"] == 2
    assert manifest["shards"] == SHARDS
    assert manifest["shape"] == [16, 192]
    assert manifest["dtype"] == "float16"
    assert manifest["backbone"]["name"] == "MobileNetV2"
    assert manifest["backbone"]["fingerprint"] == backbone.fingerprint()
    names = [f"view-{view}/{n:05d}-of-00003.tfrecord" for view in (0, 1) for n in range(SHARDS)]
    assert sorted(contents(folder)) == ["manifest.json", *names]


def test_nothing_is_computed_twice_and_views_can_be_added(
    tmp_path, computed, backbone, images, examples
):
    cache_features(backbone, images, tmp_path, shards=2)
    assert len(computed) == 2
    cache_features(backbone, images, tmp_path)
    cache_features(backbone, examples, tmp_path)  # the same as a list
    assert len(computed) == 2
    cache_features(backbone, images, tmp_path, views=2)
    assert [view for view, _ in computed] == [0, 0, 1, 1]
    cache_features(backbone, images, tmp_path)
    assert Manifest.read(tmp_path).views == 2
    assert len(list(load_features(tmp_path, view=1))) == 10


def test_captions_may_differ_in_number(tmp_path, backbone, examples):
    some = [{**examples[0], "captions": ["one"]}, {**examples[1], "captions": []}]
    data = load_features(cache_features(backbone, some, tmp_path))
    assert data.element_spec["captions"].shape.as_list() == [None]
    assert [len(each["captions"]) for each in data] == [1, 0]


def test_one_shard_holds_about_512_pictures(tmp_path, backbone, monkeypatch, examples):
    monkeypatch.setattr(features, "PICTURES_PER_SHARD", 4)
    cache_features(backbone, examples, tmp_path)
    assert Manifest.read(tmp_path).sizes() == [3, 3, 4]


KILLED = """
import os, pathlib, signal, sys
import tensorflow as tf
from tests.images import pictures
from tests.images.comparison import assert_same_features
from zoo.data.features import cache_features
from zoo.models.backbone import Backbone

folder, picture_folder = map(pathlib.Path, sys.argv[1:])
paths = sorted(picture_folder.iterdir())
examples = [{"name": path.name, "image": str(path), "captions": ["a"]} for path in paths]
write, count = tf.io.TFRecordWriter.write, 0

def killing_write(self, record):
    global count
    write(self, record)
    self.flush()
    count += 1
    if count == 5:
        os.kill(os.getpid(), signal.SIGKILL)

tf.io.TFRecordWriter.write = killing_write
backbone = Backbone("MobileNetV2", ["block_6_expand_relu"], image_size=32, weights=None)
cache_features(backbone, examples, folder, shards=5, batch_size=1)
"""


@pytest.mark.full  # kills at exact points are always tested
def test_it_goes_on_after_kill_9(tmp_path, run_python, computed, backbone, examples):
    picture_folder, killed, whole = (tmp_path / name for name in ("pictures", "killed", "whole"))
    picture_folder.mkdir()
    for example in examples:
        (picture_folder / example["name"]).write_bytes(example["image"])
    result = run_python(KILLED, killed, picture_folder)
    assert result.returncode == -signal.SIGKILL, result.stderr
    left = [path.name for path in (killed / "view-0").iterdir()]
    unfinished = [name for name in left if name.startswith(UNFINISHED)]
    assert len(unfinished) == 1
    assert sorted(set(left) - set(unfinished)) == [f"0000{n}-of-00005.tfrecord" for n in (0, 1)]
    with pytest.raises(FileNotFoundError, match="3 of the 5 files of view 0 are missing"):
        load_features(killed)
    by_path = [
        {"name": path.name, "image": str(path), "captions": ["a"]}
        for path in sorted(picture_folder.iterdir())
    ]
    cache_features(backbone, by_path, killed, batch_size=1)
    assert [name for _, name in computed] == [f"0000{n}-of-00005.tfrecord" for n in (2, 3, 4)]
    cache_features(backbone, by_path, whole, shards=5, batch_size=1)
    assert_same_features(killed, whole)
    assert sorted(contents(killed)) == sorted(contents(whole))


def test_a_crash_while_writing_leaves_no_file(tmp_path, backbone, images, monkeypatch):
    def crash(self, record):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tf.io.TFRecordWriter, "write", crash)
        with pytest.raises(OSError, match="No space left"):
            cache_features(backbone, images, tmp_path)
    assert list(contents(tmp_path)) == ["manifest.json"]


def test_another_backbone_is_refused(folder, images):
    other = Backbone("MobileNetV2", ["block_13_expand_relu"], image_size=32, weights=None)
    with pytest.raises(ValueError, match=r"layers=\['block_6_expand_relu'\]. Received: layers"):
        cache_features(other, images, folder)
    with pytest.raises(ValueError, match=r"layers=\['block_6_expand_relu'\]. Received: layers"):
        load_features(folder, backbone=other)


def test_other_weights_are_refused(folder, backbone, images, tmp_path):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["backbone"]["fingerprint"][0] += 5.0
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="holds features of other weights.*fingerprint"):
        cache_features(backbone, images, tmp_path)
    with pytest.raises(ValueError, match="holds features of other weights.*fingerprint"):
        load_features(tmp_path, backbone=backbone)


def test_the_right_backbone_is_accepted(folder, backbone):
    assert load_features(folder, backbone=backbone).cardinality() == 10


@pytest.mark.parametrize("field", ["name", "image", "captions"])
def test_other_pictures_are_refused(folder, backbone, examples, field):
    other = {"name": "b.png", "image": pictures.FILES["PNG"], "captions": ["a", "b", "c"]}
    changed = [{**examples[0], field: other[field]}, *examples[1:]]
    with pytest.raises(ValueError, match="holds features of 10 images"):
        cache_features(backbone, changed, folder)


def test_features_of_nobody_knows_what_are_refused(tmp_path, folder, backbone, images):
    shutil.copytree(folder / "view-0", tmp_path / "view-0")
    with pytest.raises(ValueError, match="no manifest that describes them"):
        cache_features(backbone, images, tmp_path)


def test_other_shards_are_refused(folder, backbone, images):
    with pytest.raises(ValueError, match="begun with shards=3. Received: shards=4"):
        cache_features(backbone, images, folder, shards=4)


def test_broken_pictures_are_named(tmp_path, backbone, examples):
    broken = [{**examples[0], "name": f"{name}.jpg", "image": b"no"} for name in "ab"]
    with pytest.raises(ValueError, match=r"cannot be decoded: a\.jpg, b\.jpg\. Leave them out"):
        cache_features(backbone, [examples[0], *broken], tmp_path)
    assert list(contents(tmp_path)) == ["manifest.json"]


def test_features_beyond_float16_are_refused(tmp_path, examples):
    class Huge:
        image_size = 8

        def __call__(self, images):
            return images * 1e6

    with pytest.raises(ValueError, match=r"go up to 2\.\d*e\+08, too far for float16"):
        compute_shard(Huge(), examples, tmp_path / "shard.tfrecord")


def test_a_folder_without_features_and_unknown_views(tmp_path, folder):
    with pytest.raises(FileNotFoundError, match=r"holds no features: there is no manifest\.json"):
        load_features(tmp_path)
    with pytest.raises(ValueError, match=r"views 0 to 1. Received: view=2. cache_features\(.*=3\)"):
        load_features(folder, view=2)


def test_wrong_arguments(tmp_path, backbone, examples, images):
    with pytest.raises(ValueError, match="must be read again|pass a data set or a list"):
        cache_features(backbone, iter(examples), tmp_path / "generator")
    with pytest.raises(ValueError, match="at least one image"):
        cache_features(backbone, [], tmp_path)
    with pytest.raises(ValueError, match=r"Received: \['image', 'name'\]"):
        cache_features(
            backbone, images.map(lambda x: {"name": x["name"], "image": x["image"]}), tmp_path
        )
    for name in ("views", "batch_size", "shards"):
        with pytest.raises(ValueError, match=f"`{name}` of cache_features must be a positive"):
            cache_features(backbone, images, tmp_path, **{name: 0})
