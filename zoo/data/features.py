"""Annotation vectors of a collection of images, computed once and stored on disk."""

import dataclasses
import hashlib
import itertools
import pathlib

import keras
import tensorflow as tf

from keras_attention._checks import require_positive_integers, require_positive_integers_or_none
from zoo.atomic import sweep
from zoo.data.feature_manifest import Manifest
from zoo.data.feature_shards import compute_shard, read_shards

PICTURES_PER_SHARD = 512


def cache_features(backbone, images, folder, views=1, batch_size=32, shards=None):
    """Computes the annotation vectors of images, and stores them in a folder, as float16.

    Existing files are not computed again: after a crash, or to add views, call it with the same
    arguments, and it continues. Files are written atomically.

    Only one process at a time may write into a folder. For collections that outgrow one machine,
    see `zoo.data.distributed_features`.

    Args:
        backbone: `zoo.Backbone`.
        images: `tf.data.Dataset`, or list, of `{"name", "image", "captions"}`, as returned by
            `zoo.data.flickr8k.load_flickr8k`; `"image"` is the content of a file, or in a list its
            path. It is read twice, the first time to survey its contents.
        folder: Folder for the features; created if it does not exist.
        views: Number of views of each image: the whole one, its mirror image, and then crops of
            it, see `zoo.data.views`. An epoch reads one view.
        batch_size: Number of images to process at a time.
        shards: Number of files per view. By default, a file holds about 512 images.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        ValueError: If the folder holds features of other images or of another backbone, or
            images cannot be decoded.

    Example:

    >>> images = load_flickr8k("train", "~/flickr8k")  # doctest: +SKIP
    >>> folder = cache_features(Backbone(), images, "features", views=2)  # doctest: +SKIP
    >>> load_features(folder, view=1).batch(64)  # doctest: +SKIP
    """
    manifest = begin(backbone, images, folder, views, batch_size, shards)
    missing = missing_shards(manifest, images, folder, views)
    progress = progress_bar(manifest, folder, views)
    for examples, path, view in missing:
        compute_shard(backbone, examples, path, view, batch_size, progress)
    return finish(folder)


def load_features(folder, view=0, backbone=None):
    """Reads the features computed by `cache_features`.

    Args:
        folder: The folder of the features.
        view: Index of the view.
        backbone: `zoo.Backbone` that must have computed them; any by default.

    Returns:
        A `tf.data.Dataset` of `{"name", "annotations", "captions"}` in the order of the images,
        `"annotations"` in float16 (positions, channels).

    Raises:
        FileNotFoundError: If there are no features in the folder, or not all of them yet.
        ValueError: If there is no such view, or another backbone has computed them.
    """
    manifest = Manifest.read(folder)
    if not 0 <= view < manifest.views:
        raise ValueError(
            f"'{folder}' holds the views 0 to {manifest.views - 1}. Received: view={view}. "
            f"cache_features(backbone, images, folder, views={view + 1}) computes more."
        )
    if backbone is not None:
        manifest.require_backbone(backbone, folder)
    paths = manifest.paths(folder, view)
    missing = sum(not path.is_file() for path in paths)
    if missing:
        raise FileNotFoundError(
            f"'{folder}' is not complete: {missing} of the {len(paths)} files of view {view} are "
            "missing. Call cache_features again with the same arguments: it goes on from there."
        )
    data = read_shards(paths, manifest.shape, manifest.captions)
    return data.apply(tf.data.experimental.assert_cardinality(manifest.examples))


