"""Concurrent calls of a signature become batches, and nobody gets another's answer."""

import concurrent.futures
import threading

import numpy as np
import pytest
import tensorflow as tf

from zoo.server import batches
from zoo.server.signatures import Signature

WAIT = 60


class Gate:
    """Multiplies numbers by a factor, in batches that wait until the gate opens."""

    def __init__(self, factor, shape=(None,), **options):
        self.batches, self.traces, self.is_open, self.entered = [], 0, threading.Event(), 0
        self.signature = Signature(
            tf.function(lambda x: self.times(x, factor), autograph=False),
            [tf.TensorSpec(shape, tf.float32, name="x")],
            **options,
        )

    def times(self, x, factor):
        self.traces += 1
        with tf.control_dependencies([tf.py_function(self.wait, [x], [])]):
            return {"y": factor * x, "z": -x}

    def wait(self, x):
        self.entered += 1
        assert self.is_open.wait(WAIT)
        self.batches.append(len(x))

    def __call__(self, *rows):
        return self.signature({"x": np.array(rows, np.float32)})


def together(calls):
    """Returns the results of functions that are called at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [each.result(WAIT) for each in [pool.submit(call) for call in calls]]


def test_calls_that_come_while_one_runs_become_one_batch(monkeypatch):
    only = batches.Batches(threads=1)  # which gathers until a batch is full
    monkeypatch.setattr(batches, "shared", lambda: only)
    monkeypatch.setattr(batches, "QUIET", WAIT)
    monkeypatch.setattr(batches, "PATIENCE", WAIT)
    gate = Gate(2.0)
    with concurrent.futures.ThreadPoolExecutor(17) as pool:
        first = pool.submit(gate, 100.0)
        while not gate.entered:
            pass
        others = [pool.submit(gate, float(number), 0.5) for number in range(16)]
        while gate.entered < 2:
            pass
        gate.is_open.set()
        assert first.result(WAIT)["y"].tolist() == [200.0]
        for number, each in enumerate(others):
            assert each.result(WAIT)["y"].tolist() == [2.0 * number, 1.0]
            assert each.result(WAIT)["z"].tolist() == [-number, -0.5]
    assert sorted(gate.batches) == [1, 32]  # the first, and all others
    assert gate.traces == 1


def test_models_never_share_a_batch():
    gates = [Gate(2.0), Gate(3.0)]
    for gate in gates:
        gate.is_open.set()
    for _ in range(3):
        calls = [lambda gate=gate, x=x: gate(x)["y"] for x in (1.0, 2.0, 3.0) for gate in gates]
        answers = [float(each[0]) for each in together(calls)]
        assert answers == [2.0, 3.0, 4.0, 6.0, 6.0, 9.0]


def test_rows_of_different_shapes_are_answered_one_by_one():
    gate = Gate(2.0, shape=(None, None))
    gate.is_open.set()
    answers = together([lambda size=size: gate([1.0] * size)["y"] for size in (1, 2, 3, 4)])
    assert [each.shape for each in answers] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert gate.batches == [1] * 4


def test_without_batches_each_call_is_computed_by_itself():
    gate = Gate(2.0, is_batched=False)
    gate.is_open.set()
    together([lambda x=x: gate(x) for x in (1.0, 2.0, 3.0, 4.0)])
    assert gate.batches == [1] * 4


class Held:
    """Doubles numbers, in batches that wait until there are some at once."""

    def __init__(self, monkeypatch, threads, largest, at_once=1):
        monkeypatch.setattr(batches, "QUIET", 0.1)
        self.answer, self.at_once = batches.Batches(threads, largest), at_once
        self.batches, self.observed, self.changed = [], [], threading.Condition()

    def double(self, x):
        with self.changed:
            self.batches.append(len(x))
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: len(self.batches) > self.at_once, WAIT)
        if np.min(x) < 0:
            raise ArithmeticError("a negative number")
        return {"y": 2 * x}

    def together(self, sizes, numbers):
        """Returns futures of calls with so many rows that come while another one is running."""
        tensors = [tf.fill([size, 1], float(x)) for size, x in zip(sizes, numbers, strict=True)]
        with concurrent.futures.ThreadPoolExecutor(len(sizes) + 1) as pool:

            def ask(tensor):
                return pool.submit(self.answer, self.double, [tensor], self.observed.append)

            ask(tf.zeros([1, 1]))
            while not self.batches:
                pass
            return [ask(each) for each in tensors]


@pytest.mark.parametrize(
    ("threads", "largest", "at_once", "sizes", "batched"),
    [
        (1, 32, 1, [1] * 9, [1, 9]),
        (1, 4, 1, [1] * 9, [1, 4, 4, 1]),
        (2, 32, 2, [1] * 9, [1, 5, 4]),  # ten rows in all: five for each thread
        (1, 8, 1, [5, 2, 5], [1, 5, 7]),  # a call stays whole
        (2, 4, 1, [4], [1, 4]),
    ],
)
def test_threads_share_what_waits(monkeypatch, threads, largest, at_once, sizes, batched):
    held = Held(monkeypatch, threads, largest, at_once)
    for number, each in enumerate(held.together(sizes, range(len(sizes)))):
        assert each.result()["y"].tolist() == [[2.0 * number]] * sizes[number]
    assert sorted(held.batches) == sorted(held.observed) == sorted(batched)


def test_an_error_reaches_all_callers_of_its_batch_and_the_thread_goes_on(monkeypatch):
    held = Held(monkeypatch, threads=1, largest=32)
    for each in held.together([1, 1, 1], [-1, 3, 4]):
        with pytest.raises(ArithmeticError, match="negative"):
            each.result()
    (right,) = held.together([1], [4])
    assert right.result()["y"].tolist() == [[8.0]]
