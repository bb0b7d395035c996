"""Padding of inputs to a few sizes, for which XLA compiles a served model."""

import tensorflow as tf

ROWS = (1, 8, 32)  # also the batches that TF Serving makes: see `server_config`
LENGTHS = (16, 32, 64)


def rounded_up(size, buckets, longest=None):
    """Returns the smallest bucket that holds a size; above the largest, multiples of that.

    Args:
        size: int32 scalar.
        buckets: Integers in increasing order.
        longest: Upper bound of the result, or `None`.

    Example:

    >>> [int(rounded_up(size, (1, 8, 32))) for size in (0, 1, 2, 32, 33)]
    [1, 1, 8, 32, 64]
    """
    largest = buckets[-1]
    fitting = tf.reduce_min(tf.where(size <= tf.constant(buckets), buckets, largest))
    rounded = tf.where(size <= largest, fitting, -(-size // largest) * largest)
    return rounded if longest is None else tf.minimum(rounded, longest)


def filled_up(tensor, buckets, axis=0, longest=None, value=0):
    """Pads a tensor at the end of an axis, so that its size is a bucket.

    Args:
        tensor: Any tensor.
        buckets, longest: As for `rounded_up`.
        axis: The axis.
        value: Padding value.

    Example:

    >>> filled_up(tf.constant([[5, 6, 7]]), (2, 4), axis=1).numpy()
    array([[5, 6, 7, 0]], dtype=int32)
    """
    missing = rounded_up(tf.shape(tensor)[axis], buckets, longest) - tf.shape(tensor)[axis]
    padding = [[0, 0]] * axis + [[0, missing]] + [[0, 0]] * (tensor.shape.rank - axis - 1)
    return tf.pad(tensor, padding, constant_values=tf.cast(value, tensor.dtype))


def compiled(function):
    """Compiles a function of batches with XLA, for a few numbers of rows only.

    One graph serves all sizes: XLA sees the shapes when it runs, and compiles for each new one.

    Args:
        function: Takes nests of tensors and returns a nest of tensors or `None`, all with the
            batch first.
            It must not use strings, and must compute the lengths of loops and arrays from shapes
            alone. Its keyword arguments have no batch.

    Returns:
        A function of the same arguments with the same results.
    """
    function = tf.function(function, jit_compile=True, autograph=False)

    def of_any_rows(*tensors, **others):
        rows = tf.shape(tf.nest.flatten(tensors)[0])[0]
        filled = tf.nest.map_structure(lambda tensor: filled_up(tensor, ROWS), tensors)
        results = function(*filled, **others)
        return tf.nest.map_structure(lambda x: None if x is None else x[:rows], results)

    return of_any_rows
