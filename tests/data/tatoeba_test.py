"""The Tatoeba builder and loader on tiny files, and on the real ones if TATOEBA_DIR is set."""

import gzip
import hashlib
import os
import shutil

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from zoo.data import tatoeba_files
from zoo.data.pairs import all_pairs, draw_pairs, sources_and_references
from zoo.data.tatoeba import TatoebaEnDe, load_tatoeba

LINES = ["Hi.\tHallo!", "Go!\tGeh!", "Hi.\tTag!", "Run!\tLauf!", "Hello.\tHallo!", "Hello.\tHuhu!"]


@pytest.fixture
def write(monkeypatch):
    """Writes a file to a folder and pins its hash."""
    monkeypatch.setattr(tatoeba_files, "HELD_OUT", 1)

    def write(folder, part, lines):
        folder.mkdir(exist_ok=True)
        name, content = tatoeba_files.FILES[part], gzip.compress("\n".join(lines).encode() + b"\n")
        (folder / name).write_bytes(content)
        pinned = hashlib.sha256(content).hexdigest(), len(content)
        monkeypatch.setitem(tatoeba_files.CHECKSUMS, name, pinned)
        return folder

    return write


def as_dictionary(examples):
    return dict(zip(*sources_and_references(examples), strict=True))


def test_each_sentence_has_all_its_translations_in_the_order_of_the_file(tmp_path, write):
    folder = write(tmp_path / "manual", "dev", LINES)
    dev = load_tatoeba("dev", tmp_path / "data", folder)
    assert dev.element_spec == (tf.TensorSpec((), tf.string), tf.TensorSpec((None,), tf.string))
    assert list(as_dictionary(dev).items()) == [
        ("Hi.", ["Hallo!", "Tag!"]),
        ("Go!", ["Geh!"]),
        ("Run!", ["Lauf!"]),
        ("Hello.", ["Hallo!", "Huhu!"]),
    ]


def test_what_is_chosen_by_is_not_learned_from(tmp_path, write):
    folder = write(tmp_path / "manual", "train", LINES)
    train, validation = (
        as_dictionary(load_tatoeba(split, tmp_path / "data", folder))
        for split in ("train", "validation")
    )
    assert len(validation) == 1
    assert not train.keys() & validation.keys()
    learned = {text for each in train.values() for text in each}
    assert not learned & set(*validation.values())
    everything = tatoeba_files.read_translations(folder / "train.tsv.gz")
    assert train.keys() | validation.keys() == everything.keys()


def test_a_translation_that_is_held_out_is_not_learned_by_another_sentence():
    translations = {"Hi.": ["Hallo!", "Tag!"], "Hello.": ["Hallo!", "Huhu!"], "Hey.": ["Hallo!"]}
    for number in (1, 2, 3):
        remaining, held_out = tatoeba_files.hold_out(translations, number)
        assert len(held_out) == number
        german = [
            {text for each in part.values() for text in each} for part in (remaining, held_out)
        ]
        assert not german[0] & german[1]
        assert all(remaining.values())
    assert (
        tatoeba_files.hold_out(dict(reversed(translations.items())), 1)[1]
        == (tatoeba_files.hold_out(translations, 1)[1])
    )


def test_a_prepared_split_needs_no_files(tmp_path, write):
    folder = write(tmp_path / "manual", "dev", LINES)
    first = as_dictionary(load_tatoeba("dev", tmp_path / "data", folder))
    shutil.rmtree(folder)
    assert as_dictionary(load_tatoeba("dev", tmp_path / "data")) == first
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        load_tatoeba("dev", tmp_path / "data", folder)


def test_what_is_missing_is_named_with_the_way_out(tmp_path, write):
    with pytest.raises(FileNotFoundError, match=r"no folder with train.tsv.gz and dev.tsv.gz"):
        load_tatoeba("train", tmp_path / "data")
    folder = write(tmp_path / "manual", "dev", LINES)
    with pytest.raises(FileNotFoundError) as error:
        load_tatoeba("train", tmp_path / "data", folder)
    message = str(error.value)
    assert f"train.tsv.gz is not in the folder '{folder}'" in message
    assert "manual_dir='<folder>'" in message
    assert "--data-dir '<folder>'" in message


