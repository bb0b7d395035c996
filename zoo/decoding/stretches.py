"""Decoding in stretches of a few steps, between which the batch shrinks and the caches grow.

Most texts end long before the longest one of their batch, and long before their maximum length. A
step computes all its rows, and reads, moves and writes whole caches, so that a row that has ended
costs as much as a running one, and an empty position as much as a filled one.
"""

import functools
from typing import Any, NamedTuple

import tensorflow as tf

from zoo.decoding.search import DEAD, Search

CACHES = "caches"
OF_MODEL, OF_SOURCE = "of_model", "of_source"
STEPS = 6


class Rows(NamedTuple):
    """The constants of the running rows.

    Attributes:
        places: `[rows]` int32, their indices in the batch, or `()` if all rows are running.
        max_lengths: `[rows]` int32.
        noise: `[rows, time]` float32, or `()`.
        context: Context of the model, with a row for each beam, except for `"of_source"` and
            `"of_model"`.
    """

    places: Any
    max_lengths: tf.Tensor
    noise: Any
    context: Any


class Now(NamedTuple):
    """The variables that a step changes.

    Attributes:
        time: int32 scalar, the number of steps so far.
        search: `Search` of the running rows.
        parents: `[rows, beams]` int32, the beams of the state that these beams continue.
        state: State of the model, with a row for each beam.
        past: `[rows, beams, ...]`, tokens for processors, or `()`.
        history: Nest of `tf.TensorArray`, of all steps and of the whole batch.
    """

    time: Any
    search: Search
    parents: tf.Tensor
    state: Any
    past: Any
    history: Any


def run(step, rows, now, max_length, jit_compile):
    """Runs steps until each row has ended.

    A stretch has 6 steps. For XLA, which compiles each stretch for static shapes, there are two of
    equal length if there are caches, otherwise one; no rows are removed.

    Args:
        step: Function of a `Rows` and a `Now` that returns the next `Now`, of the same rows.
        rows: `Rows` of the whole batch, with `places` unless XLA compiles this.
        now: `Now` before the first step, its caches without room for further steps, see
            `without_room`.
        max_length: Maximum number of steps.
        jit_compile: Whether XLA compiles this.

    Returns:
        The finished `Hypotheses` of the whole batch, and the history.
    """
    caches = _caches(now.state)
    before = _room(caches[0]) if caches else 0

    def stretch(rows, now, end):
        def goes_on(now):
            return (now.time < end) & _goes_on(now)

        start = now._replace(state=_with_room(now.state, before + end))
        return tf.while_loop(goes_on, lambda now: [step(rows, now)], [start])[0]

    if jit_compile:
        for end in (max_length // 2, max_length) if caches else (max_length,):
            now = stretch(rows, now, end)
        return now.search.finished, now.history

    def next_stretch(rows, now, finished):
        now = stretch(rows, now, tf.minimum(now.time + STEPS, max_length))
        found = now.search.finished
        finished = tf.nest.map_structure(
            lambda kept, new: tf.tensor_scatter_nd_update(kept, rows.places[:, None], new),
            finished,
            found,
        )
        return *_without_ended(rows, now), finished

    start = rows, now, now.search.finished
    _, now, finished = tf.while_loop(
        lambda rows, now, finished: _goes_on(now),
        next_stretch,
        start,
        shape_invariants=(*of_any_size(rows, now), tf.nest.map_structure(_spec, start[2])),
    )
    return finished, now.history


def without_room(state, max_length):
    """Returns a state whose caches have no room for `max_length` further steps any more.

    If the state is a dictionary, the tensors in `"caches"` have this room in the second-to-last
    axis.
    """
    if not _caches(state):
        return state
    room = _room(_caches(state)[0]) - max_length
    return _with_caches(state, lambda cache: cache[..., :room, :])


def of_any_size(rows, now):
    """Returns the `tf.TensorSpec` of `Rows` and `Now`, of any number of rows and of any room."""
    rows, now = tf.nest.map_structure(_spec, (rows, now))

    def of_any_number(spec):
        return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)

    def of_any_room(spec):
        return tf.TensorSpec([*spec.shape[:-2], None, spec.shape[-1]], spec.dtype)

    rows, now = _mapped(rows, now, of_any_number, of_any_number)
    if _caches(now.state):
        now = now._replace(state=_with_caches(now.state, of_any_room))
    return rows, now


