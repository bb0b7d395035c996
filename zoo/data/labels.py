"""Inputs with labels or numbers: training data of classifiers and regression models."""

import reprlib

import numpy as np
import tensorflow as tf

from zoo.readers.text.texts import entries_of


def label_names(labels):
    """Returns labels as a list; raises a `ValueError` unless they are different names in order."""
    why = ""
    if isinstance(labels, set | frozenset):
        why = " A set has no order: pass sorted(labels)."
    elif isinstance(labels, dict):
        why = " Of a dictionary from names to numbers, pass sorted(labels, key=labels.get)."
    is_list = hasattr(labels, "__len__") and not isinstance(labels, str) and not why
    names = list(labels) if is_list else []
    is_names = all(isinstance(each, str) and each for each in names)
    if not names or not is_names or len(set(names)) != len(names):
        raise ValueError(
            "`labels` must be a list of different names, each a str that is not empty, such as "
            f"['cat', 'dog']. Received: labels={labels!r}.{why}"
        )
    return names


def require_labels(labels, number):
    """Returns labels as a list; raises a `ValueError` unless they are `number` different names.

    Example:

    >>> require_labels(("cat", "dog"), 2)
    ['cat', 'dog']
    """
    labels = label_names(labels)
    if len(labels) != number:
        raise ValueError(
            "`labels` must be a list of different names, one for each logit of the model "
            f"({number}). Received: labels={labels!r}."
        )
    return labels


def label_weights(class_weight, labels):
    """Returns float32 `(labels,)`, the weight of each label, 1 where none is given.

    Args:
        class_weight: Dictionary from labels, their names or indices, to weights.
        labels: List of the names of labels.

    Raises:
        ValueError: If a label is unknown or has two weights, or a weight is negative or not a
            finite number.

    Example:

    >>> label_weights({"dog": 2.0}, ["cat", "dog"]).tolist()
    [1.0, 2.0]
    """
    if not isinstance(class_weight, dict):
        raise ValueError(
            "`class_weight` must be a dictionary from labels to weights. Received: "
            f"{class_weight!r}."
        )
    weights, names = np.ones(len(labels), "float32"), {}
    for label, weight in class_weight.items():
        if not _is_number(weight, "iuf") or not np.isfinite(weight) or weight < 0:
            raise ValueError(
                "Every weight in `class_weight` must be a finite number, at least 0. Received: "
                f"{label!r}: {weight!r}."
            )
        number = _number(label, labels, "in `class_weight`")
        if number in names:
            raise ValueError(
                "`class_weight` must have one weight for a label. Received two for "
                f"{labels[number]!r}: as {names[number]!r} and as {label!r}."
            )
        names[number] = label
        weights[number] = weight
    return weights


def sample_weights(weights, number):
    """Returns float32 `(number,)`, the weight of each input.

    Raises:
        ValueError: If these are not as many finite numbers, at least 0.

    Example:

    >>> sample_weights([1, 0.5], 2).tolist()
    [1.0, 0.5]
    """
    array = np.asarray(weights)
    is_right = array.shape == (number,) and array.dtype.kind in "iuf"
    if not is_right or not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError(
            f"`sample_weight` must be {number} finite numbers, one for each input, at least 0. "
            f"Received: {reprlib.repr(weights)}."
        )
    return array.astype("float32")


def weighed(labels):
    """Returns labels, and the weight of each input.

    Args:
        labels: The labels of a batch, or a pair of these and of the `sample_weight` of each.
    """
    return labels if isinstance(labels, tuple) else (labels, tf.ones(tf.shape(labels)[:1]))


