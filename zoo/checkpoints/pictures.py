"""The preprocessing of images that the files of a checkpoint describe."""

import keras

from zoo.checkpoints.preprocessor import preprocessor_of
from zoo.checkpoints.settings import Settings
from zoo.readers.image_reader import INTERPOLATIONS, ImageReader

LARGEST = 2**20  # bytes
_WITHOUT_MEANING = (  # for pictures that are read here
    "data_format",
    "default_to_square",
    "device",
    "disable_grouping",
    "do_convert_rgb",
    "do_pad",  # to the largest of a batch, whose images are squares of one size here
    "feature_extractor_type",
    "image_processor_type",
    "input_data_format",
    "num_channels",
    "processor_class",
    "return_tensors",
    "size_divisor",
)


def reader_of(
    settings,
    folder,
    image_size,
    channels,
    interpolation="bilinear",
    mean=0.5,
    deviation=0.5,
    keeps_shape=False,
):
    """Returns the config of the `ImageReader` of a checkpoint.

    Args:
        settings: `Settings` of the model.
        folder: The folder.
        image_size: Rows and columns that the model has positions for.
        channels: Numbers per pixel.
        interpolation, mean, deviation: Of `ImageReader`, the defaults if the file has none.
        keeps_shape: Whether a size that is a number is that of the shorter side, with a center crop
            afterwards; otherwise images are squeezed into squares.

    Raises:
        ValueError: If the file asks for something that is not implemented; the message names it.
    """
    path, content = preprocessor_of(folder, "image_processor", LARGEST)
    found = Settings(path, content)
    found.require(do_resize=True, do_rescale=True, do_normalize=True, rescale_factor=1 / 255)
    names = {number: name for name, number in INTERPOLATIONS.items()}
    resample = found.take("resample", default=INTERPOLATIONS[interpolation])
    if resample not in names:
        raise ValueError(
            f"{path} says resample={resample}, which is not implemented: it should be one of "
            f"{', '.join(f'{number} ({name})' for number, name in names.items())}."
        )
    asked = found.take("size", default=image_size)
    resized, shortest = _sides(path, "size", asked)
    shortest |= keeps_shape and isinstance(asked, int)
    size = resized
    if found.take("do_center_crop", default=keeps_shape):
        size, _ = _sides(path, "crop_size", found.take("crop_size", default=image_size))
    elif shortest:
        raise ValueError(f"{path} produces images that are not square, which is not implemented.")
    reader = ImageReader(
        size,
        channels,
        mean=found.take("image_mean", default=mean),
        deviation=found.take("image_std", default=deviation),
        resized=None if (resized, shortest) == (size, False) else resized,
        keeps_shape=shortest,
        interpolation=names[resample],
    )
    off = (name for name, value in content.items() if value is False)
    found.ignore("crop_size", *off, *_WITHOUT_MEANING)
    found.require_all_seen()
    return keras.saving.serialize_keras_object(reader)


def side_of(settings, name, usual):
    """Returns the side of a square, of an image or a patch.

    Args:
        settings: `Settings` of the model of images.
        name: Name of the setting.
        usual: The side if the file says none.

    Raises:
        ValueError: If it is not a number.
    """
    side = settings.take(name, default=usual)
    if not isinstance(side, int):
        raise ValueError(
            f"{settings.path} says {name}={side}, which is not implemented: it should be a number, "
            "the side of a square."
        )
    return side


def _sides(path, name, size):
    """Returns the side of a square, and whether it is the size of the shorter side only."""
    if isinstance(size, int):
        return size, False
    if set(size) == {"shortest_edge"}:
        return size["shortest_edge"], True
    if set(size) == {"height", "width"} and size["height"] == size["width"]:
        return size["height"], False
    raise ValueError(f"{path} says {name}={size}, which is not implemented: it should be a square.")
