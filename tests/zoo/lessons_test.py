"""A teacher's translations as targets: which of its beams, and what a student does with them."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.zoo.recipes_test import RECIPE
from zoo.data.pairs import sources_and_references, with_targets
from zoo.training import lessons, recipes, runs, translation
from zoo.training.lessons import with_translations

BEAMS = {
    "A dog.": ["Ein Hund.", "Der Hund."],
    "A cat sleeps.": ["Ein Kater schläft.", "Eine Katze schläft."],
    "Snow.": ["Schnee.", "Weißer Schnee."],
}
EXAMPLES = [
    ("A dog.", []),
    ("A cat sleeps.", ["Die Katze schläft.", "Katze."]),
    ("Snow.", ["Schnee."]),
]


class Teacher:
    """Answers from a table, and counts how often it is asked."""

    asked = 0

    def translate(self, texts, sampler, num_beams, num_return_sequences):
        assert (sampler, num_beams, num_return_sequences) == ("beam", 2, 2)
        self.asked += 1
        return [BEAMS[text] for text in texts]


def examples():
    sources, targets = zip(*EXAMPLES, strict=True)
    targets = tf.ragged.constant(targets, tf.string)
    return tf.data.Dataset.from_tensor_slices((list(sources), targets))


def test_the_beam_closest_to_a_target_is_one_more_target(tmp_path, monkeypatch):
    monkeypatch.setattr(lessons, "SOURCES_AT_ONCE", 2)
    teacher, path = Teacher(), tmp_path / "lessons.jsonl"
    expected = (
        ["A dog.", "A cat sleeps.", "Snow."],
        [
            ["Ein Hund."],
            ["Die Katze schläft.", "Katze.", "Eine Katze schläft."],
            ["Schnee.", "Schnee."],
        ],
    )
    for _ in range(2):  # the second time it reads the file
        taught = with_translations(examples(), teacher, path, num_beams=2)
        assert sources_and_references(taught) == expected
    assert teacher.asked == 2


def test_a_pair_has_one_target(tmp_path):
    pairs = tf.data.Dataset.from_tensors(("Snow.", "Weißer Schnee."))
    taught = with_translations(pairs, Teacher(), tmp_path / "lessons.jsonl", num_beams=2)
    assert sources_and_references(taught) == (["Snow."], [["Weißer Schnee."] * 2])


def test_what_has_no_target_can_be_left_out():
    kept = with_targets(examples())
    assert sources_and_references(kept)[0] == ["A cat sleeps.", "Snow."]
    assert kept.cardinality() == 2  # schedules are computed from it


@pytest.mark.full
def test_a_student_learns_from_the_labels_of_its_teacher(bahdanau, dataset, tmp_path, monkeypatch):
    asked, begun = [], []

    def fit(model, batches, **options):
        begun.append((model, next(iter(batches))))
        model.save_weights(tmp_path / runs.BEST)

    def with_translations(examples, teacher, path):
        assert (teacher, path) == (bahdanau, tmp_path / "lessons.jsonl")
        return examples

    monkeypatch.setattr(translation, "load", lambda name: asked.append(name) or bahdanau)
    monkeypatch.setattr(translation, "with_translations", with_translations)
    monkeypatch.setattr("zoo.Translator.fit", fit)
    monkeypatch.setattr(translation, "best_sampler", lambda *given: given[-1][0])
    recipe = dataclasses.replace(RECIPE, teacher="a_teacher", teacher_share=0.25)
    recipe.train(dataset, dataset, tmp_path)
    assert asked == ["a_teacher"]
    ((model, (inputs, labels, weights)),) = begun
    assert model.tokenizer is bahdanau.tokenizer
    logits = bahdanau.core(inputs).numpy().astype("float64")
    expected = 0.25 * np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    of_text = np.array(labels) - expected
    np.testing.assert_allclose(of_text.max(-1), 0.75, atol=1e-5)
    is_word = np.array(weights) > 0
    following = np.array(inputs["target_ids"])[:, 1:]
    np.testing.assert_array_equal(
        of_text.argmax(-1)[:, :-1][is_word[:, 1:]], following[is_word[:, 1:]]
    )


@pytest.mark.parametrize(("share", "teacher"), [(-0.1, "x"), (1.5, "x"), (0.5, "")])
def test_a_share_needs_a_teacher(share, teacher):
    with pytest.raises(ValueError, match=r"`teacher_share`.*0 to 1.*Received: teacher_share="):
        dataclasses.replace(RECIPE, teacher=teacher, teacher_share=share)


def test_a_tokenizer_comes_from_one_model():
    with pytest.raises(ValueError, match="`teacher`.*Received: teacher='x', begin_with='y'"):
        dataclasses.replace(RECIPE, teacher="x", begin_with="y")


def test_shipped_recipes_name_teachers_that_are_there():
    for name, recipe in recipes.RECIPES.items():
        teacher = getattr(recipe, "teacher", "")
        assert not teacher or (teacher in recipes.RECIPES and teacher != name)
