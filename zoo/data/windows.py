"""Windows of a stream of tokens, for training and evaluating language models."""

import numpy as np
import tensorflow as tf


def random_windows(stream, context_length, batch_size, seed=0):
    """Returns batches of windows at random positions, as many as cover the stream about once.

    Args:
        stream: int32 vector of tokens.
        context_length: Number of tokens that the model sees.
        batch_size: Number of windows per batch.
        seed: Integer seed; each pass over the data set draws anew.

    Returns:
        A data set of `(inputs, labels, weights)`, each `(batch_size, context_length)`.
    """
    length = min(context_length, len(stream) - 1)
    stream = tf.constant(stream, tf.int32)
    number = max(1, round(len(stream) / (batch_size * length)))

    def windows(numbers):
        first = tf.cast(numbers % (len(stream) - length), tf.int32)
        tokens = tf.gather(stream, first[:, None] + tf.range(length + 1))
        return tokens[:, :-1], tokens[:, 1:], tf.ones([batch_size, length])

    numbers = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)
    batches = numbers.batch(batch_size, drop_remainder=True).map(windows).take(number)
    return batches.prefetch(tf.data.AUTOTUNE)


def sliding_windows(stream, context_length):
    """Cuts a stream into windows that overlap by half, so that each token is predicted once.

    From the second window on, the first half of a window only serves as context: each token after
    the first window is predicted from at least `context_length / 2` tokens.

    Args:
        stream: int32 vector of tokens; the first one is not predicted.
        context_length: Number of tokens that the model sees.

    Returns:
        `(inputs, labels, weights)`, NumPy arrays `(windows, context_length)`; weights are 1 where a
        token is predicted, each token exactly once and in order, and 0 elsewhere.
    """
    seen = context_length // 2
    stride = context_length - seen
    targets = len(stream) - 1
    number = 1 + max(0, -(-(targets - context_length) // stride))
    inputs, labels, weights = (
        np.zeros((number, context_length), dtype) for dtype in ("int32", "int32", "float32")
    )
    for row in range(number):
        start = row * stride
        end = min(start + context_length, targets)
        inputs[row, : end - start] = stream[start:end]
        labels[row, : end - start] = stream[start + 1 : end + 1]
        weights[row, (seen if row else 0) : end - start] = 1.0
    return inputs, labels, weights
