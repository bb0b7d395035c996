"""Caches that grow while decoding: the texts are those of a cache with all its room at once."""

import numpy as np
import pytest
import tensorflow as tf

from zoo import decoding

VOCABULARY, LENGTH, BEFORE, SIZE = 12, 40, 3, 5
RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=[VOCABULARY, SIZE]).astype("float32")
OUTPUT = RNG.normal(size=[SIZE, VOCABULARY]).astype("float32")
FIRST = RNG.normal(size=[2, 1, BEFORE, SIZE]).astype("float32")


def start():
    """A cache with `BEFORE` places filled and room for `LENGTH` more."""
    cache = np.pad(FIRST, [(0, 0), (0, 0), (0, LENGTH), (0, 0)])
    return {"time": tf.constant(BEFORE), "caches": [tf.constant(cache)]}


def step(tokens, state, context, rooms=None):
    """The next token depends on all before it and on their places."""
    time, (cache,) = state["time"], state["caches"]
    if rooms is not None:
        rooms.append(cache.shape[-2])
    is_now = (tf.range(tf.shape(cache)[-2]) == time)[:, None]
    cache = tf.where(is_now, tf.gather(VECTORS, tokens)[:, None, None], cache)
    weights = tf.cos(0.3 * tf.cast(time - tf.range(tf.shape(cache)[-2]), tf.float32))
    weights *= tf.cast(tf.range(tf.shape(cache)[-2]) <= time, tf.float32)
    logits = tf.einsum("bhts,t,sv->bv", cache, weights, OUTPUT)
    return logits, {"time": time + 1, "caches": [cache]}, None


def hidden_step(tokens, state, context):
    """The same with a cache that the loop does not know of, which has all its room at once."""
    logits, state, attention = step(tokens, state["hidden"], context)
    return logits, {"hidden": state}, attention


def decode(step, state, sampler, **options):
    """No text ends before its maximum: the end is no token of the vocabulary."""
    options |= {"start_id": 1, "end_id": VOCABULARY, "max_lengths": [LENGTH, 19]}
    return decoding.decode(step, (), state, sampler, **options)


@pytest.mark.parametrize(
    ("form", "sampler"), [("eager", "greedy"), ("graph", "beam"), ("xla", "beam")]
)
def test_it_equals_all_room_at_once(form, sampler):
    def of(longest, jit_compile=None):
        return decode(step, start(), sampler, max_length=longest, jit_compile=jit_compile)

    found = {
        "eager": lambda: of(None),
        "graph": lambda: tf.function(of, autograph=False)(tf.constant(LENGTH)),
        "xla": lambda: tf.function(  # that knows the length when it sees the shape
            lambda x: of(tf.shape(x)[0], True), jit_compile=True, autograph=False
        )(tf.zeros([LENGTH])),
    }[form]()
    expected = decode(hidden_step, {"hidden": start()}, sampler)
    np.testing.assert_array_equal(found.token_ids, expected.token_ids)
    np.testing.assert_allclose(found.log_probs, expected.log_probs, rtol=1e-4)


@pytest.mark.parametrize(
    ("longest", "expected"),
    [(None, [16, 32, LENGTH]), (tf.constant(10), [10]), (LENGTH, [20, LENGTH]), (1, [1])],
)
def test_a_step_gets_no_more_room_than_it_may_need(longest, expected):
    """An `int` stands for XLA, which compiles two loops."""
    rooms = []
    room = LENGTH if longest is None else int(longest)
    state = start()
    state["caches"] = [state["caches"][0][..., : BEFORE + room, :]]

    def noting(*arguments):
        return step(*arguments, rooms=rooms)

    decode(noting, state, "greedy", max_length=longest)
    assert sorted(set(rooms)) == [BEFORE + each for each in expected]
