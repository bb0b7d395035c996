"""Step by step with a cache of prepared keys, layers give what a full forward pass gives."""

import numpy as np
import pytest
from keras import ops

from keras_attention import (
    Attention,
    DifferentialAttention,
    LatentAttention,
    MultiHeadAttention,
    TalkingHeadsAttention,
    masks,
    positions,
    scores,
)
from tests.attention import oracle

BATCH, LENGTH, SIZE = 2, 7, 8
RNG = np.random.default_rng(0)
SCORES = {
    **dict.fromkeys(scores.names(), scores.get),
    "location": lambda _: scores.Location(max_length=LENGTH),
    "dense_synthesizer": lambda _: scores.DenseSynthesizer(max_length=LENGTH),
    "random_synthesizer": lambda _: scores.RandomSynthesizer(max_length=LENGTH),
}


def single_head(**arguments):
    return Attention(**arguments)


def multi_head(**arguments):
    return MultiHeadAttention(4, 4, **arguments)


def grouped_heads(**arguments):
    return MultiHeadAttention(4, 4, num_key_value_heads=2, **arguments)


def differential(**arguments):
    return DifferentialAttention(4, 4, num_key_value_heads=2, **arguments)


def talking_heads(**arguments):
    return TalkingHeadsAttention(4, 4, num_key_value_heads=2, **arguments)


def latent(**arguments):
    return LatentAttention(4, 4, latent_dim=6, rotary_dim=2, **arguments)


LAYERS = [single_head, multi_head, grouped_heads, differential, talking_heads]


def step_by_step(layer, x, steps):
    """Returns the outputs of a cached layer that gets the given number of positions per step."""
    memory = layer.prepare(ops.zeros(x.shape))
    outputs, start = [], 0
    for length in steps:
        new = x[:, start : start + length]
        memory = layer.extend(memory, new, start)
        outputs.append(layer.attend(new, memory, mask=masks.Causal(), start=start)[0])
        start += length
    return ops.concatenate(outputs, axis=1)


def assert_cached_equals_uncached(layer, steps=(1,) * LENGTH):
    x = RNG.normal(size=(BATCH, LENGTH, SIZE)).astype("float32")
    expected = layer(x, x, use_causal_mask=True)
    for weight in layer.trainable_weights:
        weight.assign(weight + 0.3 * RNG.normal(size=weight.shape))
    expected = layer(x, x, use_causal_mask=True)
    found = step_by_step(layer, x, steps)
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=2e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("score", SCORES)
def test_every_score(make, score):
    assert_cached_equals_uncached(make(score=SCORES[score](score)))


@pytest.mark.few(3)
@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("position", positions.names())
def test_every_position(make, position):
    assert_cached_equals_uncached(make(position=position))


def test_magnitude_of_rotated_vectors_scales_the_scores():
    yarn = positions.YaRN(factor=1, original_length=LENGTH, attention_factor=3.0)
    layer = multi_head(position=positions.Rotary(scaling=yarn))
    scaled = multi_head(position="rotary", score=scores.ScaledDot(scale=9.0 / 4**0.5))
    x = ops.convert_to_tensor(RNG.normal(size=(BATCH, LENGTH, SIZE)).astype("float32"))
    found, _ = layer(x, x), scaled(x, x)
    scaled.set_weights(layer.get_weights())
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(scaled(x, x)), atol=1e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("make", [multi_head, latent])
@pytest.mark.parametrize("implementation", ["reference", "auto"])
def test_several_positions_at_a_time(implementation, make):
    layer = make(implementation=implementation, position="rotary", soft_cap=5.0)
    assert_cached_equals_uncached(layer, steps=(3, 1, 2, 1))


@pytest.mark.parametrize("make", [multi_head, latent])
def test_with_a_window(make):
    layer = make(mask=masks.SlidingWindow(left=2, right=0))
    assert_cached_equals_uncached(layer)


@pytest.mark.parametrize("make", [multi_head, latent])
def test_chunked_knows_where_the_queries_stand(make):
    layer = make(implementation="chunked")
    x = RNG.normal(size=(BATCH, LENGTH, SIZE)).astype("float32")
    expected = layer(x, x, use_causal_mask=True)[:, 2:4]
    memory = layer.prepare(x)
    found, weights = layer.attend(
        x[:, 2:4], memory, mask=masks.Causal(), start=2, return_attention_scores=False
    )
    assert weights is None
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=2e-5)


def test_a_cache_of_grouped_heads_is_small():
    layer = grouped_heads()
    memory = layer(np.ones((1, 2, SIZE)), np.ones((1, 2, SIZE))) is not None and layer.prepare(
        np.ones((1, 2, SIZE), "float32")
    )
    assert tuple(memory.key.shape) == (1, 2, 2, 4)


@pytest.mark.parametrize(("start", "length"), [(4, 1), (np.int64(4), 1), (2, 3), (-1, 1)])
def test_positions_beyond_the_end_are_refused(start, length):
    layer = multi_head()
    layer.build((BATCH, LENGTH, SIZE), (BATCH, LENGTH, SIZE))
    memory = layer.prepare(ops.zeros((BATCH, 4, SIZE)))
    new = ops.zeros((BATCH, length, SIZE))
    message = rf"`start` .* start={start} for {length} new positions, in a cache of 4\. .*`prepare`"
    with pytest.raises(ValueError, match=message):
        layer.extend(memory, new, start)


def test_positions_up_to_the_end_fit():
    assert_cached_equals_uncached(multi_head(), steps=(np.int64(LENGTH - 2), 2))


def test_steps_of_no_positions_change_nothing():
    assert_cached_equals_uncached(multi_head(), steps=(0, LENGTH - 2, 0, 2, 0))
