"""Distillation: a model learns from the predictions of trained ones."""

import re

import numpy as np
import tensorflow as tf


def with_soft_labels(batches, teachers, shares):
    """Returns batches whose labels mix the probabilities of teachers with the original labels.

    $$ q(v) = \\sum_k share_k \\, p^{(k)}(v) + (1 - \\sum_k share_k) [v = y] $$

    Paper: Hinton et al. 2015, Distilling the knowledge in a neural network
    (https://arxiv.org/abs/1503.02531).

    Args:
        batches: Data set of `(inputs, labels, weights)`; labels are int32 `(batch, length)`.
        teachers: Trained models of the task, with the same vocabulary.
        shares: Share of each teacher; together at most 1.

    Returns:
        A data set of `(inputs, labels, weights)`, the labels float32 `(batch, length, vocabulary)`.
    """

    def soften(inputs, labels, weights):
        expected = [tf.nn.softmax(teacher.core(inputs, training=False)) for teacher in teachers]
        real = (1.0 - sum(shares)) * tf.one_hot(labels, expected[0].shape[-1])
        soft = [share * each for share, each in zip(shares, expected, strict=True)]
        return inputs, sum(soft, real), weights

    return batches.map(soften).prefetch(1)


def with_swapped_words(text, share, seed=0):
    """Returns a text in which some words are replaced by others from the same text.

    Teachers cannot rely on memorized text here, so that they show what they have generalized.
    A word in lower case is replaced by one in lower case, any other by another, each as often as it
    occurs; the characters between words are kept.

    Paper: Tang et al. 2019, Distilling task-specific knowledge from BERT into simple neural
    networks, section 3.3 (https://arxiv.org/abs/1903.12136), where words are replaced as well.

    Args:
        text: A `str`.
        share: Share of the words, 0 to 1.
        seed: Integer seed.

    Example:

    >>> with_swapped_words("The cat sat. A dog ran.", share=0.5, seed=3)
    'A sat sat. A sat cat.'
    """
    pieces = re.split(r"([\w']+)", text)  # words stand at odd places
    words = pieces[1::2]
    alike = {True: [], False: []}
    for word in words:
        alike[word.islower()].append(word)
    draws = np.random.default_rng(seed)
    chosen = draws.random(len(words)) < share
    for place in np.flatnonzero(chosen):
        others = alike[words[place].islower()]
        pieces[2 * place + 1] = others[draws.integers(len(others))]
    return "".join(pieces)
