"""The endpoints of a served model."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


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
