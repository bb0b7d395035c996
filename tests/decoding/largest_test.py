"""The two-stage top-k equals a single top-k over all numbers."""

import numpy as np
import pytest
import tensorflow as tf

from zoo.decoding.largest import WIDTH, largest

KINDS = {
    "different": lambda rng, shape: rng.normal(size=shape),
    "equal": lambda rng, shape: rng.integers(0, 3, shape),
    "hidden": lambda rng, shape: np.where(rng.random(shape) < 0.999, -np.inf, 1.0),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3, 8 * WIDTH, 9 * WIDTH + 1, 31 * WIDTH - 1])
def test_it_is_that_of_a_stable_sort(kind, size):
    x = KINDS[kind](np.random.default_rng(size), (2, 3, size)).astype("float32")
    order = np.argsort(-x, axis=-1, kind="stable")[..., :4]
    for function in (largest, tf.function(largest, jit_compile=True)):
        values, indices = function(tf.constant(x), 4)
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))


def test_a_size_that_is_not_known():
    unknown = tf.function(largest, [tf.TensorSpec([None, None]), tf.TensorSpec([], tf.int32)])
    assert unknown(tf.constant([[1.0, 3.0, 2.0]]), 2)[1].numpy().tolist() == [[1, 2]]
