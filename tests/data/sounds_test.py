"""What makes sounds different each time: how much it changes, and that it changes nothing else."""

import numpy as np
import tensorflow as tf

from zoo.data.sounds import (
    at_another_speed,
    of_another_microphone,
    of_another_throat,
    with_gaps,
    with_noise,
)

RNG = np.random.default_rng(0)
FRAMES = RNG.normal(size=(40, 30, 20)).astype("float32")


def test_speed_changes_length_and_pitch():
    tone = np.sin(2 * np.pi * 0.05 * np.arange(2000)).astype("float32")
    lengths = set()
    for seed in range(20):
        found = at_another_speed(tone, 0.2, seed=[seed, 1]).numpy()
        speed = len(tone) / len(found)
        assert np.exp(-0.21) < speed < np.exp(0.21)
        pitch = np.argmax(np.abs(np.fft.rfft(found))) / len(found)
        np.testing.assert_allclose(pitch, 0.05 * speed, atol=1.5 / len(found))
        lengths.add(len(found))
    assert len(lengths) > 10


def test_noise_is_as_much_softer_as_asked():
    waves = RNG.normal(size=(30, 4000)).astype("float32") * RNG.uniform(0.1, 1.0, (30, 1))
    waves = waves.astype("float32")
    noise = with_noise(waves, (10.0, 30.0), seed=[1, 2]).numpy() - waves
    decibels = 20 * np.log10(waves.std(axis=1) / noise.std(axis=1))
    assert 9.5 < decibels.min() < 15.0
    assert 25.0 < decibels.max() < 30.5


def test_throats_stretch_bands():
    ramp = np.tile(np.arange(20.0, dtype="float32"), (50, 3, 1))
    found = of_another_throat(ramp, 0.1, seed=[1, 2]).numpy()
    change = found[:, 0, 10] / 10
    assert 0.89 < change.min() < 0.93
    assert 1.07 < change.max() < 1.11
    for place in range(50):
        expected = np.minimum(np.arange(20) * change[place], 19.0)
        np.testing.assert_allclose(found[place], np.tile(expected, (3, 1)), atol=1e-4)


def test_microphones_change_bands_the_same_at_all_times():
    added = of_another_microphone(FRAMES, 0.5, seed=[1, 2]).numpy() - FRAMES
    np.testing.assert_allclose(added, np.broadcast_to(added[:, :1], added.shape), atol=1e-5)
    assert 0.5 < added.std() < 0.9  # four cosines of mean square 1/2
    assert np.abs(np.diff(added[:, 0], axis=1)).mean() < 0.3


def test_gaps_are_as_long_as_asked_and_within_the_sound():
    lengths = np.tile([30, 10], 20).astype("int32")
    found = with_gaps(FRAMES, lengths, number=1, time=0.5, bands=0.3, seed=[1, 2]).numpy()
    is_gap = found == 0.0
    np.testing.assert_array_equal(found[~is_gap], FRAMES[~is_gap])
    in_time, in_bands = is_gap.all(axis=2), is_gap.all(axis=1)
    np.testing.assert_array_equal(is_gap, in_time[:, :, None] | in_bands[:, None, :])
    for of_sound, length in zip(in_time, lengths, strict=True):
        places = np.flatnonzero(of_sound)
        assert len(places) <= 0.5 * length
        assert (np.diff(places) == 1).all()
        assert (places < length).all()
    assert in_time.sum(axis=1).max() >= 12
    assert 4 <= in_bands.sum(axis=1).max() <= 6
    again = with_gaps(FRAMES, lengths, number=1, time=0.5, bands=0.3, seed=[2, 2])
    assert bool(tf.reduce_any(again != found))