def labelled(examples, labels):
    """Returns a data set of (input, index of its label).

    Args:
        examples: A pair of a list of inputs and a list of labels, or a data set of (input, label).
            An input is one string, or several.
        labels: List of the names of labels. Labels of examples are names or their indices.

    Raises:
        ValueError: If `examples` has another form, or an example has a label not in `labels`.

    Example:

    >>> pairs = labelled((["Miau", "Wuff"], ["cat", "dog"]), ["dog", "cat"])
    >>> [int(label) for _, label in pairs]
    [1, 0]
    """
    if isinstance(examples, tuple):

        def number_of(label, position):
            return _number(label, labels, f"at position {position}")

        return _of_lists(examples, number_of, "a label")
    _require_rank(
        examples,
        0,
        "(input, label)",
        "x=list of inputs, y=list of labels",
        " Turn rows of 0 and 1 into numbers with dataset.map(lambda each, row: (each, "
        "tf.argmax(row))).",
    )
    of_labels = examples.element_spec[1].dtype
    if of_labels.is_floating:
        raise ValueError(
            f"Every label must be one of {labels}, or its number from 0. Received: a data set "
            f"whose labels are {of_labels.name}. Turn them into integers: dataset.map(lambda "
            'each, label: (each, tf.cast(label, "int32"))).'
        )
    names, count = tf.constant(labels), len(labels)

    def number(each, label):
        if label.dtype == tf.string:
            is_label = names == label
            known, place = tf.reduce_any(is_label), tf.argmax(tf.cast(is_label, tf.int32))
        else:
            place = tf.cast(label, tf.int64)
            known = (place >= 0) & (place < count)
        with tf.control_dependencies([_assert_known(known, label, names)]):
            return each, tf.cast(place, tf.int32)

    return examples.map(number, num_parallel_calls=tf.data.AUTOTUNE)


