"""Batches of texts of similar length, so that little of a batch is padding."""

import tensorflow as tf

BUCKET_WIDTH = 4
LONGEST_BUCKET = 128


def bucket_by_length(dataset, batch_size):
    """Groups examples of similar length and pads each batch to its longest example.

    Args:
        dataset: `tf.data.Dataset` of tuples of int32 vectors.
        batch_size: Examples a batch.

    Returns:
        A data set of tuples of int32 tensors `(batch, length)`, padded with 0.
    """
    boundaries = list(range(BUCKET_WIDTH, LONGEST_BUCKET + 1, BUCKET_WIDTH))
    # A row of a ragged tensor is a vector, but tf.data pads only what it knows to be a tensor.
    dataset = dataset.map(lambda *vectors: tuple(map(tf.identity, vectors)))
    return dataset.bucket_by_sequence_length(
        lambda *vectors: tf.reduce_max([tf.size(vector) for vector in vectors]),
        bucket_boundaries=boundaries,
        bucket_batch_sizes=[batch_size] * (len(boundaries) + 1),
    )
