"""The command line: its output, and mistakes that print one line instead of a traceback."""

import functools
import importlib.util
import os
import re
import socket
import sys

import click.testing
import PIL.Image
import pytest
import tensorflow as tf

import zoo
from zoo import quiet
from zoo.cli import main
from zoo.cli_inputs import lines_of_input
from zoo.training import evaluation, recipes
from zoo.training.evaluation import evaluate_translator
from zoo.training.translation import TranslationRecipe

PNG = b"\x89PNG"


@pytest.fixture
def run():
    """Runs a command in this process."""

    def run(*arguments, **options):
        runner = click.testing.CliRunner()
        return runner.invoke(main, [str(each) for each in arguments], **options)

    return run


@pytest.fixture
def translate(run, bahdanau, monkeypatch):
    """Runs `translate` with a model that is already loaded."""
    monkeypatch.setattr(zoo, "load", lambda name: bahdanau)

    def translate(*arguments, **options):
        result = run("translate", "toy", *arguments, **options)
        assert result.exit_code == 0, result.output
        return result.stdout.split("\n")[:-1]

    return translate


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("translate luong", ["plain,luong_nmt_multi30k_en_de"]),
        ("serve vit_mnist text", ["plain,text_encoder_imdb", "plain,text_encoder_masked_imdb"]),
        ("info ./pre", ["file,./pre"]),
    ],
)
def test_a_shell_completes_names_of_trained_models(run, words, expected):
    words = ["keras-attention-zoo", *words.split()]
    given = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    given["_KERAS_ATTENTION_ZOO_COMPLETE"] = "bash_complete"
    found = run(env=given, prog_name="keras-attention-zoo")
    assert found.output.split() == expected


@pytest.fixture
def asked(bahdanau, monkeypatch):
    """The options that the model receives; it returns the texts unchanged."""
    asked = []
    answer = lambda texts, **options: asked.append(options) or texts  # noqa: E731
    monkeypatch.setattr(bahdanau, "translate", answer)
    return asked


# --------------------------------------------------------------------------------- list and info


def test_list_has_a_line_for_each_model(run):
    lines = run("list").stdout.splitlines()
    models = zoo.list_models()
    assert [line.split()[0] for line in lines] == [model.name for model in models]
    columns = {line.index(f" {model.task}") for line, model in zip(lines, models, strict=True)}
    assert len(columns) == 1
    assert any(line.startswith("show_attend_tell") and "CIDEr-D" in line for line in lines)


def test_info_tells_quality_and_protocol(run, preset):
    output = run("info", preset).stdout
    for fact in ["toy", "Toy en-de", "BLEU, test: 99.5", "beam; signature", "pytest"]:
        assert fact in output


def test_info_tells_a_protocol_once_for_the_numbers_that_share_it(run):
    output = " ".join(run("info", "show_attend_tell_flickr8k").stdout.split())
    metrics = "BLEU-1, BLEU-2, BLEU-3, BLEU-4, brevity penalty of BLEU, METEOR, ROUGE-L, CIDEr-D"
    assert f"protocol: {metrics}, validation: BeamSampler(num_beams=5" in output
    assert output.count("meteor:1.5") == 1


def test_info_tells_how_a_model_was_trained(run):
    training = zoo.info("show_attend_tell_hard_flickr8k").card["training"]
    output = " ".join(run("info", "show_attend_tell_hard_flickr8k").stdout.split())
    for key in "command", "chosen_by", "remarks":
        assert training[key] in output


def test_info_of_an_architecture(run):
    output = run("info", "luong_nmt").stdout
    assert "Luong et al. 2015" in output
    for line in ("score='general'", "decoder_units=512  Size of the decoder"):
        assert line in output


def test_info_of_a_model_from_elsewhere_imports_tensorflow_quietly(run, monkeypatch):
    done, luong = [], zoo.info("luong_nmt")
    monkeypatch.setattr(quiet, "import_tensorflow", lambda: done.append("import"))
    monkeypatch.setattr(zoo, "info", lambda name: done.append(name) or luong)
    for name in ("luong_nmt", "hf://user/toy"):
        assert run("info", name).stdout.startswith("luong_nmt\n")
    assert done == ["luong_nmt", "import", "hf://user/toy"]


def test_a_long_default_does_not_move_the_other_options(run):
    lines = run("info", "whisper").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("    num_layers=")]
    assert line.index("Number of blocks") == 40


def test_the_version(run):
    assert run("--version").stdout == f"keras-attention-zoo, version {zoo.__version__}\n"


# ------------------------------------------------------------------------------------- translate


def test_translates_arguments(translate, sources, targets):
    assert translate(*sources) == targets


def test_translates_lines_of_standard_input(translate, sources, targets):
    assert translate(input="\n".join(sources) + "\n") == targets
    assert translate(input="\n".join(sources)) == targets
    assert translate(input="\r\n".join(sources)) == targets


