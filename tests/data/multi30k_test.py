"""The Multi30k builder and loader on tiny files, and on the real ones if MULTI30K_DIR is set."""

import gzip
import hashlib
import importlib
import os
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from zoo.data import multi30k_files
from zoo.data.multi30k import Multi30k, load_multi30k

ENGLISH = ["A man.", "Two dogs\u2028run.", "A girl\x85and\ra boy."]
GERMAN = ["Ein Mann.", "Zwei Hunde rennen.", "Ein Mädchen und ein Junge."]
FRENCH = ["Un homme.", "Deux chiens courent.", "Une fille et un garçon."]

real_data = pytest.mark.skipif(
    "MULTI30K_DIR" not in os.environ, reason="MULTI30K_DIR names no folder of the real files"
)


@pytest.fixture
def write_split(monkeypatch):
    """Writes the files of a split to a folder and pins their hashes as the upstream ones."""

    def write(folder, split, **sentences):
        folder.mkdir(parents=True, exist_ok=True)
        for language, lines in sentences.items():
            name = f"{multi30k_files.FILE_PREFIXES[split]}.{language}.gz"
            content = gzip.compress("".join(line + "\n" for line in lines).encode("utf-8"))
            (folder / name).write_bytes(content)
            pinned = hashlib.sha256(content).hexdigest(), len(content)
            monkeypatch.setitem(multi30k_files.CHECKSUMS, name, pinned)

    return write


def as_text(dataset):
    batches = dataset.batch(1024).as_numpy_iterator()
    return [
        (source.decode("utf-8"), target.decode("utf-8"))
        for sources, targets in batches
        for source, target in zip(sources, targets, strict=True)
    ]


@pytest.mark.parametrize("subfolder", ["", "raw"])
def test_pairs_come_in_the_order_of_the_files_cut_at_newlines_only(
    tmp_path, write_split, subfolder
):
    write_split(tmp_path / "manual" / subfolder, "train", en=ENGLISH, de=GERMAN)
    dataset = load_multi30k("en-de", "train", tmp_path / "data", tmp_path / "manual")
    assert as_text(dataset) == list(zip(ENGLISH, GERMAN, strict=True))
    assert dataset.element_spec == (tf.TensorSpec((), tf.string), tf.TensorSpec((), tf.string))


@pytest.mark.parametrize(
    ("pair", "source", "target"),
    [("de-en", GERMAN, ENGLISH), ("en-fr", ENGLISH, FRENCH), ("fr-en", FRENCH, ENGLISH)],
)
def test_every_pair_has_its_direction(tmp_path, write_split, pair, source, target):
    write_split(tmp_path / "manual", "validation", en=ENGLISH, de=GERMAN, fr=FRENCH)
    dataset = load_multi30k(pair, "validation", tmp_path / "data", tmp_path / "manual")
    assert as_text(dataset) == list(zip(source, target, strict=True))


def test_a_prepared_split_needs_no_files(tmp_path, write_split):
    write_split(tmp_path / "manual", "train", en=ENGLISH, de=GERMAN)
    first = as_text(load_multi30k("en-de", "train", tmp_path / "data", tmp_path / "manual"))
    shutil.rmtree(tmp_path / "manual")
    assert as_text(load_multi30k("en-de", "train", tmp_path / "data")) == first


def test_a_process_that_was_slower_reads_what_another_prepared(tmp_path, write_split, monkeypatch):
    write_split(tmp_path / "manual", "train", en=ENGLISH, de=GERMAN)
    places = "en-de", "train", tmp_path / "data", tmp_path / "manual"
    generate, faster = Multi30k._split_generators, []

    def overtaken(builder, manager):
        if not faster:
            faster.append("another process")
            load_multi30k(*places)
        return generate(builder, manager)

    monkeypatch.setattr(Multi30k, "_split_generators", overtaken)
    assert as_text(load_multi30k(*places)) == list(zip(ENGLISH, GERMAN, strict=True))