def begin(backbone, images, folder, views, batch_size, shards):
    """Writes the manifest of a new computation, or reads that of an interrupted one.

    Args:
        backbone, images, folder, views, batch_size, shards: As for `cache_features`.

    Returns:
        The `Manifest`.
    """
    require_positive_integers("cache_features", views=views, batch_size=batch_size)
    require_positive_integers_or_none("cache_features", shards=shards)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    seen = _survey(images)
    try:
        manifest = Manifest.read(folder)
    except FileNotFoundError:
        if any(folder.glob("view-*/*")):
            raise ValueError(
                f"'{folder}' holds files of features, but no manifest that describes them. Remove "
                "them, or choose another folder."
            ) from None
        backbone.fingerprint()  # from now on it is in the config
        manifest = Manifest(
            **seen,
            shape=[backbone.grid[0] * backbone.grid[1], backbone.channels],
            backbone=backbone.get_config(),
            views=views,
            shards=shards or -(-seen["examples"] // PICTURES_PER_SHARD),
        )
    manifest.require_backbone(backbone, folder)
    _require_same(manifest, folder, shards, seen)
    manifest = dataclasses.replace(manifest, views=max(views, manifest.views))
    manifest.write(folder)
    return manifest


def missing_shards(manifest, images, folder, views):
    """Yields `(examples, path, view)` for each missing file.

    Args:
        manifest: Result of `begin`.
        images, folder, views: As for `cache_features`.
    """
    paths = [manifest.paths(folder, view) for view in range(views)]
    examples = _examples(images)
    for shard, size in enumerate(manifest.sizes()):
        part = list(itertools.islice(examples, size))
        if len(part) < size:
            raise ValueError(
                "`images` gave fewer images when it was read again. It must give the same ones "
                "each time: pass a data set or a list, not a generator."
            )
        for view in range(views):
            if not paths[view][shard].is_file():
                yield part, paths[view][shard], view


def progress_bar(manifest, folder, views):
    """Returns a function that takes numbers of finished images, and draws a progress bar."""
    sizes = manifest.sizes()
    missing = sum(
        size
        for view in range(views)
        for size, path in zip(sizes, manifest.paths(folder, view), strict=True)
        if not path.is_file()
    )
    return keras.utils.Progbar(missing, unit_name="image").add


def finish(folder):
    """Removes the remains of killed processes, and returns the folder."""
    sweep(folder)
    return pathlib.Path(folder)


def _require_same(manifest, folder, shards, seen):
    if any(getattr(manifest, name) != value for name, value in seen.items()):
        raise ValueError(
            f"'{folder}' holds features of {manifest.examples} images, and they or their "
            f"captions are not the {seen['examples']} in `images`. Choose another folder."
        )
    if shards not in (None, manifest.shards):
        raise ValueError(
            f"'{folder}' was begun with shards={manifest.shards}. Received: shards={shards}. Leave "
            "the argument out, or choose another folder."
        )


def _survey(images):
    """Returns the entries of a manifest about images: number, hash, number of captions."""
    digest, count, captions = hashlib.sha256(), 0, set()
    for example in _examples(images):
        if isinstance(example["captions"], str | bytes):
            raise ValueError(
                f"`captions` of {example['name']!r} must be a list. Received: "
                f"{example['captions']!r}. Put it into a list."
            )
        fields = [example["name"], *example["captions"]]
        # Contents are hashed, but not paths, which may change.
        fields += [example["image"]] if isinstance(example["image"], bytes) else []
        for field in fields:
            content = field.encode("utf-8") if isinstance(field, str) else field
            digest.update(len(content).to_bytes(8, "little") + content)
        captions.add(len(example["captions"]))
        count += 1
    if not count:
        raise ValueError("`images` must give at least one image. Received: none.")
    number = captions.pop() if len(captions) == 1 else None
    return {"examples": count, "digest": digest.hexdigest(), "captions": number}


def _examples(images):
    """Yields the examples of a data set or a list."""
    examples = images.as_numpy_iterator() if isinstance(images, tf.data.Dataset) else images
    for example in examples:
        if not isinstance(example, dict) or not {"name", "image", "captions"} <= set(example):
            raise ValueError(
                "`images` must give dictionaries with 'name', 'image' and 'captions'. Received: "
                f"{sorted(example) if isinstance(example, dict) else type(example).__name__}."
            )
        yield example
