"""Batches of examples of similar length."""

import numpy as np


def by_length(rows, places, number, batch_size, draws):
    """Returns the batches of an epoch, a list of tuples of rows and the index of their length.

    All batches of one length have the same size, so that few programs are compiled: rows that do
    not fill a batch go to the next length, and only the last batch of the longest may be smaller.

    Args:
        rows: Indices of examples, in a random order.
        places: Index of the length of each of them, from 0 to `number - 1`; others are left out.
        number: Number of lengths, which are increasing.
        batch_size: Number of rows per batch.
        draws: NumPy random generator, for the order of the batches.
    """
    batches, left = [], rows[:0]
    for place in range(number):
        left = np.concatenate([left, rows[places == place]])
        is_last = place == number - 1
        whole = len(left) if is_last else len(left) // batch_size * batch_size
        for first in range(0, whole, batch_size):
            batches.append((left[first : min(first + batch_size, whole)], place))
        left = left[whole:]
    batches[-1] = (batches[-1][0], number - 1)
    order = draws.permutation(np.arange(1, len(batches) - 1))
    # The shortest and the longest come first: Keras infers from two batches which sizes vary.
    return [batches[place] for place in dict.fromkeys([0, len(batches) - 1, *order])]
