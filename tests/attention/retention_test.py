"""RetentionAttention against the three forms of the paper, in float64 NumPy."""

import numpy as np
import pytest

from keras_attention import RetentionAttention, positions
from keras_attention.compute.delta import CHUNK
from tests.attention import oracle
from tests.attention.gradients import gradients

BATCH, HEADS, SIZE = 2, 3, 6
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def make(**arguments):
    """A built layer with perturbed weights."""
    layer = RetentionAttention(HEADS, 4, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def rotated(x, wavelength):
    """Neighboring features as complex numbers that turn with the position."""
    angles = np.arange(x.shape[1])[:, None] / wavelength ** (np.arange(0, 4, 2) / 4)
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


def parts_of(layer, query, value):
    """Yields the queries, keys, values and decays of each head; the latter `(batch, length)`."""
    arrays = [
        oracle._heads(getattr(layer, f"{name}_projection"), x.astype("float64"), HEADS)
        for name, x in (("query", query), ("key", value), ("value", value))
    ]
    decays = np.tile(1 - 2.0 ** (-5 - np.arange(HEADS)), (*value.shape[:2], 1))
    if layer.gated:
        logits = oracle._dense(layer.decay_projection, value.astype("float64"))
        decays = (1 + np.exp(-logits)) ** (-1 / 16)
    for head, (q, k, v) in enumerate(zip(*arrays, strict=True)):
        if layer.position is not None:
            q, k = (rotated(x, layer.position.max_wavelength) for x in (q, k))
        yield q / 2, k, v, decays[:, :, head]


def pairs_of(q, k, decays):
    """The weights of one head: products of queries and keys, decayed from the key to the query."""
    sums = np.cumsum(np.log(decays), axis=1)
    return np.tril(q @ k.swapaxes(1, 2) * np.exp(np.tril(sums[:, :, None] - sums[:, None])))


def output(layer, contexts, query):
    """Returns the output for the contexts of the heads, each `(batch, length, value_dim)`."""
    contexts = [x - x.mean(-1, keepdims=True) for x in contexts]
    heads = [x / np.sqrt((x**2).mean(-1, keepdims=True) + layer.epsilon) for x in contexts]
    gate = oracle._dense(layer.output_gate_projection, query.astype("float64"))
    gated = np.concatenate(heads, axis=-1) * gate / (1 + np.exp(-gate))
    return oracle._dense(layer.output_projection, gated)


OPTIONS = {
    "rotary": {},
    "other options": {
        "position": positions.Rotary(100),
        "value_dim": 5,
        "output_dim": 7,
        "use_bias": ["key", "output"],
        "epsilon": 0.01,
    },
    "no position": {"position": None},
    "gated": {"gated": True},
    "gated, some biases": {"gated": True, "use_bias": ["query", "decay"]},
}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("length", [7, CHUNK + 9])
def test_equals_the_parallel_form(length, name):
    layer, x, y = make(**OPTIONS[name]), *random(2, BATCH, length, SIZE)
    visible = RNG.random((BATCH, length)) < 0.8
    x, y = (np.where(visible[:, :, None], each, 0) for each in (x, y))
    contexts, weights = [], []
    for q, k, v, decays in parts_of(layer, x, y):
        if layer.gated:
            decays = np.where(visible, decays, 1)
        weights.append(pairs_of(q, k, decays) * visible[:, None] * visible[:, :, None])
        contexts.append(weights[-1] @ v)
    found = layer(x, y, value_mask=visible, return_attention_scores=True)
    np.testing.assert_allclose(oracle.float64(found[0]), output(layer, contexts, x), atol=1e-4)
    np.testing.assert_allclose(oracle.float64(found[1]), np.stack(weights, axis=1), atol=2e-5)


@pytest.mark.parametrize("gated", [False, True])
def test_equals_the_recurrent_form(gated):
    layer, x = make(gated=gated), random(BATCH, 2 * CHUNK + 5, SIZE)
    contexts = []
    for q, k, v, decays in parts_of(layer, x, x):
        state, steps = np.zeros((BATCH, 4, 8)), []
        for place in range(x.shape[1]):
            state = decays[:, place, None, None] * state + k[:, place, :, None] * v[:, place, None]
            steps.append((q[:, place, None] @ state)[:, 0])
        contexts.append(np.stack(steps, axis=1))
    np.testing.assert_allclose(oracle.float64(layer(x, x)), output(layer, contexts, x), atol=1e-4)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(side, gated):
    layer, x = make(gated=gated), random(BATCH, 14, SIZE)
    seen = slice(5, None) if side == "left" else slice(9)
    mask = np.zeros((BATCH, 14), bool)
    mask[:, seen] = True
    found = oracle.float64(layer(x, x, value_mask=mask))[:, seen]
    expected = oracle.float64(layer(x[:, seen], x[:, seen]))
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("gated", [False, True])
def test_gradients_equal_finite_differences(gated):
    layer, x = make(gated=gated), random(1, 4, SIZE)

    def total(x):
        contexts = [pairs_of(q, k, decays) @ v for q, k, v, decays in parts_of(layer, x, x)]
        return output(layer, contexts, x).sum()

    (found,) = gradients(lambda x: layer(x, x), x)
    (expected,) = oracle.numerical_gradients(total, x.astype("float64"))
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-3, rtol=1e-3)
