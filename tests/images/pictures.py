"""A picture in every common format."""

import io

import numpy as np
from PIL import Image

ROWS, COLUMNS = 41, 60


def scene(mode="RGB", rows=ROWS, columns=COLUMNS):
    """Returns a smooth PIL image with a different color in each corner."""
    down, right = np.meshgrid(np.linspace(0, 1, rows), np.linspace(0, 1, columns), indexing="ij")
    waves = 0.5 + 0.5 * np.sin(6 * down * right)
    channels = {
        "L": [right],
        "RGB": [down, right, waves],
        "RGBA": [down, right, waves, 1 - 0.8 * down],
        "LA": [right, 1 - 0.8 * down],
        "CMYK": [down, right, waves, 0.3 * right],
    }[mode]
    pixels = np.rint(255 * np.stack(channels, axis=-1)).astype("uint8")
    return Image.merge(mode, [Image.fromarray(channel) for channel in np.moveaxis(pixels, -1, 0)])


def encoded(image, file_format, **options):
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


def with_orientation(orientation, byte_order="<"):
    exif = Image.Exif()
    exif.endian = byte_order
    exif[0x010F] = "Maker of cameras"
    exif[0x0112] = orientation
    return encoded(scene(), "JPEG", quality=95, exif=exif)


def _sixteen_bits():
    return Image.fromarray(np.asarray(scene("L")).astype("uint16") * 257)


def _palette():
    return scene().quantize(64)


def _palette_with_transparency():
    image = scene().quantize(8)
    image.info["transparency"] = bytes([0, 128, 255, 255, 200, 255, 255, 255])
    return image


def animation(file_format):
    frames = [Image.new("RGB", (COLUMNS, ROWS), color) for color in ("red", "blue")]
    first = scene().quantize(255) if file_format == "GIF" else scene()
    return encoded(first, file_format, save_all=True, append_images=frames)


FILES = {
    "JPEG": encoded(scene(), "JPEG", quality=95),
    "progressive JPEG": encoded(scene(), "JPEG", quality=95, progressive=True),
    "grey JPEG": encoded(scene("L"), "JPEG", quality=95),
    "CMYK JPEG": encoded(scene("CMYK"), "JPEG", quality=95),
    "PNG": encoded(scene(), "PNG"),
    "grey PNG": encoded(scene("L"), "PNG"),
    "grey PNG with alpha": encoded(scene("LA"), "PNG"),
    "PNG with alpha": encoded(scene("RGBA"), "PNG"),
    "PNG of 16 bits": encoded(_sixteen_bits(), "PNG"),
    "PNG of 1 bit": encoded(scene("L").convert("1"), "PNG"),
    "PNG with palette": encoded(_palette(), "PNG"),
    "PNG with palette of 4 bits": encoded(scene().quantize(12), "PNG", bits=4),
    "PNG with palette and transparency": encoded(_palette_with_transparency(), "PNG"),
    "animated PNG": animation("PNG"),
    "GIF": encoded(_palette(), "GIF"),
    "grey GIF": encoded(scene("L"), "GIF"),
    "animated GIF": animation("GIF"),
    "BMP": encoded(scene(), "BMP"),
    "grey BMP": encoded(scene("L"), "BMP"),
    "BMP with palette": encoded(_palette(), "BMP"),
    "BMP of 32 bits": encoded(scene("RGBA"), "BMP"),
    "WebP": encoded(scene(), "WEBP", lossless=True),
    "WebP with alpha": encoded(scene("RGBA"), "WEBP", lossless=True, exact=True),
    "one pixel": encoded(scene(rows=1, columns=1), "PNG"),
    "one row": encoded(scene(rows=1), "PNG"),
    "large": encoded(scene(rows=700, columns=300), "PNG"),
}
