"""Batches of texts of similar length, so that little of a batch is padding."""

import tensorflow as tf

BUCKET_WIDTH = 4
LONGEST_BUCKET = 128


def bucket_by_length(dataset, batch_size):
    """Groups examples of similar length and pads each batch to its longest example.

    Args:
        dataset: `tf.data.Dataset` of tuples of tensors, of which the vectors are texts; the length
            of an example is that of its longest text.
        batch_size: Examples a batch.

    Returns:
        A data set of tuples of tensors with the batch first, texts padded with 0.
    """
    boundaries = list(range(BUCKET_WIDTH, LONGEST_BUCKET + 1, BUCKET_WIDTH))
    # A row of a ragged tensor is a vector, but tf.data pads only what it knows to be a tensor.
    dataset = dataset.map(lambda *tensors: tuple(map(tf.identity, tensors)))
    return dataset.bucket_by_sequence_length(
        lambda *tensors: tf.reduce_max([tf.size(each) for each in tensors if each.shape.rank == 1]),
        bucket_boundaries=boundaries,
        bucket_batch_sizes=[batch_size] * (len(boundaries) + 1),
    )