def test_a_byte_order_mark_is_no_word(translate):
    assert translate(input="\ufeffa man sleeps\n") == translate("a man sleeps")


def test_what_would_be_translated_wrongly_is_refused(run, translate):
    output = run("translate", "toy", input="a man sleeps\n".encode("utf-16")).output
    assert output == "Error: Standard input is in UTF-16. Save it in UTF-8.\n"
    output = run("translate", "toy", __file__).output
    assert (
        output
        == f"Error: {__file__} is a file. For its texts, give --input {__file__} and --output.\n"
    )


def test_a_closed_standard_input_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="Standard input is closed"):
        lines_of_input()


def test_a_complete_output_is_refused_before_the_model_is_loaded(run, tmp_path):
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


def test_ctrl_c_keeps_what_was_done(run, bahdanau, sources, targets, monkeypatch):
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


def test_caption_of_one_picture_is_a_line(run, pictures):
    file = pictures / "a.webp"
    line = f"{file.stat().st_size} bytes\n"
    assert run("caption", "toy", file).stdout == line
    twice = run("caption", "toy", file, file)
    assert (twice.stdout, twice.exit_code) == (f"{file}\t{line}" * 2, 0)


def test_caption_of_a_folder_goes_on_after_a_broken_picture(run, pictures):
    result = run("caption", "toy", pictures, "--batch-size", 2)
    files = [pictures / name for name in ("a.webp", "c.png")]
    assert result.stdout == "".join(f"{file}\t{file.stat().st_size} bytes\n" for file in files)
    (line,) = result.stderr.splitlines()
    assert "b.jpg" in line
    assert "WebP" in line
    assert "{{" not in line
    assert result.exit_code == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, names of files are Unicode")
def test_a_file_may_have_a_name_that_is_no_text(run, pictures):
    path = pictures / os.fsdecode(b"\xe4.png")
    (pictures / "c.png").rename(path)
    result = run("caption", "toy", path, path)
    line = f"{pictures}/\ufffd.png\t{path.stat().st_size} bytes\n"
    assert (result.stdout, result.exit_code) == (line * 2, 0)


def test_caption_of_a_folder_without_pictures(run, pictures):
    (pictures / "empty").mkdir()
    result = run("caption", "toy", pictures / "empty")
    assert "no image (.bmp, .gif, .jpeg, .jpg, .png, .webp) in the folder" in result.stderr


@pytest.fixture(scope="module")
def writer(fresh_model, byte_tokenizer):
    return fresh_model("transformer_lm", tokenizer=byte_tokenizer)


@pytest.mark.usefixtures("eagerly")
def test_generate_writes_prompt_and_text(run, writer, monkeypatch):
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


