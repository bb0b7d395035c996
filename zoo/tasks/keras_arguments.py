"""Arguments of the methods of `keras.Model` that a task refuses, and what to do instead."""

import os
import reprlib
from numbers import Number

import keras
import tensorflow as tf

_WEIGH = (
    "Weigh the batches, which go to fit as they are: model.batches(x, y, shuffle=True).map(lambda "
    "inputs, labels, weights: (inputs, labels, weights * ...))"
)
INSTEAD = {  # alternatives to arguments that Keras takes with arrays only, not with raw data
    "validation_split": "Split the data: fit(x[:n], y[:n], validation_data=(x[n:], y[n:]))",
    "class_weight": _WEIGH,
    "sample_weight": _WEIGH,
}

# Functions whose `from_logits` is False by default.
OF_PROBABILITIES = [
    getattr(keras.losses, name) for name in dir(keras.losses) if name.endswith("crossentropy")
]


def refuse_what_needs_arrays(validation_split=0.0, **kwargs):
    """Raises a `ValueError` for arguments of `fit` and `evaluate` that raw data do not go with."""
    for name, value in {**kwargs, "validation_split": validation_split or None}.items():
        if name in INSTEAD and value is not None:
            raise ValueError(
                f"`{name}` is supported for arrays only, not for raw data. {INSTEAD[name]}. "
                f"Received: {name}={reprlib.repr(value)}."
            )


def require_loss_of_logits(loss):
    """Raises a `ValueError` for a cross-entropy that takes the model's logits for probabilities."""
    for each in keras.tree.flatten(loss):
        each = keras.losses.get(each) if isinstance(each, str) else each  # such as "bce"
        if each not in OF_PROBABILITIES and getattr(each, "from_logits", True):
            continue
        raise ValueError(
            "The model returns logits, so `loss` must be a cross-entropy of logits, such as "
            "keras.losses.SparseCategoricalCrossentropy(from_logits=True), or None for the usual "
            f"loss of the task. Received: loss={loss!r}."
        )


def require_numbers(inputs, task):
    """Raises a `ValueError` for raw inputs, which are not a batch of numbers yet.

    Args:
        inputs: Inputs of the core, or their specs.
        task: The `Task`, whose core may take images, and whose method takes raw inputs.
    """
    is_list = isinstance(inputs, list)  # of which no core takes the entries
    for leaf in keras.tree.flatten(inputs):
        is_raw = _is_text(leaf) or (is_list and not isinstance(leaf, Number))
        if not is_raw and (task.takes_images or not _is_image(leaf)):
            continue
        is_array = hasattr(leaf, "shape")
        received = f"shape {leaf.shape}, {leaf.dtype}" if is_array else repr(leaf)
        raise ValueError(
            f"{type(task).__name__} takes batches of numbers here. Received: {received}. For "
            f"texts, images or sounds call `{task.task_method}`; to learn from them, `fit`."
        )


def require_rows(x):
    """Raises a `ValueError` for arrays that cannot be cut into batches."""
    arrays = x if isinstance(x, dict) else {"`x`": x}
    has_rows = {name: len(getattr(each, "shape", ())) > 0 for name, each in arrays.items()}
    rows = {name: len(each) for name, each in arrays.items() if has_rows[name] or each == []}
    told = ", ".join(f"{number} of {name}" for name, number in rows.items())
    if len({*rows.values()}) > 1:
        raise ValueError(
            "`x` of predict is cut into batches, so its arrays need equal numbers of rows. "
            f"Received: {told}. To compute all of it at once, call the model: model(x)."
        )
    if 0 in rows.values():
        raise ValueError(f"`x` of predict must have at least one row. Received: {told}.")


def _is_text(leaf):
    if isinstance(leaf, str | bytes | os.PathLike):
        return True
    try:
        return hasattr(leaf, "dtype") and tf.as_dtype(leaf.dtype) == tf.string
    except TypeError:  # a type of pandas alone, such as its strings
        return True


def _is_image(leaf):
    return hasattr(leaf, "shape") and tf.TensorShape(leaf.shape).rank == 4
