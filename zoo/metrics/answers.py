"""Scores of answers against human references, as in SQuAD."""

import collections
import re
import string
from typing import NamedTuple

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")


class AnswerScores(NamedTuple):
    """Scores in percent.

    Attributes:
        exact_match: Share of answers that equal a reference.
        f1: Mean of the harmonic means of precision and recall of words.
    """

    exact_match: float
    f1: float


def answer_scores(answers, references):
    """Returns the `AnswerScores` of answers, as computed by SQuAD's script.

    Case, punctuation, English articles and white space are ignored. Of several references, the best
    match counts. An empty reference means that the question has no answer, as in SQuAD 2.0.

    Papers: Rajpurkar et al. 2016, section 6.1 (https://arxiv.org/abs/1606.05250); Rajpurkar et al.
    2018 (https://arxiv.org/abs/1806.03822).

    Args:
        answers: List of `str`.
        references: For each a list of `str`; an empty list for a question without an answer.

    Raises:
        ValueError: If there are no answers, or the numbers of answers and references differ.
        TypeError: If an answer is not a `str`, or its references are not a list of `str`.

    Example:

    >>> answer_scores(["the mat", "in Rome"], [["The mat."], ["Rome", "Paris"]])
    AnswerScores(exact_match=50.0, f1=83.33...)
    """
    if not len(answers) or len(answers) != len(references):
        raise ValueError(
            f"Each answer needs a list of references. Received: {len(answers)} answers and "
            f"{len(references)} references."
        )
    exact, overlap = [], []
    for answer, several in zip(answers, references, strict=True):
        _require_texts(answer, several)
        words = _words(answer)
        several = [known for known in map(_words, several) if known] or [[]]
        exact.append(max(words == known for known in several))
        overlap.append(max(_f1(words, known) for known in several))
    return AnswerScores(100.0 * float(np.mean(exact)), 100.0 * float(np.mean(overlap)))


def _require_texts(answer, references):
    """Raises a `TypeError` unless an answer is a `str`, and its references are a list of them."""
    if not isinstance(answer, str):
        is_result = hasattr(answer, "text")
        way_out = " Pass [each.text for each in answers]." if is_result else ""
        raise TypeError(f"An answer must be a `str`. Received: {answer!r:.200}.{way_out}")
    is_list = hasattr(references, "__len__") and not isinstance(references, str | dict)
    if not is_list or not all(isinstance(each, str) for each in references):
        way_out = ""
        if isinstance(references, str):
            way_out = " Put it into a list."
        elif isinstance(references, dict) and "text" in references:
            way_out = " Pass references['text']."
        raise TypeError(
            f"The references of an answer must be a list of `str`. Received: {references!r:.200}."
            f"{way_out}"
        )


def _words(text):
    text = "".join(each for each in text.lower() if each not in string.punctuation)
    return _ARTICLES.sub(" ", text).split()


def _f1(words, known):
    if not words or not known:
        return float(words == known)
    common = sum((collections.Counter(words) & collections.Counter(known)).values())
    return 2 * common / (len(words) + len(known))
