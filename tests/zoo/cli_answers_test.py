"""Commands that translate, caption and generate: what they read, what they print."""

import io
import os
import sys

import click
import PIL.Image
import pytest

import zoo
from tests.zoo.commands import run
from zoo.cli import main
from zoo.cli_chat import _lines
from zoo.cli_inputs import lines_of_input

PNG = b"\x89PNG"


@pytest.fixture
def translate(bahdanau, monkeypatch):
    """Runs `translate` with a model that is already loaded."""
    monkeypatch.setattr(zoo, "load", lambda name: bahdanau)

    def translate(*arguments, **options):
        result = run("translate", "toy", *arguments, **options)
        assert result.exit_code == 0, result.output
        return result.stdout.split("\n")[:-1]

    return translate


@pytest.fixture
def asked(bahdanau, monkeypatch):
    """The options that the model receives; it returns the texts unchanged."""
    asked = []
    answer = lambda texts, **options: asked.append(options) or texts  # noqa: E731
    monkeypatch.setattr(bahdanau, "translate", answer)
    return asked


# ------------------------------------------------------------------------------------- translate


def test_translates_arguments(translate, sources, targets):
    assert translate(*sources) == targets


def test_translates_lines_of_standard_input(translate, sources, targets):
    assert translate(input="\n".join(sources) + "\n") == targets
    assert translate(input="\n".join(sources)) == targets
    assert translate(input="\r\n".join(sources)) == targets


def test_a_byte_order_mark_is_no_word(translate):
    assert translate(input="\ufeffa man sleeps\n") == translate("a man sleeps")


def test_what_would_be_translated_wrongly_is_refused(translate):
    output = run("translate", "toy", input="a man sleeps\n".encode("utf-16")).output
    assert output == "Error: Standard input is in UTF-16. Save it in UTF-8.\n"
    output = run("translate", "toy", __file__).output
    assert (
        output
        == f"Error: {__file__} is a file. For its texts, give --input {__file__} and --output.\n"
    )


def chat():
    main(["chat", "no model"], standalone_mode=False)


@pytest.mark.parametrize("read", [lines_of_input, chat])
def test_a_closed_standard_input_is_told(monkeypatch, read):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises((ValueError, click.ClickException), match="Standard input is closed"):
        read()


def test_messages_are_read_like_other_texts(monkeypatch):
    lines = io.BytesIO(b"\xef\xbb\xbfHi!\r\n \nM\xfcller\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(lines, encoding="ascii"))
    assert list(_lines()) == ["Hi!", "M\ufffdller"]


def test_a_complete_output_is_refused_before_the_model_is_loaded(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("a man sleeps\n")
    output = run("translate", "no model", "--input", path, "--output", path).output
    assert output == f"Error: {path} exists already. Remove it, or choose another output.\n"


def test_empty_lines_stay(translate):
    assert translate(input="\na man sleeps\n\n \n") == ["", "ein mann schläft", "", ""]


def test_empty_input_gives_no_output(translate):
    assert translate(input="") == []


def test_invalid_bytes_are_survived(translate):
    first, second = translate(input=b"\xe4 dog \xff\xfe\na man sleeps\n")
    assert second == "ein mann schläft"


def test_each_translation_is_one_line(translate, bahdanau, monkeypatch):
    monkeypatch.setattr(bahdanau, "translate", lambda texts, **options: ["two\nlines"])
    assert translate("a man") == ["two lines"]


def test_options_reach_the_sampler(translate, bahdanau):
    texts = ["a man and his dogs", "two books"]
    options = {"sampler": "random", "temperature": 3.0, "seed": 5, "max_length": 9}
    expected = bahdanau.translate(texts, **options)
    options = ["--sampler", "random", "--temperature", 3, "--seed", 5, "--max-length", 9]
    assert translate(*texts, *options, "--batch-size", 1) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 2, "length_penalty": 0.0},
        {"repetition_penalty": 1.5, "no_repeat_ngram_size": 1, "min_length": 12},
        {"sampler": "top_p", "p": 0.5, "temperature": 2.0},
    ],
)
def test_options_are_those_of_python(translate, asked, options):
    names = {name: "top-p" if name == "p" else name.replace("_", "-") for name in options}
    given = [f"--{names[name]}={value}" for name, value in options.items()]
    assert translate("a man", *given) == ["a man"]
    assert asked == [{"sampler": None, "seed": 0, "batch_size": 64, **options}]


def test_show_attention_writes_a_picture(translate, tmp_path):
    path = tmp_path / "alignment.png"
    assert translate("a man sleeps", "--show-attention", path) == ["ein mann schläft"]
    assert path.read_bytes().startswith(PNG)


def test_many_lines_are_written_part_by_part(translate, bahdanau, sources, targets, monkeypatch):
    monkeypatch.setattr("zoo.cli_answers.TEXTS_AT_ONCE", 3)
    asked, translating = [], bahdanau.translate
    monkeypatch.setattr(
        bahdanau,
        "translate",
        lambda texts, **options: asked.append(len(texts)) or translating(texts, **options),
    )
    assert translate(*sources) == targets
    assert asked == [3, 3, 2]


