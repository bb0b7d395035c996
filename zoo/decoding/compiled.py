"""Compiled functions, shared by all samplers of the same form."""

import functools
import threading

import tensorflow as tf

NUMBERS = tf.TensorSpec([None], tf.float32, name="numbers")


def made_once(make):
    """Caches the results of a function; threads that need a new one wait for it to be made once.

    With `functools.cache`, each of these threads would make it: compile the same function.

    Args:
        make: Function of hashable arguments.

    Example:

    >>> length = made_once(lambda text: print("made") or len(text))
    >>> length("abc"), length("abc")
    made
    (3, 3)
    """
    results, lock = {}, threading.RLock()

    def once(*args, **options):
        key = args, frozenset(options.items())
        if key not in results:
            with lock:
                if key not in results:
                    results[key] = make(*args, **options)
        return results[key]

    return once


def for_every_form(compile_form):
    """Caches compiled functions, so that another temperature or length penalty reuses them.

    Args:
        compile_form: Function of `(with_numbers, *key)` that returns a compiled function, whose
            first argument is a tensor of the specification `NUMBERS`. There,
            `with_numbers(numbers)` is the sampler to decode with.

    Returns:
        Function of `(sampler, *key)` that returns the compiled function without that argument.

    Example:

    >>> from zoo.decoding import RandomSampler
    >>> traced = []
    >>> def compile_weights(with_numbers):
    ...     def weights(numbers, log_probs):
    ...         traced.append(with_numbers)
    ...         return with_numbers(numbers).weights(log_probs)
    ...     return tf.function(weights)
    >>> compiled = for_every_form(compile_weights)
    >>> log_probs = tf.math.log([[0.25, 0.5]])
    >>> for temperature in (1.0, 0.5):
    ...     print(compiled(RandomSampler(temperature=temperature))(log_probs).numpy())
    [[0.5 1. ]]
    [[0.25 1.  ]]
    >>> len(traced)
    1
    """

    @made_once
    def kept(form, *key):
        def with_numbers(numbers):
            return form.with_numbers(tf.unstack(numbers, len(form.numbers)))

        return compile_form(with_numbers, *key)

    def compiled(sampler, *key):
        numbers = [float(getattr(sampler, name)) for name in sampler.numbers]
        form = sampler.with_numbers([None] * len(numbers))
        return functools.partial(kept(form, *key), tf.constant(numbers, tf.float32))

    return compiled
