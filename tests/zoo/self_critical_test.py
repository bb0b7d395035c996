"""Self-critical training: the rewards of sampled texts, which are higher afterwards."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.pictures import CHANNELS, MeanColors
from zoo.metrics.bleu import sentence_bleu
from zoo.metrics.caption_rewards import CaptionReward
from zoo.training.self_critical import (
    PolicyGradientLoss,
    advantages,
    self_critical_captions,
    self_critical_translations,
)

REFERENCES = [["a red dog runs", "the red dog"], ["a blue cat sleeps", "one blue cat"]]
CIDER = {"cider": 1.0}


@pytest.fixture(scope="module")
def features():
    annotations = np.random.default_rng(0).normal(size=(2, 4, CHANNELS)).astype("float32")
    return tf.data.Dataset.from_tensor_slices({"annotations": annotations, "captions": REFERENCES})


@pytest.fixture
def model():
    random.seed(1)
    texts = [caption for captions in REFERENCES for caption in captions]
    tokenizer = zoo.ByteBPETokenizer.train(texts, vocabulary_size=300)
    return zoo.load(
        "show_attend_tell",
        weights=None,
        tokenizer=tokenizer,
        backbone=MeanColors(),
        channels=CHANNELS,
        size=16,
        units=16,
        dropout=0.0,
        doubly_stochastic=0.0,
    )


def reward_of(texts, owners, weights):
    corpus = [[caption.split() for caption in captions] for captions in REFERENCES]
    reward = CaptionReward(corpus, weights)
    return reward([text.split() for text in texts], [corpus[owner] for owner in owners])


def test_advantages():
    found = advantages([1.0, 4.0, 7.0, 2.0, 2.0, 2.0], samples=3)
    np.testing.assert_allclose(found, [1 - 5.5, 4 - 4, 7 - 2.5, 0, 0, 0])


def test_loss_is_the_sum_of_weighed_log_probabilities_of_what_can_be_drawn():
    tokenizer = zoo.ByteBPETokenizer([])
    assert (tokenizer.pad_id, tokenizer.start_id) == (0, 1)
    rng = np.random.default_rng(0)
    logits, weights = rng.normal(size=(2, 3, 7)), rng.normal(size=(2, 3))
    labels = rng.integers(2, 7, size=(2, 3))
    labels[1, 2], weights[1, 2] = tokenizer.pad_id, 0.0
    of_labels = np.take_along_axis(logits, labels[:, :, None], axis=-1)[:, :, 0]
    log_probabilities = of_labels - np.log(np.exp(logits[:, :, 2:]).sum(axis=-1))
    loss = PolicyGradientLoss(tokenizer)
    with tf.GradientTape() as tape:
        given = tf.Variable(logits, dtype=tf.float32)
        found = loss(labels, given, weights)
    assert float(found) == pytest.approx(-(weights * log_probabilities).sum(), rel=1e-5)
    gradient = tape.gradient(found, given).numpy()
    assert (gradient[:, :, :2] == 0.0).all()
    assert (gradient[:, :, 2:][weights != 0.0] != 0.0).all()


@pytest.mark.full
@pytest.mark.parametrize("rewards", [None, {"bleu_1": 3.0, "unigram_f": 1.0}], ids=str)
def test_batches_weigh_each_word_by_what_its_caption_earned(model, features, rewards):
    model.compile(optimizer="adam")
    model.fit(features.repeat(20), batch_size=4, verbose=0)
    batches = self_critical_captions(model, features, rewards, samples=4, max_length=6)
    ((inputs, labels, weights),) = batches
    assert len(batches) == 1
    assert inputs["annotations"].shape == (2, 4, CHANNELS)
    stack = {
        tuple(each["annotations"].ravel()): n for n, each in enumerate(features.as_numpy_iterator())
    }
    owners = np.repeat([stack[tuple(each.ravel())] for each in inputs["annotations"].numpy()], 4)
    is_word = labels.numpy() != model.tokenizer.pad_id
    ends = labels.numpy() == model.tokenizer.end_id
    ids = np.where(ends, model.tokenizer.pad_id, labels)
    texts = [text.decode() for text in model.tokenizer.detokenize(ids).numpy()]
    assert len(set(texts)) > 2
    earned = reward_of(texts, owners, rewards or CIDER)
    expected = advantages(earned, samples=4)[:, None] * is_word / is_word.sum()
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    assert is_word.any(axis=0).all(), "longer than the longest"
    np.testing.assert_array_equal(inputs["target_ids"][:, 1:], ids[:, :-1])


@pytest.mark.full
def test_captions_earn_more_afterwards(model, features):
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    model.fit(features.repeat(30), batch_size=4, verbose=0)

    def earned():
        annotations = np.stack([each["annotations"] for each in features.as_numpy_iterator()])
        annotations = np.repeat(annotations, 40, axis=0)
        texts = model.caption_annotations(annotations, sampler="random", seed=1, max_length=8)
        return np.mean(reward_of(texts, np.repeat([0, 1], 40), CIDER))

    before = earned()
    model.compile(optimizer=keras.optimizers.Adam(0.005), loss=PolicyGradientLoss(model.tokenizer))
    batches = self_critical_captions(model, features, samples=8, max_length=8, seed=2)
    model.fit(batches, epochs=25, verbose=0)
    assert earned() > 1.3 * before


def test_one_sample_has_nothing_to_be_compared_with(model, features):
    with pytest.raises(ValueError, match="samples=1"):
        self_critical_captions(model, features, samples=1)
    with pytest.raises(ValueError, match="samples=1"):
        self_critical_translations(None, None, samples=1)


# ---------------------------------------------------------------------------------- translations


PAIRS = [
    ("a man sleeps", "ein mann schläft"),
    ("the dog reads a book about cats", "der hund liest ein buch über katzen"),
    ("two girls", "zwei mädchen"),
]


@pytest.fixture
def pairs():
    return tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*PAIRS, strict=True))))


@pytest.fixture
def translator():
    random.seed(1)
    tokenizer = zoo.ByteBPETokenizer.train([text for pair in PAIRS for text in pair], 300)
    sizes = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 16, "dropout": 0.0}
    return zoo.load("transformer_nmt", weights=None, tokenizer=tokenizer, **sizes)


@pytest.mark.full
def test_translations_weigh_each_token_by_their_bleu(translator, pairs):
    translator.compile(optimizer=keras.optimizers.Adam(0.01))
    translator.fit(pairs.repeat(20), batch_size=6, verbose=0)
    tokenizer = translator.tokenizer
    read = {}
    for inputs, labels, weights in self_critical_translations(
        translator, pairs, samples=4, batch_size=2, max_length=9
    ):
        assert labels.shape[1] <= 9
        is_word = labels.numpy() != tokenizer.pad_id
        ids = np.where(labels.numpy() == tokenizer.end_id, tokenizer.pad_id, labels)
        texts = [text.decode() for text in tokenizer.detokenize(ids).numpy()]
        assert len(set(texts)) > 2
        sources = inputs["source_ids"].numpy()
        sources = np.where(sources == tokenizer.end_id, tokenizer.pad_id, sources)
        sources = [text.decode() for text in tokenizer.detokenize(sources).numpy()]
        read |= {source: sources.count(source) for source in sources}
        earned = sentence_bleu(texts, [dict(PAIRS)[source] for source in sources])
        expected = advantages(earned, samples=4)[:, None] / 10 * is_word / is_word.sum()
        np.testing.assert_allclose(weights, expected, atol=1e-6)
        np.testing.assert_array_equal(inputs["target_ids"][:, 1:], ids[:, :-1])
    assert read == {source: 4 for source, _ in PAIRS}


@pytest.mark.full
def test_translations_earn_more_afterwards(translator, pairs):
    translator.compile(optimizer=keras.optimizers.Adam(0.01))
    translator.fit(pairs.repeat(10), batch_size=6, epochs=2, verbose=0)
    sources, references = (list(texts) * 40 for texts in zip(*PAIRS, strict=True))

    def earned():
        texts = translator.translate(sources, sampler="random", seed=1, max_length=12)
        return np.mean(sentence_bleu(texts, references))

    before = earned()
    loss = PolicyGradientLoss(translator.tokenizer)
    translator.compile(optimizer=keras.optimizers.Adam(0.003), loss=loss)
    batches = self_critical_translations(
        translator, pairs.repeat(50), samples=8, batch_size=6, max_length=12, seed=2
    )
    translator.fit(batches, verbose=0)
    assert earned() > 1.3 * before
