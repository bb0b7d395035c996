"""What a served model can be asked: named tensors in, named tensors out, in shared batches."""

import functools
import os
import threading

import numpy as np
import tensorflow as tf

from zoo.server.errors import Refused
from zoo.serving import buckets

TIMEOUT_MICROSECONDS = 2000
WAITING_BATCHES = 1000  # requests are counted, and refused, before there are that many


class Signature:
    """A function of tensors with the batch first, which answers concurrent calls together.

    Calls that come within two milliseconds become one batch, filled up to 1, 8 or 32 rows. A row
    does not depend on the others. The function is traced when it is asked for first.

    Args:
        function: A `tf.function` that takes tensors in the order of `inputs`, by position, and
            returns a dictionary of tensors.
        inputs: List of named `tf.TensorSpec`.

    Attributes:
        largest: Rows of a call at most.
    """

    largest = buckets.ROWS[-1]

    def __init__(self, function, inputs):
        self.function, self.inputs = function, list(inputs)
        self._tracing = threading.Lock()

    @property
    def outputs(self):
        """Dictionary of the names of the outputs to their `tf.TensorSpec`."""
        return self._trace()[0]

    def _trace(self):
        with self._tracing:
            return self._traced

    @functools.cached_property
    def _traced(self):
        """Returns the outputs, and the function that answers concurrent calls as a batch."""
        specs = [tf.TensorSpec(spec.shape, spec.dtype) for spec in self.inputs]
        concrete = self.function.get_concrete_function(*specs)
        names = sorted(concrete.structured_outputs)

        @tf.nondifferentiable_batch_function(
            num_batch_threads=os.cpu_count(),
            max_batch_size=self.largest,
            batch_timeout_micros=TIMEOUT_MICROSECONDS,
            allowed_batch_sizes=list(buckets.ROWS),
            max_enqueued_batches=WAITING_BATCHES,
            autograph=False,
        )
        def batched(*tensors):
            found = concrete(*tensors)
            return [found[name] for name in names]

        # Called eagerly, it would be traced for each call, and no two calls would share a batch.
        graph = tf.function(batched, autograph=False).get_concrete_function(*specs)
        return {name: concrete.structured_outputs[name] for name in names}, graph

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
        outputs, batched = self._trace()
        found = batched(*constants)
        return {name: np.asarray(x) for name, x in zip(outputs, found, strict=True)}


def of_endpoint(endpoint):
    """Returns the `Signature` of a `zoo.serving.Endpoint`."""
    return Signature(tf.function(endpoint.function, autograph=False), endpoint.inputs)


def of_saved_model(function):
    """Returns the `Signature` of one of the `signatures` of a loaded SavedModel."""
    _, named = function.structured_input_signature
    inputs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in named.items()]
    names = list(named)

    @tf.function(autograph=False)
    def by_position(*tensors):
        return function(**dict(zip(names, tensors, strict=True)))

    return Signature(by_position, inputs)
