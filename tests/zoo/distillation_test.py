"""Distillation: the labels against NumPy, what the batches hold, and what is learned."""

import collections

import numpy as np
import pytest

import zoo
from tests.zoo.conftest import LINE
from zoo.data.windows import random_windows
from zoo.training.distillation import with_soft_labels, with_swapped_words
from zoo.training.language import LanguageRecipe

SIZES = {"num_layers": 1, "size": 16, "num_heads": 2, "context_length": 16, "dropout": 0.0}


@pytest.fixture(scope="module")
def teachers():
    tokenizer = zoo.ByteBPETokenizer([], prefix_space=False)
    models = [
        zoo.load("transformer_lm", weights=None, tokenizer=tokenizer, opening="\n", **SIZES)
        for _ in range(2)
    ]
    for model in models:
        model.build()
    return models


def test_labels_are_those_of_the_teachers_and_the_text_in_their_shares(teachers):
    stream = teachers[0].tokens(LINE)
    windows = random_windows(stream, 16, batch_size=2, seed=1)
    shares = [0.5, 0.2]
    found = list(with_soft_labels(windows, teachers, shares).as_numpy_iterator())
    assert len(found) == len(list(windows)) > 0
    for inputs, labels, weights in found:
        expected = 0.3 * np.eye(259)[following(stream, inputs)]
        for share, teacher in zip(shares, teachers, strict=True):
            logits = teacher.core(inputs).numpy().astype("float64")
            expected += share * np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        np.testing.assert_allclose(labels, expected, atol=1e-6)
        np.testing.assert_array_equal(weights, np.ones((2, 16)))


def following(stream, windows):
    """Returns the token that follows each token of windows of a stream."""
    streams = [stream[first : first + 17] for first in range(len(stream) - 16)]
    return np.stack(
        [next(each[1:] for each in streams if (each[:-1] == window).all()) for window in windows]
    )


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_teachers_have_a_share(share):
    with pytest.raises(ValueError, match=r"`teacher_share` must be from 0 to 1. Received: .*1"):
        LanguageRecipe("transformer_lm", teacher_share=share)


def test_words_are_swapped_for_others_of_the_text():
    text = "The cat isn't here: He said 'no', the Dog ran.\n" * 200
    swapped = with_swapped_words(text, 0.3, seed=1)
    assert with_swapped_words(text, 0.3, seed=1) == swapped
    assert with_swapped_words(text, 0.0) == text
    old, new = text.split(), swapped.split()
    assert len(old) == len(new)
    kept = np.mean([a == b for a, b in zip(old, new, strict=True)])
    assert 0.7 < kept < 0.8  # some were swapped for themselves
    counts = collections.Counter(new)
    assert {"isn't", "ran.", "Dog"} < set(counts)
    assert all(word[0].isupper() for word in new[::10])  # where "The" was
