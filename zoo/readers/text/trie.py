"""Finds all occurrences of the words of a vocabulary in texts."""

import numpy as np
import tensorflow as tf

from zoo.readers.text.tables import constant, row_ids, static_table

_BITS = 21  # of a code point
SEPARATOR = (1 << _BITS) - 1  # stands after each text, and is no code point


class Trie(tf.Module):
    """A prefix tree of code points, whose edges are in one table.

    Args:
        keys: List of `str`, not empty, without duplicates.
        values: Integers from 0, one for each key.
    """

    def __init__(self, keys, values):
        super().__init__()
        edges, children, node_values = _build(keys, values)
        with tf.init_scope(), tf.device("CPU"):
            self._children = static_table([*edges, -1], [*children, -1], default=-1)
        self._values = constant(node_values, tf.int64)

    @tf.autograph.experimental.do_not_convert
    def matches(self, symbols, places):
        """Finds every key that begins at one of the given positions.

        Args:
            symbols: Code points of all texts, int64, with a `SEPARATOR` after each text.
            places: The positions, int64.

        Returns:
            Where each key begins, its length and its value: three int64 vectors.
        """

        def some_go_on(depth, places, *_):
            return tf.size(places) > 0

        def go_on(depth, places, nodes, found):
            symbol = tf.gather(symbols, places + depth)
            nodes = self._children.lookup(tf.bitwise.left_shift(nodes, _BITS) | symbol)
            alive = tf.where(nodes >= 0)[:, 0]
            places, nodes = tf.gather(places, alive), tf.gather(nodes, alive)
            depth += 1
            values = tf.gather(self._values, nodes)
            is_key = tf.where(values >= 0)[:, 0]
            starts, values = tf.gather(places, is_key), tf.gather(values, is_key)
            match = tf.stack([starts, tf.fill(tf.shape(starts), depth), values], axis=1)
            return depth, places, nodes, found.write(tf.cast(depth, tf.int32) - 1, match)

        found = tf.TensorArray(
            tf.int64, size=0, dynamic_size=True, infer_shape=False, element_shape=[None, 3]
        )
        found = found.write(0, tf.zeros([0, 3], tf.int64))
        vector = tf.TensorShape([None])
        *_, found = tf.while_loop(
            some_go_on,
            go_on,
            (tf.constant(0, tf.int64), places, tf.zeros_like(places), found),
            (tf.TensorShape([]), vector, vector, tf.TensorShape(None)),
        )
        return tf.unstack(found.concat(), axis=1, num=3)

    def longest(self, symbols, places):
        """Returns the length and value of the longest key at each position, 0 and -1 if none."""
        starts, lengths, values = self.matches(symbols, places)
        best = tf.bitwise.left_shift(lengths, 32) | values
        best = tf.math.unsorted_segment_max(best, starts, tf.size(symbols, tf.int64))
        best = tf.gather(best, places)
        lengths = tf.bitwise.right_shift(best, 32)
        values = tf.bitwise.bitwise_and(best, (1 << 32) - 1)
        return tf.where(best >= 0, lengths, 0), tf.where(best >= 0, values, -1)


def with_separators(code_points):
    """Concatenates texts as `Trie` reads them.

    Args:
        code_points: A `tf.RaggedTensor`, `[texts, (characters)]`.

    Returns:
        The code points, with a `SEPARATOR` after each text, and their row splits.
    """
    splits = code_points.row_splits
    size = code_points.nrows()
    places = tf.range(splits[-1]) + row_ids(splits)
    symbols = tf.fill([splits[-1] + size], tf.constant(SEPARATOR, tf.int64))
    symbols = tf.tensor_scatter_nd_update(
        symbols, places[:, None], tf.cast(code_points.values, tf.int64)
    )
    return symbols, splits + tf.range(size + 1)


@tf.autograph.experimental.do_not_convert
def visited(following, starts):
    """Marks the positions on paths.

    Args:
        following: The position after each one, int64 `[places]`; the value `places` is the end.
        starts: Where the paths begin, int64.

    Returns:
        Whether each position is on a path, `[places]`. Each iteration doubles the steps.
    """
    size = tf.size(following, tf.int64)
    following = tf.concat([following, [size]], axis=0)
    reached = tf.scatter_nd(starts[:, None], tf.ones_like(starts, tf.int32), [size + 1])

    def goes_on(following, reached):
        return tf.reduce_any(following < size)

    def double(following, reached):
        new = tf.math.unsorted_segment_max(reached, following, size + 1)
        return tf.gather(following, following), tf.maximum(reached, new)

    _, reached = tf.while_loop(goes_on, double, (following, reached))
    return reached[:-1] > 0


def _build(keys, values):
    """Returns the edges as keys of a table, their target nodes, and each node's value or -1."""
    lengths = np.array([len(key) for key in keys], np.int64)
    points = np.frombuffer("".join(keys).encode("utf-32-le", "surrogatepass"), np.uint32)
    firsts = np.cumsum(lengths) - lengths
    nodes = np.zeros(len(keys), np.int64)  # where each key has come to
    values, node_values = np.asarray(values, np.int64), [np.array([-1])]
    edges, count = [np.zeros(0, np.int64)], 1
    for depth in range(lengths.max(initial=0)):
        longer = np.flatnonzero(lengths > depth)
        steps = nodes[longer] << _BITS | points[firsts[longer] + depth]
        steps, of_step = np.unique(steps, return_inverse=True)
        nodes[longer] = count + of_step
        of_nodes = np.full(len(steps), -1)
        ends = longer[lengths[longer] == depth + 1]
        of_nodes[nodes[ends] - count] = values[ends]
        edges.append(steps)
        node_values.append(of_nodes)
        count += len(steps)
    edges = np.concatenate(edges)
    return edges, np.arange(1, count), np.concatenate(node_values)
