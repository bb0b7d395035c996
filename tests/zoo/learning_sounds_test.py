"""How a model hears sounds in training: as the reader does, and changed as much as is asked."""

import dataclasses
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import zoo
from tests.zoo.conformer_test import OPTIONS
from zoo.learning import hearing, job
from zoo.learning.hearing import Hearing
from zoo.learning.sounds import Sounds, one_after_the_other
from zoo.training import runs

RNG = np.random.default_rng(0)
FRAMES = RNG.normal(size=(40, 30, 20)).astype("float32")
READER = zoo.SoundReader(rate=8000, bands=12)
SOUNDS = [
    ((9000 * np.sin(np.arange(length) * (0.3 + 0.1 * number))).astype("int16"), number % 4)
    for number, length in enumerate(RNG.integers(1500, 3500, 22))
]
WITHOUT_TENSORFLOW = """
import runpy, sys

class NoTensorFlow:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tensorflow":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoTensorFlow())
sys.argv = ["zoo.learning", sys.argv[1]]
runpy.run_module("zoo.learning", run_name="__main__")
"""


def seeds(seed=1):
    return keras.random.SeedGenerator(seed)


def array(x):
    return keras.ops.convert_to_numpy(x)


def waves_of(*lengths):
    waves = np.zeros((len(lengths), max(lengths)), "float32")
    for wave, length in zip(waves, lengths, strict=True):
        wave[:length] = 0.3 * RNG.normal(size=length)
    return waves, np.array(lengths, "int32")


@pytest.mark.parametrize(
    "options", [{}, {"decibels": 30.0, "each_band": True}, {"bands": 24, "window": 0.016}]
)
def test_what_is_not_changed_is_what_the_reader_hears(options):
    reader = zoo.SoundReader(**{"rate": 8000, "bands": 12, **options})
    waves, lengths = waves_of(2400, 1111, 0)
    samples = (32767 * np.clip(waves, -1, 1)).astype("int16")
    expected = reader.spectrograms(samples.astype("float32") / 32768.0, lengths)
    found = Hearing(reader.get_config())({"samples": samples, "lengths": lengths})
    np.testing.assert_allclose(array(found["frames"]), expected["frames"], atol=1e-3)
    np.testing.assert_array_equal(array(found["lengths"]), expected["lengths"])


def test_all_of_it_at_once_hears_a_sound_otherwise_each_time():
    waves, lengths = waves_of(2400, 1111, 0)
    changes = {"speed": 0.2, "pause": 0.1, "echo": 0.5, "noise": (5.0, 30.0), "color": 0.8}
    changes |= {"tempo": 0.2, "throat": 0.1, "microphone": 0.5}
    gaps = {"number": 2, "time": 0.1, "bands": 0.2}
    lens = Hearing(READER.get_config(), **changes, gaps=gaps, seed=1)
    heard = [lens({"samples": waves, "lengths": lengths}) for _ in range(2)]
    first, second = (array(each["frames"]) for each in heard)
    assert first.shape == second.shape
    assert np.isfinite(first).all()
    assert np.abs(first - second).max() > 0.1
    for each in heard:
        for frames, length in zip(array(each["frames"]), array(each["lengths"]), strict=True):
            assert not frames[length:].any()


def test_speed_changes_length_and_pitch():
    tone = np.sin(2 * np.pi * 0.05 * np.arange(2000)).astype("float32")
    waves = np.pad(np.tile(tone, (20, 1)), [[0, 0], [0, 100]])
    found, lengths = map(array, hearing.faster(waves, np.full(20, 2000, "int32"), 0.2, seeds()))
    for wave, length in zip(found, lengths, strict=True):
        speed = 2000 / length
        assert np.exp(-0.21) < speed < np.exp(0.21)
        pitch = np.argmax(np.abs(np.fft.rfft(wave[:length]))) / length
        np.testing.assert_allclose(pitch, 0.05 * speed, atol=1.5 / length)
        assert not wave[length:].any()
    assert len(set(lengths)) > 10


def test_tempo_stretches_spectrograms():
    ramp = np.arange(30.0, dtype="float32")[None, :, None] * np.ones((20, 1, 3), "float32")
    found, lengths = map(array, hearing.faster(ramp, np.full(20, 30, "int32"), 0.3, seeds()))
    for frames, length in zip(found, lengths, strict=True):
        speed = frames[1, 0]
        assert length == np.ceil(30 / speed)
        expected = np.minimum(np.arange(length) * speed, 29.0)
        np.testing.assert_allclose(frames[:length], np.tile(expected[:, None], 3), atol=1e-4)
        assert not frames[length:].any()


def test_silence_comes_before_and_behind():
    ones, lengths = np.ones((40, 50), "float32"), np.full(40, 50, "int32")
    found, lengths = map(array, hearing.with_pauses(ones, lengths, 20, seeds()))
    before, behind = [], []
    for wave, length in zip(found, lengths, strict=True):
        (first, *_, last) = np.flatnonzero(wave)
        assert last - first == 49
        before.append(first)
        behind.append(length - 1 - last)
    for each in (before, behind):
        assert 10 < each.count(0) < 30
        assert 12 < max(each) <= 20


def test_echoes_fade():
    click = np.zeros((200, 2400), "float32")
    click[:, 100] = 1.0
    found = array(hearing.with_echoes(click, 0.8, 8000, seeds()))
    np.testing.assert_allclose(found[:, :101], click[:, :101], atol=1e-5)
    energy = np.square(found[:, 101:])
    assert 0.7 < np.sqrt(energy.sum(axis=1)).max() < 0.81
    assert energy[:, :600].sum() > 3 * energy[:, 600:1200].sum() > 0.0