def test_the_folder_that_is_named_is_read_whatever_is_prepared(tmp_path, write_split):
    data, empty, short = (tmp_path / name for name in ("data", "empty", "short"))
    write_split(tmp_path / "manual", "train", en=ENGLISH, de=GERMAN)
    first = as_text(load_multi30k("en-de", "train", data, tmp_path / "manual"))
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match="--data-dir '<folder>'"):
        load_multi30k("en-de", "train", data, empty)
    short.mkdir()
    for name in ("train.en.gz", "train.de.gz"):
        (short / name).write_bytes(gzip.compress(b"A line.\n"))
    with pytest.raises(ValueError, match="short/train.en.gz is not the Multi30k file"):
        load_multi30k("en-de", "train", data, short)
    assert as_text(load_multi30k("en-de", "train", data, tmp_path / "manual")) == first
    write_split(tmp_path / "other", "train", en=ENGLISH[:1], de=GERMAN[:1])  # pins new hashes
    assert len(as_text(load_multi30k("en-de", "train", data, tmp_path / "other"))) == 1


def test_splits_may_come_from_different_folders(tmp_path, write_split):
    write_split(tmp_path / "one", "train", en=ENGLISH, de=GERMAN)
    write_split(tmp_path / "two", "test_2017_flickr", en=ENGLISH[:1], de=GERMAN[:1])
    data = tmp_path / "data"
    assert len(as_text(load_multi30k("en-de", "train", data, tmp_path / "one"))) == 3
    with pytest.raises(FileNotFoundError, match="test_2017_flickr"):
        load_multi30k("en-de", "test_2017_flickr", data, tmp_path / "one")
    assert len(as_text(load_multi30k("en-de", "test_2017_flickr", data, tmp_path / "two"))) == 1
    assert len(as_text(load_multi30k("en-de", "train", data))) == 3


def test_a_missing_split_names_files_places_and_the_way_out(tmp_path, write_split):
    write_split(tmp_path / "manual", "test_2017_mscoco", en=ENGLISH)
    with pytest.raises(FileNotFoundError) as error:
        load_multi30k("en-de", "test_2017_mscoco", tmp_path / "data", tmp_path / "manual")
    message = str(error.value)
    assert "split 'test_2017_mscoco'" in message
    assert "looked for test_2017_mscoco.en.gz and test_2017_mscoco.de.gz" in message
    assert f"in '{tmp_path / 'manual' / 'raw'}' and '{tmp_path / 'manual'}'" in message
    assert "did not find test_2017_mscoco.de.gz." in message
    assert multi30k_files.URL + "test_2017_mscoco.de.gz" in message
    assert multi30k_files.URL + "test_2017_mscoco.en.gz" not in message
    assert "manual_dir=" in message


def test_a_folder_that_does_not_exist_is_called_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere', which does not exist"):
        load_multi30k("en-de", "train", tmp_path / "data", tmp_path / "nowhere")


def test_changed_content_is_refused_with_both_hashes(tmp_path, write_split):
    write_split(tmp_path, "train", en=ENGLISH, de=GERMAN)
    expected = multi30k_files.CHECKSUMS["train.de.gz"][0]
    (tmp_path / "train.de.gz").write_bytes(b"changed")
    found = hashlib.sha256(b"changed").hexdigest()
    with pytest.raises(ValueError, match="train.de.gz") as error:
        load_multi30k("en-de", "train", tmp_path / "data", tmp_path)
    assert f"expected sha256 {expected}" in str(error.value)
    assert f"found {found} (7 bytes)" in str(error.value)


def test_unequal_line_counts_name_both_files(tmp_path, write_split):
    write_split(tmp_path, "train", en=ENGLISH, de=GERMAN[:2])
    with pytest.raises(ValueError, match=r"train\.en\.gz has 3 lines, .*train\.de\.gz has 2\."):
        load_multi30k("en-de", "train", tmp_path / "data", tmp_path)


def test_unknown_pair_and_split_list_the_known_ones():
    with pytest.raises(ValueError, match="pair='de-fr'; Multi30k has en-de, de-en, en-fr, fr-en"):
        load_multi30k("de-fr")
    with pytest.raises(ValueError, match="split='val'; Multi30k has train, validation, test_2016"):
        load_multi30k("en-de", "val")


def test_tfds_load_skips_what_the_folder_lacks_and_says_so(tmp_path, write_split):
    write_split(tmp_path / "manual", "train", en=ENGLISH, de=GERMAN)
    write_split(tmp_path / "manual", "validation", en=ENGLISH, de=GERMAN)
    config = tfds.download.DownloadConfig(manual_dir=tmp_path / "manual")
    with pytest.warns(UserWarning, match="Split 'test_2017_flickr' is skipped"):
        splits, info = tfds.load(
            "multi30k/en_de",
            data_dir=tmp_path / "data",
            download_and_prepare_kwargs={"download_config": config},
            with_info=True,
        )
    assert set(splits) == {"train", "validation"}
    assert set(splits["train"].element_spec) == {"en", "de"}
    assert info.supervised_keys == ("en", "de")
    assert as_text(load_multi30k("de-en", "train", tmp_path / "data"))[0] == (GERMAN[0], ENGLISH[0])


