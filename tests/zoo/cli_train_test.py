"""Commands that train, evaluate and export a model."""

import functools
import importlib.util

import pytest
import tensorflow as tf

import zoo
from tests.zoo.commands import run
from zoo.training import evaluation, recipes
from zoo.training.evaluation import evaluate_translator
from zoo.training.translation import TranslationRecipe


@pytest.mark.full
def test_evaluate_prints_each_number_with_its_protocol(preset, bahdanau, monkeypatch):
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


def test_evaluate_measures_on_every_test_part(preset, bahdanau, monkeypatch):
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


def test_export_prints_the_version(bahdanau, monkeypatch, tmp_path):
    monkeypatch.setattr(zoo, "load", lambda name: bahdanau)
    monkeypatch.setattr(bahdanau, "export", lambda path: path / "1")
    assert run("export", "toy", tmp_path).stdout == f"{tmp_path / '1'}\n"


def test_train_passes_everything_on(monkeypatch, tmp_path):
    monkeypatch.setattr(recipes, "run", lambda *arguments: arguments)
    options = ["--data-dir", tmp_path, "--run-dir", tmp_path / "run", "--epochs", 3, "--seed", 2]
    output = run("train", "toy", *options).stdout
    assert str(("toy", tmp_path, tmp_path / "run", 3, 2)) in output


@pytest.mark.parametrize(
    ("command", "library"),
    [("train", "tensorboard"), ("train", "sacrebleu"), ("evaluate", "sacrebleu")],
)
def test_a_missing_library_is_told_before_the_work(monkeypatch, command, library):
    found = importlib.util.find_spec
    monkeypatch.setattr("zoo.cli.find_spec", lambda name: name != library and found(name))
    monkeypatch.setattr(recipes, "run", lambda *_: pytest.fail("trained"))
    monkeypatch.setattr(zoo, "load", lambda name: pytest.fail("loaded"))
    result = run(command, "toy")
    assert result.exit_code == 1
    assert f'need {library}: pip install "keras-attention-zoo[train]"' in result.stderr


def test_train_mirrors_the_model(monkeypatch, tmp_path):
    strategies = []

    def train(name, *_):
        strategies.append(type(tf.distribute.get_strategy()).__name__)
        return tmp_path / name

    monkeypatch.setattr(recipes, "run", train)
    for options in ([], ["--strategy", "mirrored"]):
        run("train", "toy", "--run-dir", str(tmp_path), *options)
    assert strategies == ["_DefaultDistributionStrategy", "MirroredStrategy"]
