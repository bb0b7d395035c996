"""Questions with contexts and answers: training data of question answering."""

from numbers import Integral

import tensorflow as tf

from zoo.data.received import received
from zoo.readers.text.texts import entries_of


def answer_spans(pairs, answers):
    """Returns a data set of (question and context, start and end of the answer).

    Args:
        pairs: List of tuples (question, context).
        answers: For each pair a `str`, a tuple (answer, start) of a `str` and the index of its
            first character, or a list of these, of which only the first is used. Without a start,
            it is the first occurrence. An empty answer or list has start and end 0.

    Raises:
        ValueError: If the numbers differ, an answer has another form, or a context does not contain
            its answer.

    Example:

    >>> for pair, span in answer_spans([("Who?", "It is Anna.")], ["Anna"]):
    ...     print(span.numpy().tolist())
    [6, 10]
    """
    pairs, answers = list(pairs), entries_of(answers)
    if not pairs or len(pairs) != len(answers):
        raise ValueError(
            "The model learns from an answer for each question. Received: "
            f"{len(pairs)} questions and {len(answers)} answers."
        )
    spans = [_span(context, answer) for (_, context), answer in zip(pairs, answers, strict=True)]
    return tf.data.Dataset.from_tensor_slices((tf.constant(pairs, tf.string), spans))


def spans_of_examples(examples):
    """Does the same as `answer_spans`, for a data set.

    Args:
        examples: Data set of ((question, context), answer), scalar strings.

    Raises:
        ValueError: If it is not such a data set. A context that does not contain its answer raises
            an error when the data set is read.
    """
    spec = getattr(examples, "element_spec", None)
    leaves = tf.nest.flatten(spec)
    are_texts = all(getattr(each, "dtype", None) == tf.string for each in leaves)
    if not are_texts or [each.shape.rank for each in leaves] != [0, 0, 0] or len(spec) != 2:
        came = received(examples, "x, y", pair="((each[...], each[...]), each[...])")
        raise ValueError(
            "The model learns from a tf.data.Dataset of ((question, context), answer), scalar "
            f"strings, or from x=list of pairs, y=list of answers. Received: {came}."
        )

    def find(pair, answer):
        pair = tf.stack(pair)
        answer = tf.strings.strip(answer)
        parts = tf.strings.split(pair[1], answer)  # none of white space, if the answer is empty
        before = tf.concat([parts, [""]], axis=0)[0]
        is_there = (answer == "") | (before != pair[1])
        told = ["The context does not hold the answer", answer, "Context:", pair[1]]
        with tf.control_dependencies([tf.debugging.Assert(is_there, told)]):
            start = tf.where(answer == "", 0, tf.strings.length(before, "UTF8_CHAR"))
        return pair, tf.stack([start, start + tf.strings.length(answer, "UTF8_CHAR")])

    return examples.map(find, num_parallel_calls=tf.data.AUTOTUNE)


def texts_of(answer):
    """Returns the texts of an answer as `answer_spans` takes it, a list.

    Example:

    >>> texts_of([("Anna", 6), "she"])
    ['Anna', 'she']
    """
    answers = answer if isinstance(answer, list) else [answer]
    return [each if isinstance(each, str) else each[0] for each in answers]


def _is_placed(answer):
    """Whether an answer is a tuple (answer, start)."""
    return isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Integral)


def _span(context, answer):
    """Returns the start and end of an answer, without the white space around it."""
    if isinstance(answer, list):
        answer = answer[0] if answer else ""
    text, start = answer if _is_placed(answer) else (answer, None)
    if not isinstance(text, str):
        is_squad = isinstance(answer, dict)
        way_out = " Take list(zip(answer['text'], answer['answer_start']))." if is_squad else ""
        raise ValueError(
            "An answer must be a `str`, a tuple (answer, start) of a `str` and the index of its "
            f"first character, or a list of these. Received: {answer!r}.{way_out}"
        )
    if not text.strip():
        return [0, 0]
    start = context.find(text) if start is None else start
    if start < 0 or context[start : start + len(text)] != text:
        raise ValueError(
            "An answer must be a part of its context, or a tuple (answer, start). Received: "
            f"{answer!r}, context={context!r}."
        )
    start += len(text) - len(text.lstrip())
    return [start, start + len(text.strip())]
