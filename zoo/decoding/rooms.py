"""Caches that grow while a text does: most texts end long before the room that they may have.

A step reads, moves and writes a whole cache, so that empty places cost as much as filled ones.
"""

import tensorflow as tf

CACHES = "caches"
FIRST = 16  # steps


def run(is_running, body, start, state_of, max_length, jit_compile):
    """Runs a loop in stretches, each with twice the room of the one before.

    The first has 16 steps. For XLA, which compiles each of them, there are two of equal length.

    Args:
        is_running, body: As for `tf.while_loop`. Of their arguments, the first is the number of
            steps so far.
        start: What the arguments are at first.
        state_of: Which of the arguments is the state of the model. If it is a dictionary, what its
            part `"caches"` holds has room for `max_length` further steps, in the last axis but one.
        max_length: Number of steps at most.
        jit_compile: Whether XLA compiles this.

    Returns:
        What the arguments are in the end, caches of the room that they had then.
    """
    start = list(start)
    caches = _caches(start[state_of])
    if not caches:
        return tf.while_loop(is_running, body, start)
    before = _room(caches[0]) - max_length  # what stood there before the first step

    def with_room(arguments, steps):
        arguments = list(arguments)
        arguments[state_of] = _with_room(arguments[state_of], before + steps)
        return arguments

    def stretch(steps, arguments):
        def goes_on(time, *others):
            return (time < steps) & is_running(time, *others)

        return tf.while_loop(goes_on, body, with_room(arguments, steps))

    if jit_compile:
        return stretch(max_length, stretch(max_length // 2, start))

    def stretches(steps, *arguments):
        arguments = stretch(steps, arguments)
        return tf.minimum(2 * steps, max_length), *arguments

    first = tf.minimum(FIRST, max_length)
    start = with_room(start, first)
    specs = [tf.nest.map_structure(_spec, argument) for argument in start]
    specs[state_of] = _of_any_room(specs[state_of])
    _, *end = tf.while_loop(
        lambda steps, *arguments: is_running(*arguments),
        stretches,
        [first, *start],
        shape_invariants=[tf.TensorSpec([], tf.int32), *specs],
    )
    return end


def _caches(state):
    """Returns the tensors of a state that need room, of any nest of them."""
    return tf.nest.flatten(state[CACHES]) if isinstance(state, dict) and CACHES in state else []


def _room(cache):
    return cache.shape[-2] or tf.shape(cache)[-2]


def _with_room(state, room):
    """Returns a state whose caches have a room: empty places are added, or left out at the end."""

    def resized(cache):
        cache = cache[..., :room, :]
        missing = room - _room(cache)
        return tf.pad(cache, [[0, 0]] * (cache.shape.rank - 2) + [[0, missing], [0, 0]])

    return state | {CACHES: tf.nest.map_structure(resized, state[CACHES])}


def _spec(argument):
    """Returns what `tf.while_loop` takes an argument for: a `TensorArray` for its flow."""
    is_array = isinstance(argument, tf.TensorArray)
    return tf.TensorSpec.from_tensor(argument.flow if is_array else tf.convert_to_tensor(argument))


def _of_any_room(state):
    """Returns the `tf.TensorSpec` of a state, of caches that may have another room."""

    def of_any_room(spec):
        return tf.TensorSpec([*spec.shape[:-2], None, spec.shape[-1]], spec.dtype)

    return state | {CACHES: tf.nest.map_structure(of_any_room, state[CACHES])}