def all_beams(places, beams):
    """Returns `[rows * beams]`: where all beams of rows stand among those of a batch.

    Args:
        places: `[rows]`, where the rows stand in the batch.
        beams: How many beams a row has.
    """
    return tf.reshape(beams * places[:, None] + tf.range(beams, dtype=places.dtype), [-1])


def in_batch(values, places, batch):
    """Returns values of some rows where these stand in a batch, and zeros for the others.

    Args:
        values: `[rows, ...]`.
        places: `[rows]` int32.
        batch: int32 scalar, the number of all.
    """
    return tf.scatter_nd(places[:, None], values, [batch, *tf.unstack(tf.shape(values)[1:])])


def map_rows(function, nest):
    """Returns a nest of tensors, each of which but scalars went through a function of its rows."""

    def of_rows(tensor):
        return tensor if tensor.shape.rank == 0 else function(tensor)

    return tf.nest.map_structure(of_rows, nest)


def map_context(of_beams, context, of_rows=lambda tensor: tensor):
    """Returns a context whose tensors went through a function of beams.

    Its part `"of_source"` has a row for all beams of a source, and goes through `of_rows`; the part
    `"of_model"` has no rows and stays.
    """
    if not isinstance(context, dict):
        return map_rows(of_beams, context)
    functions = {OF_SOURCE: of_rows, OF_MODEL: lambda tensor: tensor}
    return {name: map_rows(functions.get(name, of_beams), part) for name, part in context.items()}


def _goes_on(now):
    # One step always runs, so that the history of an empty batch has shapes too.
    return (now.time == 0) | now.search.is_running()


def _without_ended(rows, now):
    """Returns `Rows` and `Now` of the rows that have not ended."""
    kept = tf.where(tf.reduce_any(now.search.log_probs > DEAD, axis=1))[:, 0]
    beams = all_beams(kept, now.parents.shape[1])
    return _mapped(rows, now, lambda x: tf.gather(x, kept), lambda x: tf.gather(x, beams))


def _mapped(rows, now, of_rows, of_beams):
    """Returns `Rows` and `Now` whose tensors went through a function of rows or one of beams."""
    context = map_context(of_beams, rows.context, of_rows)
    state = map_rows(of_beams, now.state)
    rows = map_rows(of_rows, rows._replace(context=()))._replace(context=context)
    search, parents, past = map_rows(of_rows, (now.search, now.parents, now.past))
    return rows, now._replace(search=search, parents=parents, state=state, past=past)


def _caches(state):
    """Returns the tensors of a state that need room, of any nest of them."""
    return tf.nest.flatten(state[CACHES]) if isinstance(state, dict) and CACHES in state else []


def _room(cache):
    return cache.shape[-2] or tf.shape(cache)[-2]


def _with_room(state, room):
    """Returns a state whose caches have a larger room: with empty places at the end."""
    if not _caches(state):
        return state
    missing = room - _room(_caches(state)[0])

    @functools.cache  # few operations for many caches
    def paddings(rank):
        return tf.stack([[0, 0]] * (rank - 2) + [[0, missing], [0, 0]])

    return _with_caches(state, lambda cache: tf.pad(cache, paddings(cache.shape.rank)))


def _with_caches(state, function):
    """Returns a state whose caches went through a function."""
    return state | {CACHES: tf.nest.map_structure(function, state[CACHES])}


def _spec(argument):
    """Returns what `tf.while_loop` takes an argument for: a `TensorArray` for its flow."""
    is_array = isinstance(argument, tf.TensorArray)
    return tf.TensorSpec.from_tensor(argument.flow if is_array else tf.convert_to_tensor(argument))
