"""Self-critical training: what a drawn caption earns, and that the captions earn more."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.pictures import CHANNELS, MeanColours
from zoo.metrics.caption_rewards import CaptionReward
from zoo.training.self_critical import advantages, policy_gradient_loss, self_critical_batches

REFERENCES = [["a red dog runs", "the red dog"], ["a blue cat sleeps", "one blue cat"]]
CIDER = {"cider": 1.0}


@pytest.fixture(scope="module")
def features():
    annotations = np.random.default_rng(0).normal(size=(2, 4, CHANNELS)).astype("float32")
    return tf.data.Dataset.from_tensor_slices({"annotations": annotations, "captions": REFERENCES})


@pytest.fixture
def model():
    keras.utils.set_random_seed(1)
    texts = [caption for captions in REFERENCES for caption in captions]
    tokenizer = zoo.ByteBPETokenizer.train(texts, vocabulary_size=300)
    return zoo.load(
        "show_attend_tell",
        weights=None,
        tokenizer=tokenizer,
        backbone=MeanColours(),
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


@pytest.mark.parametrize("rewards", [None, {"bleu_1": 3.0, "unigram_f": 1.0}], ids=str)
def test_batches_weigh_each_word_by_what_its_caption_earned(model, features, rewards):
    model.compile(optimizer="adam")
    model.fit(features.repeat(20), batch_size=4, verbose=0)
    batches = self_critical_batches(model, features, rewards, samples=4, max_length=6)
    ((inputs, labels, weights),) = batches
    assert inputs["annotations"].shape == (8, 4, CHANNELS)
    stack = {
        tuple(each["annotations"].ravel()): n for n, each in enumerate(features.as_numpy_iterator())
    }
    owners = [stack[tuple(each.ravel())] for each in inputs["annotations"].numpy()]
    is_word = labels.numpy() != model.tokenizer.pad_id
    ends = labels.numpy() == model.tokenizer.end_id
    ids = np.where(ends, model.tokenizer.pad_id, labels)
    texts = [text.decode() for text in model.tokenizer.detokenize(ids).numpy()]
    assert len(set(texts)) > 2
    earned = reward_of(texts, owners, rewards or CIDER)
    expected = advantages(earned, samples=4)[:, None] * is_word
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    np.testing.assert_array_equal(inputs["target_ids"][:, 1:], ids[:, :-1])


def test_captions_earn_more_afterwards(model, features):
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    model.fit(features.repeat(30), batch_size=4, verbose=0)

    def earned():
        annotations = np.stack([each["annotations"] for each in features.as_numpy_iterator()])
        annotations = np.repeat(annotations, 40, axis=0)
        texts = model.caption_annotations(annotations, sampler="random", seed=1, max_length=8)
        return np.mean(reward_of(texts, np.repeat([0, 1], 40), CIDER))

    before = earned()
    model.compile(optimizer=keras.optimizers.Adam(0.005), loss=policy_gradient_loss())
    batches = self_critical_batches(model, features, samples=8, max_length=8, seed=2)
    model.fit(batches, epochs=25, verbose=0)
    assert earned() > 1.3 * before


def test_one_sample_has_nothing_to_be_compared_with(model, features):
    with pytest.raises(ValueError, match="samples=1"):
        self_critical_batches(model, features, samples=1)
