"""Presets from elsewhere: URLs and the Hugging Face Hub."""

import fnmatch
import functools
import hashlib
import http.server
import json
import pathlib
import re
import sys
import threading
import types

import pytest
import requests

import zoo
from tests.zoo.commands import run
from tests.zoo.download_cache import left_in, pin
from zoo.storage import FILES, archives, downloads
from zoo.storage.downloads import OF_CHECKPOINTS, PICKLED

pytestmark = pytest.mark.usefixtures("download_cache")
COMMIT = "0123456789" * 4


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
def answers(server, toy_archive, monkeypatch):
    answers = {"/toy.zip": toy_archive.read_bytes()}
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


def test_a_url_is_downloaded_once(over_https, answers, download_cache, capsys):
    size = len(answers["/toy.zip"])
    assert zoo.load(over_https).core.config.cell == "lstm"
    answers.clear()
    assert zoo.info(over_https).name == "toy"
    assert Server.requests == ["/toy.zip"]
    (copy,) = left_in(download_cache)
    assert copy.startswith("toy-")
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"Downloading {over_https}\n")
    assert f"{size}/{size}" in output.err


def test_a_hash_makes_http_safe(server, answers, toy_archive, download_cache):
    with pytest.raises(ValueError, match=r"Anybody on the way.*https://, or .*toy.zip#sha256="):
        zoo.info(f"{server}/toy.zip")
    assert Server.requests == []
    assert zoo.info(f"{server}/toy.zip{pin(toy_archive)}").name == "toy"
    answers["/toy.zip"] += b" "
    assert zoo.info(f"{server}/toy.zip{pin(toy_archive)}").name == "toy"
    assert len(left_in(download_cache)) == 1


def test_another_hash_is_refused(over_https, answers, download_cache):
    zoo.info(over_https)
    with pytest.raises(ValueError, match="toy.zip is damaged, or another one"):
        zoo.info(f"{over_https}#sha256={'0' * 64}")
    assert len(left_in(download_cache)) == 1  # the one without a hash is still there


def test_a_redirection_does_not_leave_encryption(
    over_https, server, answers, toy_archive, download_cache
):
    answers["/toy.zip"] = "http://localhost:" + server.rpartition(":")[2] + "/other.zip"
    answers["/other.zip"] = toy_archive.read_bytes()
    with pytest.raises(ValueError, match="Anybody on the way could change .*localhost"):
        zoo.info(over_https)
    assert left_in(download_cache) == []
    assert zoo.info(over_https + pin(toy_archive)).name == "toy"


def test_a_download_that_breaks_off_leaves_nothing(
    over_https, answers, toy_archive, download_cache
):
    whole = toy_archive.read_bytes()
    half = len(whole) // 2
    answers["/toy.zip"] = whole[:half], len(whole)
    with pytest.raises(ConnectionError, match=rf"IncompleteRead\({half} bytes read"):
        zoo.info(over_https)
    answers["/toy.zip"] = whole[:half], None
    with pytest.raises(ValueError, match="not a zip file, or is damaged"):
        zoo.info(over_https)
    assert left_in(download_cache) == []
    answers["/toy.zip"] = whole, None
    assert zoo.info(over_https).name == "toy"


def test_an_interrupted_download_leaves_nothing(over_https, answers, download_cache, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(downloads, "unpack", interrupt)
    with pytest.raises(KeyboardInterrupt):
        zoo.load(over_https)
    assert left_in(download_cache) == []


def test_a_download_without_end_is_stopped(over_https, answers, download_cache, monkeypatch):
    monkeypatch.setattr(downloads, "LARGEST_ARCHIVE", 1000)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        zoo.load(over_https)
    assert left_in(download_cache) == []


@pytest.mark.parametrize("url", ["https://127.0.0.1:1/toy.zip", "https://example.org/no.zip"])
def test_without_internet_the_message_tells_what_to_do(over_https, answers, download_cache, url):
    with pytest.raises(ConnectionError, match=r"could not be downloaded: .*the path of the .zip"):
        zoo.load(url)
    assert left_in(download_cache) == []


@pytest.mark.parametrize("path", ["/preset", "/", "/..", "/get?name=../toy.zip", "/" + "a" * 300])
def test_what_a_url_is_called_does_not_matter(
    over_https, answers, toy_archive, download_cache, path
):
    answers.update(dict.fromkeys([path.partition("?")[0], "/"], toy_archive.read_bytes()))
    assert zoo.info(f"https://example.org{path}").name == "toy"
    (copy,) = left_in(download_cache)
    assert len(copy) < 100


@pytest.mark.parametrize(
    "name", ["ftp://a.org/toy.zip", "file:///toy.zip", "gs://a/toy", "https://a.org/toy.zip#md5=1"]
)
def test_other_urls_are_refused(name, download_cache):
    with pytest.raises(ValueError, match="Received: "):
        zoo.load(name)
    assert left_in(download_cache) == []


def test_two_processes_may_download_at_once(
    over_https, answers, download_cache, monkeypatch, toy_archive
):
    def unpack(path, folder):
        archives.unpack(path, folder)
        monkeypatch.setattr(downloads, "unpack", archives.unpack)
        zoo.info(over_https)  # the other process is faster

    monkeypatch.setattr(downloads, "unpack", unpack)
    assert zoo.info(over_https).name == "toy"
    assert len(left_in(download_cache)) == 1


def test_commands_take_archives_and_urls(over_https, answers, toy_archive, monkeypatch):
    assert "A toy" in run("info", toy_archive).stdout
    told = run("info", over_https)
    assert told.stdout.startswith("toy\n")
    monkeypatch.setattr(zoo.Translator, "translate", lambda model, texts, **options: texts)
    assert run("translate", over_https, "a man", "two dogs").stdout == "a man\ntwo dogs\n"
    measured = run("evaluate", toy_archive)
    assert measured.exit_code == 1
    assert "has no recipe" in measured.output


# -------------------------------------------------------------------------------------------- Hub


@pytest.fixture
def hub(toy_folder, monkeypatch):
    """A client whose only repository is `somebody/toy`; it records what it is asked."""
    asked = []

    def snapshot_download(repository, revision, allow_patterns):
        asked.append((repository, revision, sorted(allow_patterns)))
        return str(toy_folder if repository == "somebody/toy" else toy_folder.parent)

    client = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    return asked


def test_the_hub_is_asked_for_the_four_files(hub, download_cache):
    assert zoo.load("hf://somebody/toy").core.config.cell == "lstm"
    assert zoo.info("hf://somebody/toy@v1.0").name == "toy"
    assert hub == [
        ("somebody/toy", None, sorted([*FILES, *OF_CHECKPOINTS])),
        ("somebody/toy", "v1.0", sorted([*FILES, *OF_CHECKPOINTS])),
    ]
    assert left_in(download_cache) == []


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
def local_hub(server, answers, toy_folder, tmp_path, monkeypatch):
    """The Hugging Face client, with the server as a Hub of one repository."""
    client = pytest.importorskip("huggingface_hub")
    here = {"endpoint": server, "cache_dir": tmp_path / "hub"}
    download = functools.partial(client.snapshot_download, **here)
    monkeypatch.setattr(client, "snapshot_download", download)
    answers.clear()
    contents = {name: (toy_folder / name).read_bytes() for name in FILES} | {"evil.py": b"evil"}
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
