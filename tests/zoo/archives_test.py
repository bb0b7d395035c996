"""Presets in archives: what they may hold, hashes, and damage that leaves nothing behind."""

import pathlib
import shutil
import stat
import zipfile

import pytest

import zoo
from tests.zoo.download_cache import left_in, pin
from zoo.storage import CARD, CONFIG, FILES, LARGEST, TOKENIZER, WEIGHTS, downloads

pytestmark = pytest.mark.usefixtures("download_cache")


def write_zip(path, folder, names, **contents):
    """Writes an archive of a preset's files under the given names."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            own = pathlib.PurePosixPath(name).name
            archive.writestr(name, contents.get(own) or (folder / own).read_bytes())
    return path


@pytest.mark.parametrize("root", ["", "toy/", "a folder with spaces/"])
def test_files_are_in_the_root_or_in_a_folder(toy_folder, tmp_path, root):
    path = write_zip(tmp_path / "toy.zip", toy_folder, [root + name for name in FILES])
    found = downloads.fetch(str(path))
    assert {each.name: each.read_bytes() for each in found.iterdir()} == {
        name: (toy_folder / name).read_bytes() for name in FILES
    }


def test_an_entry_of_the_folder_itself_is_fine(toy_folder, tmp_path):
    shutil.make_archive(tmp_path / "toy", "zip", toy_folder.parent, "toy")
    assert zoo.info(tmp_path / "toy.zip").description == "A toy"


OTHERS = list(FILES[1:])

MEMBERS = {
    "absolute": ["/card.json", *(f"/{name}" for name in OTHERS)],
    "one is absolute": [CARD, CONFIG, TOKENIZER, f"/{WEIGHTS}"],
    "above": [f"../{name}" for name in FILES],
    "one is above": [CARD, CONFIG, TOKENIZER, f"../{WEIGHTS}"],
    "above and below": [f"toy/../../{name}" for name in FILES],
    "here": [f"./{name}" for name in FILES],
    "backslashes": [f"..\\{name}" for name in FILES],
    "a drive": [f"C:/{name}" for name in FILES],
    "two folders": [f"toy/{CARD}", *(f"other/{name}" for name in OTHERS)],
    "too deep": [f"one/two/{name}" for name in FILES],
    "one is missing": [CARD, CONFIG, TOKENIZER],
    "no card": OTHERS,
    "nothing": [],
    "one too many": [*FILES, "nested/card.json"],
    "an empty folder too many": [*FILES, "other/"],
    "twice": [*FILES, CONFIG],
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", MEMBERS.values(), ids=MEMBERS)
def test_an_archive_holds_the_four_files_and_nothing_else(
    toy_folder, tmp_path, download_cache, names
):
    path = tmp_path / "toy.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            own = toy_folder / name.replace("\\", "/").rpartition("/")[2]
            archive.writestr(name, own.read_bytes() if own.is_file() else b"")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"toy.zip holds no preset.*should hold card.json"):
        zoo.load(path)
    assert left_in(download_cache) == []
    assert sorted(set(tmp_path.iterdir()) - {download_cache.parent}) == before


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_a_link_is_refused(toy_folder, tmp_path, download_cache, kind):
    path = tmp_path / "toy.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in FILES:
            member = zipfile.ZipInfo(name)
            if name == TOKENIZER:
                member.external_attr = (kind | 0o777) << 16
                archive.writestr(member, "/etc/passwd")
            else:
                archive.writestr(member, (toy_folder / name).read_bytes())
    with pytest.raises(ValueError, match=f"{TOKENIZER} in it should be a file, and is a link"):
        zoo.load(path)
    assert left_in(download_cache) == []


def test_another_compression_is_refused(toy_folder, tmp_path, download_cache):
    path = tmp_path / "toy.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name in FILES:
            archive.write(toy_folder / name, name)
    with pytest.raises(ValueError, match=f"{CARD} in it should be stored as it is, or compressed"):
        zoo.load(path)
    assert left_in(download_cache) == []


@pytest.mark.parametrize("name", [TOKENIZER, WEIGHTS])
def test_a_bomb_is_refused_before_it_is_unpacked(
    toy_folder, tmp_path, download_cache, monkeypatch, name
):
    monkeypatch.setitem(LARGEST, name, 2**20)
    path = tmp_path / "toy.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in FILES:
            content = bytes(2**21) if each == name else (toy_folder / each).read_bytes()
            archive.writestr(each, content)
    with pytest.raises(ValueError, match=f"{name} in it would take 2097152 bytes, and 1048576"):
        zoo.load(path)
    assert left_in(download_cache) == []


def test_no_more_comes_out_than_was_declared(toy_folder, tmp_path, download_cache):
    """A zip bomb may lie about its size, a number that precedes the name of each member."""
    path = tmp_path / "toy.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in FILES:
            archive.writestr(
                name, bytes(2**22) if name == TOKENIZER else (toy_folder / name).read_bytes()
            )
    size, small = (2**22).to_bytes(4, "little"), (2**10).to_bytes(4, "little")
    content = path.read_bytes()
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, small))
    with pytest.raises(ValueError, match="not a zip file, or is damaged: Bad CRC-32"):
        zoo.load(path)
    assert left_in(download_cache) == []


def test_a_damaged_archive_leaves_nothing(toy_archive, tmp_path, download_cache):
    whole = toy_archive.read_bytes()
    middle = len(whole) // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for number, content in enumerate([b"", b"<html>", whole[:-30], whole[:middle], changed]):
        path = tmp_path / f"{number}.zip"
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=f"{number}.zip holds no preset.*not a zip file, or is"
        ):
            zoo.load(path)
    assert left_in(download_cache) == []


def test_files_are_compared_with_the_card_before_they_stay(toy_folder, tmp_path, download_cache):
    path = write_zip(tmp_path / "toy.zip", toy_folder, FILES, **{CONFIG: b"{}"})
    with pytest.raises(
        ValueError, match=rf"{CONFIG} is damaged or was changed.*create the archive again"
    ):
        zoo.info(path)
    assert left_in(download_cache) == []


def test_an_archive_is_compared_with_its_hash(toy_archive, download_cache):
    assert zoo.info(f"{toy_archive}{pin(toy_archive).upper().replace('SHA', 'sha')}").name == "toy"
    with pytest.raises(ValueError, match=f"toy.zip is damaged, or another.*{'0' * 64}.*Found: "):
        zoo.info(f"{toy_archive}#sha256={'0' * 64}")
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        zoo.info(f"{toy_archive}#sha256=123")
    with pytest.raises(FileNotFoundError, match="missing.zip"):
        zoo.info(toy_archive.with_name("missing.zip"))


def test_a_damaged_copy_in_the_cache_is_named(toy_archive, download_cache):
    (copy,) = [downloads.fetch(str(toy_archive))]
    assert copy.parent == download_cache
    (copy / TOKENIZER).write_text("{}")
    with pytest.raises(ValueError, match=f"{TOKENIZER} is damaged.*remove {copy}"):
        zoo.load(toy_archive)
