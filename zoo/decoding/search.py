"""The state of the search of each row, and how one step advances it.

Beams that are dead, and hypotheses that were not found, have a log-probability of −inf. A row whose
beams are all dead is finished and no longer changes.
"""

from typing import NamedTuple

import tensorflow as tf

from zoo.decoding.base import Candidates

DEAD = float("-inf")


class Hypotheses(NamedTuple):
    """Finished hypotheses of each row, best first, all `[batch, n]`.

    The text of a hypothesis is the history of its beam: its last token, apart from the end token,
    is the one that this beam got in step `length - 1`.
    """

    scores: tf.Tensor
    log_probs: tf.Tensor
    lengths: tf.Tensor
    beams: tf.Tensor


class Search(NamedTuple):
    """State of the search of each row.

    Attributes:
        tokens: `[batch, beams]` int32, the last token of each live beam.
        log_probs: `[batch, beams]` float32, of the live beams, best first.
        finished: `Hypotheses` with n = `num_kept`.
        ended: `[batch]` int32, the number of hypotheses that have ended; `()` unless that matters.
    """

    tokens: tf.Tensor
    log_probs: tf.Tensor
    finished: Hypotheses
    ended: tf.Tensor | tuple

    def is_running(self):
        return tf.reduce_any(self.log_probs > DEAD)


def start_search(sampler, first_tokens, max_lengths):
    """Returns the `Search` before the first step: one live beam for each row.

    Args:
        sampler: A `Sampler`.
        first_tokens: `[batch]` int32.
        max_lengths: `[batch]` int32. If it is 0, the only hypothesis is the empty one.
    """
    can_run = (max_lengths > 0)[:, None]
    # All beams start from the same token: were they all alive, they would stay copies.
    beams = tf.where(tf.range(sampler.num_beams) == 0, 0.0, DEAD)[None, :]
    empty = tf.where(tf.range(sampler.num_kept) == 0, 0.0, DEAD)[None, :]
    found = tf.where(can_run, DEAD, empty)  # [batch, n]
    zeros = tf.zeros_like(found, tf.int32)
    return Search(
        tokens=tf.repeat(first_tokens[:, None], sampler.num_beams, axis=1),
        log_probs=tf.where(can_run, beams, DEAD),
        finished=Hypotheses(found, found, zeros, zeros),
        ended=() if sampler.ends_after is None else tf.zeros_like(max_lengths),
    )


def advance(search, sampler, next_tokens, uniforms, step, max_lengths, end_ids):
    """Advances the search by one token.

    Args:
        search: A `Search`.
        sampler: A `Sampler`.
        next_tokens: The `NextTokens` of its beams.
        uniforms: `[batch]` float32 for this step, or None.
        step: int32 scalar, counted from 0.
        max_lengths: `[batch]` int32.
        end_ids: The tokens that end a hypothesis.

    Returns:
        The next `Search`, and `[batch, beams]` int32: the beam that each of its beams continues.
    """
    candidates = sampler.candidates(next_tokens, search.log_probs, uniforms)
    length = step + 1
    is_end = is_one_of(candidates.tokens, end_ids)
    is_last = (length == max_lengths)[:, None]

    going_on = tf.where(is_end, DEAD, candidates.log_probs)
    live, order = tf.math.top_k(going_on, sampler.num_beams)  # [batch, beams]
    tokens = tf.gather(candidates.tokens, order, batch_dims=1)
    parents = tf.gather(candidates.parents, order, batch_dims=1)

    ending, num_ended = candidates, search.ended
    if sampler.only_best_end:
        ending = Candidates(*(part[:, : sampler.num_beams] for part in candidates))
        is_end = is_end[:, : sampler.num_beams]
    ended = tf.where(is_end, ending.log_probs, DEAD)
    cut = tf.where(is_last, live, DEAD)
    beams = tf.broadcast_to(tf.range(sampler.num_beams), tf.shape(cut))
    finished = best_of(
        search.finished,
        Hypotheses(
            sampler.score(ended, length), ended, tf.fill(tf.shape(ended), step), ending.parents
        ),
        Hypotheses(sampler.score(cut, length), cut, tf.fill(tf.shape(cut), length), beams),
    )
    attainable = sampler.attainable(live[:, 0], length, max_lengths)
    is_done = is_last | (finished.scores[:, -1] >= attainable)[:, None]
    if sampler.ends_after is not None:
        num_ended += tf.math.count_nonzero(ended > DEAD, axis=1, dtype=tf.int32)
        is_done |= (num_ended >= sampler.ends_after)[:, None]
    return Search(tokens, tf.where(is_done, DEAD, live), finished, num_ended), parents


def is_one_of(tokens, ids):
    """Returns which tokens are one of several ids, at least one."""
    return tf.reduce_any([tokens == each for each in ids], axis=0)


def best_of(kept, *others):
    """Returns the best `Hypotheses`, as many as `kept` holds; the earlier ones in a tie."""
    everything = [tf.concat(parts, axis=1) for parts in zip(kept, *others, strict=True)]
    scores, order = tf.math.top_k(everything[0], kept.scores.shape[1])
    return Hypotheses(scores, *(tf.gather(part, order, batch_dims=1) for part in everything[1:]))


def trace_back(finished, tokens, parents):
    """Follows each finished hypothesis from its end to its start.

    Args:
        finished: `Hypotheses`.
        tokens: `[time, batch, beams]` int32, the token that each beam got in each step.
        parents: `[time, batch, beams]` int32, the beam that each beam continued in each step.

    Returns:
        The tokens of the hypotheses and the beams that produced them, both `[time, batch, n]`.
        Beyond the length of a hypothesis they are meaningless.
    """

    def back(later, now):
        step, tokens, parents = now
        _, beams = later
        earlier = tf.gather(parents, beams, batch_dims=1)
        earlier = tf.where(step < finished.lengths, earlier, beams)
        return tf.gather(tokens, beams, batch_dims=1), earlier

    steps = tf.range(tf.shape(tokens)[0])
    nothing = tf.zeros_like(finished.beams)
    return tf.scan(back, (steps, tokens, parents), (nothing, finished.beams), reverse=True)