def multi_labelled(examples, labels):
    """Returns a data set of (input, float32 `(labels,)`): 1 for its labels, 0 for others.

    Args:
        examples: As for `labelled`. The labels of an example are a list of names, or a row of 0 and
            1, one for each label.
        labels: List of the names of labels.

    Raises:
        ValueError: If `examples` has another form, or an example has a label not in `labels`.

    Example:

    >>> pairs = multi_labelled((["Miau!", "Hm"], [["cat", "loud"], []]), ["cat", "dog", "loud"])
    >>> [row.numpy().tolist() for _, row in pairs]
    [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    if isinstance(examples, tuple):

        def row_of(given, position):
            return _row(given, labels, position)

        return _of_lists(examples, row_of, "a list of labels")
    _require_rank(
        examples, 1, "(input, names of its labels)", "x=list of inputs, y=list of lists of labels"
    )
    names, count = tf.constant(labels), len(labels)

    def row(each, given):
        if given.dtype == tf.string:
            is_label = given[:, None] == names  # (given, labels)
            known = tf.reduce_all(tf.reduce_any(is_label, axis=1))
            found = tf.cast(tf.reduce_any(is_label, axis=0), tf.float32)
        else:
            found = tf.cast(given, tf.float32)
            known = (tf.size(found) == count) & tf.reduce_all((found == 0.0) | (found == 1.0))
        with tf.control_dependencies([_assert_known(known, given, names)]):
            return each, tf.ensure_shape(found, [count])

    return examples.map(row, num_parallel_calls=tf.data.AUTOTUNE)


def numbered(examples):
    """Returns a data set of (input, float32 `(1,)`).

    Args:
        examples: A pair of a list of inputs and a list of numbers, or a data set of (input,
            number).

    Raises:
        ValueError: If `examples` has another form.

    Example:

    >>> [number.numpy().tolist() for _, number in numbered((["so", "so"], [1, 2.5]))]
    [[1.0], [2.5]]
    """
    if isinstance(examples, tuple):
        return _of_lists(examples, _as_number, "a number")
    _require_rank(examples, 0, "(input, number)", "x=list of inputs, y=list of numbers")
    if examples.element_spec[1].dtype == tf.string:
        raise ValueError(
            "The model learns from finite numbers. Received: a data set whose numbers are strings. "
            "Read them: dataset.map(lambda each, text: (each, tf.strings.to_number(text)))."
        )

    def as_finite(each, number):
        number = tf.cast(number, tf.float32)
        told = ["The model learns from finite numbers. Received", number]
        with tf.control_dependencies([tf.debugging.Assert(tf.math.is_finite(number), told)]):
            return each, number[None]

    return examples.map(as_finite, num_parallel_calls=tf.data.AUTOTUNE)


def with_weights(examples, make):
    """Returns what `labelled` or another function makes of examples that may have weights.

    Args:
        examples: What `make` takes; or a data set of (input, label, weight), of which it gets the
            first two.
        make: Function of examples that returns a data set of (input, label).

    Returns:
        That data set; if there are weights, each label is a pair of a label and its weight.

    Example:

    >>> examples = tf.data.Dataset.from_tensor_slices((["so", "so"], [1, 3], [0.5, 2.0]))
    >>> [float(weight) for _, (_, weight) in with_weights(examples, numbered)]
    [0.5, 2.0]
    """
    spec = getattr(examples, "element_spec", None)
    are_weighed = isinstance(spec, tuple) and len(spec) == 3 and spec[2].shape.rank == 0
    if not are_weighed or not (spec[2].dtype.is_floating or spec[2].dtype.is_integer):
        return make(examples)

    def weigh(each, label):
        each, weight = each
        weight = tf.cast(weight, tf.float32)
        is_right = tf.math.is_finite(weight) & (weight >= 0.0)
        told = ["A weight of a data set must be a finite number, at least 0. Received", weight]
        with tf.control_dependencies([tf.debugging.Assert(is_right, told)]):
            return each, (label, tf.identity(weight))

    return make(examples.map(lambda each, label, weight: ((each, weight), label))).map(weigh)


def _of_lists(examples, read, what):
    """Returns a data set of inputs, each with what `read` makes of its label and its position."""
    inputs, of_inputs = map(entries_of, examples)
    if not inputs or len(inputs) != len(of_inputs):
        are_empty = not inputs and not of_inputs
        received = f"{len(inputs)} inputs and {len(of_inputs)} of those"
        raise ValueError(
            f"The model learns from {what} for each input. Received: "
            f"{'two empty lists' if are_empty else received}."
        )
    given = [read(each, position) for position, each in enumerate(of_inputs)]
    return tf.data.Dataset.from_tensor_slices((tf.constant(inputs, tf.string), given))


def _require_rank(examples, rank, what, as_lists, way_out=""):
    spec = getattr(examples, "element_spec", None)
    if isinstance(spec, tuple) and len(spec) == 2 and spec[1].shape.rank == rank:
        return
    if spec is None:
        received = type(examples)
        way_out = "Turn a list or a generator of examples into two: x, y = zip(*examples)."
    else:
        received = f"a data set of {spec}"
        way_out = f"Turn batches into examples with dataset.unbatch().{way_out}"
    raise ValueError(
        f"The model learns from a tf.data.Dataset of {what}, not batched, or from {as_lists}. "
        f"Received: {received}. {way_out}"
    )


def _assert_known(known, given, names):
    return tf.debugging.Assert(known, ["Unknown label", given, "The model has", names])


def _number(label, labels, where):
    """Returns the index of a label; `where` it was found is told if there is none."""
    if isinstance(label, str | bytes):
        label = label.decode() if isinstance(label, bytes) else label
        if label in labels:
            return labels.index(label)
    elif _is_number(label, "biu") and 0 <= label < len(labels):
        return int(label)
    is_row = isinstance(label, list | tuple | np.ndarray)
    way_out = " Turn rows of 0 and 1 into numbers with rows.argmax(axis=-1)." if is_row else ""
    raise ValueError(
        f"Every label must be one of {labels}, or its number from 0. Received: {label!r} "
        f"{where}.{way_out}"
    )


def _row(given, labels, position):
    """Returns float32 `(labels,)` of 0 and 1 for a list of names or such a row."""
    is_list = hasattr(given, "__iter__") and not isinstance(given, str | bytes | dict)
    given = list(given) if is_list else [given]
    names = [each.decode() if isinstance(each, bytes) else each for each in given]
    if all(isinstance(each, str) and each in labels for each in names):
        return np.array([label in names for label in labels], "float32")
    are_numbers = all(_is_number(each, "biuf") for each in names)
    if are_numbers and len(names) == len(labels) and set(map(float, names)) <= {0.0, 1.0}:
        return np.array(names, "float32")
    raise ValueError(
        f"The labels of an input must be a list of some of {labels}, or {len(labels)} numbers, 1 "
        f"for those that it has and 0 for the others. Received: {given!r} at position {position}."
    )


def _as_number(number, position):
    if not _is_number(number, "biuf") or not np.isfinite(number):
        raise ValueError(
            f"The model learns from finite numbers. Received: {number!r} at position {position}."
        )
    return np.array([number], "float32")


def _is_number(given, kinds):
    """Whether something is a single number of these NumPy kinds."""
    return np.ndim(given) == 0 and np.asarray(given).dtype.kind in kinds
