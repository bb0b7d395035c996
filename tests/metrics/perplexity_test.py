"""Perplexity against its equation in float64 NumPy."""

import keras
import numpy as np
import pytest

from zoo.metrics import Perplexity, TokenErrorRate

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def reference_perplexity(targets, logits, weights):
    logits = logits.astype("float64")
    log_sum = np.log(np.sum(np.exp(logits - logits.max(-1, keepdims=True)), -1)) + logits.max(-1)
    cross_entropy = log_sum - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return np.exp(np.sum(weights * cross_entropy) / np.sum(weights))


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 7, (6, 9))
    logits = (3 * rng.standard_normal((6, 9, 7))).astype("float32")
    weights = (np.arange(9) < rng.integers(1, 10, (6, 1))).astype("float32")
    return targets, logits, weights


def test_equals_the_equation(batch):
    targets, logits, weights = batch
    metric = Perplexity()
    metric.update_state(targets, logits)
    expected = reference_perplexity(targets, logits, np.ones_like(weights))
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


def test_weights_are_those_of_tokens(batch):
    targets, logits, _ = batch
    weights = np.random.default_rng(1).uniform(0, 2, targets.shape)
    metric = Perplexity()
    metric.update_state(targets, logits, sample_weight=weights)
    expected = reference_perplexity(targets, logits, weights)
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


def test_batches_and_padding_do_not_matter(batch):
    targets, logits, weights = batch
    metric = Perplexity()
    for row in range(6):
        length = int(weights[row].sum())
        metric.update_state(targets[row : row + 1, :length], logits[row : row + 1, :length])
    expected = reference_perplexity(targets, logits, weights)
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


def test_padding_may_hold_anything(batch):
    targets, logits, weights = batch
    expected = reference_perplexity(targets, logits, weights)
    targets[weights == 0] = -1
    logits[weights == 0] = np.nan
    metric = Perplexity()
    metric.update_state(targets, logits, sample_weight=weights)
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


def test_a_keras_mask_counts(batch):
    targets, logits, weights = batch
    masked = keras.ops.convert_to_tensor(logits)
    masked._keras_mask = keras.ops.convert_to_tensor(weights == 1)
    metric = Perplexity()
    metric.update_state(targets, masked)
    expected = reference_perplexity(targets, logits, weights)
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


def test_a_weight_a_sentence_broadcasts(batch):
    targets, logits, _ = batch
    weights = np.arange(6.0)[:, None]
    metric = Perplexity()
    metric.update_state(targets, logits, sample_weight=weights)
    expected = reference_perplexity(targets, logits, np.broadcast_to(weights, targets.shape))
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


def test_half_precision_logits_are_summed_in_float32():
    metric = Perplexity()
    metric.update_state(np.zeros((4, 1000), "int32"), np.zeros((4, 1000, 50), "float16"))
    assert float(metric.result()) == pytest.approx(50.0, rel=1e-5)


def test_evaluate_gives_it_the_weights(batch):
    targets, logits, weights = batch
    model = keras.Sequential([keras.Input((None, 7)), keras.layers.Identity()])
    model.compile(loss=LOSS, weighted_metrics=[Perplexity()])
    result = model.evaluate(
        logits, targets, sample_weight=weights, batch_size=4, return_dict=True, verbose=0
    )
    expected = reference_perplexity(targets, logits, weights)
    assert result["perplexity"] == pytest.approx(expected, rel=1e-5)


def test_evaluate_gives_it_the_mask_of_the_model():
    tokens = np.array([[3, 1, 0, 0], [2, 4, 5, 0]])
    table = np.random.default_rng(2).standard_normal((6, 6)).astype("float32")
    embedding = keras.layers.Embedding(6, 6, mask_zero=True)
    model = keras.Sequential([keras.Input((None,), dtype="int32"), embedding])
    embedding.set_weights([table])
    model.compile(loss=LOSS, metrics=[Perplexity()])
    result = model.evaluate(tokens, tokens, batch_size=1, return_dict=True, verbose=0)
    expected = reference_perplexity(tokens, table[tokens], tokens != 0)
    assert result["perplexity"] == pytest.approx(expected, rel=1e-5)


def test_starts_and_restarts_empty(batch):
    metric = Perplexity()
    assert np.isnan(float(metric.result()))
    metric.update_state(*batch)
    metric.reset_state()
    assert np.isnan(float(metric.result()))


def test_survives_serialization():
    config = keras.saving.serialize_keras_object(Perplexity(name="ppl"))
    assert config["registered_name"] == "zoo>Perplexity"
    assert keras.saving.deserialize_keras_object(config).name == "ppl"


def test_shapes_that_do_not_fit_are_named(batch):
    targets, logits, _ = batch
    with pytest.raises(ValueError, match=r"y_true of shape \(6, 8\), y_pred of shape \(6, 9, 7\)"):
        Perplexity().update_state(targets[:, :8], logits)
    with pytest.raises(ValueError, match=r"shape \(6,\), y_true of shape \(6, 9\).*\[:, None\]"):
        Perplexity().update_state(targets, logits, sample_weight=np.ones(6))


def test_callbacks_know_that_lower_is_better():
    metrics = [Perplexity(), TokenErrorRate()]
    stops = [keras.callbacks.EarlyStopping(f"val_{metric.name}") for metric in metrics]
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("sgd", LOSS, weighted_metrics=metrics, run_eagerly=True)
    x, y = np.ones((2, 4, 5)), np.ones((2, 4), "int32")
    model.fit(x, y, validation_data=(x, y), callbacks=stops, verbose=0)
    assert all(stop.monitor_op is keras.ops.less for stop in stops)
