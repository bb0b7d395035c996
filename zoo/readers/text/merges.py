"""Byte-pair encoding: the merge loop, for all words of a batch at once."""

import numpy as np
import tensorflow as tf

from zoo.readers.text.tables import static_table

_NO_MERGE = tf.int64.max
_ID_BITS = 32  # the table holds ranks, and behind each the id of the merged symbol


class Merges(tf.Module):
    """Merges pairs of symbols in each word, by decreasing priority, until none is left.

    Args:
        pairs: Ids of the symbols of each pair, `[2, merges]`, by decreasing priority.
        merged: Id of the symbol that each pair becomes, `[merges]`.
        num_ids: Number of ids.
        ranks: Integers from 0, ascending, if several pairs have the same priority: then the left
            one is merged first. `None` if all differ.
    """

    def __init__(self, pairs, merged, num_ids, ranks=None):
        super().__init__()
        pairs, merged = np.asarray(pairs, np.int64), np.asarray(merged, np.int64)
        ranks = np.arange(len(merged)) if ranks is None else np.asarray(ranks, np.int64)
        self._num_ids = num_ids
        self._all_at_once = _later_merges_are_less_urgent(pairs, merged, ranks, num_ids)
        with tf.init_scope(), tf.device("CPU"):
            # A table must not be empty, and no pair has the key -1.
            keys = np.append(self._pair_key(*pairs), -1)
            values = np.append(ranks << _ID_BITS | merged, _NO_MERGE)
            self._ranks = static_table(keys, values, default=_NO_MERGE)

    @tf.autograph.experimental.do_not_convert
    def __call__(self, symbols, owners, num_words, dropout=0.0, seed=None):
        """Returns the symbols of words after merging.

        The symbols of all words are in one vector. Each step merges, in every word, the pair that
        was learned first, wherever it occurs, until no word has a pair left.

        Args:
            symbols: Ids, int64 `[symbols]`.
            owners: Index of the word of each symbol, int64, ascending.
            num_words: Number of words, int64.
            dropout: Probability that a pair is skipped in a step.
            seed: Integer tensor of shape `[2]`, required with dropout.

        Returns:
            A `tf.RaggedTensor` of int32 ids, `[words, (symbols)]`.
        """

        def some_word_merges(step, symbols, owners, best):
            return tf.reduce_any(best < _NO_MERGE)

        def merge_best_pairs(step, symbols, owners, best):
            left, right, pair_owners = symbols[:-1], symbols[1:], owners[:-1]  # [pairs]
            ranks = self._ranks.lookup(self._pair_key(left, right))
            # A word without a pair left is finished: dropout gives it no second chance.
            allowed = (pair_owners == owners[1:]) & (tf.gather(best, pair_owners) < _NO_MERGE)
            if dropout:
                step_seed = tf.random.fold_in(seed, step)
                allowed &= tf.random.stateless_uniform(tf.shape(left), step_seed) >= dropout
            ranks = tf.where(allowed, ranks, _NO_MERGE)
            best = tf.math.unsorted_segment_min(ranks, pair_owners, num_words)
            is_best = _rank(ranks) == tf.gather(_rank(best), pair_owners)
            chosen = (ranks < _NO_MERGE) & is_best
            chosen = self._without_overlaps(chosen, pair_owners, num_words)
            merged = tf.bitwise.bitwise_and(ranks, (1 << _ID_BITS) - 1)
            symbols = tf.concat([tf.where(chosen, merged, left), symbols[-1:]], axis=0)
            # The right symbol of a merged pair is removed; the very first symbol is never one.
            kept = tf.concat([tf.ones_like(symbols[:1], tf.bool), ~chosen], axis=0)
            kept = tf.where(kept)[:, 0]
            return step + 1, tf.gather(symbols, kept), tf.gather(owners, kept), best

        vector = tf.TensorShape([None])
        _, symbols, owners, _ = tf.while_loop(
            some_word_merges,
            merge_best_pairs,
            loop_vars=(tf.constant(0), symbols, owners, tf.zeros([num_words], tf.int64)),
            shape_invariants=(tf.TensorShape([]), vector, vector, vector),
        )
        return tf.RaggedTensor.from_value_rowids(
            tf.cast(symbols, tf.int32), owners, nrows=num_words, validate=False
        )

    def _pair_key(self, left, right):
        return left * self._num_ids + right

    def _without_overlaps(self, chosen, owners, num_words):
        """Keeps the 1st, 3rd, ... of overlapping chosen pairs: in `aaaa`, (a, a) merges twice.

        If a merge can make a pair of a higher priority than its own, only the first one is kept.
        """
        places = tf.range(tf.size(chosen, tf.int64))
        if not self._all_at_once:
            firsts = tf.where(chosen, places, _NO_MERGE)
            firsts = tf.math.unsorted_segment_min(firsts, owners, num_words)
            return chosen & (tf.gather(firsts, owners) == places)
        gaps = tf.where(~chosen)[:, 0]
        gaps_so_far = tf.cumsum(tf.cast(~chosen, tf.int32))
        last_gap = tf.gather(tf.concat([[-1], gaps], axis=0), gaps_so_far)  # [pairs]
        return chosen & ((places - last_gap) % 2 == 1)


def _rank(value):
    return tf.bitwise.right_shift(value, tf.constant(_ID_BITS, tf.int64))


def _later_merges_are_less_urgent(pairs, merged, ranks, num_ids):
    """Whether no merge makes a symbol that a merge of a higher priority would join."""
    last_made = np.full(num_ids, -1)
    np.maximum.at(last_made, merged, ranks)
    return bool(np.all(last_made[pairs] < ranks))
