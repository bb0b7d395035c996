"""Beam search."""

import dataclasses
import math
from numbers import Integral, Real

import keras
import tensorflow as tf

from zoo.decoding.base import Sampler, require

LARGEST_PENALTY = 10  # with it, the power of a length of 1,000 is far from overflow


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class BeamSampler(Sampler):
    """Beam search with a set of finished hypotheses.

    $$ score(y) = \\log p(y) / |y|^{length\\_penalty} $$

    `|y|` counts every token that `log p` sums over, so the end token counts where it was produced.
    This is the score of Hugging Face, and that of Wu et al. without the constants in
    `((5 + |y|) / 6)^α`.

    A step considers the `2 · num_beams` most probable continuations of a row (more with additional
    `end_ids`): those that end go to the finished set, and the `num_beams` best others stay alive.
    So a good short hypothesis is never crowded out by longer ones. With `only_best_end`, those that
    end only do so if they are among the `num_beams` most probable ones. Hypotheses that reach their
    maximum length compete as they are.

    Papers: Wu et al. 2016, Google's Neural Machine Translation System, section 7
    (https://arxiv.org/abs/1609.08144); Freitag and Al-Onaizan 2017, Beam Search Strategies for
    Neural Machine Translation (https://aclanthology.org/W17-3207); Kasai et al. 2022, A Call for
    Clarity in Beam Search (https://arxiv.org/abs/2204.05424), for `patience`.

    Args:
        num_beams: Number of live hypotheses per row.
        length_penalty: Exponent of the length. 0 ranks by log-probability alone; above 0 favors
            long hypotheses, below 0 short ones, since log-probabilities are negative. From -10 to
            10: larger powers of the length overflow.
        num_return_sequences: Number of hypotheses to return per row, best first. They differ in
            their tokens, not always in their texts.
        exact: If True, stop a row when no further hypothesis can change the result, which for a
            positive `length_penalty` is often only at the maximum length. If False, stop it when no
            live hypothesis would enter the result by ending with its next token: this is much
            earlier, and rarely changes the result. Hugging Face calls the two
            `early_stopping="never"` and `early_stopping=False`, but for the latter see
            `only_best_end`.
        patience: If given, a row also stops as soon as `patience · num_beams` hypotheses have
            ended. Hugging Face calls `exact=True, patience=1.0` `early_stopping=True`.
        only_best_end: Whether a continuation that ends its hypothesis counts only if it is among
            the `num_beams` most probable ones, as in Hugging Face, fairseq and CTranslate2. With
            `exact=False`, a row also stops as in Hugging Face: when `num_beams` hypotheses have
            ended, and no live one has a better score than the worst of them.

    Raises:
        ValueError: If a number is out of range.

    Example:

    >>> BeamSampler(num_beams=8, length_penalty=0.6)
    BeamSampler(num_beams=8, length_penalty=0.6, num_return_sequences=1, exact=True)
    """

    num_beams: int = 4
    length_penalty: float = 1.0
    num_return_sequences: int = 1
    exact: bool = True
    patience: float | None = None
    only_best_end: bool = False

    numbers = ("length_penalty",)

    def __post_init__(self):
        super().__post_init__()
        beams, penalty, returned = self.num_beams, self.length_penalty, self.num_return_sequences
        is_count = isinstance(beams, Integral) and beams >= 1
        require(is_count, "an integer of at least 1", num_beams=beams)
        is_usual = isinstance(penalty, Real) and abs(penalty) <= LARGEST_PENALTY
        expectation = f"a number from -{LARGEST_PENALTY} to {LARGEST_PENALTY}"
        require(is_usual, expectation, length_penalty=penalty)
        is_part = isinstance(returned, Integral) and 1 <= returned <= beams
        require(is_part, f"an integer from 1 to num_beams={beams}", num_return_sequences=returned)
        patience = self.patience
        is_usual = patience is None or isinstance(patience, Real) and 0 < patience < float("inf")
        require(is_usual, "a number above 0, or None", patience=patience)
        self._keep(
            num_beams=int(beams),
            length_penalty=float(penalty),
            num_return_sequences=int(returned),
            patience=None if patience is None else float(patience),
        )

    @property
    def ends_after(self):
        return None if self.patience is None else math.ceil(self.patience * self.num_beams)

    @property
    def num_kept(self):
        return self.num_beams if self._stops_as_hugging_face else self.num_return_sequences

    @property
    def _stops_as_hugging_face(self):
        return self.only_best_end and not self.exact

    def candidates(self, next_tokens, totals, uniforms):
        # One continuation of a beam ends with each end token, so that `num_beams` of these go on.
        return next_tokens.best(totals, (2 + len(self.end_ids)) * self.num_beams)

    def score(self, log_probs, length):
        return log_probs / tf.cast(length, tf.float32) ** self.length_penalty

    def attainable(self, log_probs, length, max_lengths):
        # A log-probability only falls. As long as it stays where it is, the score rises with the
        # length for a positive penalty and falls with it for a negative one.
        until = length if self._stops_as_hugging_face else length + 1
        if self.exact:
            until = tf.where(self.length_penalty > 0, max_lengths, until)
        return self.score(log_probs, until)
