"""Embedders that learn with negatives: the loss, lists and data sets, texts and images."""

import numpy as np
import pytest
import tensorflow as tf

import zoo

QUESTIONS = ["where is it", "who ran", "when"]
ANSWERS = ["it is here", "a man ran", "at noon"]
NEGATIVES = ["where it was", "who sat", "then"]
TINY = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32, "max_length": 16}
TINY |= {"dropout": 0.0, "attention_dropout": 0.0}


@pytest.fixture(scope="module")
def model():
    tokenizer = zoo.ByteBPETokenizer.train(QUESTIONS + ANSWERS, vocabulary_size=280)
    return zoo.load("text_encoder_embedding", weights=None, tokenizer=tokenizer, **TINY)


@pytest.mark.usefixtures("eagerly")
def test_the_loss_counts_negatives_as_wrong_answers(model):
    model.compile()
    texts = QUESTIONS, ANSWERS, NEGATIVES
    questions, answers, negatives = (model.embed(each).astype("float64") for each in texts)
    logits = 20 * questions @ np.concatenate([answers, negatives]).T
    right = np.diagonal(logits)
    expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - right)
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    loss, accuracy = model.evaluate(dataset, batch_size=3, verbose=0)
    assert loss == pytest.approx(expected, rel=1e-4)
    assert accuracy == pytest.approx(np.mean(logits.argmax(axis=1) == np.arange(3)))
    of_lists = model.fit(QUESTIONS, ANSWERS, negatives=NEGATIVES, batch_size=3, verbose=0)
    assert of_lists.history["loss"][0] == pytest.approx(expected, rel=1e-4)


def test_negatives_stay_with_their_pairs(model):
    batches = model.batches(QUESTIONS, ANSWERS, 2, shuffle=True, seed=1, negatives=NEGATIVES)
    rows = [tuple(each.ravel() for each in row) for row in _rows(batches)]
    plain = model.batches(QUESTIONS, ANSWERS, 3, negatives=NEGATIVES)
    expected = [tuple(each.ravel() for each in row) for row in _rows(plain)]
    assert sorted(map(_texts, rows)) == sorted(map(_texts, expected))


def _rows(batches):
    for inputs, _, _ in batches:
        columns = [inputs[name].numpy() for name in ("first", "second", "negative")]
        yield from zip(*columns, strict=True)


def _texts(row):
    return [[number for number in ids.tolist() if number] for ids in row]


def test_wrong_negatives_are_told(model):
    with pytest.raises(ValueError, match="`negatives` must be texts, one .*Received: 1 for 3"):
        model.fit(QUESTIONS, ANSWERS, negatives=NEGATIVES[:1])
    pairs = tf.data.Dataset.from_tensor_slices((QUESTIONS, ANSWERS))
    with pytest.raises(ValueError, match="`negatives` must be left out for a data set"):
        model.fit(pairs, negatives=NEGATIVES)
