"""GatedLinearAttention against its recurrence in float64 NumPy, position by position."""

import numpy as np
import pytest

from keras_attention import GatedLinearAttention, RetentionAttention
from keras_attention.compute.delta import CHUNK
from tests.attention import gated_delta_test, oracle, retention_test
from tests.attention.gradients import gradients

BATCH, HEADS, SIZE, KEY_DIM = 2, 3, 6, 4
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def make(**arguments):
    """A built layer with perturbed weights."""
    layer = GatedLinearAttention(HEADS, KEY_DIM, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def equation(layer, query, value, visible):
    """Returns the output, and the contexts and values of the heads."""
    query, value = (np.where(visible[:, :, None], x, 0.0) for x in (query, value))
    q, k, v = (
        np.stack(oracle._heads(getattr(layer, f"{name}_projection"), x, HEADS), axis=1)
        for name, x in (("query", query), ("key", value), ("value", value))
    )
    k = np.where(visible[:, None, :, None], k, 0.0)
    logits = gated_delta_test.projected_from_latent(layer, "decay", value)
    log_decay = gated_delta_test.heads_of(-np.log1p(np.exp(-logits)) / 16, KEY_DIM)
    log_decay = np.where(visible[:, None, :, None], log_decay, 0.0)
    contexts, _ = gated_delta_test.rule(q / np.sqrt(KEY_DIM), k, v, log_decay)
    contexts = np.where(visible[:, None, :, None], contexts, 0.0)
    return retention_test.output(layer, contexts.swapaxes(0, 1), query), contexts, v


@pytest.mark.parametrize(
    "options",
    [{}, {"use_bias": ["decay", "output_gate"], "value_dim": 3, "output_dim": 7, "epsilon": 0.01}],
)
@pytest.mark.parametrize("length", [7, 2 * CHUNK + 5])
def test_equals_its_recurrence(length, options):
    layer, x, y = make(**options), *random(2, BATCH, length, SIZE)
    visible = RNG.random((BATCH, length)) < 0.8
    expected, contexts, values = equation(layer, *gated_delta_test.float64((x, y)), visible)
    output, weights = layer(x, y, value_mask=visible, return_attention_scores=True)
    np.testing.assert_allclose(oracle.float64(output), expected, atol=1e-4)
    np.testing.assert_allclose(oracle.float64(weights) @ values, contexts, atol=2e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(side):
    layer, x = make(), random(BATCH, 14, SIZE)
    seen = slice(5, None) if side == "left" else slice(9)
    mask = np.zeros((BATCH, 14), bool)
    mask[:, seen] = True
    found = oracle.float64(layer(x, x, value_mask=mask))[:, seen]
    expected = oracle.float64(layer(x[:, seen], x[:, seen]))
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_gradients_equal_finite_differences():
    layer, x, visible = make(), random(1, 4, SIZE), np.ones((1, 4), bool)
    (found,) = gradients(lambda x: layer(x, x), x)
    (expected,) = oracle.numerical_gradients(
        lambda x: equation(layer, x, x, visible)[0].sum(), x.astype("float64")
    )
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-3, rtol=1e-3)


def test_channels_that_decay_alike_are_gated_retention():
    layer = make()
    other = RetentionAttention(HEADS, KEY_DIM, gated=True, position=None)
    other.build((None, None, SIZE), (None, None, SIZE))
    for name in ("query", "key", "value", "output_gate", "output"):
        mine, theirs = (getattr(each, f"{name}_projection") for each in (layer, other))
        theirs.set_weights(mine.get_weights())
    logits = random(HEADS)
    layer.decay_projection.set_weights(
        [np.zeros((16, HEADS * KEY_DIM)), np.repeat(logits, KEY_DIM)]
    )
    other.decay_projection.set_weights([np.zeros((SIZE, HEADS)), logits])
    x = random(BATCH, 9, SIZE)
    np.testing.assert_allclose(oracle.float64(layer(x, x)), oracle.float64(other(x, x)), atol=1e-5)