def test_a_model_for_another_task_is_named(run, writer, bahdanau, monkeypatch):
    monkeypatch.setattr(zoo, "load", lambda name: {"lm": writer, "nmt": bahdanau}[name])
    for arguments, task in (
        (["generate", "nmt"], "translation"),
        (["translate", "lm", "a"], "lan"),
        (["score", "lm", "a"], "language model). Compute the perplexity"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert f"is for another task ({task}" in result.stderr


# --------------------------------------------------------------------- evaluate, export and train


@pytest.mark.full
def test_evaluate_prints_each_number_with_its_protocol(run, preset, bahdanau, monkeypatch):
    dataset = tf.data.Dataset.from_tensor_slices(
        (["a man sleeps", "the dog reads"], ["ein mann schläft", "der hund liest ein buch"])
    )
    asked = []
    load = lambda recipe, *which: asked.append((recipe.pair, *which)) or dataset  # noqa: E731
    monkeypatch.setattr(TranslationRecipe, "load", load)
    monkeypatch.setattr(zoo, "load", lambda name: bahdanau)
    monkeypatch.setattr(bahdanau, "default_sampler", bahdanau.default_sampler)  # restored later
    once = functools.cache(evaluation._compiled_anew)
    monkeypatch.setattr(evaluation, "_compiled_anew", once)  # shared by both evaluations
    result = run("evaluate", preset, "--split", "validation", "--num-beams", 2)
    assert result.exit_code == 0, result.output
    assert asked == [("en-de", "validation", None)]
    sampler = zoo.Translator.usual_sampler
    scores = evaluate_translator(bahdanau, dataset, "de", type(sampler)(num_beams=2, exact=False))
    lines = result.stdout.splitlines()[1:]
    values = [float(line.split()[0]) for line in lines[::2]]
    perplexity, moses, sacrebleu = lines[1::2]
    assert values[0] == pytest.approx(scores["perplexity"], abs=0.01)
    assert "teacher forcing" in perplexity
    keys = ["bleu_moses_lowercase", "bleu_sacrebleu"]
    for value, protocol, key in zip(values[1:], [moses, sacrebleu], keys, strict=True):
        assert value == pytest.approx(scores[key].score, abs=0.01)
        assert "num_beams=2" in protocol
        assert str(scores[key]) in protocol


def test_evaluate_measures_on_every_test_part(run, preset, bahdanau, monkeypatch):
    def quality(recipe, scores, split, model):
        return [{"metric": "BLEU", "split": split, "value": scores, "protocol": f"as {split}"}]

    monkeypatch.setattr(TranslationRecipe, "test_splits", ("captions", "everyday"))
    monkeypatch.setattr(TranslationRecipe, "load", lambda recipe, split, data_dir: split)
    monkeypatch.setattr(TranslationRecipe, "evaluate", lambda recipe, model, data: len(data))
    monkeypatch.setattr(TranslationRecipe, "quality", quality)
    monkeypatch.setattr(zoo, "load", lambda name: bahdanau)
    monkeypatch.setattr(bahdanau, "default_sampler", bahdanau.default_sampler)
    lines = [line.split() for line in run("evaluate", preset).stdout.splitlines()]
    assert lines == [
        [str(preset), "on", "captions"],
        ["8", "BLEU"],
        ["(as", "captions)"],
        [str(preset), "on", "everyday"],
        ["8", "BLEU"],
        ["(as", "everyday)"],
    ]


def test_export_prints_the_version(run, bahdanau, monkeypatch, tmp_path):
    monkeypatch.setattr(zoo, "load", lambda name: bahdanau)
    monkeypatch.setattr(bahdanau, "export", lambda path: path / "1")
    assert run("export", "toy", tmp_path).stdout == f"{tmp_path / '1'}\n"


def test_train_passes_everything_on(run, monkeypatch, tmp_path):
    monkeypatch.setattr(recipes, "run", lambda *arguments: arguments)
    options = ["--data-dir", tmp_path, "--run-dir", tmp_path / "run", "--epochs", 3, "--seed", 2]
    output = run("train", "toy", *options).stdout
    assert str(("toy", tmp_path, tmp_path / "run", 3, 2)) in output


@pytest.mark.parametrize(
    ("command", "library"),
    [("train", "tensorboard"), ("train", "sacrebleu"), ("evaluate", "sacrebleu")],
)
def test_a_missing_library_is_told_before_the_work(run, monkeypatch, command, library):
    found = importlib.util.find_spec
    monkeypatch.setattr("zoo.cli.find_spec", lambda name: name != library and found(name))
    monkeypatch.setattr(recipes, "run", lambda *_: pytest.fail("trained"))
    monkeypatch.setattr(zoo, "load", lambda name: pytest.fail("loaded"))
    result = run(command, "toy")
    assert result.exit_code == 1
    assert f'need {library}: pip install "keras-attention-zoo[train]"' in result.stderr


def test_train_mirrors_the_model(run, monkeypatch, tmp_path):
    strategies = []

    def train(name, *_):
        strategies.append(type(tf.distribute.get_strategy()).__name__)
        return tmp_path / name

    monkeypatch.setattr(recipes, "run", train)
    for options in ([], ["--strategy", "mirrored"]):
        run("train", "toy", "--run-dir", str(tmp_path), *options)
    assert strategies == ["_DefaultDistributionStrategy", "MirroredStrategy"]


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
def test_a_mistake_costs_one_line(run, arguments, message):
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
def test_where_to_write_is_checked_before_the_work(run, monkeypatch, tmp_path, arguments, message):
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


def test_a_picture_needs_matplotlib(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    result = run("translate", "toy", "a man", "--show-attention", tmp_path / "a.png")
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'pip install "keras-attention-zoo[plot]"' in result.stderr


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
def test_wrong_usage_ends_with_2(run, arguments):
    assert run(*arguments).exit_code == 2


def test_a_wrong_option_of_the_sampler_costs_one_line(run, bahdanau, monkeypatch):
    monkeypatch.setattr(zoo, "load", lambda name: bahdanau)
    result = run("translate", "toy", "a man", "--temperature", 0.5)
    assert result.exit_code == 1
    assert "temperature" in result.stderr
    assert "--sampler" in result.stderr or "sampler=" in result.stderr


def test_help_tells_where_the_token_may_come_from(run):
    assert "ZOO_TOKEN" in run("serve", "--help").stdout


def test_a_port_in_use_is_told_before_the_models_are_loaded(run):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("serve", "no_such_model", "--port", port)
    assert result.exit_code == 1
    assert f"Cannot listen on port {port} of 127.0.0.1: " in result.stderr


def test_two_models_of_one_name_are_told_before_the_models_are_loaded(run):
    result = run("serve", "hf://me/no_such_model", "hf://you/no_such_model@main")
    assert result.exit_code == 1
    assert "names of their own. Received: no_such_model, no_such_model. Rename" in result.stderr


def test_a_reader_that_has_gone_away_is_no_mistake(run, monkeypatch):
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
