"""The endpoints of a served model."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf


class Endpoint(NamedTuple):
    """A signature of a SavedModel.

    Attributes:
        function: Takes tensors and returns a dictionary of tensors, the batch first.
        inputs: List of `tf.TensorSpec`, whose names are those of the inputs.
        examples: Warm-up requests for a server, each a list of arrays: one for everything that is
            compiled or allocated separately.
    """

    function: Callable
    inputs: Sequence
    examples: Sequence = ()


def answering_no_rows(function):
    """Returns the function of an endpoint that also answers a batch of no rows, with none.

    TensorFlow's convolutions return another shape for no rows, so the function gets one of zeros,
    or of empty strings, and its answer is left out.
    """

    def answer(*inputs):
        rows = tf.shape(inputs[0])[0]
        missing = tf.cast(rows == 0, tf.int32)
        outputs = function(*(_with_rows(each, missing) for each in inputs))
        return {name: each[:rows] for name, each in outputs.items()}

    return answer


def _with_rows(x, number):
    """Returns a batch with a number of rows of zeros behind it."""
    return tf.concat([x, tf.zeros([number, *tf.unstack(tf.shape(x))[1:]], x.dtype)], axis=0)
