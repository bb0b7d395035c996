"""Caption metrics written from their equations, and captions to score."""

import collections
import math

import numpy as np

HYPOTHESES = [
    "a dog runs over the green grass",
    "two girls in red sing",
    "a man on a bike rides a bike",
    "the snow is white",
]
REFERENCES = [
    ["a dog runs over the grass", "a dog is running on the grass", "dog plays"],
    ["two girls sing a song", "girls in red coats sing in the street"],
    ["a man rides a bike", "a man is on a bike on the road", "someone rides on a road", "a bike"],
    ["people walk in the snow", "two people on the white snow"],
]


def ngrams(tokens, n):
    return [" ".join(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]


def bleu(hypotheses, references, largest_n):
    """Corpus BLEU of several references: counts are clipped to the largest in any reference."""
    logs = []
    for n in range(1, largest_n + 1):
        matched = proposed = 0
        for hypothesis, texts in zip(hypotheses, references, strict=True):
            mine = collections.Counter(ngrams(hypothesis.split(), n))
            theirs = [collections.Counter(ngrams(text.split(), n)) for text in texts]
            matched += sum(
                min(count, max(each[ngram] for each in theirs)) for ngram, count in mine.items()
            )
            proposed += mine.total()
        if not matched:
            return 0.0
        logs.append(math.log(matched / proposed))
    return 100 * brevity_penalty(hypotheses, references) * math.exp(sum(logs) / largest_n)


def brevity_penalty(hypotheses, references):
    """The brevity penalty, by the reference of the closest length."""
    h = r = 0
    for hypothesis, texts in zip(hypotheses, references, strict=True):
        length = len(hypothesis.split())
        lengths = sorted(len(text.split()) for text in texts)
        h += length
        r += min(lengths, key=lambda each: abs(each - length))
    return min(1.0, math.exp(1 - r / h))


def cider(hypothesis, references, corpus):
    """CIDEr-D of one caption from its equation, with dense vectors over all n-grams."""
    total = 0.0
    for n in range(1, 5):
        images = [{ngram for text in image for ngram in ngrams(text, n)} for image in corpus]
        texts = (hypothesis, *references)
        known = sorted({ngram for text in texts for ngram in ngrams(text, n)})
        frequency = np.array([max(1, sum(ngram in image for image in images)) for ngram in known])
        mine, *vectors = (
            np.log(len(corpus) / frequency) * [ngrams(text, n).count(ngram) for ngram in known]
            for text in texts
        )
        for text, theirs in zip(references, vectors, strict=True):
            norm = np.linalg.norm(mine) * np.linalg.norm(theirs)
            penalty = np.exp(-((len(hypothesis) - len(text)) ** 2) / (2 * 6.0**2))
            if norm:
                total += penalty * np.minimum(mine, theirs) @ theirs / norm
    return 10 * total / 4 / len(references)


def split(texts):
    return [[text.split() for text in group] for group in texts]
