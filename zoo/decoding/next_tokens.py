"""How probable each token is to come next, in each beam.

The log-probabilities of a whole vocabulary are several passes over it in every step. Most searches
need a few of them: the best tokens are those with the largest logits, and one number that sums up
the other logits turns these into log-probabilities.
"""

import functools

import numpy as np
import tensorflow as tf

from zoo.decoding.base import Candidates
from zoo.decoding.largest import in_parts, is_long, largest
from zoo.decoding.search import DEAD, is_one_of


class NextTokens:
    """The distribution of the next token of each beam.

    Attributes:
        log_probs: `[batch, beams, vocabulary]` float32, −inf for what must not be produced.
    """

    def __init__(self, log_probs):
        self.log_probs = log_probs

    def best(self, totals, count):
        """Returns the `Candidates` that are the most probable continuations of each row.

        Args:
            totals: `[batch, beams]` float32, of the live hypotheses; −inf for a dead one.
            count: How many; all, if a row has fewer. Of equal ones, the first beams and the lowest
                tokens count.
        """
        beams, vocabulary = totals.shape[1], tf.shape(self.log_probs)[2]
        sums = totals[:, :, None] + self.log_probs
        size = self.log_probs.shape[2]
        found, order = largest(tf.reshape(sums, [-1, beams * (size or vocabulary)]), count)
        return Candidates(found, order % vocabulary, order // vocabulary)


class NextTokensOfModel(NextTokens):
    """The distribution of the next token that the logits of a model give.

    A beam is dead if its logits contain NaN.

    Args:
        logits: `[batch, beams, vocabulary]` float32.
        end_ids: The tokens that end a text.
        forbidden_ids: Tokens that must not be produced, unless they end the text. The probabilities
            of the others are not renormalized.
    """

    def __init__(self, logits, end_ids, forbidden_ids):
        self.logits = logits
        self.forbidden_ids = sorted(set(forbidden_ids) - set(end_ids))

    @functools.cached_property
    def log_probs(self):
        log_probs = tf.nn.log_softmax(self.logits)
        # One NaN makes all of its beam NaN in the softmax.
        is_allowed = ~tf.math.is_nan(log_probs[:, :, :1])
        if self.forbidden_ids:
            is_allowed &= ~is_one_of(tf.range(tf.shape(log_probs)[2]), self.forbidden_ids)
        return tf.where(is_allowed, log_probs, DEAD)

    def best(self, totals, count):
        if not is_long(self.logits, count):
            return super().best(totals, count)
        parts = in_parts(self.logits)  # [batch, beams, parts, width]
        beams, number, width = parts.shape[1:]
        maxima = tf.reduce_max(parts, -1)
        peaks = tf.reduce_max(maxima, -1)  # [batch, beams]
        # The softmax of oneDNN is faster than any sum of exponentials.
        probabilities = in_parts(tf.nn.softmax(self.logits))
        of_peaks = tf.gather(probabilities, tf.argmax(maxima, -1), batch_dims=2)
        log_peaks = tf.math.log(tf.reduce_max(of_peaks, -1))
        offsets = tf.stack([peaks, totals + log_peaks], -1)

        is_allowed = ~np.isin(np.arange(number * width), self.forbidden_ids)
        is_allowed = is_allowed.reshape(number, width)
        for part in np.flatnonzero(~is_allowed.all(-1)):
            others = tf.where(is_allowed[part], parts[:, :, part], DEAD)
            others = tf.reduce_max(others, -1, keepdims=True)  # [batch, beams, 1]
            maxima = tf.where(np.arange(number) == part, others, maxima)

        # As in `largest`, for all beams of a row together.
        sums = tf.reshape(_continued(maxima, offsets), [-1, beams * number])
        chosen = tf.sort(tf.math.top_k(sums, count).indices)  # the first of equal numbers stay so
        searched = tf.reshape(parts, [-1, beams * number, width])
        searched = tf.gather(searched, chosen, batch_dims=1)  # [batch, count, width]
        parents, parts = chosen // number, chosen % number
        searched = tf.where(tf.gather(is_allowed, parts), searched, DEAD)
        sums = _continued(searched, tf.gather(offsets, parents, batch_dims=1))
        found, order = tf.math.top_k(tf.reshape(sums, [-1, count * width]), count)
        parents, parts = (
            tf.gather(each, order // width, batch_dims=1) for each in (parents, parts)
        )
        return Candidates(found, parts * width + order % width, parents)


def _continued(logits, offsets):
    """Returns the log-probabilities of hypotheses that go on with tokens of some logits.

    Args:
        logits: `[..., n]`.
        offsets: `[..., 2]`, the largest logit, and the log-probability of what goes on with it.
    """
    peaks, totals = tf.split(offsets, 2, axis=-1)
    continued = logits - peaks + totals
    return tf.where(tf.math.is_nan(continued), DEAD, continued)
