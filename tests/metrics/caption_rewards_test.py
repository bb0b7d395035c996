"""Rewards of captions against coco-caption and against their equations."""

import collections

import numpy as np
import pytest
from pycocoevalcap.cider.cider import Cider

from tests.metrics.caption_equations import HYPOTHESES, REFERENCES, bleu, cider, split
from zoo.metrics.caption_rewards import (
    CaptionReward,
    CiderReward,
    bleu_rewards,
    unigram_rewards,
)

WORDS = [text.split() for text in HYPOTHESES]

# ----------------------------------------------------------------------------------------- CIDEr


def test_rewards_are_those_of_coco_caption():
    words = np.random.default_rng(0).integers(0, 12, (40, 4, 9)).astype(str)
    texts = [
        [" ".join(text[: len(text) - (image + row) % 5]) for row, text in enumerate(group)]
        for image, group in enumerate(words)
    ]
    hypotheses, references = [group[0] for group in texts], [group[1:] for group in texts]
    _, expected = Cider().compute_score(
        dict(enumerate(references)), {image: [text] for image, text in enumerate(hypotheses)}
    )
    reward = CiderReward(split(references))
    rewards = reward([text.split() for text in hypotheses], split(references))
    np.testing.assert_allclose(rewards, expected)
    assert min(rewards) < 1 < max(rewards)
    some = reward([text.split() for text in hypotheses[5:7]], split(references)[5:7])
    np.testing.assert_allclose(some, expected[5:7])


def test_rewards_of_captions_beyond_the_corpus():
    corpus = split(REFERENCES)
    hypothesis, references = ["a", "zebra", "runs", "over"], [["a", "zebra"], ["a", "dog"]]
    (reward,) = CiderReward(corpus)([hypothesis], [references])
    assert reward == pytest.approx(cider(hypothesis, references, corpus))


def test_token_ids_do_as_well():
    corpus, hypotheses = split(REFERENCES), [text.split() for text in HYPOTHESES]
    ids = collections.defaultdict(lambda: len(ids))

    def numbered(captions):
        return [[ids[word] for word in text] for text in captions]

    as_ids = CiderReward([numbered(image) for image in corpus])
    np.testing.assert_allclose(
        as_ids(numbered(hypotheses), [numbered(image) for image in corpus]),
        CiderReward(corpus)(hypotheses, corpus),
    )


def test_an_empty_caption_earns_nothing():
    assert CiderReward(split(REFERENCES))([[]], [[["a", "cat"]]]) == [0.0]
    assert CaptionReward(split(REFERENCES), {"unigram_f": 1.0})([[]], [[["a", "cat"]]]) == [0.0]


def test_what_cannot_be_rewarded_is_refused():
    reward = CiderReward([[["a", "dog"]]])
    with pytest.raises(ValueError, match="empty corpus"):
        CiderReward([])
    with pytest.raises(TypeError, match=r"corpus\[0\] must be .* lists? of tokens: split them"):
        CiderReward([["a dog"]])
    with pytest.raises(TypeError, match=r"corpus\[0\] must be .*corpus\[0\]=\[1, 2\]"):
        CiderReward([[1, 2], [3]])
    with pytest.raises(TypeError, match="hypotheses must be .*split them first"):
        reward(["a dog"], [[["a", "dog"]]])
    with pytest.raises(ValueError, match="1 hypotheses and 2 lists"):
        reward([["a"]], [[["a"]], [["a"]]])
    with pytest.raises(ValueError, match=r"references\[0\]=\[\]"):
        reward([["a"]], [[]])


# ---------------------------------------------------------------------------------- BLEU, METEOR


def test_bleu_of_one_caption_after_the_other():
    rewards = bleu_rewards(WORDS, split(REFERENCES))
    for of_one, text, references in zip(rewards.T, HYPOTHESES, REFERENCES, strict=True):
        expected = [bleu([text], [references], n) for n in (1, 2, 3, 4)]
        np.testing.assert_allclose(100 * of_one, expected, atol=0.02)
    assert rewards[3].min() < 0.1 < 0.5 < rewards[3].max()


def test_unigrams_are_weighed_as_by_meteor():
    # The weight of a word is ¼ for "a", "on", "the" and "over", ¾ for the others.
    hypothesis, reference = "a dog runs on the grass", "the dog runs over green grass fast"
    matched = 0.75 + 0.75 + 0.75 + 0.25
    precision, recall = matched / 3.0, matched / 4.25
    expected = precision * recall / (0.85 * precision + 0.15 * recall)
    for references in ([reference], ["a cat", reference]):
        (found,) = unigram_rewards([hypothesis.split()], split([references]))
        assert found == pytest.approx(expected)
    assert unigram_rewards([["dog", "dog"]], [[["dog"]]]) == pytest.approx(
        0.5 / (0.85 * 0.5 + 0.15)
    )
    assert unigram_rewards([["a", "cat"]], [[["the", "dog"]]]) == [0.0]


def test_a_sentence_is_its_own_best_caption():
    references = [[words] for words in WORDS]
    np.testing.assert_allclose(unigram_rewards(WORDS, references), 1.0)
    np.testing.assert_allclose(bleu_rewards(WORDS, references)[:2], 1.0, atol=1e-6)


# --------------------------------------------------------------------------------------- mixture


def with_end(captions):
    return [[*words, "<end>"] for words in captions]


def test_a_mixture_is_the_weighted_sum():
    weights = {"cider": 0.5, "bleu_1": 2.0, "bleu_4": 3.0, "unigram_f": 4.0}
    corpus = split(REFERENCES)
    ended = with_end(WORDS), [with_end(captions) for captions in corpus]
    of_words = bleu_rewards(*ended)
    expected = (
        0.5 * np.array(CiderReward(ended[1])(*ended))
        + 2.0 * of_words[0]
        + 3.0 * of_words[3]
        + 4.0 * unigram_rewards(WORDS, corpus)
    )
    np.testing.assert_allclose(CaptionReward(corpus, weights)(WORDS, corpus), expected)


@pytest.mark.parametrize("name", ["cider", "bleu_1"])
def test_a_caption_that_stops_too_early_misses_the_end(name):
    corpus = [[["a", "dog", "runs"]], [["a", "cat"]]]
    reward = CaptionReward(corpus, {name: 1.0})
    early, whole = reward([["a", "dog"], ["a", "dog", "runs"]], [corpus[0], corpus[0]])
    assert early < 0.9 * whole


@pytest.mark.parametrize("weights", [{}, {"meteor": 1.0}, {"cider": 1.0, "bleu": 1.0}])
def test_unknown_scores_are_refused(weights):
    with pytest.raises(ValueError, match=r"cider, bleu_1, .*unigram_f.*weights="):
        CaptionReward([[["a"]]], weights)
