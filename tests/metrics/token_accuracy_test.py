"""Accuracy of tokens against its equation in NumPy."""

import keras
import numpy as np
import pytest

from zoo.metrics import TokenAccuracy


def test_every_token_counts_once_however_batches_are_padded():
    rng = np.random.default_rng(0)
    metric, hits, total = TokenAccuracy(), 0.0, 0.0
    for rows, length in ((2, 3), (3, 40), (1, 1)):
        labels = rng.integers(0, 3, (rows, length))
        logits = rng.standard_normal((rows, length, 3)).astype("float32")
        weights = rng.uniform(0, 2, (rows, length)) * (np.arange(length) < 4)
        metric.update_state(labels, logits, sample_weight=weights)
        hits += np.sum(weights * (logits.argmax(-1) == labels))
        total += weights.sum()
    assert float(metric.result()) == pytest.approx(hits / total, rel=1e-5)


@pytest.mark.parametrize("shape", [None, (2, 1), (2,)])
def test_weights_may_be_those_of_texts(shape):
    labels, logits = np.array([[0, 1, 1], [0, 0, 1]]), np.tile(np.eye(2)[[0, 0, 1]], (2, 1, 1))
    weights = None if shape is None else np.array([1.0, 3.0]).reshape(shape)
    metric = TokenAccuracy()
    metric.update_state(labels, logits, sample_weight=weights)
    expected = 5 / 6 if shape is None else (2 * 1 + 3 * 3) / 12
    assert float(metric.result()) == pytest.approx(expected, rel=1e-6)


def test_labels_are_not_rounded_to_the_precision_of_logits():
    metric = TokenAccuracy()
    metric.update_state(
        [1001, 1003], keras.ops.cast(keras.ops.one_hot([1003, 1003], 1100), "bfloat16")
    )
    assert float(metric.result()) == 0.5


def test_a_metric_survives_its_config():
    metric = keras.metrics.deserialize(keras.metrics.serialize(TokenAccuracy("accuracy")))
    assert isinstance(metric, TokenAccuracy)
    assert metric.name == "accuracy"