def test_a_folder_without_any_split_is_an_error(tmp_path):
    builder = Multi30k(config="en_de", data_dir=tmp_path / "data")
    config = tfds.download.DownloadConfig(manual_dir=tmp_path)
    with (
        pytest.warns(UserWarning, match="is skipped"),
        pytest.raises(FileNotFoundError, match="holds no Multi30k split"),
    ):
        builder.download_and_prepare(download_config=config)


def test_without_a_folder_the_files_are_downloaded(tmp_path, write_split, monkeypatch):
    write_split(tmp_path / "upstream", "train", en=ENGLISH, de=GERMAN)
    monkeypatch.setattr(multi30k_files, "URL", f"file://{tmp_path}/upstream/")
    dataset = load_multi30k("en-de", "train", tmp_path / "data")
    assert as_text(dataset) == list(zip(ENGLISH, GERMAN, strict=True))


def test_a_changed_download_is_refused(tmp_path, write_split, monkeypatch):
    write_split(tmp_path / "upstream", "train", en=ENGLISH, de=GERMAN)
    (tmp_path / "upstream" / "train.de.gz").write_bytes(b"changed")
    monkeypatch.setattr(multi30k_files, "URL", f"file://{tmp_path}/upstream/")
    with pytest.raises(ValueError, match="not the pinned one") as error:
        load_multi30k("en-de", "train", tmp_path / "data")
    assert "train.de.gz" in str(error.value)
    assert multi30k_files.CHECKSUMS["train.de.gz"][0] in str(error.value)
    assert hashlib.sha256(b"changed").hexdigest() in str(error.value)


def test_no_internet_says_what_to_download_and_where_to_put_it(tmp_path, monkeypatch):
    unreachable = "http://127.0.0.1:9/"
    monkeypatch.setattr(multi30k_files, "URL", unreachable)
    with pytest.raises(ConnectionError) as error:
        load_multi30k("en-de", "validation", tmp_path / "data")
    message = str(error.value)
    assert "could not be downloaded for 'validation'" in message
    assert unreachable + "val.en.gz" in message
    assert unreachable + "val.de.gz" in message
    assert "manual_dir=" in message


@pytest.mark.parametrize("name", ["flickr8k", "multi30k", "tatoeba"])
def test_without_tensorflow_datasets_the_error_says_what_to_install(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    for module in (f"zoo.data.{name}", "zoo.data.prepared"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ImportError, match=r'pip install "keras-attention-zoo\[data\]"'):
        importlib.import_module(f"zoo.data.{name}")


def test_import_zoo_leaves_tensorflow_datasets_alone():
    code = "import sys, zoo; sys.exit('tensorflow_datasets' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_file_of_every_split_is_pinned():
    names = {
        name
        for split in multi30k_files.FILE_PREFIXES
        for name in multi30k_files.split_file_names(split, ("en", "de", "fr"))
    }
    assert names == set(multi30k_files.CHECKSUMS)
    assert all(len(sha256) == 64 for sha256, _ in multi30k_files.CHECKSUMS.values())


@real_data
@pytest.mark.parametrize("pair", ["en-de", "fr-en"])
@pytest.mark.parametrize(
    ("split", "size"), [("train", 29_000), ("validation", 1_014), ("test_2016_flickr", 1_000)]
)
def test_real_splits_have_their_published_sizes(tmp_path, pair, split, size):
    dataset = load_multi30k(pair, split, tmp_path, os.environ["MULTI30K_DIR"])
    pairs = as_text(dataset)
    assert len(pairs) == size
    assert all(source and target for source, target in pairs)


@real_data
def test_real_validation_begins_as_upstream(tmp_path):
    dataset = load_multi30k("en-de", "validation", tmp_path, os.environ["MULTI30K_DIR"])
    assert as_text(dataset)[0] == (
        "A group of men are loading cotton onto a truck",
        "Eine Gruppe von Männern lädt Baumwolle auf einen Lastwagen",
    )
