"""Batches of examples of similar length."""

import numpy as np


def by_length(rows, places, number, batch_size, draws):
    """Returns the batches of an epoch, a list of tuples of rows and the place of their length.

    The batches of one length all have one size, so that few programs are compiled: what is left of
    one length goes to the next, and the last batch, of the longest, may be smaller.

    Args:
        rows: Numbers of examples, in a random order.
        places: Which length each of them has, from 0 to `number - 1`; others are left out.
        number: How many lengths there are, increasing.
        batch_size: Rows a batch.
        draws: NumPy's generator of random numbers, for the order of the batches.
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
    # They are sorted by length, and Keras sees by the first two which sizes differ.
    return [batches[place] for place in dict.fromkeys([0, len(batches) - 1, *order])]
