"""One shard of a collection of features: how it is computed, written and read."""

import functools
import pathlib

import numpy as np
import tensorflow as tf

from zoo.atomic import whole
from zoo.data.views import view_of
from zoo.readers.images import read_images

DTYPE = "float16"


def compute_shard(backbone, examples, path, view=0, batch_size=32, progress=None):
    """Computes the features of some images and writes them into one file.

    The content of the file depends only on the arguments, and the file is written atomically. So
    this function can be called for any shard on any machine, repeatedly and concurrently.

    Args:
        backbone: `zoo.Backbone`.
        examples: List of dictionaries: `"name"`, `"image"` (content or path of a file) and
            `"captions"`, a list of strings.
        path: The file to write, a TFRecord.
        view: Index of the view: see `zoo.data.views`.
        batch_size: Number of images to process at a time.
        progress: Function that is called with the number of images after each batch.

    Returns:
        The number of images.

    Raises:
        ValueError: If images cannot be decoded, or their features are beyond float16.
    """
    path = pathlib.Path(path)
    read = _reader(backbone.image_size, view)
    with whole(path) as unfinished, tf.io.TFRecordWriter(str(unfinished)) as writer:
        for start in range(0, len(examples), batch_size):
            batch = examples[start : start + batch_size]
            names = [_bytes(example["name"]) for example in batch]
            images, is_image = read(names, [_content(example["image"]) for example in batch])
            _require_pictures(names, is_image.numpy())
            annotations = _compact(backbone(images).numpy())
            for example, vectors in zip(batch, annotations, strict=True):
                writer.write(_record(example, vectors))
            if progress:
                progress(len(batch))
    return len(examples)


def read_shards(paths, shape, captions):
    """Reads shards, in order.

    Args:
        paths: The files.
        shape: Positions and channels of the features of an image.
        captions: Number of captions of every image, `None` if it varies.

    Returns:
        A `tf.data.Dataset` of `{"name", "annotations", "captions"}`.
    """
    fields = {
        "name": tf.io.FixedLenFeature((), tf.string),
        "annotations": tf.io.FixedLenFeature((), tf.string),
        "captions": tf.io.FixedLenSequenceFeature((), tf.string, allow_missing=True),
    }

    def parse(record):
        example = tf.io.parse_single_example(record, fields)
        vectors = tf.io.decode_raw(example["annotations"], tf.as_dtype(DTYPE))
        return {
            "name": example["name"],
            "annotations": tf.reshape(vectors, shape),
            "captions": tf.ensure_shape(example["captions"], (captions,)),
        }

    records = tf.data.TFRecordDataset([str(path) for path in paths], buffer_size=2**23)
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


@functools.lru_cache(maxsize=16)
def _reader(size, view):
    """Returns a function that is traced once for all shards of a view."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2, autograph=False)
    def read(names, image_bytes):
        images, is_image = read_images(image_bytes, size)
        return view_of(images, names, view), is_image

    return read


def _content(image):
    return image if isinstance(image, bytes) else pathlib.Path(image).read_bytes()


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode("utf-8")


def _require_pictures(names, is_image):
    broken = [name for name, is_good in zip(names, is_image, strict=True) if not is_good]
    if broken:
        broken = ", ".join(name.decode("utf-8", "replace") for name in broken)
        raise ValueError(f"Images that cannot be decoded: {broken}. Leave them out.")


def _compact(annotations):
    with np.errstate(over="ignore"):  # overflow is checked below
        compact = annotations.astype(DTYPE)
    if not np.isfinite(compact).all():
        raise ValueError(
            f"The features go up to {np.abs(annotations).max():g}, too far for {DTYPE}. Choose "
            "other layers, or other weights."
        )
    return compact


def _record(example, vectors):
    fields = {
        "name": [_bytes(example["name"])],
        "annotations": [vectors.tobytes()],
        "captions": [_bytes(caption) for caption in example["captions"]],
    }
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        for name, values in fields.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)
