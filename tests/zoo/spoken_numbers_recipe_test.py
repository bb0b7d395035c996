"""The recipe of sequences of digits: how recordings are joined, and what a run leaves."""

import json

import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.conformer_test import OPTIONS
from zoo.metrics import word_error_rate
from zoo.training import recipes
from zoo.training.spoken_digits import SpokenDigitsRecipe
from zoo.training.spoken_numbers import RATE, WORDS, SpokenNumbersRecipe, sequences, tokenizer

RECIPE = SpokenNumbersRecipe(
    "conformer_ctc",
    overrides=OPTIONS,
    bands=12,
    epochs=2,
    batch_size=4,
    warmup_steps=1,
    average_momentum=0.5,
    digits=3,
    silence=(0.05, 0.1),
)
WAVES = [np.full(1600 + 40 * digit, 1000 * (digit + 1), "int16") for digit in range(10)]


@pytest.fixture(scope="module")
def recordings():
    signature = tf.TensorSpec([None], tf.int16), tf.TensorSpec([], tf.int64)
    return tf.data.Dataset.from_generator(
        lambda: ((wave, digit) for digit, wave in enumerate(WAVES)), output_signature=signature
    )


def said(wave):
    """Returns the digits of a sequence, recognized by loudness, and its silences in seconds."""
    wave, digits, silences = np.asarray(wave), [], []
    ends = np.flatnonzero(np.diff(wave) != 0) + 1
    for part in np.split(wave, ends):
        if part[0] == 0:
            silences.append(len(part) / RATE)
        else:
            digits.append(WORDS[round(float(part[0]) / 1000) - 1])
            assert len(part) == len(WAVES[WORDS.index(digits[-1])])
    return " ".join(digits), silences


def test_sequences_hold_each_recording_once(recordings):
    found = list(sequences(recordings, 3, (0.05, 0.1)).as_numpy_iterator())
    again = list(sequences(recordings, 3, (0.05, 0.1)).as_numpy_iterator())
    assert [len(text.split()) for _, text in found] == [1, 2, 3, 1, 2, 1]
    for (wave, text), (same, _) in zip(found, again, strict=True):
        np.testing.assert_array_equal(wave, same)
        words, silences = said(wave)
        assert words == text.decode()
        assert all(0.049 < each < 0.101 for each in silences)
    assert sorted(" ".join(text.decode() for _, text in found).split()) == sorted(WORDS)


def test_recordings_are_joined(recordings):
    """With the text that they say."""
    waves = np.zeros((3, 2000), "float32")
    for row, digit in enumerate((7, 0, 9)):
        waves[row, : len(WAVES[digit])] = WAVES[digit]
    lengths, numbers = [len(WAVES[digit]) for digit in (7, 0, 9)], set()
    for seed in range(30):
        some = tf.constant(waves), tf.constant(lengths), tf.constant([7, 0, 9], tf.int64)
        wave, length, text = RECIPE._joined(some, tf.constant([seed, 1]))
        words, silences = said(wave.numpy())
        assert (words, length) == (text.numpy().decode(), len(wave))
        assert len(silences) == len(words.split())
        assert all(0.049 < each < 0.101 for each in silences)
        numbers.add(len(silences))
    assert numbers == {1, 2, 3}


def test_a_digit_is_a_token():
    (ids,) = tokenizer().tokenize([" ".join(WORDS)]).to_list()
    assert len(ids) == len({*ids}) == 10


@pytest.mark.full
def test_a_run_leaves_a_preset_with_what_it_measures(recordings, tmp_path, monkeypatch):
    monkeypatch.setattr(SpokenDigitsRecipe, "load", lambda self, split, data_dir: recordings)
    monkeypatch.setitem(recipes.RECIPES, "toy", RECIPE)
    preset = recipes.run("toy", None, tmp_path)
    card = json.loads((preset / "card.json").read_text())
    assert [entry["split"] for entry in card["quality"]] == ["validation", "test"]
    recipe = recipes.of_card(card)
    assert type(recipe) is SpokenNumbersRecipe
    loaded, examples = zoo.load(preset), RECIPE.load("test")
    pairs = list(examples.as_numpy_iterator())
    found = loaded.transcribe([(wave, RATE) for wave, _ in pairs])
    expected = 100 * word_error_rate(found, [text.decode() for _, text in pairs])
    assert card["quality"][1]["value"] == pytest.approx(expected, abs=0.01)
