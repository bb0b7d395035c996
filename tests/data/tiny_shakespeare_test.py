"""Tiny Shakespeare is read from the given folder, or from that of TensorFlow Datasets."""

import pytest
import tensorflow_datasets as tfds

from zoo.data.tiny_shakespeare import load_tiny_shakespeare


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """Prepares the data set from the given text in a folder, and returns the folder."""

    def prepare(name, text):
        path = tmp_path / f"{name}.txt"
        path.write_text(text)
        monkeypatch.setattr(tfds.download.DownloadManager, "download", lambda *arguments: path)
        builder = tfds.builder("tiny_shakespeare", data_dir=tmp_path / name)
        builder.download_and_prepare()
        return tmp_path / name

    return prepare


def test_the_folder_that_is_named_is_read(prepare, tmp_path):
    one, two = prepare("one", "a" * 90 + "b" * 5 + "c" * 5), prepare("two", "d" * 100)
    assert load_tiny_shakespeare("train", one) == "a" * 90
    assert load_tiny_shakespeare("validation+test", one) == "b" * 5 + "c" * 5
    assert load_tiny_shakespeare("train", two) == "d" * 90
    with pytest.raises(FileNotFoundError, match="holds no tiny Shakespeare.*--data-dir"):
        load_tiny_shakespeare("train", tmp_path / "three")
    assert not (tmp_path / "three").exists()