def test_noise_is_as_much_softer_as_asked():
    waves, lengths = waves_of(*[4000] * 20, *[2000] * 10)
    waves *= RNG.uniform(0.1, 1.0, (30, 1)).astype("float32")
    noise = array(hearing.with_noise(waves, lengths, (10.0, 30.0), 0.5, seeds())) - waves
    loudness = np.sqrt(np.square(waves).sum(axis=1) / lengths)
    decibels = 20 * np.log10(loudness / noise.std(axis=1))
    assert 9.5 < decibels.min() < 15.0
    assert 25.0 < decibels.max() < 30.5


def test_noise_has_colors():
    waves, lengths = np.ones((40, 4000), "float32"), np.full(40, 4000, "int32")
    noise = array(hearing.with_noise(waves, lengths, (0.0, 0.1), 0.8, seeds())) - 1.0
    power = np.square(np.abs(np.fft.rfft(noise)))
    low, high = power[:, :1000].sum(axis=1), power[:, 1000:].sum(axis=1)
    assert (low > 2 * high).sum() > 5
    assert (high > 2 * low).sum() > 5


def test_throats_stretch_bands():
    ramp = np.tile(np.arange(20.0, dtype="float32"), (50, 3, 1))
    found = array(hearing.of_another_throat(ramp, 0.1, seeds()))
    change = found[:, 0, 10] / 10
    assert 0.89 < change.min() < 0.93
    assert 1.07 < change.max() < 1.11
    for place in range(50):
        expected = np.minimum(np.arange(20) * change[place], 19.0)
        np.testing.assert_allclose(found[place], np.tile(expected, (3, 1)), atol=1e-4)


def test_microphones_change_bands_the_same_at_all_times():
    added = array(hearing.of_another_microphone(FRAMES, 0.5, seeds())) - FRAMES
    np.testing.assert_allclose(added, np.broadcast_to(added[:, :1], added.shape), atol=1e-5)
    assert 0.5 < added.std() < 0.9  # four cosines of mean square 1/2
    assert np.abs(np.diff(added[:, 0], axis=1)).mean() < 0.3


def test_gaps_are_as_long_as_asked_and_within_the_sound():
    lengths = np.tile([30, 10], 20).astype("int32")
    options = {"number": 1, "time": 0.5, "bands": 0.3}
    found = array(hearing.with_gaps(FRAMES, lengths, **options, seeds=seeds()))
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
    again = array(hearing.with_gaps(FRAMES, lengths, **options, seeds=seeds(2)))
    assert (again != found).any()


@pytest.mark.parametrize("passes", [1, 3])
def test_every_recording_is_heard_as_often_as_asked_an_epoch(passes):
    options = {"batch_size": 4, "lengths": (2000, 2600, 3200), "passes": passes}
    data = Sounds(one_after_the_other(SOUNDS), hearing={"reader": READER.get_config()}, **options)
    waves = [wave[:3200] for wave, _ in SOUNDS]
    orders = []
    for _ in range(2):
        batches = [data[number] for number in range(len(data))]
        assert {inputs["samples"].shape for inputs, _, _ in batches} == {
            (4, length) for length in options["lengths"]
        }
        assert batches[0][0]["samples"].shape[1] < batches[1][0]["samples"].shape[1]
        found = []
        for inputs, labels, weights in batches:
            rows = zip(inputs["samples"], inputs["lengths"], labels, weights, strict=True)
            for samples, length, label, weight in rows:
                assert not samples[length:].any()
                same = [np.array_equal(samples[:length], wave) for wave in waves]
                assert SOUNDS[same.index(True)][1] == label
                if weight:
                    found.append(same.index(True))
        assert sorted(found) == sorted([*range(len(SOUNDS))] * passes)
        orders.append(found)
        data.on_epoch_end()
    assert orders[0] != orders[1]


@pytest.fixture
def folder(tmp_path):
    core = zoo.load("conformer", weights=None, reader=READER, labels=list("0123"), **OPTIONS).core
    options = {
        "batch_size": 8,
        "lengths": (3600,),
        "hearing": {"reader": READER.get_config(), "speed": 0.1, "noise": (10.0, 30.0)},
    }
    optimizer = keras.optimizers.AdamW(
        runs.cosine(3e-3, 6, 1), use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=None
    )
    made = job.Job(
        "conformer",
        core.get_config(),
        "sounds",
        options,
        keras.optimizers.serialize(optimizer),
        epochs=2,
        label_smoothing=0.1,
        dtype="float32",
    )
    assert job.Job(**dataclasses.asdict(made)) == made
    job.write(tmp_path, made, one_after_the_other(SOUNDS))
    return tmp_path


@pytest.mark.full
def test_a_job_of_sounds_is_done(folder):
    weights = job.work(folder)
    model = zoo.load("conformer", weights=None, reader=READER, labels=list("0123"), **OPTIONS)
    before = array(model.core.head.kernel)
    model.core.load_weights(weights)
    assert np.abs(array(model.core.head.kernel) - before).max() > 0.0
    assert model.classify((SOUNDS[0][0], 8000)) in model.labels


@pytest.mark.full
def test_a_job_of_sounds_needs_no_tensorflow(folder):
    pytest.importorskip("jax")
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    command = [sys.executable, "-c", WITHOUT_TENSORFLOW, str(folder)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert (folder / job.LEARNED).exists()
