"""What a served model can be asked: named tensors in, named tensors out, in shared batches."""

import os

import numpy as np
import tensorflow as tf

from zoo.server.errors import Refused
from zoo.serving import buckets

TIMEOUT_MICROSECONDS = 2000
WAITING_BATCHES = 1000  # requests are counted, and refused, before there are that many


class Signature:
    """A function of tensors with the batch first, which answers concurrent calls together.

    Calls that come within two milliseconds become one batch, filled up to 1, 8 or 32 rows. A row
    does not depend on the others.

    Args:
        function: Takes tensors in the order of `inputs`, returns a dictionary of tensors.
        inputs: List of named `tf.TensorSpec`.
        outputs: Dictionary of names to `tf.TensorSpec`.

    Attributes:
        largest: Rows of a call at most.
    """

    def __init__(self, function, inputs, outputs):
        self.inputs, self.outputs = list(inputs), dict(sorted(outputs.items()))
        self.largest = buckets.ROWS[-1]
        names = list(self.outputs)

        @tf.nondifferentiable_batch_function(
            num_batch_threads=os.cpu_count(),
            max_batch_size=self.largest,
            batch_timeout_micros=TIMEOUT_MICROSECONDS,
            allowed_batch_sizes=list(buckets.ROWS),
            max_enqueued_batches=WAITING_BATCHES,
            autograph=False,
        )
        def batched(*tensors):
            found = function(*tensors)
            return [found[name] for name in names]

        self._batched = batched

    def __call__(self, tensors):
        """Answers a call.

        Args:
            tensors: Dictionary of the names of the inputs to NumPy arrays of as many rows.

        Returns:
            Dictionary of the names of the outputs to NumPy arrays.

        Raises:
            Refused: If the arrays have no rows, different numbers of them, or too many.
        """
        rows = {len(tensor) for tensor in tensors.values()}
        if len(rows) != 1:
            raise Refused(400, f"Inputs must have as many rows as each other, not {sorted(rows)}.")
        (number,) = rows
        if not 1 <= number <= self.largest:
            raise Refused(
                400, f"A request has 1 to {self.largest} rows, this one {number}. Send several."
            )
        constants = [tf.constant(tensors[spec.name], spec.dtype) for spec in self.inputs]
        found = self._batched(*constants)
        return {name: np.asarray(x) for name, x in zip(self.outputs, found, strict=True)}


def of_endpoint(endpoint):
    """Returns the `Signature` of a `zoo.serving.Endpoint`."""
    graph = tf.function(endpoint.function, endpoint.inputs, autograph=False)
    return Signature(graph, endpoint.inputs, graph.get_concrete_function().structured_outputs)


def of_saved_model(function):
    """Returns the `Signature` of one of the `signatures` of a loaded SavedModel."""
    _, named = function.structured_input_signature
    inputs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in named.items()]
    names = [spec.name for spec in inputs]

    def call(*tensors):
        return function(**dict(zip(names, tensors, strict=True)))

    return Signature(call, inputs, function.structured_outputs)
