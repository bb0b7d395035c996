"""How many inputs a batch takes, and how many batches are computed at a time."""

import pytest
import tensorflow as tf

from zoo.data.batching import batches_at_once, in_batches_by_length


def test_a_batch_holds_fewer_of_what_is_long():
    sizes = []

    def function(places):
        sizes.append(len(places))
        return {"x": tf.constant(places)}

    tokens = [2000] * 3 + [100] * 9 + [99999]
    rows = in_batches_by_length(function, tokens, 8, tokens, at_once=1)
    assert [int(row["x"]) for row in rows] == list(range(len(tokens)))
    assert sizes == [1, 1, 1, 1, 1, 8]  # batches of at most 8 * 400 tokens, padding included


@pytest.mark.parametrize(("threads", "batches"), [(0, 2), (1, 8), (3, 2), (8, 2)])
def test_threads_of_operations_leave_cores_for_batches(threads, batches, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    told = "get_intra_op_parallelism_threads"
    monkeypatch.setattr(tf.config.threading, told, lambda: threads)
    assert batches_at_once() == batches
