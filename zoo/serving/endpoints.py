"""What a served model offers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Endpoint(NamedTuple):
    """A signature of a SavedModel.

    Attributes:
        function: Takes tensors and returns a dictionary of tensors, the batch first.
        inputs: List of `tf.TensorSpec`, whose names are those of the inputs.
        examples: Requests that a server should have answered before it is ready, each a list of
            arrays: one for everything that is compiled or allocated on its own.
    """

    function: Callable
    inputs: Sequence
    examples: Sequence = ()
