"""Inputs of a call: one, or several."""

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
    inputs, is_one = _as_list(inputs, picture_rank)
    requests = []
    for position, each in enumerate(inputs):
        try:
            requests.append(request_of(each))
        except (ValueError, TypeError, OSError) as error:
            error.add_note(f"This is number {position} of {len(inputs)} {what}, from 0.")
            raise
    return requests, is_one


def content_of(path, what):
    """Returns the bytes of a file.

    Args:
        path: The file.
        what: Its name in error messages.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    path = pathlib.Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {what} '{path}'"
            f"{': it is a folder.' if path.is_dir() else '. A str is the path of a file.'}"
        )
    return path.read_bytes()


def assert_decoded(is_decoded, what):
    """Returns an operation that fails unless each input of a batch of a data set was decoded.

    Args:
        is_decoded: Boolean tensor (batch,).
        what: Name of the inputs in the error message.
    """
    broken = tf.reduce_sum(tf.cast(~is_decoded, tf.int32))
    told = (
        f"{what} cannot be decoded: leave them out. A data set holds the bytes of files, not their "
        "paths: read them with tf.io.read_file(path)."
    )
    return tf.debugging.Assert(broken == 0, [broken, "of", tf.size(is_decoded), told])


def _as_list(inputs, rank):
    if hasattr(inputs, "shape") and hasattr(inputs, "dtype"):
        is_list = len(inputs.shape) in (1, rank + 1)  # paths, or images
    else:
        is_one = isinstance(inputs, str | bytes | bytearray | memoryview | Mapping)
        is_list = isinstance(inputs, Iterable) and not is_one
    return (list(inputs), False) if is_list else ([inputs], True)
