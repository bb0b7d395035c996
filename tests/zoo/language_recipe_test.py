"""The recipe of a language model: what a run leaves behind, and what its card says."""

import dataclasses
import functools
import json
import math
import shutil

import keras
import numpy as np
import pytest

import zoo
from tests.zoo.conftest import LINE
from zoo.storage import CARD
from zoo.training import evaluation, recipes, runs
from zoo.training.distillation import with_swapped_words
from zoo.training.language import LanguageRecipe

TEXT = LINE * 30
SIZES = {"num_layers": 1, "size": 16, "num_heads": 2, "context_length": 16, "dropout": 0.0}
ALONE = LanguageRecipe(
    "transformer_lm",
    overrides=SIZES,
    epochs=1,
    batch_size=8,
    learning_rate=0.01,
    warmup_steps=2,
    average_momentum=0.5,
    dtype="float32",
)
OTHER = dataclasses.replace(ALONE, overrides={**SIZES, "num_heads": 1}, seed=2)
RECIPE = dataclasses.replace(
    ALONE, epochs=2, teachers=[dataclasses.asdict(ALONE), dataclasses.asdict(OTHER)]
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(recipes.RECIPES, "toy_lm", RECIPE)
        patch.setattr(LanguageRecipe, "load", lambda self, split, data_dir: TEXT)
        patch.setattr(evaluation, "RANDOM_BATCHES", 3)
        once = functools.cache(evaluation._compiled_anew)  # shared by all splits
        patch.setattr(evaluation, "_compiled_anew", once)
        yield run_dir, recipes.run("toy_lm", None, run_dir)


@pytest.fixture(scope="module")
def model(run):
    return zoo.load(run[1])


@pytest.mark.full
def test_a_run_learns_and_ends_in_a_preset(run, model):
    run_dir, _ = run
    losses = [float(row["loss"]) for row in runs.history(run_dir / "learning")]
    assert losses[1] < losses[0] < math.log(259)
    assert model.opening == "\n"
    assert model.core.config.context_length == 16
    assert model.score(TEXT).perplexity[0] < np.exp(losses[0])


@pytest.mark.full
def test_the_card_says_how_it_was_trained_and_measured(run):
    _, folder = run
    card = json.loads((folder / CARD).read_text())
    assert card["training"]["recipe"] == json.loads(json.dumps(dataclasses.asdict(RECIPE)))
    assert recipes.of_card(card) == RECIPE
    measured = [(entry["split"], entry["metric"]) for entry in card["quality"]]
    metrics = ["loss per token", "loss per token, random windows"]
    assert measured == [(split, metric) for split in RECIPE.measured_splits for metric in metrics]
    assert "windows of 16 that overlap by half" in card["quality"][0]["protocol"]
    assert "nanoGPT" in card["quality"][1]["protocol"]


@pytest.mark.full
def test_losses_are_those_of_numpy(model, monkeypatch):
    """Losses with each token once, and of windows that begin anywhere and have less context."""
    monkeypatch.setattr(evaluation, "RANDOM_BATCHES", 40)
    scores = evaluation.evaluate_language_model(model, TEXT)
    assert scores["loss"] == pytest.approx(-model.score(TEXT).log_probs[0].mean(), rel=1e-4)
    ids = model.tokens(TEXT)
    windows = np.stack([ids[first : first + 17] for first in range(len(ids) - 16)])
    logits = model.core(windows[:, :-1]).numpy().astype("float64")
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    every = np.take_along_axis(log_probs, windows[:, 1:, None], axis=-1)
    assert scores["loss_random_windows"] == pytest.approx(-every.mean(), rel=0.02)


@pytest.mark.full
def test_it_learns_from_those_before_it(run, model):
    run_dir, _ = run
    names = ("teacher_1", "teacher_2", "learning")
    jobs = [json.loads((run_dir / name / "job.json").read_text()) for name in names]
    assert [each["config"]["num_heads"] for each in jobs] == [2, 1, 2]
    assert [each["seed"] for each in jobs] == [1, 2, 1]
    assert [each["begin_with"] for each in jobs] == ["", "", "../teacher_1/learned.weights.h5"]
    taught = jobs[2]["teachers"]
    assert [each["weights"] for each in taught] == [
        f"../teacher_{number}/learned.weights.h5" for number in (1, 2)
    ]
    assert [each["config"]["num_heads"] for each in taught] == [2, 1]
    with np.load(run_dir / "learning" / "arrays.npz") as arrays:
        np.testing.assert_array_equal(arrays["tokens"], model.tokens(TEXT))
        swapped = with_swapped_words(TEXT, RECIPE.swapped_words, RECIPE.seed)
        np.testing.assert_array_equal(arrays["unlabelled"], model.tokens(swapped))
        assert swapped != TEXT


@pytest.mark.full
def test_what_is_learned_is_not_learned_again(run, model, monkeypatch):
    run_dir, _ = run
    for name in ("teacher_1", "teacher_2"):  # not needed once learning is done
        shutil.rmtree(run_dir / name)
    monkeypatch.setattr(keras.Model, "fit", None)
    again = RECIPE.train(TEXT, TEXT, run_dir)
    for one, other in zip(again.get_weights(), model.get_weights(), strict=True):
        # Stored in half precision, whose smallest numbers are 6e-8 apart.
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_the_optimizer_goes_by_its_name(name):
    optimizer = dataclasses.replace(RECIPE, optimizer=name).make_optimizer(10)
    assert type(optimizer).__name__.lower() == name
