"""Labels and label numbers of inputs: what is accepted, and the error messages."""

import numpy as np
import pytest
import tensorflow as tf

from zoo.data.labels import labelled, multi_labelled, numbered

LABELS = ["dark", "light"]


def test_labels_are_names_or_numbers_of_any_kind():
    given = ["light", b"light", 1, np.int8(1), True, np.bool_(True), np.array(1)]
    numbers = labelled((["input"] * len(given), given), LABELS)
    assert [int(number) for _, number in numbers] == [1] * len(given)


@pytest.mark.parametrize("given", [None, 1.0, [0, 1], np.array([0.0, 1.0]), np.array([1])])
def test_what_is_no_label_is_told(given):
    message = r"must be one of \['dark', 'light'\], or its number.* at position 1\."
    with pytest.raises(ValueError, match=message):
        labelled((["input"] * 2, ["dark", given]), LABELS)


def test_rows_of_0_and_1_are_told_the_way_out():
    with pytest.raises(ValueError, match=r"array\(\[1., 0.\]\) at position 0.*argmax\(axis=-1\)"):
        labelled((["input"] * 2, np.eye(2)), LABELS)


def test_what_are_no_labels_of_an_input_is_told():
    with pytest.raises(
        ValueError, match=r"a list of some of .* Received: \[None, 1\] at position 0"
    ):
        multi_labelled((["input"], [[None, 1]]), LABELS)
    with pytest.raises(ValueError, match=r"Received: \[\{'dark': 0\}\] at position 0"):
        multi_labelled((["input"], [{LABELS[0]: 0}]), LABELS)


def test_data_sets_of_other_types_are_told():
    def data_set(of_inputs):
        return tf.data.Dataset.from_tensor_slices((["input"] * 2, of_inputs))

    assert [int(number) for _, number in labelled(data_set([True, False]), LABELS)] == [1, 0]
    with pytest.raises(ValueError, match=r"its number from 0\. Received: .* labels are float32"):
        labelled(data_set([0.0, 0.7]), LABELS)
    with pytest.raises(ValueError, match=r"not batched.* Turn rows of 0 and 1 .*tf\.argmax\(row"):
        labelled(data_set(np.eye(2)), LABELS)
    with pytest.raises(ValueError, match=r"Received: .* strings\. .*tf\.strings\.to_number"):
        numbered(data_set(["1", "2"]))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_data_set_of_numbers_that_are_not_finite_is_told(number):
    examples = numbered(tf.data.Dataset.from_tensor_slices((["input"] * 2, [1.0, number])))
    with pytest.raises(tf.errors.InvalidArgumentError, match="learns from finite numbers"):
        list(examples)


@pytest.mark.parametrize("given", [None, "1", float("nan"), [1.0], np.array([1.0])])
def test_what_is_no_number_is_told(given):
    with pytest.raises(ValueError, match="learns from finite numbers. Received: .* at position 1"):
        numbered((["input"] * 2, [1, given]))


@pytest.mark.parametrize(
    "read",
    [lambda x: labelled(x, LABELS), lambda x: multi_labelled(x, LABELS), numbered],
    ids=["labels", "several labels", "numbers"],
)
def test_batches_and_empty_lists_are_told(read):
    batches = tf.data.Dataset.from_tensor_slices((["input"] * 2, [[[0, 1]]] * 2)).batch(2)
    with pytest.raises(ValueError, match=r"into examples with dataset\.unbatch\(\)"):
        read(batches)
    with pytest.raises(ValueError, match="for each input. Received: two empty lists"):
        read(([], []))
    for examples in ([("input", 1)], iter([("input", 1)]), {"input": 1}):
        with pytest.raises(ValueError, match=r"of examples into two: x, y = zip\(\*examples\)\.$"):
            read(examples)


def test_a_table_is_not_a_list():
    """It would iterate over the names of its columns."""

    class DataFrame(dict):
        columns = property(dict.keys)

    table = DataFrame(text=["input"] * 2, label=LABELS)
    way_out = r"a table of type DataFrame\. Pass one of its columns.*to_numpy\(\)"
    with pytest.raises(ValueError, match=way_out):
        labelled((table, ["dark", "light"]), LABELS)
    with pytest.raises(ValueError, match=way_out):
        labelled((["text", "label"], table), LABELS)
    assert [int(number) for _, number in labelled((table["text"], table["label"]), LABELS)] == [
        0,
        1,
    ]
