"""Shrinking batches and growing caches: texts equal those of full batches and full caches."""

import numpy as np
import pytest
import tensorflow as tf

from zoo import decoding
from zoo.decoding.stretches import STEPS

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
    """The next token depends on all previous tokens and their positions."""
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
    """The same with a cache that is hidden from the loop and has its full size from the start."""
    logits, state, attention = step(tokens, state["hidden"], context)
    return logits, {"hidden": state}, attention


def decode(step, state, sampler, **options):
    """Every text has its maximum length: the end token is not in the vocabulary."""
    options |= {"start_id": 1, "end_id": VOCABULARY, "max_lengths": [LENGTH, 19]}
    return decoding.decode(step, (), state, sampler, **options)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("form", "sampler"), [("eager", "greedy"), ("graph", "beam"), ("xla", "beam")]
)
def test_it_equals_all_room_at_once(form, sampler):
    def of(longest, jit_compile=None):
        return decode(step, start(), sampler, max_length=longest, jit_compile=jit_compile)

    found = {
        "eager": lambda: of(None),
        "graph": lambda: tf.function(of, autograph=False)(tf.constant(LENGTH)),
        "xla": lambda: tf.function(  # the length is static: it comes from a shape
            lambda x: of(tf.shape(x)[0], True), jit_compile=True, autograph=False
        )(tf.zeros([LENGTH])),
    }[form]()
    expected = decode(hidden_step, {"hidden": start()}, sampler)
    np.testing.assert_array_equal(found.token_ids, expected.token_ids)
    np.testing.assert_allclose(found.log_probs, expected.log_probs, rtol=1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("longest", "expected"),
    [
        (None, [*range(STEPS, LENGTH, STEPS), LENGTH]),
        (tf.constant(10), [STEPS, 10]),
        (LENGTH, [20, LENGTH]),
        (1, [1]),
    ],
)
def test_a_step_gets_no_more_room_than_it_may_need(longest, expected):
    """An `int` is what XLA gets, for which two loops are compiled."""
    rooms = []
    room = LENGTH if longest is None else int(longest)
    state = start()
    state["caches"] = [state["caches"][0][..., : BEFORE + room, :]]

    def noting(*arguments):
        return step(*arguments, rooms=rooms)

    decode(noting, state, "greedy", max_length=longest)
    assert sorted(set(rooms)) == [BEFORE + each for each in expected]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("form", "sampler"),
    [
        pytest.param("eager", "greedy", marks=pytest.mark.full),
        ("graph", "greedy"),
        pytest.param("graph", "random", marks=pytest.mark.full),
        ("graph", "beam"),
        pytest.param("eager", "random", marks=pytest.mark.full),
        pytest.param("eager", "beam", marks=pytest.mark.full),
    ],
)
def test_rows_that_have_ended_are_left_out(form, sampler):
    """The result equals that of XLA, which keeps all rows, including attention and end tokens."""
    rows, limits, seen = 5, [3, LENGTH, 0, 9, 17], []
    draws = np.random.default_rng(1)
    first = draws.normal(size=[rows, 1, BEFORE, SIZE]).astype("float32")
    scale = tf.constant(draws.uniform(1, 3, [rows, 1]))
    context = {"of_model": tf.constant(OUTPUT), "of_source": [scale], "scale": scale}

    def note(number):
        seen.append(int(number))
        return number

    def scaled_step(tokens, state, context):
        number = tf.ensure_shape(tf.numpy_function(note, [tf.shape(tokens)[0]], tf.int32), [])
        logits, state, _ = step(tokens, state, ())
        logits += tf.cast(number - number, tf.float32)  # so that every step runs `note`
        logits *= tf.cast(context["scale"], tf.float32)
        table = tf.reduce_sum(context["of_model"]) * tf.ones([tf.shape(tokens)[0], 1])
        (of_source,) = context["of_source"]
        beams = tf.shape(tokens)[0] // tf.shape(of_source)[0]
        apart = tf.repeat(of_source, beams, axis=0) - context["scale"]
        return logits, state, {"logits": logits, "table": table, "apart": apart}

    def decode(longest, jit_compile):
        cache = tf.pad(first, [[0, 0], [0, 0], [0, LENGTH], [0, 0]])
        state = {"time": tf.constant(BEFORE), "caches": [cache]}
        return decoding.decode(
            scaled_step,
            context,
            state,
            sampler,
            start_id=1,
            end_id=2,
            max_lengths=limits,
            max_length=longest,
            seeds=tf.reshape(tf.range(2 * rows), [rows, 2]),
            return_attention=True,
            jit_compile=jit_compile,
        )

    expected = decode(LENGTH, True)
    del seen[:]
    run = tf.function(decode, autograph=False) if form == "graph" else decode
    found = run(tf.constant(LENGTH), False)
    np.testing.assert_array_equal(found.token_ids, expected.token_ids)
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4)
    for name, attention in found.attention.items():
        np.testing.assert_allclose(attention, expected.attention[name], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found.attention["apart"], 0.0)
    if sampler == "beam":
        assert seen[0] > seen[-1]
    else:
        steps = np.minimum(found.lengths[:, 0] + 1, limits)  # an end token takes a step, too
        stretches = np.repeat(range(0, LENGTH, STEPS), STEPS)[: len(seen)]
        assert seen == [rows if start == 0 else np.sum(steps > start) for start in stretches]
        assert len(set(seen)) > 1