def test_another_content_is_refused_with_both_hashes(tmp_path, write):
    folder = write(tmp_path / "manual", "dev", LINES)
    (folder / "dev.tsv.gz").write_bytes(b"changed")
    found = hashlib.sha256(b"changed").hexdigest()
    with pytest.raises(ValueError, match="is not the Tatoeba file") as error:
        load_tatoeba("dev", tmp_path / "data", folder)
    assert f"expected sha256 {tatoeba_files.CHECKSUMS['dev.tsv.gz'][0]}" in str(error.value)
    assert f"found {found} (7 bytes)" in str(error.value)


@pytest.mark.parametrize("line", ["Hi.", "Hi.\t", "\tHallo!", "Hi.\tHallo!\tCC-BY"])
def test_a_line_that_is_no_pair_is_named(tmp_path, write, line):
    folder = write(tmp_path / "manual", "dev", [LINES[0], line])
    with pytest.raises(ValueError, match=r"dev.tsv.gz, line 2: .*Found: "):
        load_tatoeba("dev", tmp_path / "data", folder)


def test_an_unknown_split_lists_the_known_ones():
    with pytest.raises(ValueError, match="split='test'; Tatoeba has train, validation, dev"):
        load_tatoeba("test")


def test_tfds_prepares_all_splits(tmp_path, write):
    folder = write(tmp_path / "manual", "dev", LINES[:1])
    write(folder, "train", LINES[1:])
    builder = TatoebaEnDe(data_dir=tmp_path / "data")
    config = tfds.download.DownloadConfig(manual_dir=folder)
    builder.download_and_prepare(download_config=config)
    splits = builder.info.splits
    assert {name: split.num_examples for name, split in splits.items()} == {
        "train": 3,
        "validation": 1,
        "dev": 1,
    }
    assert "CC-BY 2.0 France" in builder.info.redistribution_info.license


# ------------------------------------------------------------------- sources with several targets


@pytest.fixture
def examples():
    targets = tf.ragged.constant([["a", "b", "c"], ["d"]])
    return tf.data.Dataset.from_tensor_slices((["1", "2"], targets)).map(
        lambda source, each: (source, tf.identity(each))
    )


def test_every_target_makes_a_pair(examples):
    pairs = [(source, target) for source, target in all_pairs(examples).as_numpy_iterator()]
    assert pairs == [(b"1", b"a"), (b"1", b"b"), (b"1", b"c"), (b"2", b"d")]


def test_a_target_is_drawn_anew_in_each_pass(examples):
    pairs = draw_pairs(examples, seed=1)
    assert pairs.cardinality() == 2
    drawn = list(pairs.repeat(40).as_numpy_iterator())
    assert set(drawn[::2]) == {(b"1", b"a"), (b"1", b"b"), (b"1", b"c")}
    assert set(drawn[1::2]) == {(b"2", b"d")}
    again = draw_pairs(examples, seed=1)
    assert drawn == list(again.repeat(40).as_numpy_iterator())


def test_pairs_stay_pairs():
    pairs = tf.data.Dataset.from_tensors(("1", "a"))
    assert draw_pairs(pairs, seed=1) is pairs
    assert all_pairs(pairs) is pairs
    assert sources_and_references(pairs) == (["1"], ["a"])


# ------------------------------------------------------------------------------- the real data set


@pytest.mark.skipif("TATOEBA_DIR" not in os.environ, reason="TATOEBA_DIR names no folder")
@pytest.mark.parametrize(
    ("split", "sentences", "pairs"),
    [("train", 130_380, None), ("validation", 1_000, None), ("dev", 2_000, 2_465)],
)
def test_real_splits_have_their_sizes(tmp_path, split, sentences, pairs):
    real = as_dictionary(load_tatoeba(split, tmp_path, os.environ["TATOEBA_DIR"]))
    assert len(real) == sentences
    assert pairs is None or sum(map(len, real.values())) == pairs
