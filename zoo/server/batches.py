"""Batches of concurrent calls, computed by a few threads that all models share."""

import functools
import os
import threading
import time
from concurrent.futures import Future
from typing import NamedTuple

import tensorflow as tf

from zoo.serving import buckets

LARGEST = buckets.ROWS[-1]
QUIET = 0.005  # seconds without a new call after which a batch begins
PATIENCE = 0.05  # seconds after which it begins anyway


class Call(NamedTuple):
    """A call that waits for its batch."""

    function: object
    tensors: list
    rows: int
    observe: object
    answer: Future


class Batches:
    """Answers concurrent calls of functions in batches.

    A call that finds no other one is computed at once. Otherwise it waits for one of a few threads.
    A free thread takes the calls of the function that has waited the longest, but no more than its
    share of all rows, so that the threads compute batches of similar size. Before that, it waits
    until no more calls come in, since clients that were answered together ask again together.

    TensorFlow's own batching, `tf.nondifferentiable_batch_function`, takes whatever is there when a
    thread gets free. If clients wait for answers, many of these batches are small.

    Args:
        threads: Number of batches to compute concurrently.
        largest: Maximum number of rows of a batch.
    """

    def __init__(self, threads, largest=LARGEST):
        self._threads, self._largest = threads, largest
        self._waiting, self._rows = [], 0  # rows of all calls that are not answered
        self._changed = threading.Condition()
        self._taking = threading.Lock()  # one thread at a time gathers calls
        for _ in range(threads):
            threading.Thread(target=self._work, daemon=True).start()

    def __call__(self, function, tensors, observe):
        """Returns the result of a function, as NumPy arrays.

        Args:
            function: Takes tensors by position and returns a dictionary of tensors, all with the
                batch first. A row must not depend on the others.
            tensors: List of tensors with equally many rows, at most `largest`.
            observe: Function that is called with the number of rows of a batch, once per batch.
        """
        rows = int(tensors[0].shape[0])
        call = Call(function, tensors, rows, observe, Future())
        with self._changed:
            is_alone = self._rows == 0
            self._rows += rows
            if not is_alone:
                self._waiting.append(call)
                self._changed.notify()
        try:
            return alone(function, tensors, observe) if is_alone else call.answer.result()
        finally:
            with self._changed:
                self._rows -= rows

    def _work(self):
        while True:
            calls = self._next()
            try:
                answers = _answers(calls)
            except BaseException as error:
                for call in calls:
                    call.answer.set_exception(error)
            else:
                for call, answer in zip(calls, answers, strict=True):
                    call.answer.set_result(answer)

    def _next(self):
        """Waits for the calls of the next batch, and returns them."""
        with self._taking, self._changed:
            self._changed.wait_for(lambda: self._waiting)
            latest = time.monotonic() + PATIENCE
            while sum(call.rows for call in self._waiting) < self._largest:
                if time.monotonic() > latest or not self._changed.wait(QUIET):
                    break
            share = min(self._largest, -(-self._rows // self._threads))
            first, *others = self._waiting
            taken, left, rows = [first], [], first.rows
            for call in others:
                if call.function == first.function and rows + call.rows <= share:
                    taken.append(call)
                    rows += call.rows
                else:
                    left.append(call)
            self._waiting = left
            return taken


@functools.cache
def shared():
    """Returns the `Batches` of this process."""
    # If fewer are computed at once than could be, waiting batches grow in the meantime.
    threads = tf.config.threading.get_intra_op_parallelism_threads()  # 0 if TensorFlow chooses
    return Batches(max(1, os.cpu_count() // max(1, threads)))


def alone(function, tensors, observe):
    """Computes a call by itself; as `Batches.__call__`."""
    observe(int(tensors[0].shape[0]))
    return {name: output.numpy() for name, output in function(*tensors).items()}


def _answers(calls):
    """Computes a batch, and returns the answer to each call."""
    inputs = zip(*(call.tensors for call in calls), strict=True)
    tensors = [tf.concat(each, axis=0) for each in inputs]
    arrays = alone(calls[0].function, tensors, calls[0].observe)
    answers, start = [], 0
    for call in calls:
        end = start + call.rows
        answers.append({name: array[start:end] for name, array in arrays.items()})
        start = end
    return answers
