"""Scores of answers: the rules of SQuAD's script, and wrong arguments."""

import pytest

from zoo.metrics import answer_scores
from zoo.tasks.answering import Answer


@pytest.mark.parametrize(
    ("answer", "references", "exact_match", "f1"),
    [
        ("The Eiffel Tower!", ["eiffel  tower"], 100.0, 100.0),
        ("tower of Paris", ["the tower", "Paris tower"], 0.0, 80.0),  # 2 · 2 / (3 + 2)
        ("a cat", ["an  cat, the"], 100.0, 100.0),
        ("so so", ["so"], 0.0, 200 / 3),
        ("", [], 100.0, 100.0),
        ("", ["", "the"], 100.0, 100.0),
        ("cat", [], 0.0, 0.0),
        ("", ["cat"], 0.0, 0.0),
    ],
)
def test_the_best_reference_counts(answer, references, exact_match, f1):
    assert answer_scores([answer], [references]) == pytest.approx((exact_match, f1))


def test_mistakes():
    with pytest.raises(ValueError, match="Received: 0 answers and 0 references"):
        answer_scores([], [])
    with pytest.raises(ValueError, match="Received: 1 answers and 2 references"):
        answer_scores(["cat"], [["cat"], ["dog"]])
    with pytest.raises(TypeError, match="a list of `str`. Received: 'Rome'. Put it into a list"):
        answer_scores(["R"], ["Rome"])
    with pytest.raises(TypeError, match=r"`str`. Received: \[1\].$"):
        answer_scores(["R"], [[1]])
    with pytest.raises(TypeError, match=r"Received: {'text': \['R'\].*Pass references\['text'\]"):
        answer_scores(["R"], [{"text": ["R"], "answer_start": [0]}])
    with pytest.raises(TypeError, match=r"must be a `str`. Received: Answer.*Pass \[each.text for"):
        answer_scores([Answer("R", 0.5, 0, 1)], [["R"]])
