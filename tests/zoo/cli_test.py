"""The command line: `list` and `info`, and mistakes that print one line, not a traceback."""

import os
import re
import socket
import sys

import click
import pytest

import zoo
from tests.zoo.commands import run
from zoo import cli, quiet
from zoo.training import recipes


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("translate luong", ["plain,luong_nmt_multi30k_en_de"]),
        ("serve vit_mnist text", ["plain,text_encoder_imdb", "plain,text_encoder_masked_imdb"]),
        ("info ./pre", ["file,./pre"]),
    ],
)
def test_a_shell_completes_names_of_trained_models(words, expected):
    words = ["keras-attention-zoo", *words.split()]
    given = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    given["_KERAS_ATTENTION_ZOO_COMPLETE"] = "bash_complete"
    found = run(env=given, prog_name="keras-attention-zoo")
    assert found.output.split() == expected


# --------------------------------------------------------------------------------- list and info


def test_list_has_a_line_for_each_model():
    lines = run("list").stdout.splitlines()
    models = zoo.list_models()
    assert [line.split()[0] for line in lines] == [model.name for model in models]
    columns = {line.index(f" {model.task}") for line, model in zip(lines, models, strict=True)}
    assert len(columns) == 1
    assert any(line.startswith("show_attend_tell") and "CIDEr-D" in line for line in lines)


def test_info_tells_quality_and_protocol(preset):
    output = run("info", preset).stdout
    for fact in ["toy", "Toy en-de", "BLEU, test: 99.5", "beam; signature", "pytest"]:
        assert fact in output


def test_info_tells_a_protocol_once_for_the_numbers_that_share_it():
    output = " ".join(run("info", "show_attend_tell_flickr8k").stdout.split())
    metrics = "BLEU-1, BLEU-2, BLEU-3, BLEU-4, brevity penalty of BLEU, METEOR, ROUGE-L, CIDEr-D"
    assert f"protocol: {metrics}, validation: BeamSampler(num_beams=5" in output
    assert output.count("meteor:1.5") == 1


def test_info_tells_how_a_model_was_trained():
    training = zoo.info("show_attend_tell_hard_flickr8k").card["training"]
    output = " ".join(run("info", "show_attend_tell_hard_flickr8k").stdout.split())
    for key in "command", "chosen_by", "remarks":
        assert training[key] in output


def test_info_of_an_architecture():
    output = run("info", "luong_nmt").stdout
    assert "Luong et al. 2015" in output
    for line in ("score='general'", "decoder_units=512  Size of the decoder"):
        assert line in output


def test_info_of_a_model_from_elsewhere_imports_tensorflow_quietly(monkeypatch):
    done, luong = [], zoo.info("luong_nmt")
    monkeypatch.setattr(quiet, "import_tensorflow", lambda: done.append("import"))
    monkeypatch.setattr(zoo, "info", lambda name: done.append(name) or luong)
    for name in ("luong_nmt", "hf://user/toy"):
        assert run("info", name).stdout.startswith("luong_nmt\n")
    assert done == ["luong_nmt", "import", "hf://user/toy"]


def test_a_long_default_does_not_move_the_other_options():
    lines = run("info", "whisper").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("    num_layers=")]
    assert line.index("Number of blocks") == 40


def test_the_version():
    assert run("--version").stdout == f"keras-attention-zoo, version {zoo.__version__}\n"


