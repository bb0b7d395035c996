"""Scores of individual captions, which a captioner can learn from."""

import collections
import collections.abc
import math
import operator
import re
import typing

import numpy as np

from zoo.metrics.captions import coco_caption, require_references

REWARDS = ("cider", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "unigram_f")

END = "<end>"
_SIGMA = 6.0  # of CIDEr-D's penalty of lengths, in words
_RECALL_SHARE, _CONTENT_WEIGHT = 0.85, 0.75  # METEOR 1.5's α and δ for English
_FUNCTION_WORD = re.compile(
    r"a|an|and|another|are|as|at|be|by|down|for|from|has|her|his|in|into|is|it|its|near|of|"
    r"off|on|one|other|out|over|some|that|the|their|through|to|up|while|who|with"
)


class CaptionReward:
    """A weighted sum of scores of individual captions, for self-critical training.

    The scores and their ranges:

    - `"cider"`: `CiderReward`, 0 to 10. It rewards words that distinguish an image from others.
    - `"bleu_1"` to `"bleu_4"`: `bleu_rewards`, 0 to 1. It rewards words that people would use.
    - `"unigram_f"`: `unigram_rewards`, 0 to 1. It rewards covering all of a reference.

    CIDEr and BLEU count the end of a caption as a word, which a caption that stops too early
    misses.

    Papers: Rennie et al. 2017, Self-critical sequence training (https://arxiv.org/abs/1612.00563);
    Liu et al. 2017, Improved image captioning via policy gradient optimization of SPIDEr
    (https://arxiv.org/abs/1612.00370), for a mixture of metrics.

    Args:
        corpus: For each image of the training data a list of its captions, each a list of words.
        weights: Dictionary of the weight of each score; omitted scores do not count.

    Call arguments:
        hypotheses: A list of captions, each a list of words.
        references: For each hypothesis a list of captions.

    Returns:
        A float64 array of rewards, one for each hypothesis.

    Raises:
        ValueError: If a score is unknown, there is none, or the corpus is empty.

    Example:

    >>> dog, girls = [["a", "dog", "runs"], ["the", "dog"]], [["two", "girls", "sing"]]
    >>> reward = CaptionReward([dog, girls], {"cider": 1.0, "bleu_1": 2.0})
    >>> reward([["a", "dog"], ["two", "dogs"]], [dog, girls]).round(3).tolist()
    [4.76, 1.962]
    """

    def __init__(self, corpus, weights):
        if not weights or not set(weights) <= set(REWARDS):
            raise ValueError(
                f"weights must name at least one of {', '.join(REWARDS)}. Received: "
                f"weights={weights!r}."
            )
        self.weights = dict(weights)
        self.cider = CiderReward([_ended(captions) for captions in corpus])

    def __call__(self, hypotheses, references):
        scores, ended = {}, (_ended(hypotheses), [_ended(captions) for captions in references])
        if "cider" in self.weights:
            scores["cider"] = np.array(self.cider(*ended))
        if any(name.startswith("bleu") for name in self.weights):
            scores |= zip(REWARDS[1:5], bleu_rewards(*ended), strict=True)
        if "unigram_f" in self.weights:
            scores["unigram_f"] = unigram_rewards(hypotheses, references)
        return sum(weight * scores[name] for name, weight in self.weights.items())


def bleu_rewards(hypotheses, references):
    """Returns BLEU-1 to BLEU-4 of individual captions, computed by coco-caption's own code.

    For single captions, BLEU-4 is often 0, and is not smoothed.

    Paper: Papineni et al. 2002, BLEU: a Method for Automatic Evaluation of Machine Translation
    (https://aclanthology.org/P02-1040).

    Args:
        hypotheses: A list of captions, each a list of words.
        references: For each hypothesis a list of captions.

    Returns:
        A float64 array `(4, hypotheses)` from 0 to 1.

    Example:

    >>> bleu_rewards([["a", "dog", "runs"]], [[["a", "dog"], ["the", "dog", "runs"]]]).round(3)
    array([[1.],
           [1.],
           [0.],
           [0.]])
    """
    scorer = coco_caption("bleu.bleu_scorer").BleuScorer()
    for hypothesis, captions in zip(hypotheses, references, strict=True):
        scorer += " ".join(hypothesis), [" ".join(caption) for caption in captions]
    _, of_captions = scorer.compute_score("closest")
    return np.array(of_captions)


def unigram_rewards(hypotheses, references):
    """Returns METEOR's mean of precision and recall of words, for individual captions.

        F = max over r of P·R / (α·P + (1 − α)·R)        α = 0.85
        P = |h ∩ r| / |h|        R = |h ∩ r| / |r|

    with the multisets of words of the hypothesis h and of a reference r, weighted: a word such as
    "the" or "on" counts ¼, any other ¾. So omissions cost more than superfluous words. This is
    METEOR 1.5 for exact matches of words, in any order; METEOR also lets stems, synonyms and
    paraphrases match, and penalizes a different order.

    Paper: Denkowski and Lavie 2014, Meteor universal: language specific translation evaluation for
    any target language (https://aclanthology.org/W14-3348).

    Args:
        hypotheses: A list of captions, each a list of words.
        references: For each hypothesis a list of captions.

    Returns:
        A float64 array `(hypotheses,)` from 0 to 1.

    Example:

    >>> references = [[["a", "dog", "runs"], ["the", "dog", "sleeps"]]]
    >>> unigram_rewards([["a", "dog"]], references).round(3).tolist()
    [0.611]
    """
    return np.array(
        [
            max(_unigram_f(hypothesis, caption) for caption in captions)
            for hypothesis, captions in zip(hypotheses, references, strict=True)
        ]
    )


