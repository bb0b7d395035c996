"""Labels and label numbers of inputs: what is accepted, and the error messages."""

import numpy as np
import pytest

from zoo.data.labels import labelled, multi_labelled, numbered

LABELS = ["dark", "light"]


def test_labels_are_names_or_numbers_of_any_kind():
    given = ["light", b"light", 1, np.int8(1), True, np.bool_(True), np.array(1)]
    numbers = labelled((["input"] * len(given), given), LABELS)
    assert [int(number) for _, number in numbers] == [1] * len(given)


@pytest.mark.parametrize("given", [None, 1.0, [0, 1], np.array([0.0, 1.0]), np.array([1])])
def test_what_is_no_label_is_told(given):
    with pytest.raises(ValueError, match=r"must be one of \['dark', 'light'\], or its number"):
        labelled((["input"], [given]), LABELS)


def test_what_are_no_labels_of_an_input_is_told():
    with pytest.raises(ValueError, match=r"must be a list of some of .* Received: \[None, 1\]"):
        multi_labelled((["input"], [[None, 1]]), LABELS)


@pytest.mark.parametrize("given", [None, "1", float("nan"), [1.0], np.array([1.0])])
def test_what_is_no_number_is_told(given):
    with pytest.raises(ValueError, match="learns from finite numbers. Received: "):
        numbered((["input"], [given]))
