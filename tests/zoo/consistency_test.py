"""R-Drop: the loss against NumPy, and a recipe that ends with it."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.zoo.recipes_test import RECIPE, read_history
from zoo.training import runs
from zoo.training.consistency import ConsistentTokenCrossentropy, twice
from zoo.training.losses import TokenCrossentropy

LABELS = np.array([[1, 2, 0], [4, 0, 0]] * 2)
WEIGHTS = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]] * 2)


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(size=(4, 3, 5), scale=2.0).astype("float32")


def divergences(logits):
    """KL(p ‖ q) + KL(q ‖ p) of each token of each half of a batch, in float64."""
    exp = np.exp(np.asarray(logits, "float64"))
    p, q = np.split(exp / exp.sum(axis=-1, keepdims=True), 2)
    both = (p * np.log(p / q)).sum(axis=-1) + (q * np.log(q / p)).sum(axis=-1)
    return np.concatenate([both, both])


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_paper_halved(logits, label_smoothing):
    loss = ConsistentTokenCrossentropy(consistency=3.0, label_smoothing=label_smoothing)
    crossentropy = TokenCrossentropy(label_smoothing)(LABELS, logits, WEIGHTS)
    divergence = (WEIGHTS * divergences(logits)).sum() / WEIGHTS.sum()
    np.testing.assert_allclose(
        loss(LABELS, logits, WEIGHTS), float(crossentropy) + 3.0 / 4 * divergence, rtol=1e-5
    )


def test_predictions_that_agree_cost_nothing_more(logits):
    same = np.concatenate([logits[:2], logits[:2]])
    consistent = ConsistentTokenCrossentropy(label_smoothing=0.1)(LABELS, same, WEIGHTS)
    np.testing.assert_allclose(consistent, TokenCrossentropy(0.1)(LABELS, same, WEIGHTS), rtol=1e-6)


def test_padding_may_differ(logits):
    loss = ConsistentTokenCrossentropy()
    before = loss(LABELS, logits, WEIGHTS)
    logits[3, 1:] += np.arange(5.0)
    np.testing.assert_allclose(loss(LABELS, logits, WEIGHTS), before, rtol=1e-6)


def test_a_batch_stands_behind_itself():
    batch = ({"ids": tf.constant([[1, 2]])}, tf.constant([[3]]), tf.constant([[0.5]]))
    inputs, labels, weights = twice(*batch)
    assert inputs["ids"].numpy().tolist() == [[1, 2], [1, 2]]
    assert (labels.numpy().tolist(), weights.numpy().tolist()) == ([[3], [3]], [[0.5], [0.5]])


def test_the_weight_must_not_be_negative():
    with pytest.raises(ValueError, match="at least 0. Received: consistency=-1"):
        ConsistentTokenCrossentropy(consistency=-1.0)


def test_the_loss_can_be_saved():
    loss = ConsistentTokenCrossentropy(2.0, 0.2)
    loss = keras.losses.deserialize(keras.losses.serialize(loss))
    assert (loss.consistency, loss.label_smoothing) == (2.0, 0.2)


def test_a_recipe_ends_with_consistency(dataset, tmp_path):
    recipe = dataclasses.replace(
        RECIPE,
        epochs=2,
        consistent_epochs=2,
        consistent_learning_rate=0.01,
        length_penalties=(1.0,),
    )
    model = recipe.train(dataset, dataset, tmp_path)
    assert [len(read_history(each)) for each in (tmp_path, tmp_path / "consistent")] == [2, 2]
    before, after = (
        [float(row["val_loss"]) for row in read_history(each)]
        for each in (tmp_path, tmp_path / "consistent")
    )
    assert after[-1] < before[-1]
    best = recipe.train(dataset, dataset, tmp_path)  # nothing is left to train
    np.testing.assert_array_equal(best.core.output_bias, model.core.output_bias)
    best.load_weights(tmp_path / runs.BEST)
    assert np.any(best.core.output_bias.numpy() != model.core.output_bias.numpy())
