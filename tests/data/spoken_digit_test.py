"""The splits of the spoken digits, by number and by speaker: they are disjoint."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from zoo.data import spoken_digit
from zoo.data.spoken_digit import load_spoken_digit

NAMES = [f"{d}_{s}_{n}.wav" for d in (0, 7) for s in ("theo", "george") for n in range(50)]


class Builder:
    """Stands in for the builder of TensorFlow Datasets; each recording holds its own number."""

    data_path = "spoken_digit"

    def is_prepared(self):
        return True

    def as_dataset(self, split):
        assert split == "train"
        numbers = np.arange(len(NAMES))
        recordings = {
            "audio": numbers[:, None],
            "audio/filename": NAMES,
            "label": [int(name[0]) for name in NAMES],
        }
        return tf.data.Dataset.from_tensor_slices(recordings)


@pytest.fixture(autouse=True)
def builder(monkeypatch):
    monkeypatch.setattr(tfds, "builder", lambda name, data_dir: Builder())


def names_in(split):
    recordings = list(load_spoken_digit(split, "somewhere").as_numpy_iterator())
    assert all(audio.dtype == np.int16 for audio, _ in recordings)
    names = [NAMES[int(audio[0])] for audio, _ in recordings]
    assert [int(name[0]) for name in names] == [label for _, label in recordings]
    return names


def test_recordings_are_split_by_number():
    parts = [names_in(split) for split in ("test", "validation", "train")]
    assert [len(part) for part in parts] == [4 * 5, 4 * 5, 4 * 40]
    assert sorted(name for part in parts for name in part) == sorted(NAMES)
    numbers = {int(name[:-4].split("_")[2]) for name in parts[0]}
    assert numbers == set(range(5))
    assert sorted(names_in("-test")) == sorted(parts[1] + parts[2])


def test_recordings_are_split_by_speaker():
    assert set(names_in("theo")) == {name for name in NAMES if "theo" in name}
    assert set(names_in("-theo")) == {name for name in NAMES if "george" in name}
    assert names_in("lucas") == []


def test_wrong_splits_and_folders_are_named(monkeypatch):
    for split in ("tests", "-tests", "-teo"):
        with pytest.raises(ValueError, match=f"split of the spoken digits '{split}'.*Did you mean"):
            load_spoken_digit(split, "somewhere")
    monkeypatch.setattr(Builder, "is_prepared", lambda self: False)
    with pytest.raises(FileNotFoundError, match="'nowhere' holds no spoken digits.*--data-dir"):
        load_spoken_digit("test", "nowhere")
    assert tuple(sorted(spoken_digit.SPEAKERS)) == spoken_digit.SPEAKERS
