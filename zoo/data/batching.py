"""Batches of examples of similar length, to minimize padding."""

import concurrent.futures
import os

import numpy as np
import tensorflow as tf

from keras_attention._checks import is_positive_integer
from zoo.data.labels import sample_weights

BUCKET_WIDTH = 4
LONGEST_BUCKET = 128
BOUNDARIES = list(range(BUCKET_WIDTH, LONGEST_BUCKET + 1, BUCKET_WIDTH))
TOKENS_A_PLACE = 400  # source and translation together, before a batch takes fewer


def bucket_by_length(dataset, batch_size, pad_id=0):
    """Groups examples of similar length and pads each batch to its longest example.

    Args:
        dataset: `tf.data.Dataset` of tuples of tensors, of which the vectors are texts; the length
            of an example is that of its longest text.
        batch_size: Number of examples per batch.
        pad_id: Id that pads texts.

    Returns:
        A data set of tuples of tensors with the batch first.
    """
    # A row of a ragged tensor is a vector, but tf.data pads only what it knows to be a tensor.
    dataset = dataset.map(lambda *tensors: tuple(map(tf.identity, tensors)))
    padding = tuple(
        tf.constant(pad_id, spec.dtype) if spec.shape.rank == 1 else tf.zeros([], spec.dtype)
        for spec in dataset.element_spec
    )
    return dataset.bucket_by_sequence_length(
        lambda *tensors: tf.reduce_max([tf.size(each) for each in tensors if each.shape.rank == 1]),
        bucket_boundaries=BOUNDARIES,
        bucket_batch_sizes=[batch_size] * (len(BOUNDARIES) + 1),
        padding_values=padding,
    )


def number_of_batches(lengths, batch_size):
    """Returns the number of batches of `bucket_by_length`.

    Args:
        lengths: Length of each example, an array of integers.
        batch_size: Number of examples per batch.

    Example:

    >>> number_of_batches([1, 2, 3, 3, 4, 999], batch_size=2)
    4
    """
    sizes = np.bincount(np.searchsorted(BOUNDARIES, lengths, side="right"))
    return int(np.sum(-(-sizes // batch_size)))


def is_batches(dataset):
    """Whether the elements are batches (inputs, labels, weights), as Keras takes them."""
    spec = getattr(dataset, "element_spec", None)
    is_triple = isinstance(spec, tuple) and len(spec) == 3
    return is_triple and getattr(spec[2], "shape", tf.TensorShape(None)).rank != 0


def in_batches_by_length(function, lengths, batch_size, tokens=None, at_once=None):
    """Calls a function on batches of indices of inputs with similar length.

    Args:
        function: Takes a list of indices, returns a dictionary of tensors with the batch first.
        lengths: Length of each input, to sort by.
        batch_size: Maximum number of inputs per batch.
        tokens: Maximum number of tokens of each input. The padded number of tokens in a batch, its
            size times the largest number, is at most `batch_size * TOKENS_A_PLACE`, unless a single
            input has more.
        at_once: Number of batches computed concurrently; by default that of `batches_at_once`.

    Returns:
        A list of dictionaries of NumPy arrays, one for each input, in the original order.
    """
    if not is_positive_integer(batch_size):
        raise ValueError(
            f"`batch_size` must be at least 1, an integer. Received: batch_size={batch_size!r}."
        )
    tokens = [0] * len(lengths) if tokens is None else tokens
    rows = [None] * len(lengths)

    def compute(places):
        outputs = {name: value.numpy() for name, value in function(places).items()}
        for row, place in enumerate(places):
            rows[place] = {name: value[row] for name, value in outputs.items()}

    batches = list(_batches(lengths, batch_size, tokens))[::-1]  # the slowest is not the last
    at_once = at_once or batches_at_once()
    if min(at_once, len(batches)) <= 1:
        for places in batches:
            compute(places)
        return rows
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        list(pool.map(compute, batches))  # raises what one raised
    return rows


def batches_at_once():
    """Returns for how many batches there are cores.

    It is 2 if TensorFlow chooses the threads of an operation: while one batch is in a part that
    cannot use all cores, the other is computed.
    """
    threads = tf.config.threading.get_intra_op_parallelism_threads()  # 0 if TensorFlow chooses
    return max(2, os.cpu_count() // threads) if threads else 2


def _batches(lengths, batch_size, tokens):
    batch, longest = [], 0
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        padded = (len(batch) + 1) * max(longest, tokens[place])
        if batch and (len(batch) == batch_size or padded > batch_size * TOKENS_A_PLACE):
            yield batch
            batch, longest = [], 0
        batch.append(place)
        longest = max(longest, tokens[place])
    if batch:
        yield batch


def examples_of(reader, x, y, kind, make, shuffle, seed, weights=None):
    """Returns a data set of examples for a task that learns from lists or from a data set.

    Args:
        reader: Reader that turns raw inputs into requests.
        x, y: A list of inputs and a list of their targets; or a data set and `None`.
        kind: Name of an input in error messages, such as `"sound"`.
        make: Function of a tuple of two lists, or of a data set, that returns the data set.
        shuffle: Whether to shuffle lists; a data set is not shuffled.
        seed: Seed of the shuffling.
        weights: `sample_weight` of `fit`, for lists; the targets are then pairs of a target and a
            weight.

    Raises:
        ValueError: If `x` is a single input, `weights` do not fit, or `make` raises it.
    """
    if y is None:
        if weights is not None:
            raise ValueError(
                "`sample_weight` is for lists. In a data set, each example has its own: (input, "
                "label, weight)."
            )
        return make(x)
    requests, is_one = reader.requests(x)
    if is_one:
        raise ValueError(f"`x` must be a list of {kind}s. Received: one {kind}.")
    examples = make((requests, y))
    if weights is not None:
        weights = tf.data.Dataset.from_tensor_slices(sample_weights(weights, len(requests)))
        examples = tf.data.Dataset.zip(examples, weights).map(
            lambda example, weight: (example[0], (example[1], weight))
        )
    return examples.shuffle(len(requests), seed=seed) if shuffle else examples