def _ended(captions):
    return [[*words, END] for words in captions]


def _unigram_f(hypothesis, reference):
    proposed, expected = collections.Counter(hypothesis), collections.Counter(reference)
    matched = _weight(proposed & expected)
    if not matched:
        return 0.0
    precision, recall = matched / _weight(proposed), matched / _weight(expected)
    return precision * recall / (_RECALL_SHARE * precision + (1 - _RECALL_SHARE) * recall)


def _weight(counts):
    return sum(
        count * (1 - _CONTENT_WEIGHT if _FUNCTION_WORD.fullmatch(word) else _CONTENT_WEIGHT)
        for word, count in counts.items()
    )


class CiderReward:
    """CIDEr-D of individual captions, a reward for self-critical training.

        reward = 10 · meanᵣ exp(−(|h| − |r|)² / (2 · 6²)) · ¼ Σₙ cosₙ(h, r)
        cosₙ(h, r) = min(gₙ(h), gₙ(r)) · gₙ(r) / (‖gₙ(h)‖ ‖gₙ(r)‖)

    with h the hypothesis and r its references. gₙ counts the n-grams of n words, n = 1 ... 4, each
    count times log(images / images that have it in a reference); this weight is computed once, from
    a corpus. On the corpus itself the rewards are those of coco-caption, and their mean is a
    hundredth of `CaptionScores.cider`.

    Papers: Vedantam et al. 2015, CIDEr: Consensus-based Image Description Evaluation
    (https://arxiv.org/abs/1411.5726); Rennie et al. 2017, Self-critical Sequence Training for Image
    Captioning (https://arxiv.org/abs/1612.00563).

    Args:
        corpus: For each image of the training data a list of its captions, each a list of tokens:
            `str`, or the ids that the model returns. End and padding tokens count like any other.

    Call arguments:
        hypotheses: A list of captions, each a list of tokens.
        references: For each hypothesis a list of captions, from the corpus or not.

    Returns:
        A list of rewards from 0 to 10, one for each hypothesis.

    Example:

    >>> dog, girls = [["a", "dog", "runs"], ["the", "dog"]], [["two", "girls", "sing"]]
    >>> reward = CiderReward([dog, girls])
    >>> [round(each, 3) for each in reward([["a", "dog"], ["two", "dogs"]], [dog, girls])]
    [2.503, 1.007]
    """

    def __init__(self, corpus):
        if len(corpus) == 0:
            raise ValueError("CiderReward needs captions to learn from. Received an empty corpus.")
        images_with = collections.Counter()
        for image, captions in enumerate(corpus):
            _require_token_lists(f"corpus[{image}]", captions)
            images_with.update({ngram for tokens in captions for ngram in _ngram_counts(tokens)})
        self._unseen = math.log(len(corpus))
        self._weights = {
            ngram: self._unseen - math.log(images) for ngram, images in images_with.items()
        }

    def __call__(self, hypotheses, references):
        _require_token_lists("hypotheses", hypotheses)
        require_references(hypotheses, references, _require_token_lists)
        return [
            self._reward(hypothesis, captions)
            for hypothesis, captions in zip(hypotheses, references, strict=True)
        ]

    def _reward(self, hypothesis, captions):
        proposed = self._vector(hypothesis)
        similarities = [_similarity(proposed, self._vector(caption)) for caption in captions]
        return 10 * sum(similarities) / len(similarities)

    def _vector(self, tokens):
        weighted = {
            ngram: count * self._weights.get(ngram, self._unseen)
            for ngram, count in _ngram_counts(tokens).items()
        }
        squares = [0.0] * 4
        for ngram, weight in weighted.items():
            squares[len(ngram) - 1] += weight**2
        return _Vector(weighted, [math.sqrt(square) for square in squares], len(tokens))


class _Vector(typing.NamedTuple):
    """The weighted n-grams of a caption, their norm for each n, and the length of the caption."""

    weighted: dict
    norms: list
    length: int


def _similarity(proposed, expected):
    """Mean over n of the clipped cosines of two vectors, reduced if their lengths differ."""
    products = [0.0] * 4
    for ngram in proposed.weighted.keys() & expected.weighted.keys():
        weight = expected.weighted[ngram]
        products[len(ngram) - 1] += min(proposed.weighted[ngram], weight) * weight
    norms = map(operator.mul, proposed.norms, expected.norms)
    cosines = [
        product / norm if norm else 0.0 for product, norm in zip(products, norms, strict=True)
    ]
    penalty = math.exp(-((proposed.length - expected.length) ** 2) / (2 * _SIGMA**2))
    return penalty * sum(cosines) / 4


def _ngram_counts(tokens):
    return collections.Counter(
        tuple(tokens[start : start + n])
        for n in (1, 2, 3, 4)
        for start in range(len(tokens) - n + 1)
    )


def _require_token_lists(name, captions):
    if isinstance(captions, str) or any(
        isinstance(tokens, str) or not isinstance(tokens, collections.abc.Sized)
        for tokens in captions
    ):
        raise TypeError(
            f"{name} must be a list of captions, each a list of tokens: split them first. "
            f"Received: {name}={captions!r:.80}"
        )
