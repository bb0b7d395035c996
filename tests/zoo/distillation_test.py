"""Distillation: the labels against NumPy, what the batches hold, and what is learned."""

import collections
import dataclasses

import numpy as np
import pytest

import zoo
from tests.zoo.conftest import LINE
from zoo.data.windows import random_windows
from zoo.training import runs
from zoo.training.distillation import side_by_side, with_soft_labels, with_swapped_words
from zoo.training.language import LanguageRecipe

TEXT = LINE * 20
SIZES = {"num_layers": 1, "size": 16, "num_heads": 2, "context_length": 16, "dropout": 0.0}
ALONE = LanguageRecipe(
    "transformer_lm",
    overrides=SIZES,
    epochs=6,
    batch_size=8,
    learning_rate=0.02,
    warmup_steps=1,
    average_momentum=0.5,
    dtype="float32",
)
OTHER = dataclasses.replace(ALONE, overrides={**SIZES, "num_heads": 1}, seed=2)
RECIPE = dataclasses.replace(
    ALONE,
    epochs=1,
    learning_rate=0.002,
    teachers=[dataclasses.asdict(ALONE), dataclasses.asdict(OTHER)],
    teacher_shares=[0.4, 0.4],
)


@pytest.fixture(scope="module")
def teachers():
    tokenizer = zoo.ByteBPETokenizer([], prefix_space=False)
    models = [
        zoo.load("transformer_lm", weights=None, tokenizer=tokenizer, opening="\n", **SIZES)
        for _ in range(2)
    ]
    for model in models:
        model.build()
    return models


def test_labels_are_those_of_the_teachers_and_the_text_in_their_shares(teachers):
    stream = teachers[0].tokens(LINE)
    windows = random_windows(stream, 16, batch_size=2, seed=1)
    shares = [0.5, 0.2]
    found = list(with_soft_labels(windows, teachers, shares).as_numpy_iterator())
    assert len(found) == len(list(windows)) > 0
    for inputs, labels, weights in found:
        expected = 0.3 * np.eye(259)[following(stream, inputs)]
        for share, teacher in zip(shares, teachers, strict=True):
            logits = teacher.core(inputs).numpy().astype("float64")
            expected += share * np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        np.testing.assert_allclose(labels, expected, atol=1e-6)
        np.testing.assert_array_equal(weights, np.ones((2, 16)))


def following(stream, windows):
    """What stands behind each token of windows of a stream."""
    streams = [stream[first : first + 17] for first in range(len(stream) - 16)]
    return np.stack(
        [next(each[1:] for each in streams if (each[:-1] == window).all()) for window in windows]
    )


@pytest.mark.parametrize("shares", [[], [0.4], [0.8, 0.4], [0.0, 0.0]])
def test_each_teacher_has_a_share(shares):
    with pytest.raises(ValueError, match=r"above 0 and at most 1.*teacher_shares=.*2 teachers"):
        LanguageRecipe("transformer_lm", teachers=[{}, {}], teacher_shares=shares)


def test_side_by_side_holds_the_rows_of_both():
    first, second = (random_windows(np.arange(of, of + 50), 5, 2, seed=of) for of in (0, 50))
    batches = list(side_by_side(first, second).as_numpy_iterator())
    assert len(batches) == round(50 / (2 * 5))
    for inputs, labels, weights in batches:
        np.testing.assert_array_equal(inputs[:, 0] >= 50, [False, False, True, True])
        np.testing.assert_array_equal(labels, inputs + 1)
        assert weights.shape == (4, 5)


def test_words_are_swapped_for_others_of_the_text():
    text = "The cat isn't here: He said 'no', the Dog ran.\n" * 200
    swapped = with_swapped_words(text, 0.3, seed=1)
    assert with_swapped_words(text, 0.3, seed=1) == swapped
    assert with_swapped_words(text, 0.0) == text
    old, new = text.split(), swapped.split()
    assert len(old) == len(new)
    kept = np.mean([a == b for a, b in zip(old, new, strict=True)])
    assert 0.7 < kept < 0.8  # some gave way to themselves
    counts = collections.Counter(new)
    assert {"isn't", "ran.", "Dog"} < set(counts)
    assert all(word[0].isupper() for word in new[::10])  # where "The" was


def test_a_student_begins_with_its_first_teacher(tmp_path, monkeypatch):
    folders, begun = [tmp_path / "teacher_1", tmp_path / "teacher_2", tmp_path], []

    def fit(model, x, **options):
        begun.append((model.get_weights(), x))
        for weight in model.trainable_weights:
            weight.assign_add(np.full(weight.shape, 0.1))
        model.save_weights(folders[len(begun) - 1] / runs.BEST)

    monkeypatch.setattr(zoo.TextGenerator, "fit", fit)
    trained = RECIPE.train(TEXT, TEXT, tmp_path)
    (of_first, _), _, (of_student, batches) = begun
    for mine, other, end in zip(of_student, of_first, trained.get_weights(), strict=True):
        np.testing.assert_allclose(mine, other + 0.1, atol=1e-6)
        np.testing.assert_allclose(end, other + 0.2, atol=1e-6)
    _, labels, _ = next(iter(batches))
    assert labels.shape == (8, 16, 259)
    np.testing.assert_allclose(np.sum(labels, axis=-1), 1.0, atol=1e-5)


@pytest.mark.full
def test_a_recipe_with_teachers_begins_with_the_first_and_learns_from_all(tmp_path):
    trained = RECIPE.train(TEXT, TEXT, tmp_path)
    of_teachers = [
        [float(row["val_loss"]) for row in runs.history(tmp_path / f"teacher_{number}")]
        for number in (1, 2)
    ]
    assert [len(losses) for losses in of_teachers] == [6, 6]
    (of_student,) = (float(row["val_loss"]) for row in runs.history(tmp_path))
    assert of_student < 0.3 * of_teachers[0][0]  # it has not begun anew
    assert trained.core.config.num_heads == 2
    plain = dataclasses.replace(RECIPE, teachers=[], teacher_shares=[]).train(
        TEXT, TEXT, tmp_path / "plain"
    )
    assert plain.score(TEXT).perplexity[0] > 1.5 * trained.score(TEXT).perplexity[0]
