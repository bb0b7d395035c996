"""Recipes: what a run leaves behind, and that it survives being killed."""

import csv
import dataclasses
import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.losses import TokenCrossentropy
from zoo.metrics import sacrebleu_score
from zoo.storage import CARD
from zoo.training import evaluation, recipes, runs, self_critical
from zoo.training.bleu import ValidationBleu
from zoo.training.evaluation import best_sampler
from zoo.training.translation import TranslationRecipe

RECIPE = TranslationRecipe(
    "luong_nmt",
    overrides={"embedding_dim": 8, "encoder_units": 8, "decoder_units": 8},
    vocabulary_size=300,
    epochs=2,
    batch_size=8,
    learning_rate=0.01,
    warmup_steps=1,
    average_momentum=0.5,
    dtype="float32",
    length_penalties=(0.0, 1.0),
)


class Killed(BaseException):
    """An exception that no code may catch."""


def read_history(run_dir):
    with open(run_dir / "history.csv", newline="") as file:
        return list(csv.DictReader(file))


# ------------------------------------------------------------------------------------------- run


@pytest.fixture(scope="module")
def broken_off(dataset, tmp_path_factory):
    """Folder of a run that was killed in its second epoch, while writing its weights."""
    run_dir = tmp_path_factory.mktemp("runs")
    callbacks = runs.callbacks

    def save_weights(*arguments, **options):
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        kill = keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda epoch, logs: (
                epoch == 1 and patch.setattr(keras.Model, "save_weights", save_weights)
            )
        )
        patch.setattr(runs, "callbacks", lambda *arguments: [*callbacks(*arguments), kill])
        with pytest.raises(Killed):
            RECIPE.train(dataset, dataset, run_dir)
    assert [row["epoch"] for row in read_history(run_dir)] == ["0"]
    return run_dir


@pytest.fixture(scope="module")
def run(broken_off, dataset):
    """Folder of the run that was killed and then resumed, and its preset.

    Only with `--full`: without it, `kills_test` kills training by `runs` alone, and
    `reviews_recipe_test` runs whole recipes.
    """
    run_dir = broken_off

    def load(recipe, split, data_dir):
        if split in recipe.splits:
            return dataset
        return dataset.map(lambda source, target: (source, tf.stack([target, target + "."])))

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(recipes.RECIPES, "toy_en_de", dataclasses.replace(RECIPE, epochs=99, seed=99))
        patch.setattr(TranslationRecipe, "load", load)
        patch.setattr("zoo.data.batching.BUCKET_WIDTH", 1000)  # all pairs in one batch
        once = functools.cache(evaluation._compiled_anew)  # shared by both splits
        patch.setattr(evaluation, "_compiled_anew", once)
        folder = recipes.run("toy_en_de", None, run_dir, RECIPE.epochs, RECIPE.seed)
        yield run_dir, folder


@pytest.mark.full
def test_a_killed_run_goes_on_where_it_was(run):
    run_dir, _ = run
    history = read_history(run_dir)
    assert [row["epoch"] for row in history] == ["0", "1"]
    losses = [float(row["val_loss"]) for row in history]
    assert losses == sorted(losses, reverse=True), "it did not go on with the weights it had"


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_a_run_that_has_finished_has_nothing_left_to_train(run, dataset, monkeypatch):
    monkeypatch.setattr("zoo.training.translation.best_sampler", lambda *given: given[-1][0])
    run_dir, folder = run
    before = read_history(run_dir)
    model = RECIPE.train(dataset, dataset, run_dir)
    assert read_history(run_dir) == before
    half = model.core.output_bias.numpy().astype("float16")
    np.testing.assert_array_equal(zoo.load(folder).core.output_bias, half)


