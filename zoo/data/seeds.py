"""Seeds for what is drawn for each element of a data set."""

import tensorflow as tf


def seed_stream(seed, size=2, rerandomize=True):
    """Returns an infinite data set of seeds, int32 `(size,)`.

    Args:
        seed: Seed of all of them.
        size: Numbers of each element; 2 are one seed of TensorFlow.
        rerandomize: Whether every pass has other seeds.
    """
    numbers = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=rerandomize)
    return numbers.batch(size).map(lambda each: tf.cast(each % tf.int32.max, tf.int32))
