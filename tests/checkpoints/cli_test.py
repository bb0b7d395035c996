"""The commands on Hugging Face checkpoints."""

import json

import click.testing
import numpy as np
import pytest

import zoo

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_sounds, tiny_translators  # noqa: E402
from zoo.cli import main  # noqa: E402
from zoo.readers.wav import write_wav  # noqa: E402


def run(*arguments, **options):
    result = click.testing.CliRunner().invoke(main, list(map(str, arguments)), **options)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def fails(*arguments):
    result = click.testing.CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == 1
    return result.stderr


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_tag(tmp_path):
    tiny.save(tmp_path, "Bert", "ForTokenClassification", num_hidden_layers=1)
    lines = run("tag", tmp_path, "The cats sat.", "a")
    assert [line.partition("\t")[0] for line in lines] == ["The", "cats", "sat", ".", "", "a", ""]
    assert {line.partition("\t")[2] for line in lines} <= {"", "LABEL_0", "LABEL_1"}
    assert run("tag", tmp_path, input="The cats sat.\na\n") == lines
    assert "BertForTokenClassification" in run("info", tmp_path)[1]
    (tmp_path / "in.txt").write_text("The cats sat.\na\n")
    run("tag", tmp_path, "--input", tmp_path / "in.txt", "--output", tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    told = [list(map("\t".join, zip(row["words"], row["labels"], strict=True))) for row in rows]
    assert told == [lines[:4], lines[5:6]]
    assert all(0.5 <= each <= 1.0 for row in rows for each in row["probabilities"])


@pytest.mark.full
def test_fill_mask_and_embed(tmp_path):
    for command, kind in {"fill-mask": "ForMaskedLM", "embed": "Model"}.items():
        tiny.save(tmp_path / command, "Bert", kind, num_hidden_layers=1)
    lines = run("fill-mask", tmp_path / "fill-mask", "The [MASK] sat.", "-k", 2)
    assert [line.partition("\t")[2].startswith("The ") for line in lines] == [True, True]
    (line,) = run("embed", tmp_path / "embed", input="The cats\n")
    assert sum(number**2 for number in json.loads(line)) == pytest.approx(1, abs=1e-3)


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_pairs_and_their_scores(tmp_path, monkeypatch):
    tiny.save(tmp_path, "Bert", "ForSequenceClassification", num_hidden_layers=1, num_labels=1)
    model = zoo.load(str(tmp_path))
    monkeypatch.setattr(zoo, "load", lambda name: model)
    pairs = [("The cats", "the mat"), ("a", "Rome")]
    texts = [each for pair in pairs for each in pair]
    numbers = model.score(pairs)
    lines = run("score", "toy", "--pair", *texts)
    assert list(map(float, lines)) == pytest.approx(list(numbers), rel=1e-4)
    assert run("score", "toy", "--pair", input="\n".join(texts)) == lines
    assert "an even number of texts. Received: 3" in fails("score", "toy", "--pair", *texts[:3])
    (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b}\t7\n" for a, b in pairs) + "alone\n")
    files = ["--input", tmp_path / "a.tsv", "--output", tmp_path / "b.jsonl"]
    assert "1 row could not" in fails("score", "toy", "--pair", *files)
    rows = [json.loads(line or "{}") for line in (tmp_path / "b.jsonl").read_text().split("\n")]
    assert [row.get("text_pair") for row in rows] == ["the mat", "Rome", None, None]
    assert rows[1]["column_3"] == "7"
    assert rows[1]["score"] == pytest.approx(float(numbers[1]), rel=1e-6)
    error = json.loads((tmp_path / "b.jsonl.errors").read_text())["error"]
    assert error == "A line has the columns a 'text' and a 'text_pair'."


@pytest.mark.full
def test_text_to_text_answers_without_the_text(tmp_path):
    tiny_translators.save_t5(tmp_path)
    text = "summarize: The cats"
    (line,) = run("generate", tmp_path, text, "--max-length", 8)
    assert line == zoo.load(str(tmp_path)).generate(text, max_length=8)
    assert "summarize" not in line
    result = click.testing.CliRunner().invoke(main, ["generate", str(tmp_path), "a", "--stop", "b"])
    assert "leave out --stop" in result.output


@pytest.mark.full  # `whisper_test` always runs it on files, `recognition_test` on folders
def test_transcribe_files_and_folders(tmp_path, monkeypatch):
    tiny_sounds.save_whisper(tmp_path / "model")
    model = zoo.load(str(tmp_path / "model"))
    monkeypatch.setattr(zoo, "load", lambda name: model)
    folder = tmp_path / "sounds"
    folder.mkdir()
    noise = np.random.default_rng(0).normal(size=(2, 9000)).clip(-1, 1).astype("float32")
    for name, wave in zip("ac", noise, strict=True):
        (folder / f"{name}.wav").write_bytes(write_wav(wave, 8000))
    (folder / "b.wav").write_bytes(b"no sound")
    paths = [folder / "a.wav", folder / "c.wav"]
    texts = model.transcribe(paths, language="de")
    arguments = ["transcribe", "toy", str(folder), "--language", "german"]
    result = click.testing.CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "b.wav" in result.stderr
    assert result.stdout.splitlines() == [f"{x}\t{y}" for x, y in zip(paths, texts, strict=True)]


def test_a_task_that_it_has_not(tmp_path):
    tiny.save(tmp_path, "Bert", "Model", num_hidden_layers=1)
    result = click.testing.CliRunner().invoke(main, ["translate", str(tmp_path), "a"])
    assert result.exit_code == 1
    assert "is for another task (embedding)" in result.output