def test_a_run_that_goes_on_must_beat_its_best(tmp_path):
    best_path = tmp_path / "best.weights.h5"
    assert runs.best_so_far(tmp_path, "val_bleu", "max") is None
    best_path.touch()
    (tmp_path / "history.csv").write_text("epoch,loss,val_bleu\n0,5.0,0.0\n1,4.0,31.5\n2,4.0,9.5\n")
    assert runs.best_so_far(tmp_path, "val_bleu", "max") == 31.5


@pytest.mark.full
def test_a_run_can_be_watched(run):
    run_dir, _ = run
    assert {"loss", "val_loss", "val_bleu"} <= read_history(run_dir)[0].keys()
    assert list((run_dir / "tensorboard" / "train").glob("events*"))


@pytest.mark.full
def test_a_run_ends_in_a_preset(run):
    run_dir, folder = run
    assert folder == run_dir / "toy_en_de"
    core = zoo.load(folder).core
    assert core.config.embedding_dim == RECIPE.overrides["embedding_dim"]
    assert core.config.vocabulary_size == RECIPE.vocabulary_size


@pytest.mark.full
def test_the_card_says_how_it_was_trained_and_measured(run):
    _, folder = run
    card = json.loads((folder / CARD).read_text())
    assert card["training"]["command"] == "python -m zoo train toy_en_de"
    assert card["training"]["recipe"] == json.loads(json.dumps(dataclasses.asdict(RECIPE)))
    measured = [(entry["split"], entry["metric"]) for entry in card["quality"]]
    assert len(set(measured)) == 6
    assert {split for split, _ in measured} == set(RECIPE.measured_splits)
    assert "sacremoses:" in card["quality"][1]["protocol"]
    assert "BeamSampler(num_beams=5" in card["quality"][2]["protocol"]
    assert "nrefs:1|" in card["quality"][2]["protocol"]
    assert "nrefs:2|" in card["quality"][5]["protocol"]  # these sources have two references


@pytest.mark.full
def test_a_preset_is_not_trained_over(run):
    run_dir, folder = run
    with pytest.raises(ValueError, match=f"{folder} is there already"):
        recipes.run("toy_en_de", None, run_dir)


def test_a_run_is_resumed_by_its_own_recipe_alone(tmp_path, monkeypatch):
    def train(recipe, *_):
        raise Killed

    monkeypatch.setattr(TranslationRecipe, "load", lambda recipe, split, data_dir: split)
    monkeypatch.setattr(TranslationRecipe, "train", train)
    monkeypatch.setitem(recipes.RECIPES, "toy", RECIPE)
    monkeypatch.setitem(recipes.RECIPES, "other", RECIPE)
    for given in ([], [RECIPE.epochs, RECIPE.seed]):
        with pytest.raises(Killed):
            recipes.run("toy", None, tmp_path, *given)
    with pytest.raises(ValueError, match="a run of toy with epochs=2.* Received: epochs=3. Resume"):
        recipes.run("toy", None, tmp_path, 3)
    with pytest.raises(ValueError, match="a run of toy, not of other. Choose another --run-dir"):
        recipes.run("other", None, tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("history.csv", "date,price", "holds history.csv, and no recipe.json"),
        ("tokenizer.json", "{}", "holds tokenizer.json, and no recipe.json"),
        ("self_critical_2", "x", "holds self_critical_2, and no recipe.json"),
        ("recipe.json", "{", "recipe.json is not the recipe of a run, or is damaged"),
        ("recipe.json", '["eggs"]', "recipe.json is not the recipe of a run"),
        ("recipe.json", '{"name": "vit_mnist"}', "recipe.json is not the recipe of a run"),
    ],
)
def test_files_of_something_else_stay_as_they_are(tmp_path, file, content, message):
    (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match=f"{message}.*Choose another --run-dir"):
        recipes.run("vit_mnist", tmp_path, tmp_path)
    assert (tmp_path / file).read_text() == content


def test_an_unknown_recipe_gets_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="Did you mean '(luong|bahdanau)_nmt_multi30k_en_de'"):
        recipes.run("luong_nmt_multi30k_en_fr", None, tmp_path)


