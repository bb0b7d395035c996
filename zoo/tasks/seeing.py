"""The image side of a `Matcher` or a `Captioner`: a backbone or a reader; images in a folder."""

import math
import pathlib
import reprlib
import warnings

import numpy as np
import tensorflow as tf

from zoo.readers import pictures_of
from zoo.readers.image_reader import ImageReader
from zoo.readers.images import image_bytes
from zoo.tasks.reading import require_reader_that_fits

PIXELS = "images"  # the source of a core that takes pixels


def require_eyes_that_fit(config, backbone, reader):
    """Raises a `ValueError` unless the backbone or the reader matches the inputs of the model.

    Args:
        config: A `ClipConfig` or a `SiglipConfig`.
        backbone: A `Backbone`, or `None`.
        reader: An `ImageReader` in its place, or `None`.
    """
    patch_size = config.patch_size
    if (patch_size is None) != (reader is None) or (reader is None) == (backbone is None):
        raise ValueError(
            "A Matcher needs reader=zoo.ImageReader(...) for a model with patch_size, and a "
            f"backbone for another. Received: patch_size={patch_size}, reader={reader!r}, "
            f"backbone={backbone!r}."
        )
    if reader is None:
        _require_backbone(backbone)
        made = math.prod(backbone.grid), backbone.channels
        what, way_out = "backbone", "choose other layers of the backbone"
    else:
        if not isinstance(reader, ImageReader):
            raise ValueError(f"`reader` must be a zoo.ImageReader. Received: reader={reader!r}.")
        made = (reader.size // patch_size) ** 2, reader.channels
        what, way_out = "reader", "choose another size of the reader"
    taken = config.positions, config.channels
    if made != taken:
        raise ValueError(
            f"The model takes {taken[0]} vectors of size {taken[1]} per image, and the {what} "
            f"returns {made[0]} of size {made[1]}. Create the model with positions={made[0]}, "
            f"channels={made[1]}, or {way_out}."
        )


def require_captioner_that_sees(core, backbone, reader):
    """Raises a `ValueError` unless the backbone or the reader matches the inputs of a captioner.

    Args:
        core: The model of a `Captioner`.
        backbone: A `Backbone`, or `None`.
        reader: An `ImageReader` in its place, or `None`.
    """
    needs_reader = core.source == PIXELS
    if needs_reader != (reader is not None) or needs_reader != (backbone is None):
        raise ValueError(
            "A Captioner needs reader=zoo.ImageReader(...) for a model of images, and a backbone "
            f"for a model of annotations. Received: a model of {core.source}, reader={reader!r}, "
            f"backbone={backbone!r}."
        )
    if needs_reader:
        require_reader_that_fits(core, reader)
        for name, made in reader.decides.items():
            taken = getattr(core.config, name)
            if made != taken:
                raise ValueError(
                    f"The model takes {name}={taken}, and the reader {made}. Create both with the "
                    "same number."
                )
        return
    _require_backbone(backbone)
    if core.tail is not None:
        core.tail.require_taken(math.prod(backbone.grid), backbone.channels)
    if backbone.channels != core.config.channels:
        raise ValueError(
            f"The model takes vectors of {core.config.channels} channels, and the backbone "
            f"returns {backbone.channels}. Create the model with channels={backbone.channels}, or "
            "choose other layers of the backbone."
        )


def _require_backbone(backbone):
    if not all(hasattr(backbone, name) for name in ("image_size", "grid", "channels")):
        raise ValueError(
            "`backbone` must be a zoo.Backbone, or a layer that has image_size, grid and channels. "
            f"Received: backbone={backbone!r}."
        )


def as_annotations(annotations, shape):
    """Returns what a model computes of images beforehand, float32 `(images, *shape)`.

    Args:
        annotations: Array, or nested lists.
        shape: Shape for one image; `None` in it stands for any number of positions.

    Raises:
        ValueError: If `annotations` has another shape.
    """
    try:
        array = np.asarray(annotations, "float32")
        received = f"an array of shape {array.shape}"
        is_right = tf.TensorShape([None, *shape]).is_compatible_with(array.shape)
        is_right = is_right and 0 not in array.shape[1:]
    except (TypeError, ValueError):
        received, is_right = reprlib.repr(annotations), False
    if not is_right:
        told = ", ".join(str(size or "positions") for size in shape)
        raise ValueError(f"`annotations` must be an array (images, {told}). Received: {received}.")
    return array


def pictures_in(folder, name):
    """Yields the path and the content of each image in a folder; warns of unreadable ones.

    Args:
        folder: Its path.
        name: Name of the argument of `search` that it is.

    Raises:
        ValueError: If it is not a folder, or none of its images can be read.
    """
    folder, is_empty = pathlib.Path(folder).expanduser(), True
    if not folder.is_dir():
        what = "a file. Put it into a list" if folder.exists() else "which does not exist"
        raise ValueError(
            f"`{name}` of search must be a folder or a list. Received: {folder}, {what}."
        )
    for path in pictures_of(folder):
        try:
            content = image_bytes(path)
        except (ValueError, OSError) as error:
            warnings.warn(f"{error} It is left out.", stacklevel=5)  # the caller of search
            continue
        is_empty = False
        yield path, content
    if is_empty:
        raise ValueError(f"None of the images in {folder} can be read.")
