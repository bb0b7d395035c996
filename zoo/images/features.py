"""Annotation vectors of a collection of images, computed once and kept on disk."""

import functools
import hashlib
import json
import math
import os
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

from zoo.images.reading import read_images
from zoo.images.views import view_of

MANIFEST = "manifest.json"
EXAMPLES_PER_SHARD = 512


def cache_features(backbone, images, folder, views=1, batch_size=32, shards=None):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    count, digest = _survey(images)
    shards = shards or math.ceil(count / EXAMPLES_PER_SHARD)
    manifest = {
        "format": 1,
        "examples": count,
        "digest": digest,
        "captions": images.element_spec["captions"].shape[0],
        "shape": [math.prod(backbone.grid), backbone.channels],
        "dtype": "float16",
        "backbone": backbone.get_config(),
        "fingerprint": backbone.fingerprint(),
        "views": views,
        "shards": shards,
    }
    _write_whole(folder / MANIFEST, lambda path: path.write_text(json.dumps(manifest, indent=2)))
    missing = sum(
        _shard_size(count, shards, shard)
        for shard in range(shards)
        for view in range(views)
        if not shard_path(folder, view, shard, shards).exists()
    )
    bar = keras.utils.Progbar(missing, unit_name="image")
    examples = images.as_numpy_iterator()
    for shard in range(shards):
        part = [next(examples) for _ in range(_shard_size(count, shards, shard))]
        for view in range(views):
            path = shard_path(folder, view, shard, shards)
            if not path.exists():
                compute_shard(backbone, part, path, view, batch_size)
                bar.add(len(part))


def compute_shard(backbone, examples, path, view=0, batch_size=32):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [example["name"] for example in examples]
    pictures = tf.data.Dataset.from_tensor_slices(
        (names, [example["image"] for example in examples])
    ).batch(batch_size)

    def read(names, image_bytes):
        images, is_image = read_images(image_bytes, backbone.image_size)
        return view_of(images, names, view), is_image

    pictures = pictures.map(read, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    annotations = []
    for batch, _ in pictures:
        annotations.extend(np.array(backbone(batch), "float16"))
    def write(unfinished):
        with tf.io.TFRecordWriter(str(unfinished)) as writer:
            for example, vectors in zip(examples, annotations, strict=True):
                writer.write(_record(example, vectors))
    _write_whole(path, write)


def load_features(folder, view=0):
    folder = pathlib.Path(folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    paths = [
        str(shard_path(folder, view, shard, manifest["shards"]))
        for shard in range(manifest["shards"])
    ]
    records = tf.data.TFRecordDataset(paths)

    def parse(record):
        fields = tf.io.parse_single_example(
            record,
            {
                "name": tf.io.FixedLenFeature((), tf.string),
                "captions": tf.io.FixedLenSequenceFeature((), tf.string, allow_missing=True),
                "annotations": tf.io.FixedLenFeature((), tf.string),
            },
        )
        vectors = tf.io.decode_raw(fields["annotations"], tf.float16)
        return {
            "name": fields["name"],
            "annotations": tf.reshape(vectors, manifest["shape"]),
            "captions": tf.ensure_shape(fields["captions"], [manifest["captions"]]),
        }

    data = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return data.apply(tf.data.experimental.assert_cardinality(manifest["examples"]))


def shard_path(folder, view, shard, shards):
    return pathlib.Path(folder) / f"view-{view}" / f"{shard:05d}-of-{shards:05d}.tfrecord"


def _shard_size(count, shards, shard):
    return count * (shard + 1) // shards - count * shard // shards


def _record(example, vectors):
    def strings(values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    feature = {
        "name": strings([example["name"]]),
        "captions": strings(list(example["captions"])),
        "annotations": strings([vectors.tobytes()]),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _write_whole(path, write):
    """Writes a file under another name, and renames it when it is on the disk."""
    handle, unfinished = tempfile.mkstemp(prefix=".unfinished-", dir=path.parent)
    os.close(handle)
    try:
        write(pathlib.Path(unfinished))
        with open(unfinished, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except BaseException:
        pathlib.Path(unfinished).unlink(missing_ok=True)
        raise


def _survey(images):
    """Returns the number of examples, and a digest of all that they hold, in order."""
    digest, count = hashlib.sha256(), 0
    for batch in images.batch(64).as_numpy_iterator():
        for name, image, captions in zip(
            batch["name"], batch["image"], batch["captions"], strict=True
        ):
            count += 1
            for field in (name, image, *captions):
                digest.update(len(field).to_bytes(8, "little"))
                digest.update(field)
    return count, digest.hexdigest()
