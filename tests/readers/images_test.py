"""Pictures of all formats against PIL, broken ones, orientation, SavedModels, `image_bytes`."""

import io
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from tests.images import pictures
from zoo.readers.images import fitted, image_bytes, read_image, read_images

SIZE = 24


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def read(encoded):
    images, is_image = read_images(encoded, SIZE)
    assert images.shape.as_list() == [None, SIZE, SIZE, 3]
    return images, is_image


BROKEN = {
    "empty": b"",
    "no picture": b"There is no picture in here.",
    "truncated JPEG": pictures.FILES["JPEG"][:-200],
    "truncated PNG": pictures.FILES["PNG"][:-200],
    "truncated BMP": pictures.FILES["BMP with palette"][:500],
    "head of a JPEG": b"\xff\xd8\xff\xe1",
    "head of a PNG": b"\x89PNG",
    "head of a BMP": b"BM",
    "head of a GIF": b"GIF89a",
    "head of a WebP": b"RIFF",
    "truncated WebP": pictures.FILES["WebP with alpha"][:-200],
    "animated WebP": pictures.animation("WEBP"),
    "BMP of 1 bit": pictures.encoded(pictures.scene("L").convert("1"), "BMP"),
}


def whole_by_pil(encoded):
    """Returns a picture read by PIL: upright, over white, 8 bits per channel."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded)))
    if image.mode == "I;16":
        image = Image.fromarray((np.asarray(image) >> 8).astype("uint8"))
    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def by_pil(encoded):
    """Returns the same picture, resized."""
    resized = whole_by_pil(encoded).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    return np.asarray(resized, "float32")


@pytest.mark.parametrize("name", pictures.FILES)
def test_every_format_reads_as_by_pil(name):
    encoded = pictures.FILES[name]
    images, is_image = read([encoded])
    assert is_image.numpy().all()
    assert images.dtype == tf.float32
    # PIL rounds after it puts a picture over white, and after resizing in each direction.
    tolerance = 4.0 if name == "CMYK JPEG" else 1.01
    np.testing.assert_allclose(images[0], by_pil(encoded), atol=tolerance)


@pytest.mark.parametrize("name", pictures.FILES)
def test_one_picture_keeps_its_size(name):
    found = read_image(pictures.FILES[name])
    assert found.dtype == np.uint8
    tolerance = 6 if name == "CMYK JPEG" else 1
    expected = np.asarray(whole_by_pil(pictures.FILES[name]), "float32")
    np.testing.assert_allclose(found, expected, atol=tolerance)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_one_photograph_stands_upright(orientation):
    encoded = pictures.with_orientation(orientation)
    expected = np.asarray(whole_by_pil(encoded), "float32")
    np.testing.assert_allclose(read_image(encoded), expected, atol=1)


@pytest.mark.parametrize("byte_order", ["<", ">"])
@pytest.mark.parametrize("has_jfif", [True, False])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_stand_upright(orientation, has_jfif, byte_order):
    encoded = pictures.with_orientation(orientation, byte_order)
    if not has_jfif:  # cameras leave it out
        encoded = encoded[:2] + encoded[20:]
    assert (encoded[3] == 0xE0) == has_jfif
    images, _ = read([encoded])
    np.testing.assert_allclose(images[0], by_pil(encoded), atol=1.01)


def test_damaged_orientation_counts_as_none():
    encoded = pictures.with_orientation(6)
    place = encoded.index(b"Exif\0\0") + 6
    upright = read([pictures.with_orientation(1)])[0]
    for offset, damage in [(4, b"\xff\xff\xff\xff"), (4, b"\xff\xff\xff\x7f"), (8, b"\xff\xff")]:
        damaged = encoded[: place + offset] + damage + encoded[place + offset + len(damage) :]
        images, is_image = read([damaged])
        assert is_image.numpy().all()
        assert images.shape == upright.shape
    unknown = pictures.with_orientation(9)
    np.testing.assert_array_equal(read([unknown])[0], upright)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_picture_is_zeros_and_leaves_the_others_alone(name):
    good = pictures.FILES["JPEG"]
    images, is_image = read([BROKEN[name], good, BROKEN[name]])
    assert is_image.numpy().tolist() == [False, True, False]
    assert not images.numpy()[[0, 2]].any()
    np.testing.assert_array_equal(images[1], read([good])[0][0])


@pytest.mark.parametrize("batch", [[], [b"broken"], list(pictures.FILES.values())])
def test_batches_of_any_size(batch):
    images, is_image = read(tf.constant(batch, tf.string))
    assert images.shape == (len(batch), SIZE, SIZE, 3)
    assert is_image.numpy().tolist() == [b != b"broken" for b in batch]


def test_outside_of_functions():
    images, is_image = read_images([pictures.FILES["PNG"], b"broken"], SIZE)
    np.testing.assert_array_equal(images[0], read([pictures.FILES["PNG"]])[0][0])
    assert is_image.numpy().tolist() == [True, False]


def test_inside_a_data_set():
    data = tf.data.Dataset.from_tensor_slices([pictures.FILES["PNG"], b"broken"]).batch(2)
    images, is_image = next(iter(data.map(lambda batch: read_images(batch, SIZE))))
    np.testing.assert_array_equal(images[0], read([pictures.FILES["PNG"]])[0][0])
    assert is_image.numpy().tolist() == [True, False]


def test_one_pixel_fills_the_picture():
    pixel = Image.new("RGB", (1, 1), (10, 20, 30))
    images, _ = read([pictures.encoded(pixel, "PNG")])
    colors = np.broadcast_to([10.0, 20.0, 30.0], (SIZE, SIZE, 3))
    np.testing.assert_allclose(images[0], colors, rtol=1e-6)


@pytest.mark.parametrize(("size", "resized"), [(8, 8), (7, 10)])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_the_center_is_that_of_the_whole_picture(size, resized, interpolation):
    pixels = np.asarray(pictures.scene())
    shape = [resized * side // min(pixels.shape[:2]) for side in pixels.shape[:2]]
    whole = tf.image.resize(pixels, shape, interpolation, antialias=True)
    expected = np.clip(tf.image.resize_with_crop_or_pad(whole, size, size), 0.0, 255.0)
    found = fitted(pixels, size, resized, True, interpolation)
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_the_center_of_a_line_takes_no_more_memory_than_it_has_pixels():
    found = fitted(np.full((100_000, 1, 3), 7, "uint8"), size=1024, keeps_shape=True)
    np.testing.assert_allclose(found[::512], 7.0, rtol=1e-5)  # the whole had a terabyte


@pytest.mark.parametrize("wrap", [str, pathlib.Path])
def test_bytes_of_a_file(tmp_path, wrap):
    path = tmp_path / "picture.jpg"
    path.write_bytes(pictures.FILES["JPEG"])
    assert image_bytes(wrap(path)) == pictures.FILES["JPEG"]


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_bytes_stay_as_they_are(wrap):
    encoded = image_bytes(wrap(pictures.FILES["GIF"]))
    assert type(encoded) is bytes
    assert encoded == pictures.FILES["GIF"]


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "YCbCr", "HSV", "F"])
def test_pil_images_keep_their_colors(mode):
    image = pictures.scene().convert(mode)
    images, _ = read([image_bytes(image)])
    expected = by_pil(pictures.encoded(image.convert("RGB"), "PNG"))
    np.testing.assert_allclose(images[0], expected, atol=1.01)


def test_pil_images_without_pixels():
    with pytest.raises(ValueError, match=r"must have pixels. Received: one of size \(0, 5\)"):
        image_bytes(Image.new("RGB", (0, 5)))


def test_pil_images_of_32_bits_are_of_16():
    pixels = np.arange(0, 2**16, 2**8).reshape(16, 16)
    whole, deep = (Image.fromarray(pixels.astype(dtype)) for dtype in ("int32", "uint16"))
    assert (whole.mode, deep.mode) == ("I", "I;16")
    np.testing.assert_array_equal(read_image(image_bytes(whole)), read_image(image_bytes(deep)))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "RGBa"])
def test_transparent_pil_images_show_white(mode):
    image = pictures.scene("RGBA" if mode == "RGBa" else mode)
    images, _ = read([image_bytes(image.convert(mode))])
    np.testing.assert_allclose(images[0], by_pil(pictures.encoded(image, "PNG")), atol=2.01)


def test_pil_photographs_stand_upright():
    encoded = pictures.with_orientation(6)
    images, _ = read([image_bytes(Image.open(io.BytesIO(encoded)))])
    np.testing.assert_allclose(images[0], by_pil(encoded), atol=1.01)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_arrays(mode, dtype):
    pixels = np.asarray(pictures.scene(mode))
    array = pixels if dtype == "uint8" else (pixels / 255).astype(dtype)
    for form in (array, tf.constant(array)):
        decoded = Image.open(io.BytesIO(image_bytes(form)))
        np.testing.assert_array_equal(np.asarray(decoded), pixels)
    if mode == "L":
        assert image_bytes(array[..., None]) == image_bytes(array)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no image '.*gone\.jpg'. A str is the path"):
        image_bytes(str(tmp_path / "gone.jpg"))
    with pytest.raises(FileNotFoundError, match="it is a folder"):
        image_bytes(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_pictures_are_named(tmp_path, name):
    path = tmp_path / "broken.jpg"
    path.write_bytes(BROKEN[name])
    with pytest.raises(ValueError, match=r"The file '.*broken\.jpg' (cannot be read|is empty)"):
        image_bytes(path)
    owner = f"An image of {len(BROKEN[name])} bytes"
    with pytest.raises(ValueError, match=f"{owner} (cannot be read|is empty)"):
        image_bytes(BROKEN[name])


def test_an_error_tells_why_a_picture_is_refused_and_the_way_out(tmp_path):
    with pytest.raises(ValueError, match="an animation, which is supported in GIF and PNG files"):
        image_bytes(BROKEN["animated WebP"])
    path = tmp_path / "picture.tiff"
    pictures.scene().save(path)
    with pytest.raises(ValueError, match=r"or in Python pass PIL\.Image\.open\(path\)"):
        image_bytes(path)
    with pytest.raises(TypeError) as raised:
        image_bytes((tf.range(5000), 1))
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((4,), "uint8"), r"Received: shape \(4,\)"),
        (np.zeros((4, 4, 2), "uint8"), r"Received: shape \(4, 4, 2\)"),
        (np.zeros((1, 4, 4, 3), "uint8"), r"Received: shape \(1, 4, 4, 3\)"),
        (np.zeros((0, 4, 3), "uint8"), r"Received: shape \(0, 4, 3\)"),
        (np.zeros((9, 5, 5), "uint8"), r"\(9, 5, 5\). If these are several images, pass list"),
        (np.full((4, 4, 3), 255.0), "from 255 to 255. Divide by 255"),
        (np.full((4, 4, 3), np.float32(1 + 2e-7)), "to 1.00000024. Clip them: np.clip"),
        (np.full((4, 4, 3), np.nan), "from nan to nan. Some of them are not finite"),
        (np.full((4, 4, 3), -1.5), "from -1.5 to -1.5. Do not normalize images"),
        (np.zeros((4, 4, 3), "int64"), "Received: dtype int64"),
    ],
)
def test_arrays_that_are_no_pictures(array, message):
    with pytest.raises(ValueError, match=message):
        image_bytes(array)


@pytest.mark.parametrize("image", [None, 3, ["a.jpg"]])
def test_other_things_are_no_pictures(image):
    with pytest.raises(TypeError, match=f"of type {type(image).__name__}"):
        image_bytes(image)
