"""Answering files of texts and folders of pictures in files: formats, broken rows, kills."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import click.testing
import pytest

import zoo
from tests.zoo.commands import run
from tests.zoo.file_answers import upper, upper_or_die
from tests.zoo.pictures import IMAGES
from zoo.cli import main
from zoo.file_workers import OnWorker, workers
from zoo.files import FileFolder, TextFile, answer_file
from zoo.readers.images import image_bytes

KILLED = """
import os, signal, sys
from zoo.files import TextFile, answer_file
source, output, place, kills = *sys.argv[1:3], int(sys.argv[3]), sys.argv[4]
fsync, synced = os.fsync, []

def kill(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

def at_fsync(file):
    synced.append(file)
    kill() if len(synced) == place else fsync(file)

def answer(texts, before):
    if kills == "answer" and before >= place: kill()
    if "poison" in texts: raise ValueError("it is poison")
    return [{"answer": f"{before} {text.upper()}"} for text in texts]

if kills == "fsync": os.fsync = at_fsync
answer_file(TextFile(source), output, answer, {"model": "upper"}, 4)
"""


@pytest.mark.parametrize(
    ("name", "content", "output", "expected"),
    [
        ("a.txt", b"one\r\ntwo\n\nlast", "b.txt", ["ONE\t3", "TWO\t3", "\t0", "LAST\t4"]),
        ("a.tsv", b"\xef\xbb\xbfone\t7\nt\tx\ty", "b.tsv", ["one\t7\tONE\t3", "t\tx\ty\tT\t1"]),
        ("a.tsv", b"one\t7\n", "b.txt", ["ONE\t3"]),
        ("a.jsonl", b'"a\\nb"\n{"text": "x", "id": 5}\n', "b.txt", ["A B\t3", "X\t1"]),
        (
            "a.jsonl",
            b'{"id": 5, "text": "\xc3\xa4\\n"}\n',
            "b.jsonl",
            ['{"id": 5, "text": "ä\\n", "answer": "Ä\\n", "length": 2}'],
        ),
        ("a.txt", b"", "b.txt", []),
    ],
)
def test_formats(tmp_path, name, content, output, expected):
    (tmp_path / name).write_bytes(content)
    assert answer_file(TextFile(tmp_path / name), tmp_path / output, upper, {}, 2) == 0
    text = (tmp_path / output).read_text(encoding="utf-8")
    assert text == "".join(f"{line}\n" for line in expected)
    assert {each.name for each in tmp_path.iterdir()} == {name, output}


def test_numbers_are_whole_in_json_lines_alone(tmp_path):
    source, share = tmp_path / "a.txt", 0.12345678901
    source.write_text("one\n")

    def answer(texts, before):
        return [{"label": ["a", "b"], "probability": [share, share], "score": share}]

    for name in ("b.jsonl", "b.tsv"):
        answer_file(TextFile(source), tmp_path / name, answer, {}, 1)
    told = json.loads((tmp_path / "b.jsonl").read_text())
    assert told == {"text": "one", **answer([], 0)[0]}
    expected = "one\ta, b\t0.123457, 0.123457\t0.123457\n"
    assert (tmp_path / "b.tsv").read_text() == expected


def test_csv_is_refused(tmp_path):
    source = tmp_path / "a.CSV"
    source.write_text("text,label\n")
    with pytest.raises(ValueError, match="a .jsonl, .tsv or .txt file. Received: .*a.CSV. Write"):
        TextFile(source)
    (tmp_path / "a.txt").touch()
    with pytest.raises(ValueError, match="output must be a .jsonl, .tsv or .txt file. .*b.csv"):
        answer_file(TextFile(tmp_path / "a.txt"), tmp_path / "b.csv", upper, {}, 1)
    assert not list(tmp_path.glob("b.csv*"))


def test_what_would_be_read_wrongly_is_refused(tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("one\n", encoding="utf-16")
    with pytest.raises(ValueError, match="a.txt is in UTF-16. Save it in UTF-8"):
        TextFile(source)
    with pytest.raises(ValueError, match="/dev/null is not a file that can be read again"):
        TextFile("/dev/null")
    for name in ("photo.JPG", "speech.wav"):
        with pytest.raises(ValueError, match=f"{name} is not a file of texts. .* the folder"):
            TextFile(name)
    with pytest.raises(ValueError, match="must be the path of a file. Received: '.'"):
        answer_file(None, pathlib.Path(""), upper, {}, 1)


def test_a_run_without_its_output_does_not_go_on(tmp_path):
    source, output = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("one\ntwo\n")

    def stopped(function, chunks):
        chunk = next(chunks)
        yield chunk, function(chunk)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer_file(TextFile(source), output, upper, {}, 1, stopped)
    output.unlink()
    with pytest.raises(ValueError, match="b.txt was changed or removed since the run was inter"):
        answer_file(TextFile(source), output, upper, {}, 1)


def test_a_run_does_not_go_on_with_another_model_or_other_pictures(tmp_path, toy):
    """Of the same names."""

    class Model:
        task_method, tokenizer, takes_images = "embed", None, True

        def embed(self, pictures, batch_size):
            if pictures and self.stops:
                raise KeyboardInterrupt
            return [[len(each)] for each in pictures]

    toy(Model())
    model, folder, output = tmp_path / "model", tmp_path / "pictures", tmp_path / "out.txt"
    command = ["embed", model, "--input", folder, "--output", output]
    for file in (model / "weights", folder / "a.png"):
        file.parent.mkdir()
        file.write_text("first")
    Model.stops = True
    assert run(*command).exit_code == 130
    Model.stops = False
    for file in (model / "weights", folder / "a.png"):
        written = file.stat().st_mtime_ns
        file.write_text("other")
        os.utime(file, ns=(written, written + 1))
        assert "out.txt was begun with another input, model or options" in run(*command).output
        os.utime(file, ns=(written, written))
    assert run(*command).exit_code == 0
    assert output.read_text() == "5\n"


def test_one_process_at_a_time_writes_an_output(tmp_path):
    pytest.importorskip("fcntl")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    source, output = TextFile(tmp_path / "a.txt"), tmp_path / "b.txt"

    def upper_alone(texts, before):
        with pytest.raises(ValueError, match="b.txt is being written by another process. Wait"):
            answer_file(source, output, upper, {}, 1)
        return upper(texts, before)

    assert answer_file(source, output, upper_alone, {}, 1) == 0
    assert output.read_text().splitlines() == ["ONE\t3", "TWO\t3"]


def test_a_poisoned_row_is_an_empty_line_and_harms_no_other(tmp_path):
    source, output = tmp_path / "a.jsonl", tmp_path / "b.txt"
    lines = [b'"one"', b'"poison"', b"{", b'{"id": 1}', b'"\xff"', b'"\\ud800"', b'"two"']
    lines.append(b'{"text": "three", "id": "\\ud800"}')
    source.write_bytes(b"\n".join(lines))
    assert answer_file(TextFile(source), output, upper, {}, 3) == 6
    assert output.read_text() == "ONE\t3\n\n\n\n\n\nTWO\t3\n\n"
    errors = [json.loads(line) for line in (tmp_path / "b.txt.errors").read_text().splitlines()]
    assert [each["line"] for each in errors] == [2, 3, 4, 5, 6, 8]
    assert errors[0] == {"line": 2, "text": "poison", "error": "it is poison"}
    assert "object with a 'text'" in errors[2]["error"]
    assert errors[1]["error"].startswith("The line is not JSON: ")
    assert errors[3]["error"].startswith("The line is not in UTF-8: ")
    assert {each["error"] for each in errors[4:]} == {
        "The line has half of a surrogate pair, which is no text."
    }


def test_a_killed_run_goes_on_to_the_same_output(tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("".join(f"line {each}\n" for each in range(18)) + "poison\nlast")

    def run(output, place=-1, kills="none"):
        command = [sys.executable, "-c", KILLED, str(source), str(output), str(place), kills]
        return subprocess.run(command, check=False, timeout=120).returncode

    assert run(tmp_path / "whole") == 0
    broken = tmp_path / "broken"
    for place, kills in ((8, "answer"), (1, "fsync"), (4, "fsync"), (16, "answer"), (3, "fsync")):
        assert run(broken, place, kills) == -signal.SIGKILL
    with open(broken, "ab") as file:  # a line that was not fully written
        file.write(b"half a li")
    with pytest.raises(ValueError, match="another input, model or options"):
        answer_file(TextFile(source), broken, upper, {"model": "other"}, 4)
    assert run(broken) == 0
    for ending in ("", ".errors"):
        expected = (tmp_path / f"whole{ending}").read_bytes()
        assert (tmp_path / f"broken{ending}").read_bytes() == expected
    assert expected.count(b"\n") == 1
    assert not (tmp_path / "broken.progress").exists()
    with pytest.raises(ValueError, match="exists already"):
        answer_file(TextFile(source), broken, upper, {"model": "upper"}, 4)


@pytest.fixture
def toy(monkeypatch):
    """Makes `zoo.load` return a model."""
    return lambda model: monkeypatch.setattr(zoo, "load", lambda name: model)


def test_translate(tmp_path, toy):
    options = {"embedding_dim": 8, "encoder_units": 8, "decoder_units": 8}
    model = zoo.load("luong_nmt", weights=None, tokenizer=zoo.ByteBPETokenizer([]), **options)
    toy(model)
    texts, source, output = ["a man", "", "two dogs"], tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    source.write_text("".join(f'"{text}"\n' for text in texts))
    files = ["--input", source, "--output", output]
    result = run("translate", "toy", *files, "--num-beams", 2, "--max-length", 5)
    assert result.exit_code == 0, result.output
    answers = [json.loads(line) for line in output.read_text(encoding="utf-8").split("\n")[:-1]]
    assert [each["text"] for each in answers] == texts
    expected = model.translate(texts, num_beams=2, max_length=5)
    assert [each["translation"] for each in answers] == expected
    assert run("translate", "toy", "a", *files).exit_code == 1
    assert "go together" in run("translate", "toy", *files[:2]).output
    asked = run("translate", "toy", "--input", tmp_path, "--output", tmp_path / "c")
    assert "--input must be a file of texts for toy. Received a folder" in asked.output
    nothing = tmp_path / "nothing"
    asked = run("translate", "toy", "--input", source, "--output", nothing, "--num-beams", 0)
    assert "`num_beams` must be" in asked.output
    assert not nothing.exists()


def test_pictures_of_a_folder(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, image in zip(("b.png", "a.png"), IMAGES[:2], strict=True):
        (folder / name).write_bytes(image_bytes(image))
    (folder / "notes.txt").write_text("no picture")

    def size(pictures, before):
        return [{"bytes": len(each)} for each in pictures]

    answer_file(FileFolder(folder), tmp_path / "out.tsv", size, {}, 1)
    sizes = [(folder / name).stat().st_size for name in ("a.png", "b.png")]
    assert (tmp_path / "out.tsv").read_text() == f"a.png\t{sizes[0]}\nb.png\t{sizes[1]}\n"


def test_workers_answer_in_order_though_one_is_killed(tmp_path):
    """Other workers answer its rows; rows that cannot be answered do no harm."""
    pytest.importorskip("distributed")
    source, output, mark = (tmp_path / name for name in ("in.jsonl", "out.jsonl", "kill"))
    texts = [f"text {number}" for number in range(100)]
    texts[50] = "poison"
    source.write_text("".join(f"{json.dumps(text)}\n" for text in texts))
    on_worker = OnWorker(str, (mark,), upper_or_die)
    with workers("2") as run:
        assert answer_file(TextFile(source), output, on_worker, {}, 4, run) == 1
    assert mark.exists()
    lines = output.read_text().split("\n")
    found = [json.loads(line)["answer"] if line else None for line in lines[:-1]]
    assert found == [None if text == "poison" else text.upper() for text in texts]
    assert "it is poison" in pathlib.Path(f"{output}.errors").read_text()


@pytest.mark.full
def test_workers_answer_as_one_process_does_and_as_quietly(tmp_path, monkeypatch, capfd):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    source = tmp_path / "in.txt"
    source.write_text("".join(f"a man and {number} dogs\n" for number in range(6)))
    found = []
    for options in ([], ["--workers", "2"]):
        capfd.readouterr()  # drops what TensorFlow logged in this process
        output = tmp_path / f"out{len(found)}.txt"
        asked = ["translate", "luong_nmt_multi30k_en_de", "--input", source, "--output", output]
        sampled = ["--sampler", "random", "--seed", "7"]
        result = click.testing.CliRunner().invoke(main, [*map(str, asked), *sampled, *options])
        assert result.exit_code == 0, result.output
        found.append(output.read_text())
    assert found[0] == found[1]
    assert capfd.readouterr().err == ""


@pytest.mark.full
@pytest.mark.parametrize("protocol", ["dask", "tcp"])
def test_workers_of_a_cluster_are_found_by_the_address_of_its_scheduler(protocol):
    distributed = pytest.importorskip("distributed")
    # Without a limit of memory, as this process holds that of all tests before.
    options = {"n_workers": 2, "processes": False, "dashboard_address": None, "memory_limit": None}
    with distributed.LocalCluster(protocol="tcp", **options) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        with workers(f"{protocol}://{address}") as run:
            assert list(run(len, ["abc", "a"])) == [("abc", 3), ("a", 1)]


def test_what_are_no_workers_is_an_error_before_the_model_loads():
    asked = ["translate", "no_such_model", "--workers", "two"]
    result = click.testing.CliRunner().invoke(main, asked)
    assert result.exit_code == 1
    assert "Received: 'two'" in result.output
