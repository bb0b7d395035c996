"""The word error rate against the edit distance, and wrong arguments."""

import random

import pytest

from zoo.metrics import word_error_rate


def changes(first, second):
    """Returns the number of words to change, by Levenshtein's recursion."""
    row = list(range(len(second) + 1))
    for place, word in enumerate(first, start=1):
        before, row = row, [place]
        for other, known in enumerate(second, start=1):
            replaced = before[other - 1] + (word != known)
            row.append(min(before[other] + 1, row[-1] + 1, replaced))
    return row[-1]


def test_it_counts_the_fewest_changes():
    draw = random.Random(0)
    for _ in range(20):
        texts = [
            [" ".join(draw.choices("abcd", k=draw.randint(least, 8))) for _ in range(4)]
            for least in (0, 1)
        ]
        pairs = [(first.split(), second.split()) for first, second in zip(*texts, strict=True)]
        expected = sum(changes(*pair) for pair in pairs) / sum(len(words) for _, words in pairs)
        assert word_error_rate(*texts) == pytest.approx(expected)
    assert word_error_rate([" a  b\n"], ["a b"]) == 0.0


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ("a", ["a"], "`hypotheses` must be a list of `str`"),
        (["a"], [1], "`references` must be a list of `str`"),
        (["a", "b"], ["a"], "2 hypotheses and 1 references"),
        (["a"], [" "], "have no words"),
    ],
)
def test_wrong_arguments(hypotheses, references, message):
    with pytest.raises((TypeError, ValueError), match=message):
        word_error_rate(hypotheses, references)
