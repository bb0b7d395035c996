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


@pytest.mark.parametrize("name", DATA)
def test_what_is_reported_is_measured(name):
    assert set(DATA[name].test_splits) <= set(DATA[name].measured_splits)
    assert DATA[name].for_card("en-de")["pair"] == "en-de"
