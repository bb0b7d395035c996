"""The signatures of a served model: named tensors in, named tensors out, in shared batches."""

import contextlib
import functools
import itertools
import os
import threading

import numpy as np
import tensorflow as tf

from zoo.server.errors import Refused
from zoo.serving import buckets

TIMEOUT_MICROSECONDS = 10_000  # for those who got their answers together and ask again
WAITING_BATCHES = 1000  # requests are counted, and refused, before there are that many
BATCHES = "batches"  # whose threads compute those of all signatures
BINARY = "_bytes"  # how the names of strings end that are no texts, sent as base64

_numbers = itertools.count()


class Signature:
    """A function of tensors with the batch first, which answers concurrent calls together.

    A call is computed at once if no other one is running. Calls that arrive meanwhile become the
    next batch, of up to 32 rows. A row does not depend on the others. The function is traced on
    first use.

    Args:
        function: A `tf.function` that takes tensors in the order of `inputs`, by position, and
            returns a dictionary of tensors.
        inputs: List of named `tf.TensorSpec`.
        is_batched: Whether calls share batches; otherwise each is computed separately.

    Attributes:
        largest: Maximum number of rows in a call.
    """

    largest = buckets.ROWS[-1]

    def __init__(self, function, inputs, is_batched=True):
        self.function, self.inputs = function, list(inputs)
        # Rows of different shapes are no batch.
        is_regular = all(spec.shape[1:].is_fully_defined() for spec in self.inputs)
        self.is_batched = is_batched and is_regular
        self._tracing = threading.Lock()
        self._counting, self._running = threading.Lock(), 0

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

    @functools.cached_property
    def _batching(self):
        return _batched(self._traced, self._specs(), self.largest)

    def _batched(self):
        """Returns the function that answers concurrent calls as batches."""
        with self._tracing:
            return self._batching

    def warm_up(self):
        """Answers an empty request in each possible way, since the first time takes seconds.

        It does so if an input has a scalar for each row.
        """
        if any(spec.shape.rank != 1 for spec in self.inputs):
            return
        specs = self._specs()
        empty = [tf.constant([b"" if spec.dtype == tf.string else 0], spec.dtype) for spec in specs]
        self._concrete()(*empty)
        if self.is_batched:
            self._batched()(*empty)

    def __call__(self, tensors):
        """Answers a call.

        Args:
            tensors: Dictionary from the names of the inputs to NumPy arrays of equally many rows.

        Returns:
            Dictionary from the names of the outputs to NumPy arrays.

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
        with self._counted() as is_alone:
            together = self.is_batched and not is_alone
            run = self._batched() if together else self._concrete()
            return {name: np.asarray(x) for name, x in run(*constants).items()}

    @contextlib.contextmanager
    def _counted(self):
        """Yields whether no other call is running."""
        with self._counting:
            self._running += 1
            is_alone = self._running == 1
        try:
            yield is_alone
        finally:
            with self._counting:
                self._running -= 1


def _batched(concrete, specs, largest):
    """Returns a function that gathers concurrent calls of another one into batches."""
    # The operation runs what it is given as it is. A function that it calls is optimized first.
    called = tf.function(lambda *tensors: concrete(*tensors), autograph=False)
    called = called.get_concrete_function(*specs)

    def call(*tensors):
        found = tf.raw_ops.BatchFunction(
            f=called,
            in_tensors=list(tensors),
            captured_tensors=called.captured_inputs,
            Tout=[output.dtype for output in called.outputs],
            shared_name=BATCHES,
            # TensorFlow shares a queue among all of one name in the process, whatever they compute.
            batching_queue=f"queue_{next(_numbers)}",
            num_batch_threads=_batches_at_once(),
            max_batch_size=largest,
            batch_timeout_micros=TIMEOUT_MICROSECONDS,
            max_enqueued_batches=WAITING_BATCHES,
            enable_large_batch_splitting=True,
        )
        return tf.nest.pack_sequence_as(concrete.structured_outputs, found)

    # Called eagerly, it would be traced for each call, and no two calls would share a batch.
    return tf.function(call, autograph=False).get_concrete_function(*specs)


def _batches_at_once():
    """Returns the number of batches to compute concurrently.

    If there are fewer than could run, waiting batches grow in the meantime.
    """
    threads = tf.config.threading.get_intra_op_parallelism_threads()  # 0 if TensorFlow chooses
    return max(1, os.cpu_count() // max(1, threads))


def of_endpoint(endpoint, is_batched=True):
    """Returns the `Signature` of a `zoo.serving.Endpoint`."""
    function = tf.function(endpoint.function, autograph=False)
    return Signature(function, endpoint.inputs, is_batched)


def of_saved_model(function, is_batched=True):
    """Returns the `Signature` of one of the `signatures` of a loaded SavedModel."""
    _, named = function.structured_input_signature
    inputs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in named.items()]
    names = list(named)

    @tf.function(autograph=False)
    def by_position(*tensors):
        return function(**dict(zip(names, tensors, strict=True)))

    return Signature(by_position, inputs, is_batched)
