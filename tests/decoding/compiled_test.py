"""One compiled loop for all parameters of a sampler decodes like a loop for each of them."""

import concurrent.futures
import contextlib
import threading

import numpy as np
import pytest
import tensorflow as tf

from zoo import decoding
from zoo.decoding.compiled import NUMBERS, for_every_form

VOCABULARY, END, LENGTH = 12, 2, 9
SEEDS = tf.stack([tf.range(40), tf.fill([40], 3)], axis=1)
TABLE = tf.constant(np.random.default_rng(0).normal(size=(VOCABULARY, VOCABULARY)), tf.float32)
SAMPLERS = {
    "greedy": [{}],
    "random": [{"temperature": each} for each in (0.2, 1.0, 3.0)],
    "top_k": [{"k": 4, "temperature": each} for each in (0.2, 1.0, 3.0)],
    "top_p": [{"p": p, "temperature": each} for p, each in ((0.3, 2.0), (1.0, 2.0), (0.9, 0.5))],
    "beam": [{"length_penalty": each} for each in (-1.0, 0.0, 0.5, 3.0)],
    "beam, soon": [{"length_penalty": each, "exact": False} for each in (-1.0, 0.0, 3.0)],
}


def step(tokens, state, context):
    return tf.gather(TABLE, tokens), state, None


def decode(sampler, seeds):
    limits = tf.fill(tf.shape(seeds)[:1], LENGTH)
    options = {"start_id": 1, "end_id": END, "max_lengths": limits, "max_length": LENGTH}
    decoded = decoding.decode(step, (), (), sampler, seeds=seeds, **options)
    return decoded.token_ids, decoded.scores


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_numbers_are_inputs_of_what_is_compiled(name, jit_compile):
    traced = []

    def compile_form(with_numbers):
        def compiled(numbers, seeds):
            traced.append(numbers)
            return decode(with_numbers(numbers), seeds)

        signature = [NUMBERS, tf.TensorSpec(SEEDS.shape, tf.int32)]
        return tf.function(compiled, signature, jit_compile=jit_compile, autograph=False)

    compiled, texts = for_every_form(compile_form), set()
    for options in SAMPLERS[name]:
        sampler = decoding.get(name.split(",")[0], **options)
        found, scores = compiled(sampler)(SEEDS)
        expected, expected_scores = decode(sampler, SEEDS)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)
        texts.add(str(expected[:, 0].numpy().tolist()))
    assert len(traced) == 1
    assert len(texts) > 1 or name == "greedy"


def test_other_forms_are_compiled_anew():
    forms = []
    compiled = for_every_form(lambda with_numbers, *key: forms.append(key) or print)
    for sampler in ("random", "top_k", decoding.get("top_k", k=3), "beam", "greedy"):
        compiled(decoding.get(sampler), True)
        compiled(decoding.get(sampler), True)
    compiled(decoding.get("greedy"), False)
    assert forms == [(True,)] * 5 + [(False,)]


def test_threads_that_need_the_same_form_compile_it_once():
    forms, both = [], threading.Barrier(2)

    def compile_form(with_numbers):
        forms.append(with_numbers)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.1)  # until the other thread is here as well, which it must not be
        return lambda numbers: len(forms)

    compiled = for_every_form(compile_form)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda temperature: compiled(decoding.get("random"))(), range(2))
        assert list(found) == [1, 1]
