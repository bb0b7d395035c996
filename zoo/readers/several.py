"""Inputs of a call: one, or several."""

import os
import pathlib
from collections.abc import Iterable, Mapping

import tensorflow as tf


def as_requests(inputs, request_of, what, picture_rank):
    """Returns a request for each input of a call, and whether the call was for one input.

    Args:
        inputs: An input, or several in a list or in an array with one more axis.
        request_of: Function of an input that returns its request, a string.
        what: Name of the inputs in error messages.
        picture_rank: Number of axes of an array that is one input.
    """
    is_one = not are_several(inputs, picture_rank)
    inputs = [inputs] if is_one else list(inputs)
    return list(each_request(inputs, request_of, f"{len(inputs)} {what}")), is_one


def each_request(inputs, request_of, what):
    """Yields the request for each of several inputs, one at a time.

    Args:
        inputs: Something iterable.
        request_of: Function of an input that returns its request, a string.
        what: The inputs in error messages, such as `"the images"`.
    """
    for position, each in enumerate(inputs):
        try:
            request = request_of(each)
        except (ValueError, TypeError, OSError) as error:
            error.add_note(f"This is number {position} of {what}, from 0.")
            raise
        yield request


def are_several(inputs, rank):
    """Returns whether they are several inputs: something iterable, or an array with one more axis.

    Args:
        inputs: Inputs of a call.
        rank: Number of axes of an array that is one input.
    """
    if hasattr(inputs, "shape") and hasattr(inputs, "dtype"):
        return len(inputs.shape) in (1, rank + 1)  # paths, or images
    is_one = isinstance(inputs, str | bytes | bytearray | memoryview | Mapping)
    return isinstance(inputs, Iterable) and not is_one


def content_of(path, what):
    """Returns the bytes of a file.

    Args:
        path: The file.
        what: Its name in error messages.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    file = os.path.expanduser(path)  # "" stays, which a `pathlib.Path` takes for the folder "."
    if not os.path.isfile(file):
        is_folder = os.path.isdir(file)
        raise FileNotFoundError(
            f"There is no {what} '{file}'"
            f"{': it is a folder.' if is_folder else '. A str is the path of a file.'}"
        )
    return pathlib.Path(file).read_bytes()


def assert_decoded(is_decoded, what, or_else=""):
    """Returns an operation that fails unless each input of a batch of a data set was decoded.

    Args:
        is_decoded: Boolean tensor (batch,).
        what: Name of the inputs in the error message.
        or_else: What else may be wrong with them.
    """
    broken = tf.reduce_sum(tf.cast(~is_decoded, tf.int32))
    told = (
        f"{what} cannot be decoded{or_else}: leave them out. The first one is at position",
        tf.argmax(~is_decoded),
        "of a batch, from 0. A data set holds the bytes of files, not their paths: read them with "
        "tf.io.read_file(path).",
    )
    return tf.debugging.Assert(broken == 0, [broken, "of", tf.size(is_decoded), *told])
