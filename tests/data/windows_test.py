"""Windows of a stream: every token is in its place, and each one is evaluated once."""

import numpy as np
import pytest

from zoo.data.windows import random_windows, sliding_windows


def stream(length):
    return np.arange(100, 100 + length, dtype="int32")


@pytest.mark.parametrize("context_length", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("length", [2, 3, 4, 5, 8, 9, 10, 15, 16, 17, 40])
def test_sliding_windows_predict_each_token_once(context_length, length):
    inputs, labels, weights = sliding_windows(stream(length), context_length)
    assert inputs.shape[1] == context_length
    counted = weights > 0
    np.testing.assert_array_equal(labels[counted], stream(length)[1:])
    np.testing.assert_array_equal(inputs[counted], stream(length)[:-1])
    for row, first in zip(inputs, inputs[:, 0], strict=True):  # the context is contiguous
        real = row[row > 0]
        np.testing.assert_array_equal(real, np.arange(first, first + len(real)))


@pytest.mark.parametrize("context_length", [4, 5, 8])
def test_after_the_first_window_half_a_context_is_always_seen(context_length):
    _, _, weights = sliding_windows(stream(60), context_length)
    assert weights[1:].argmax(axis=1).min() >= context_length // 2


def test_random_windows_hold_neighbours_and_cover_the_stream_about_once():
    batches = list(random_windows(stream(1000), 20, 5, seed=3).as_numpy_iterator())
    assert len(batches) == 10
    firsts = []
    for inputs, labels, weights in batches:
        assert inputs.shape == labels.shape == weights.shape == (5, 20)
        np.testing.assert_array_equal(inputs[:, 1:], labels[:, :-1])
        np.testing.assert_array_equal(labels - inputs, 1)
        assert weights.min() == 1.0
        firsts += inputs[:, 0].tolist()
    assert min(firsts) >= 100
    assert max(firsts) + 20 <= 1099
    assert len(set(firsts)) > 40


def test_random_windows_reach_both_ends():
    batches = random_windows(stream(12), 10, 8, seed=0).repeat(20).as_numpy_iterator()
    firsts = {int(first) for inputs, _, _ in batches for first in inputs[:, 0]}
    assert firsts == {100, 101}


def test_random_windows_differ_between_epochs_and_agree_between_runs():
    def epochs():
        windows = random_windows(stream(1000), 20, 5, seed=3)
        return [[batch[0].tolist() for batch in windows.as_numpy_iterator()] for _ in range(2)]

    first, second = epochs()
    assert first != second
    assert epochs() == [first, second]


def test_a_short_stream_is_one_window():
    ((inputs, labels, _),) = random_windows(stream(4), 20, 2).as_numpy_iterator()
    np.testing.assert_array_equal(inputs, [[100, 101, 102]] * 2)
    np.testing.assert_array_equal(labels, [[101, 102, 103]] * 2)