# -------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "luong_nmd"], "Did you mean 'luong_nmt'"),
        (["translate", "luong_nmt", "a man"], "weights=None"),
        (["train", "luong_nmt"], "Unknown recipe"),
        (["evaluate", "luong_nmd"], "Unknown model"),
        (["export", "luong_nmd", "folder"], "Unknown model"),
    ],
)
def test_a_mistake_costs_one_line(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert message in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "toy", "a man", "--show-attention", "a.pgn"], "must end with one of .*.png"),
        (["translate", "toy", "a man", "--show-attention", "picture"], "must end with one of"),
        (["caption", "toy", "a.png", "--show-attention", "not/a.png"], "no folder .*not for "),
        (["translate", "toy", "a man", "--show-attention", "file/a.png"], "file is not a folder"),
        (["export", "toy", "nmt/1"], "Export to nmt"),
        (["export", "toy", "file"], "file is a file"),
        (["export", "toy", "file/nmt"], "file is not a folder"),
        (["export", "toy", ".", "--format", "onnx"], "exists already"),
        (["train", "luong_nmt_multi30k_en_de", "--run-dir", "file/run"], "file is not a folder"),
    ],
)
def test_where_to_write_is_checked_before_the_work(monkeypatch, tmp_path, arguments, message):
    def work(*arguments):
        raise AssertionError("it should not come so far")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(zoo, "load", work)
    monkeypatch.setattr(recipes, "run", work)
    result = run(*arguments)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert re.search(message, line)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate"],
        ["translate", "toy", "--num-beams", "many"],
        ["translate", "toy", "--batch-size", "0"],
        ["train", "toy", "--epochs", "0"],
        ["transalte", "toy"],
    ],
)
def test_wrong_usage_ends_with_2(arguments):
    assert run(*arguments).exit_code == 2


def test_help_tells_where_the_token_may_come_from():
    assert "ZOO_TOKEN" in run("serve", "--help").stdout


@pytest.mark.parametrize("token", ["", " secret"])
def test_a_token_that_protects_nothing_is_told_before_the_models_are_loaded(token):
    asked = "serve", "no_such_model", "--port", "0"
    for result in (run(*asked, "--token", token), run(*asked, env={"ZOO_TOKEN": token})):
        assert result.exit_code == 1
        assert (
            f"must not be empty, or have spaces at its ends. Received: {token!r}" in result.stderr
        )


def test_a_port_in_use_is_told_before_the_models_are_loaded():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("serve", "no_such_model", "--port", port)
    assert result.exit_code == 1
    assert f"Cannot listen on port {port} of 127.0.0.1: " in result.stderr


def test_two_models_of_one_name_are_told_before_the_models_are_loaded():
    result = run("serve", "hf://me/no_such_model", "hf://you/no_such_model@main")
    assert result.exit_code == 1
    assert "names of their own. Received: no_such_model, no_such_model. Rename" in result.stderr


def test_closed_outputs_are_no_mistake(monkeypatch):
    def write():
        sys.stdout.flush()
        return sys.stderr.isatty()

    group = cli.Commands(commands={"write": click.Command("write", callback=write)})
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert group(["write"], standalone_mode=False) is False


def test_a_reader_that_has_gone_away_is_no_mistake(monkeypatch):
    def print_into_closed_pipe():
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(zoo, "list_models", print_into_closed_pipe)
    assert run("list").stderr == ""


@pytest.fixture(scope="module")
def unset():
    """The environment without any settings for TensorFlow."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TF_")}


WITHOUT_WHAT_TRAINS = """
import runpy, sys
try:
    runpy.run_module("zoo", run_name="__main__", alter_sys=True)
except SystemExit as exit:
    assert exit.code == 0
heavy = {"tensorflow_datasets", "tokenizers", "sacrebleu", "sacremoses"} & sys.modules.keys()
assert not heavy, heavy
"""


def test_the_real_command_prints_the_answer_and_nothing_else(run_python, preset, unset):
    command = ["-c", WITHOUT_WHAT_TRAINS, "translate", preset, "--sampler", "greedy"]
    result = run_python(*command, input=b"the dog eats\n", env=unset)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"der hund frisst\n", b"")


WITHOUT_TENSORFLOW = """
import sys
from zoo.cli import main
main(sys.argv[1:], standalone_mode=False)
heavy = {"tensorflow", "keras", "numpy", "keras_attention"} & sys.modules.keys()
assert not heavy, heavy
"""


@pytest.mark.parametrize(
    "arguments", [["list"], ["info", "luong_nmt"], ["info", "luong_nmt_multi30k_en_de"]]
)
def test_what_is_known_needs_no_tensorflow(run_python, arguments):
    result = run_python("-c", WITHOUT_TENSORFLOW, *arguments)
    assert result.returncode == 0, result.stderr.decode()
    assert b"luong_nmt" in result.stdout
