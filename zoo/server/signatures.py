"""The signatures of a served model: named tensors in, named tensors out, in shared batches."""

import functools
import threading

import tensorflow as tf

from zoo.server import batches
from zoo.server.errors import Refused

BINARY = "_bytes"  # how the names of strings end that are no texts, sent as base64


class Signature:
    """A function of tensors with the batch first, which answers concurrent calls in `Batches`.

    The function is traced on first use. A row must not depend on the others.

    Args:
        function: A `tf.function` that takes tensors in the order of `inputs`, by position, and
            returns a dictionary of tensors.
        inputs: List of named `tf.TensorSpec`.
        is_batched: Whether calls share batches; otherwise each is computed separately.

    Attributes:
        largest: Maximum number of rows in a call.
    """

    largest = batches.LARGEST

    def __init__(self, function, inputs, is_batched=True):
        self.function, self.inputs = function, list(inputs)
        # Rows of different shapes are no batch.
        is_regular = all(spec.shape[1:].is_fully_defined() for spec in self.inputs)
        self._answer = batches.shared() if is_batched and is_regular else batches.alone
        self._tracing = threading.Lock()

    @property
    def outputs(self):
        """Dictionary of the names of the outputs to their `tf.TensorSpec`."""
        return self._concrete().structured_outputs

    def _concrete(self):
        """Returns the traced function."""
        with self._tracing:
            return self._traced

    @functools.cached_property
    def _traced(self):
        return self.function.get_concrete_function(*self._specs())

    def _specs(self):
        return [tf.TensorSpec(spec.shape, spec.dtype) for spec in self.inputs]

    def warm_up(self):
        """Answers an empty request, since the first time takes seconds.

        It does so if each input has a scalar for each row.
        """
        if any(spec.shape.rank != 1 for spec in self.inputs):
            return
        specs = self._specs()
        empty = [tf.constant([b"" if spec.dtype == tf.string else 0], spec.dtype) for spec in specs]
        self._concrete()(*empty)

    def __call__(self, tensors, observe=lambda rows: None):
        """Answers a call.

        Args:
            tensors: Dictionary from the names of the inputs to NumPy arrays of equally many rows.
            observe: Function that is called with the number of rows of each batch.

        Returns:
            Dictionary from the names of the outputs to NumPy arrays.

        Raises:
            Refused: If the arrays have no rows, different numbers of them, or too many.
        """
        rows = {len(tensor) for tensor in tensors.values()}
        if len(rows) != 1:
            raise Refused(400, f"All inputs must have the same number of rows, not {sorted(rows)}.")
        (number,) = rows
        if not 1 <= number <= self.largest:
            raise Refused(
                400, f"A request must have 1 to {self.largest} rows, not {number}. Send several."
            )
        constants = [tf.constant(tensors[spec.name], spec.dtype) for spec in self.inputs]
        return self._answer(self._concrete(), constants, observe)


def of_endpoint(endpoint, is_batched=True):
    """Returns the `Signature` of a `zoo.serving.Endpoint`."""
    function = tf.function(endpoint.function, autograph=False)
    return Signature(function, endpoint.inputs, is_batched)


def of_saved_model(function, is_batched=True):
    """Returns the `Signature` of one of the `signatures` of a loaded SavedModel.

    Calls share no batches if an output does not have the batch first.
    """
    _, named = function.structured_input_signature
    inputs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in named.items()]
    names = list(named)
    outputs = function.structured_outputs.values()
    is_batched = is_batched and not any(spec.shape[:1].is_fully_defined() for spec in outputs)

    @tf.function(autograph=False)
    def by_position(*tensors):
        return function(**dict(zip(names, tensors, strict=True)))

    return Signature(by_position, inputs, is_batched)