@pytest.mark.full
def test_a_preset_uses_the_length_penalty_that_did_best(run, dataset):
    _, folder = run
    model = zoo.load(folder)
    sampler = model.default_sampler
    assert (sampler.num_beams, sampler.exact) == (5, False)
    tried = [
        dataclasses.replace(sampler, length_penalty=penalty) for penalty in RECIPE.length_penalties
    ]
    texts = [(source.decode(), target.decode()) for source, target in dataset.as_numpy_iterator()]
    sources, references = map(list, zip(*texts, strict=True))
    scores = [sacrebleu_score(model.translate(sources, each), references).score for each in tried]
    assert scores[tried.index(sampler)] == max(scores)


@pytest.mark.full
def test_self_critical_training_goes_on_with_the_best_weights(dataset, tmp_path, monkeypatch):
    folders, losses, biases = [tmp_path, tmp_path / "self_critical"], [], []
    numbers = []

    def fit(model, x, **options):
        losses.append(model.loss)
        numbers.append(int(x.cardinality()))
        biases.append(model.core.output_bias.numpy())
        model.core.output_bias.assign_add(np.full(biases[-1].shape, 0.5))
        model.save_weights(folders[len(losses) - 1] / runs.BEST)

    monkeypatch.setattr(zoo.Translator, "fit", fit)
    monkeypatch.setattr("zoo.training.translation.best_sampler", lambda *given: given[-1][0])
    monkeypatch.setattr(
        "zoo.training.translation.self_critical_translations", lambda model, pairs, **_: pairs
    )
    recipe = dataclasses.replace(RECIPE, self_critical_epochs=1, self_critical_examples_per_epoch=3)
    trained = recipe.train(dataset, dataset, tmp_path)
    assert numbers[1] == 3
    assert [type(loss) for loss in losses] == [TokenCrossentropy, self_critical.PolicyGradientLoss]
    np.testing.assert_array_equal(biases[1], biases[0] + 0.5)
    np.testing.assert_array_equal(trained.core.output_bias, biases[0] + 1.0)


@pytest.mark.full
def test_self_critical_training_comes_last_and_is_not_repeated(dataset, tmp_path, monkeypatch):
    # A model that has learned nothing yet has a BLEU of 0, whatever it draws.
    monkeypatch.setattr(
        self_critical, "sentence_bleu", lambda texts, references: [*map(len, texts)]
    )
    recipe = dataclasses.replace(RECIPE, epochs=1, self_critical_epochs=2)
    model = recipe.train(dataset, dataset, tmp_path)
    assert len(read_history(tmp_path)) == 1
    history = read_history(tmp_path / "self_critical")
    assert [row["epoch"] for row in history] == ["0", "1"]
    assert "val_bleu" in history[0]
    again = recipe.train(dataset, dataset, tmp_path)
    assert read_history(tmp_path / "self_critical") == history
    np.testing.assert_array_equal(again.core.output_bias, model.core.output_bias)
    again.load_weights(tmp_path / runs.BEST)
    assert np.abs(again.core.output_bias - model.core.output_bias).max() > 0


@pytest.mark.full
def test_a_recipe_may_begin_with_a_trained_model_and_draw_among_several_targets(
    run, pairs, tmp_path, monkeypatch
):
    _, preset = run
    seen = []

    def fit(model, drawn, validation_data, **options):
        model.save_weights(tmp_path / runs.BEST)
        seen.append((model, drawn, validation_data))

    monkeypatch.setattr(zoo.Translator, "fit", fit)
    monkeypatch.setattr(zoo.Translator, "batches", lambda model, drawn, **options: drawn)
    recipe = dataclasses.replace(RECIPE, begin_with=str(preset), examples_per_epoch=5)
    sources, targets = map(list, zip(*pairs, strict=True))
    several = tf.data.Dataset.from_tensor_slices((sources, [[each, each] for each in targets]))
    trained = recipe.train(several, several, tmp_path)
    ((model, drawn, validation),) = seen
    first = zoo.load(preset)
    assert model.tokenizer.get_config() == first.tokenizer.get_config()
    for mine, its in zip(model.core.weights, first.core.weights, strict=True):
        np.testing.assert_array_equal(mine, its)
    epochs = [sorted(drawn.as_numpy_iterator()) for _ in range(2)]
    known = [tuple(map(str.encode, pair)) for pair in pairs]
    assert [len(epoch) for epoch in epochs] == [5, 5]
    assert epochs[0] != epochs[1]
    assert {*epochs[0], *epochs[1]} <= set(known)
    assert sorted(validation.as_numpy_iterator()) == sorted(2 * known)
    assert trained.max_source_length == first.max_source_length
    assert not (tmp_path / "tokenizer.json").exists()


