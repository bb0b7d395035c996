"""The limits of a server, per request and in total."""

import contextlib
import io
import math
from dataclasses import dataclass

import PIL.Image

from zoo.server.errors import Refused
from zoo.server.signatures import BINARY

FRAME, EXTENSION = b",!"  # how the parts of a GIF begin


@dataclass(frozen=True)
class Limits:
    """The limits of a server.

    Args:
        head_bytes: Maximum size of the head of a request: its address and headers.
        body_bytes: Maximum size of the body of a request.
        text_bytes: Maximum size of a text, in UTF-8.
        picture_pixels: Maximum rows times columns of an image, of all frames of a GIF; a small file
            may have many.
        waiting: Maximum number of requests in progress; others are told to try again.
        seconds: Maximum time for the head of a request and for its body to arrive, for an answer,
            and for a client to take the next event of a stream; a whole stream may take longer.
        new_tokens: Maximum number of tokens that a completion adds.
        refresh_seconds: Interval at which folders are checked for a new version.
    """

    head_bytes: int = 64 * 2**10
    body_bytes: int = 16 * 2**20
    text_bytes: int = 100_000
    picture_pixels: int = 50_000_000
    waiting: int = 256
    seconds: float = 60.0
    new_tokens: int = 2000
    refresh_seconds: float = 2.0

    def require_tensors(self, tensors):
        """Refuses texts and images that are too large.

        Args:
            tensors: Dictionary of names to NumPy arrays. Strings are texts, unless the name ends in
                `_bytes`.

        Raises:
            Refused: If one is too large.
        """
        for name, array in tensors.items():
            if array.dtype == object:
                require = self.require_picture if name.endswith(BINARY) else self.require_text
                for each in array.flat:
                    require(each)

    def require_text(self, text):
        """Refuses a text, `bytes`, that is too long."""
        if len(text) > self.text_bytes:
            raise Refused(
                400,
                f"A text may have at most {self.text_bytes} bytes. Received: {len(text)}. Send it "
                "in parts.",
            )

    def require_picture(self, encoded):
        """Refuses an image, the `bytes` of a file, of too many pixels. It is not decoded."""
        if _pixels(encoded) > self.picture_pixels:
            raise Refused(
                400, f"An image may have at most {self.picture_pixels} pixels. Make it smaller."
            )


def _pixels(encoded):
    """Returns the number of pixels according to the headers of a file, 0 if it is not an image."""
    if encoded.startswith(b"GIF"):
        return _pixels_of_gif(encoded)
    try:
        with PIL.Image.open(io.BytesIO(encoded)) as image:
            return image.height * image.width
    except PIL.Image.DecompressionBombError:  # Pillow does not say how many
        return math.inf
    except Exception:  # what Pillow cannot read, the model answers as it answers broken files
        return 0


def _pixels_of_gif(encoded):
    """Returns the number of pixels of all frames: TensorFlow decodes all to return the first.

    It makes room for one that is as wide as the widest, and as high as the highest.
    """

    def number(place):
        return int.from_bytes(encoded[place : place + 2], "little")

    def colors(flags):
        return 3 << (flags & 7) + 1 if flags & 128 else 0  # bytes of a table

    pixels = widest = highest = 0
    with contextlib.suppress(IndexError):  # the end of a broken file
        place = 13 + colors(encoded[10])
        while (kind := encoded[place]) in (FRAME, EXTENSION):
            if kind == FRAME:
                width, height = number(place + 5), number(place + 7)
                widest, highest = max(widest, width), max(highest, height)
                pixels += width * height
                place += 11 + colors(encoded[place + 9])
            else:
                place += 2
            while size := encoded[place]:  # of a block of data
                place += 1 + size
            place += 1
    return max(pixels, widest * highest)
