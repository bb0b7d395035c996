"""Presets from elsewhere: archives and what they may hold, URLs, the Hugging Face Hub."""

import fnmatch
import functools
import hashlib
import http.server
import json
import pathlib
import re
import shutil
import stat
import sys
import threading
import types
import zipfile

import click.testing
import pytest
import requests

import zoo
from zoo.cli import main
from zoo.storage import CARD, CONFIG, FILES, LARGEST, TOKENIZER, WEIGHTS, archives, downloads
from zoo.storage.downloads import OF_CHECKPOINTS, PICKLED
from zoo.storage.presets import fingerprint


@pytest.fixture(scope="module")
def folder(fresh_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "toy"
    fresh_model("luong_nmt").save_to_preset(folder, "A toy")
    return folder


@pytest.fixture(scope="module")
def archive(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "toy.zip"
    archives.pack(folder, path)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Folder of unpacked presets, empty before each test."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    return tmp_path / "keras" / "presets"


COMMIT = "0123456789" * 4


def pin(path):
    return f"#sha256={fingerprint(path)['sha256']}"


def left_in(cache):
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


# -------------------------------------------------------------------------------------- archives


def write_zip(path, folder, names, **contents):
    """Writes an archive of a preset's files under the given names."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            own = pathlib.PurePosixPath(name).name
            archive.writestr(name, contents.get(own) or (folder / own).read_bytes())
    return path


@pytest.mark.parametrize("root", ["", "toy/", "a folder with spaces/"])
def test_files_are_in_the_root_or_in_a_folder(folder, tmp_path, root):
    path = write_zip(tmp_path / "toy.zip", folder, [root + name for name in FILES])
    found = downloads.fetch(str(path))
    assert {each.name: each.read_bytes() for each in found.iterdir()} == {
        name: (folder / name).read_bytes() for name in FILES
    }


def test_an_entry_of_the_folder_itself_is_fine(folder, tmp_path):
    shutil.make_archive(tmp_path / "toy", "zip", folder.parent, "toy")
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
def test_an_archive_holds_the_four_files_and_nothing_else(folder, tmp_path, cache, names):
    path = tmp_path / "toy.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            own = folder / name.replace("\\", "/").rpartition("/")[2]
            archive.writestr(name, own.read_bytes() if own.is_file() else b"")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"toy.zip holds no preset.*should hold card.json"):
        zoo.load(path)
    assert left_in(cache) == []
    assert sorted(set(tmp_path.iterdir()) - {cache.parent}) == before


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_a_link_is_refused(folder, tmp_path, cache, kind):
    path = tmp_path / "toy.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in FILES:
            member = zipfile.ZipInfo(name)
            if name == TOKENIZER:
                member.external_attr = (kind | 0o777) << 16
                archive.writestr(member, "/etc/passwd")
            else:
                archive.writestr(member, (folder / name).read_bytes())
    with pytest.raises(ValueError, match=f"{TOKENIZER} in it should be a file, and is a link"):
        zoo.load(path)
    assert left_in(cache) == []


def test_another_compression_is_refused(folder, tmp_path, cache):
    path = tmp_path / "toy.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name in FILES:
            archive.write(folder / name, name)
    with pytest.raises(ValueError, match=f"{CARD} in it should be stored as it is, or compressed"):
        zoo.load(path)
    assert left_in(cache) == []


@pytest.mark.parametrize("name", [TOKENIZER, WEIGHTS])
def test_a_bomb_is_refused_before_it_is_unpacked(folder, tmp_path, cache, monkeypatch, name):
    monkeypatch.setitem(LARGEST, name, 2**20)
    path = tmp_path / "toy.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in FILES:
            content = bytes(2**21) if each == name else (folder / each).read_bytes()
            archive.writestr(each, content)
    with pytest.raises(ValueError, match=f"{name} in it would take 2097152 bytes, and 1048576"):
        zoo.load(path)
    assert left_in(cache) == []


def test_no_more_comes_out_than_was_declared(folder, tmp_path, cache):
    """A zip bomb may lie about its size, a number that precedes the name of each member."""
    path = tmp_path / "toy.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in FILES:
            archive.writestr(
                name, bytes(2**22) if name == TOKENIZER else (folder / name).read_bytes()
            )
    size, small = (2**22).to_bytes(4, "little"), (2**10).to_bytes(4, "little")
    content = path.read_bytes()
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, small))
    with pytest.raises(ValueError, match="not a zip file, or is damaged: Bad CRC-32"):
        zoo.load(path)
    assert left_in(cache) == []


def test_a_damaged_archive_leaves_nothing(archive, tmp_path, cache):
    whole = archive.read_bytes()
    middle = len(whole) // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for number, content in enumerate([b"", b"<html>", whole[:-30], whole[:middle], changed]):
        path = tmp_path / f"{number}.zip"
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=f"{number}.zip holds no preset.*not a zip file, or is"
        ):
            zoo.load(path)
    assert left_in(cache) == []


def test_files_are_compared_with_the_card_before_they_stay(folder, tmp_path, cache):
    path = write_zip(tmp_path / "toy.zip", folder, FILES, **{CONFIG: b"{}"})
    with pytest.raises(
        ValueError, match=rf"{CONFIG} is damaged or was changed.*create the archive again"
    ):
        zoo.info(path)
    assert left_in(cache) == []


def test_an_archive_is_compared_with_its_hash(archive, cache):
    assert zoo.info(f"{archive}{pin(archive).upper().replace('SHA', 'sha')}").name == "toy"
    with pytest.raises(ValueError, match=f"toy.zip is damaged, or another.*{'0' * 64}.*Found: "):
        zoo.info(f"{archive}#sha256={'0' * 64}")
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        zoo.info(f"{archive}#sha256=123")
    with pytest.raises(FileNotFoundError, match="missing.zip"):
        zoo.info(archive.with_name("missing.zip"))


def test_a_damaged_copy_in_the_cache_is_named(archive, cache):
    (copy,) = [downloads.fetch(str(archive))]
    assert copy.parent == cache
    (copy / TOKENIZER).write_text("{}")
    with pytest.raises(ValueError, match=f"{TOKENIZER} is damaged.*remove {copy}"):
        zoo.load(archive)


# ------------------------------------------------------------------------------------------ URLs


class Server(http.server.BaseHTTPRequestHandler):
    """Serves what `answers` has for a path: bytes, with or without a length, or a redirection."""

    answers, requests = {}, []

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.requests.append(self.path)
        answer = self.answers.get(self.path.partition("?")[0])
        if answer is None:
            self.send_error(404)
        elif isinstance(answer, str):
            self.send_response(302)
            self.send_header("Location", answer)
            self.end_headers()
        else:
            content, promised = answer if isinstance(answer, tuple) else (answer, len(answer))
            self.send_response(200)
            if promised:
                self.send_header("Content-Length", str(promised))
            if COMMIT in self.path:  # a request of the Hugging Face client
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def answers(server, archive, monkeypatch):
    answers = {"/toy.zip": archive.read_bytes()}
    monkeypatch.setattr(Server, "answers", answers)
    monkeypatch.setattr(Server, "requests", [])
    return answers


class Encrypted(requests.adapters.HTTPAdapter):
    """Lets the server stand in for an encrypted one."""

    def __init__(self, server):
        super().__init__()
        self.server = server

    def send(self, request, **options):
        url = request.url
        request.url = url.replace("https://example.org", self.server)
        response = super().send(request, **options)
        request.url = response.url = url
        return response


@pytest.fixture
def over_https(server, monkeypatch):
    get_adapter = requests.Session.get_adapter

    def adapter(session, url):
        is_here = url.startswith("https://example.org")
        return Encrypted(server) if is_here else get_adapter(session, url)

    monkeypatch.setattr(requests.Session, "get_adapter", adapter)
    return "https://example.org/toy.zip"


def test_a_url_is_downloaded_once(over_https, answers, cache, capsys):
    size = len(answers["/toy.zip"])
    assert zoo.load(over_https).core.config.cell == "lstm"
    answers.clear()
    assert zoo.info(over_https).name == "toy"
    assert Server.requests == ["/toy.zip"]
    (copy,) = left_in(cache)
    assert copy.startswith("toy-")
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"Downloading {over_https}\n")
    assert f"{size}/{size}" in output.err


def test_a_hash_makes_http_safe(server, answers, archive, cache):
    with pytest.raises(ValueError, match=r"Anybody on the way.*https://, or .*toy.zip#sha256="):
        zoo.info(f"{server}/toy.zip")
    assert Server.requests == []
    assert zoo.info(f"{server}/toy.zip{pin(archive)}").name == "toy"
    answers["/toy.zip"] += b" "
    assert zoo.info(f"{server}/toy.zip{pin(archive)}").name == "toy"
    assert len(left_in(cache)) == 1


def test_another_hash_is_refused(over_https, answers, cache):
    zoo.info(over_https)
    with pytest.raises(ValueError, match="toy.zip is damaged, or another one"):
        zoo.info(f"{over_https}#sha256={'0' * 64}")
    assert len(left_in(cache)) == 1  # the one without a hash is still there


def test_a_redirection_does_not_leave_encryption(over_https, server, answers, archive, cache):
    answers["/toy.zip"] = "http://localhost:" + server.rpartition(":")[2] + "/other.zip"
    answers["/other.zip"] = archive.read_bytes()
    with pytest.raises(ValueError, match="Anybody on the way could change .*localhost"):
        zoo.info(over_https)
    assert left_in(cache) == []
    assert zoo.info(over_https + pin(archive)).name == "toy"


def test_a_download_that_breaks_off_leaves_nothing(over_https, answers, archive, cache):
    whole = archive.read_bytes()
    half = len(whole) // 2
    answers["/toy.zip"] = whole[:half], len(whole)
    with pytest.raises(ConnectionError, match=rf"IncompleteRead\({half} bytes read"):
        zoo.info(over_https)
    answers["/toy.zip"] = whole[:half], None
    with pytest.raises(ValueError, match="not a zip file, or is damaged"):
        zoo.info(over_https)
    assert left_in(cache) == []
    answers["/toy.zip"] = whole, None
    assert zoo.info(over_https).name == "toy"


def test_an_interrupted_download_leaves_nothing(over_https, answers, cache, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(downloads, "unpack", interrupt)
    with pytest.raises(KeyboardInterrupt):
        zoo.load(over_https)
    assert left_in(cache) == []


def test_a_download_without_end_is_stopped(over_https, answers, cache, monkeypatch):
    monkeypatch.setattr(downloads, "LARGEST_ARCHIVE", 1000)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        zoo.load(over_https)
    assert left_in(cache) == []


@pytest.mark.parametrize("url", ["https://127.0.0.1:1/toy.zip", "https://example.org/no.zip"])
def test_without_internet_the_message_tells_what_to_do(over_https, answers, cache, url):
    with pytest.raises(ConnectionError, match=r"could not be downloaded: .*the path of the .zip"):
        zoo.load(url)
    assert left_in(cache) == []


@pytest.mark.parametrize("path", ["/preset", "/", "/..", "/get?name=../toy.zip", "/" + "a" * 300])
def test_what_a_url_is_called_does_not_matter(over_https, answers, archive, cache, path):
    answers.update(dict.fromkeys([path.partition("?")[0], "/"], archive.read_bytes()))
    assert zoo.info(f"https://example.org{path}").name == "toy"
    (copy,) = left_in(cache)
    assert len(copy) < 100


@pytest.mark.parametrize(
    "name", ["ftp://a.org/toy.zip", "file:///toy.zip", "gs://a/toy", "https://a.org/toy.zip#md5=1"]
)
def test_other_urls_are_refused(name, cache):
    with pytest.raises(ValueError, match="Received: "):
        zoo.load(name)
    assert left_in(cache) == []


def test_two_processes_may_download_at_once(over_https, answers, cache, monkeypatch, archive):
    def unpack(path, folder):
        archives.unpack(path, folder)
        monkeypatch.setattr(downloads, "unpack", archives.unpack)
        zoo.info(over_https)  # the other process is faster

    monkeypatch.setattr(downloads, "unpack", unpack)
    assert zoo.info(over_https).name == "toy"
    assert len(left_in(cache)) == 1


def test_commands_take_archives_and_urls(over_https, answers, archive, monkeypatch):
    def run(*arguments):
        return click.testing.CliRunner().invoke(main, list(map(str, arguments)))

    assert "A toy" in run("info", archive).stdout
    told = run("info", over_https)
    assert told.stdout.startswith("toy\n")
    monkeypatch.setattr(zoo.Translator, "translate", lambda model, texts, **options: texts)
    assert run("translate", over_https, "a man", "two dogs").stdout == "a man\ntwo dogs\n"
    measured = run("evaluate", archive)
    assert measured.exit_code == 1
    assert "has no recipe" in measured.output


# -------------------------------------------------------------------------------------------- Hub


@pytest.fixture
def hub(folder, monkeypatch):
    """A client whose only repository is `somebody/toy`; it records what it is asked."""
    asked = []

    def snapshot_download(repository, revision, allow_patterns):
        asked.append((repository, revision, sorted(allow_patterns)))
        return str(folder if repository == "somebody/toy" else folder.parent)

    client = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    return asked


def test_the_hub_is_asked_for_the_four_files(hub, cache):
    assert zoo.load("hf://somebody/toy").core.config.cell == "lstm"
    assert zoo.info("hf://somebody/toy@v1.0").name == "toy"
    assert hub == [
        ("somebody/toy", None, sorted([*FILES, *OF_CHECKPOINTS])),
        ("somebody/toy", "v1.0", sorted([*FILES, *OF_CHECKPOINTS])),
    ]
    assert left_in(cache) == []


def test_a_checkpoint_comes_with_what_it_has(tmp_path, monkeypatch):
    asked = []

    def snapshot_download(repository, revision, allow_patterns):
        asked.append(sorted(allow_patterns))
        return str(tmp_path)

    client = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    told = str(zoo.info("hf://somebody/bert"))
    assert "BertModel" in told
    assert asked == [sorted([*FILES, *OF_CHECKPOINTS]), sorted(PICKLED)]
    (tmp_path / "model.safetensors").write_bytes(b"")
    zoo.info("hf://somebody/bert")
    assert len(asked) == 3
    (tmp_path / "2_Dense").mkdir()  # of sentence-transformers, and pickled here
    zoo.info("hf://somebody/bert")
    assert asked[3:] == [sorted([*FILES, *OF_CHECKPOINTS]), sorted(PICKLED)]


def test_all_files_that_checkpoints_are_read_from_are_downloaded():
    package = pathlib.Path(zoo.__file__).parent
    folders = package / "readers" / "text", package / "checkpoints"
    modules = [module for folder in folders for module in folder.glob("*.py")]
    text = "".join(module.read_text() for module in modules)
    names = set(re.findall(r'"([a-z_]+\.(?:json|txt|model|spm))"', text))
    assert {"merges.txt", "added_tokens.json"} <= names
    patterns = *FILES, *OF_CHECKPOINTS
    left = {each for each in names if not any(fnmatch.fnmatch(each, one) for one in patterns)}
    assert left == set()


def test_a_repository_without_a_preset_is_named(hub):
    with pytest.raises(ValueError, match="hf://somebody/else holds neither a preset nor"):
        zoo.load("hf://somebody/else")


@pytest.mark.parametrize("name", ["toy", "a/b/c", "../toy", "a/b?c"])
def test_a_name_of_another_form_is_refused(hub, name):
    with pytest.raises(ValueError, match="Expected hf://user/name"):
        zoo.load(f"hf://{name}")


def test_without_the_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"keras-attention-zoo\[hub\]"):
        zoo.load("hf://somebody/toy")


@pytest.fixture
def local_hub(server, answers, folder, tmp_path, monkeypatch):
    """The Hugging Face client, with the server as a Hub of one repository."""
    client = pytest.importorskip("huggingface_hub")
    here = {"endpoint": server, "cache_dir": tmp_path / "hub"}
    download = functools.partial(client.snapshot_download, **here)
    monkeypatch.setattr(client, "snapshot_download", download)
    answers.clear()
    contents = {name: (folder / name).read_bytes() for name in FILES} | {"evil.py": b"evil"}
    told = {"id": "somebody/toy", "sha": COMMIT}
    told["siblings"] = [{"rfilename": name} for name in contents]
    tree = [
        {"type": "file", "path": name, "size": len(content), "oid": COMMIT}
        for name, content in contents.items()
    ]
    model = "/api/models/somebody/toy"
    for revision in ("main", "v1.0"):
        answers[f"{model}/revision/{revision}"] = json.dumps(told).encode()
    answers[f"{model}/tree/{COMMIT}"] = json.dumps(tree).encode()
    for name, content in contents.items():
        answers[f"/somebody/toy/resolve/{COMMIT}/{name}"] = content
    return answers


def test_the_client_of_the_hub_gets_them_and_keeps_them(local_hub):
    assert zoo.load("hf://somebody/toy").core.config.cell == "lstm"
    assert zoo.info("hf://somebody/toy@v1.0").name == "toy"
    assert not any("evil" in path for path in Server.requests)
    local_hub.clear()
    assert zoo.info("hf://somebody/toy").name == "toy"


def test_the_client_says_what_is_not_there(local_hub):
    with pytest.raises(OSError, match="somebody/nothing"):
        zoo.info("hf://somebody/nothing")
