"""Which data the splits of translation recipes hold."""

import pytest
import tensorflow as tf

from zoo.data.pairs import sources_and_references
from zoo.training import recipes
from zoo.training.translation_data import DATA


def test_everyday_sentences_and_captions_come_from_two_folders(monkeypatch, tmp_path):
    asked = []

    def tatoeba(split, manual_dir):
        asked.append((split, manual_dir))
        return tf.data.Dataset.from_tensors(("Hi.", ["Hallo!", "Tag!"]))

    def multi30k(pair, split, manual_dir):
        asked.append((pair, split, manual_dir))
        return tf.data.Dataset.from_tensors(("A man.", "Ein Mann."))

    for name in ("tatoeba_en_de", "multi30k"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("zoo.data.tatoeba.load_tatoeba", tatoeba)
    monkeypatch.setattr("zoo.data.multi30k.load_multi30k", multi30k)
    data = DATA[recipes.RECIPES["transformer_nmt_tatoeba_en_de"].data]
    hi, man = ("Hi.", ["Hallo!", "Tag!"]), ("A man.", ["Ein Mann."])

    def load(split, data_dir=tmp_path):
        return list(zip(*sources_and_references(data.load(split, "en-de", data_dir)), strict=True))

    assert load("train") == [hi, man, man]
    assert load("validation") == [hi, man]
    folders = tmp_path / "tatoeba_en_de", tmp_path / "multi30k"
    captions = ("en-de", "validation", folders[1])
    assert asked[2:] == [("validation", folders[0]), captions]
    assert load("tatoeba/dev", None) == [hi]
    assert load("multi30k/test_2016_flickr") == [("A man.", "Ein Mann.")]
    assert asked[4:] == [("dev", None), ("en-de", "test_2016_flickr", folders[1])]
    with pytest.raises(ValueError, match="split='dev'; there are multi30k/validation, multi30k/te"):
        data.load("dev", "en-de")


def test_captions_without_translations_are_unlike_what_is_measured(monkeypatch, tmp_path, capsys):
    pairs = {
        "train": ("A man.", "Ein Mann."),
        "validation": ("A cat sleeps on a red mat.", "Eine Katze ..."),
        "test_2016_flickr": ("Dogs run.", "Hunde laufen."),
    }
    pictures = [
        ["a bird sings", "A bird 's song ."],
        ["Two birds", "a cat sleeps on the red mat"],  # 6 of 7 words of the validation split
        ["Dogs run away over a meadow ."],  # 2 of 6 words of the test split
    ]
    asked = []

    def flickr8k(split, manual_dir):
        asked.append((split, manual_dir))
        captions = tf.ragged.constant(pictures, tf.string)
        return tf.data.Dataset.from_tensor_slices({"image": [b""] * 3, "captions": captions})

    def multi30k(pair, split, manual_dir):
        assert (pair, manual_dir) == ("en-de", tmp_path / "multi30k")
        return tf.data.Dataset.from_tensors(pairs[split])

    for name in ("flickr8k", "multi30k"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("zoo.data.flickr8k.load_flickr8k", flickr8k)
    monkeypatch.setattr("zoo.data.multi30k.load_multi30k", multi30k)
    data = DATA["multi30k+flickr8k"]
    sources, targets = sources_and_references(data.load("train", "en-de", tmp_path))
    assert sources == ["A man.", "A bird sings.", "A bird's song.", "Dogs run away over a meadow."]
    assert targets == [["Ein Mann."], [], [], []]
    assert asked == [("train", tmp_path / "flickr8k")]
    assert "3 captions; 2 are left out" in capsys.readouterr().out
    (pair,) = data.load("validation", "en-de", tmp_path).as_numpy_iterator()
    assert pair[0].decode() == pairs["validation"][0]
    (pair,) = data.load("validation", "en-de", tmp_path / "multi30k").as_numpy_iterator()
    assert pair[0].decode() == pairs["validation"][0]  # also with the folder of this data set
    with pytest.raises(ValueError, match="English. Received: pair='de-en'"):
        data.load("train", "de-en", tmp_path)


@pytest.mark.parametrize("name", DATA)
def test_what_is_reported_is_measured(name):
    assert set(DATA[name].test_splits) <= set(DATA[name].measured_splits)
    assert DATA[name].for_card("en-de")["pair"] == "en-de"
