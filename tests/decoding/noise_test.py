"""Seeded noise: the published generator, with the same numbers in every execution mode."""

import numpy as np
import pytest
import tensorflow as tf

from zoo.decoding.noise import threefry, uniforms


def words(*values):
    return tuple(tf.constant([value], tf.uint32) for value in values)


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_answers_published_with_random123(key, counter, expected):
    noise = threefry(words(*key), words(*counter))
    assert tuple(int(word[0]) for word in noise) == expected


def test_numbers_depend_on_seed_and_step_alone():
    seeds = tf.constant([[1, 2], [-7, 2**31 - 1], [0, 0]])
    whole = uniforms(seeds, 50).numpy()
    compiled = tf.function(lambda seeds: uniforms(seeds, 50), jit_compile=True, autograph=False)
    np.testing.assert_array_equal(compiled(seeds), whole)
    np.testing.assert_array_equal(uniforms(seeds[1:2], 3), whole[:3, 1:2])
    np.testing.assert_array_equal(uniforms(seeds, 20, first_step=30), whole[30:])


def test_numbers_are_uniform_and_independent():
    seeds = tf.stack([tf.range(1000), tf.zeros([1000], tf.int32)], axis=1)
    numbers = uniforms(seeds, 20).numpy()
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # chi-square, 19 degrees, p = 0.001
    correlations = np.corrcoef(numbers) - np.eye(20)
    assert np.abs(correlations).max() < 5 / np.sqrt(1000)
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.03
