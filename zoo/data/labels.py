"""Inputs with labels: what a classifier learns from."""

import tensorflow as tf


def require_labels(labels, number):
    """Returns labels as a list, or raises a `ValueError` unless they are `number` different names.

    Example:

    >>> require_labels(("cat", "dog"), 2)
    ['cat', 'dog']
    """
    labels = list(labels)
    is_names = all(isinstance(each, str) and each for each in labels)
    if not is_names or not labels or len(set(labels)) != len(labels) or len(labels) != number:
        raise ValueError(
            "`labels` must be a list of different names, one for each logit of the model "
            f"({number}). Received: labels={labels!r}."
        )
    return labels


def labelled(examples, labels):
    """Returns a data set of (input, number of a label).

    Args:
        examples: A pair of a list of strings and a list of labels, or a data set of (input, label).
        labels: List of the names of labels. Labels of examples are names or their numbers.

    Raises:
        ValueError: If they are no such pairs, or an example has another label.

    Example:

    >>> pairs = labelled((["Miau", "Wuff"], ["cat", "dog"]), ["dog", "cat"])
    >>> [int(label) for _, label in pairs]
    [1, 0]
    """
    if isinstance(examples, tuple):
        inputs, of_inputs = map(list, examples)
        if not inputs or len(inputs) != len(of_inputs):
            raise ValueError(
                "A classifier learns from a label for each input. Received: "
                f"{len(inputs)} inputs and {len(of_inputs)} labels."
            )
        numbers = [_number(label, labels) for label in of_inputs]
        return tf.data.Dataset.from_tensor_slices((tf.constant(inputs, tf.string), numbers))
    spec = getattr(examples, "element_spec", None)
    if not isinstance(spec, tuple) or len(spec) != 2 or spec[1].shape.rank != 0:
        raise ValueError(
            "A classifier learns from a tf.data.Dataset of (input, label), not batched, or from "
            "x=list of inputs, y=list of labels. Received: "
            f"{type(examples) if spec is None else 'a data set of ' + str(spec)}."
        )
    names, count = tf.constant(labels), len(labels)

    def number(each, label):
        if label.dtype == tf.string:
            is_label = names == label
            known, place = tf.reduce_any(is_label), tf.argmax(tf.cast(is_label, tf.int32))
        else:
            place = tf.cast(label, tf.int64)
            known = (place >= 0) & (place < count)
        what = ["Unknown label", label, "The model has", names]
        with tf.control_dependencies([tf.debugging.Assert(known, what)]):
            return each, tf.cast(place, tf.int32)

    return examples.map(number, num_parallel_calls=tf.data.AUTOTUNE)


def _number(label, labels):
    if isinstance(label, str | bytes):
        label = label.decode() if isinstance(label, bytes) else label
        if label in labels:
            return labels.index(label)
    elif not isinstance(label, float) and 0 <= int(label) < len(labels):
        return int(label)
    raise ValueError(
        f"Every label must be one of {labels}, or its number from 0. Received: {label!r}."
    )