def test_ctrl_c_keeps_what_was_done(bahdanau, sources, targets, monkeypatch):
    monkeypatch.setattr("zoo.cli_answers.TEXTS_AT_ONCE", 3)
    monkeypatch.setattr(zoo, "load", lambda name: bahdanau)
    translating = bahdanau.translate

    def interrupted(texts, **options):
        if texts == sources[3:6]:
            raise KeyboardInterrupt
        return translating(texts, **options)

    monkeypatch.setattr(bahdanau, "translate", interrupted)
    result = run("translate", "toy", *sources)
    assert result.stdout.splitlines() == targets[:3]
    assert (result.exit_code, result.stderr) == (130, "\nStopped.\n")


def test_a_picture_needs_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    result = run("translate", "toy", "a man", "--show-attention", tmp_path / "a.png")
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'pip install "keras-attention-zoo[plot]"' in result.stderr


def test_a_wrong_option_of_the_sampler_costs_one_line(bahdanau, monkeypatch):
    monkeypatch.setattr(zoo, "load", lambda name: bahdanau)
    result = run("translate", "toy", "a man", "--temperature", 0.5)
    assert result.exit_code == 1
    assert "temperature" in result.stderr
    assert "--sampler" in result.stderr or "sampler=" in result.stderr


# --------------------------------------------------------------------------------------- caption


class Describer:
    """A captioner that says how many bytes a picture has."""

    def caption(self, images, sampler=None, **options):
        return [f"{len(image)} bytes" for image in images]


@pytest.fixture
def pictures(monkeypatch, tmp_path):
    """A folder with two pictures, a broken file with a picture's name, and a text file."""
    monkeypatch.setattr(zoo, "load", lambda name: Describer())
    PIL.Image.new("RGB", (8, 8), "red").save(tmp_path / "a.webp")
    PIL.Image.new("RGB", (8, 8), "red").save(tmp_path / "c.png")
    (tmp_path / "b.jpg").write_bytes(b"no picture at all")
    (tmp_path / "notes.txt").write_text("no picture")
    return tmp_path


def test_caption_of_one_picture_is_a_line(pictures):
    file = pictures / "a.webp"
    line = f"{file.stat().st_size} bytes\n"
    assert run("caption", "toy", file).stdout == line
    twice = run("caption", "toy", file, file)
    assert (twice.stdout, twice.exit_code) == (f"{file}\t{line}" * 2, 0)


def test_caption_of_a_folder_goes_on_after_a_broken_picture(pictures):
    result = run("caption", "toy", pictures, "--batch-size", 2)
    files = [pictures / name for name in ("a.webp", "c.png")]
    assert result.stdout == "".join(f"{file}\t{file.stat().st_size} bytes\n" for file in files)
    (line,) = result.stderr.splitlines()
    assert "b.jpg" in line
    assert "WebP" in line
    assert "{{" not in line
    assert result.exit_code == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, names of files are Unicode")
def test_a_file_may_have_a_name_that_is_no_text(pictures):
    path = pictures / os.fsdecode(b"\xe4.png")
    (pictures / "c.png").rename(path)
    result = run("caption", "toy", path, path)
    line = f"{pictures}/\ufffd.png\t{path.stat().st_size} bytes\n"
    assert (result.stdout, result.exit_code) == (line * 2, 0)


def test_caption_of_a_folder_without_pictures(pictures):
    (pictures / "empty").mkdir()
    result = run("caption", "toy", pictures / "empty")
    assert "no image (.bmp, .gif, .jpeg, .jpg, .png, .webp) in the folder" in result.stderr


# -------------------------------------------------------------------------------------- generate


@pytest.fixture(scope="module")
def writer(fresh_model, byte_tokenizer):
    return fresh_model("transformer_lm", tokenizer=byte_tokenizer)


@pytest.mark.usefixtures("eagerly")
def test_generate_writes_prompt_and_text(writer, monkeypatch):
    monkeypatch.setattr(zoo, "load", lambda name: writer)
    expected = writer.generate("the quick", 12, "greedy")
    options = ["the quick", "--max-length", 12, "--sampler", "greedy"]
    assert run("generate", "toy", *options).stdout == f"the quick{expected}\n"
    start, *_ = expected.split(expected[5])
    stopped = run("generate", "toy", *options, "--stop", expected[5])
    assert stopped.stdout == f"the quick{start}\n"
    asked = []
    answer = lambda *given, **options: asked.append((given, options)) or ["dr", "awn"]  # noqa: E731
    monkeypatch.setattr(writer, "stream", answer)
    drawn = run("generate", "toy", "--max-length", 20, "--sampler", "top_k", "--top-k", 3)
    assert drawn.stdout == "drawn\n"
    options = {"max_length": 20, "sampler": "top_k", "seed": 0, "stop": (), "k": 3}
    assert asked == [(("",), options)]


def test_a_model_for_another_task_is_named(writer, bahdanau, monkeypatch):
    monkeypatch.setattr(zoo, "load", lambda name: {"lm": writer, "nmt": bahdanau}[name])
    for arguments, task in (
        (["generate", "nmt"], "translation"),
        (["translate", "lm", "a"], "lan"),
        (["score", "lm", "a"], "language model). Compute the perplexity"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert f"is for another task ({task}" in result.stderr