def test_warm_up_fits_into_a_short_training():
    recipe = dataclasses.replace(RECIPE, epochs=2, warmup_steps=1000, cycles=1)
    schedule = recipe.make_optimizer(steps_per_epoch=5)._learning_rate
    rates = [float(schedule(step)) for step in range(10)]
    steps = np.arange(10)
    falling = 0.01 + 0.99 * (1 + np.cos(np.pi * steps / 10)) / 2
    expected = recipe.learning_rate * np.minimum(steps / 5, 1) * falling  # warms up for half of it
    np.testing.assert_allclose(rates, expected, rtol=1e-5)


def test_muon_takes_the_matrices_between_the_embeddings():
    recipe = recipes.RECIPES["transformer_nmt_multi30k_en_de"]
    model = zoo.load("transformer_nmt", weights=None, tokenizer=zoo.ByteBPETokenizer([]), size=32)
    optimizer = recipe.make_optimizer(steps_per_epoch=50)
    for weight in model.trainable_variables:
        is_matrix = weight.path.endswith("kernel")
        assert optimizer._should_use_adamw(weight) != is_matrix, weight.path


def test_the_learning_rate_falls_in_cycles():
    recipe = dataclasses.replace(RECIPE, epochs=4, warmup_steps=1, cycles=2)
    schedule = recipe.make_optimizer(steps_per_epoch=50)._learning_rate
    peak = recipe.learning_rate
    rates = [float(schedule(step)) for step in (1, 50, 99, 100, 150, 199)]
    expected = [peak, peak / 2, 0.01 * peak, 0.8 * peak, 0.4 * peak, 0.01 * peak]
    np.testing.assert_allclose(rates, expected, rtol=0.03)


# ------------------------------------------------------------------------------------------- BLEU


class Parrot:
    """A model that returns each text as its own translation."""

    def translate(self, texts, sampler, batch_size):
        return texts


PARROTED = [("ein mann schläft nachts", "ein mann schläft nachts"), ("hund", "der hund frisst")]


@pytest.fixture
def measure():
    """Returns the logs of the epochs of a run with a `ValidationBleu`."""

    def run(epochs):
        callback = ValidationBleu(
            tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*PARROTED, strict=True))))
        )
        callback.set_model(Parrot())
        logs = [{"loss": 1.0} for _ in range(epochs)]
        for epoch, entry in enumerate(logs):
            callback.on_epoch_end(epoch, entry)
        return [entry["val_bleu"] for entry in logs]

    return run


def test_the_sampler_with_the_best_bleu_is_chosen():
    class Model:
        def translate(self, texts, sampler, batch_size):
            return texts if sampler == "second" else ["zebra"] * len(texts)

    texts = tf.data.Dataset.from_tensor_slices((["a dog runs home"], ["a dog runs home"]))
    assert best_sampler(Model(), texts, ["first", "second", "third"]) == "second"


def test_val_bleu_is_that_of_sacrebleu(measure):
    expected = sacrebleu_score(*map(list, zip(*PARROTED, strict=True))).score
    assert 0 < expected < 100
    assert measure(epochs=2) == [expected, expected]
