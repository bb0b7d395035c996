"""A translator that learns from others: their jobs, their translations, and what is kept."""

import json
import shutil

import numpy as np
import pytest

from zoo.data.pairs import sources_and_references
from zoo.training import ensembles, translation
from zoo.training.translation import TranslationRecipe

RECIPE = TranslationRecipe(
    "transformer_nmt",
    overrides={"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16, "dropout": 0.0},
    ensemble=2,
    teacher_share=0.5,
    vocabulary_size=300,
    epochs=2,
    batch_size=8,
    learning_rate=0.01,
    warmup_steps=1,
    label_smoothing=0.0,
    average_momentum=0.5,
    dtype="float32",
    length_penalties=(1.0,),
)


def test_a_student_learns_from_the_texts_and_the_labels_of_an_ensemble(
    dataset, tmp_path, monkeypatch
):
    asked = []

    def with_translations(examples, teachers, path):
        asked.append((examples, teachers, path))
        return examples

    monkeypatch.setattr(ensembles, "with_translations", with_translations)
    monkeypatch.setattr(translation, "best_sampler", lambda *given: given[-1][0])
    trained = RECIPE.train(dataset, dataset, tmp_path)
    ((examples, teachers, path),) = asked
    assert (examples, path) == (dataset, tmp_path / "lessons.jsonl")
    assert len(teachers) == 2
    first, second = (each.get_weights()[0] for each in teachers)
    assert (first != second).any()

    jobs = [
        json.loads((tmp_path / name / "job.json").read_text())
        for name in ("teacher_1", "teacher_2", "learning")
    ]
    assert [each["seed"] for each in jobs] == [2, 3, 1]
    assert [each["label_smoothing"] for each in jobs] == [0.1, 0.1, 0.0]
    assert [len(each["teachers"]) for each in jobs] == [0, 0, 2]
    assert jobs[2]["teacher_share"] == 0.5
    sources, _ = sources_and_references(dataset)
    with np.load(tmp_path / "learning" / "arrays.npz") as arrays:
        assert arrays["pairs_of_pass"].tolist() == [len(sources)] * 2  # an epoch each
        starts = np.cumsum(arrays["source_lengths"] + arrays["target_lengths"])
        firsts = [
            trained.tokenizer.detokenize([arrays["tokens"][begin : begin + size]])[0]
            for begin, size in zip([0, *starts], arrays["source_lengths"], strict=False)
        ]
    assert {text.numpy().decode() for text in firsts} == set(sources)

    monkeypatch.setattr(ensembles, "with_translations", None)
    for name in ("teacher_1", "teacher_2"):  # they are not missed when all is done
        shutil.rmtree(tmp_path / name)
    again = RECIPE.train(dataset, dataset, tmp_path)
    np.testing.assert_array_equal(again.get_weights()[0], trained.get_weights()[0])


@pytest.mark.parametrize("other", ["teacher", "begin_with"])
def test_an_ensemble_stands_alone(other):
    with pytest.raises(ValueError, match="or an `ensemble`, which learns one.*ensemble=1"):
        TranslationRecipe("transformer_nmt", ensemble=1, **{other: "x"})
