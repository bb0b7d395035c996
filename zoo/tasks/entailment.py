"""Zero-shot classification: a model of textual entailment decides which labels a text has."""

import tensorflow as tf

from zoo.decoding.base import require
from zoo.readers.text.texts import as_texts

HYPOTHESIS = "This example is {}."


def hypotheses_of(labels, hypothesis):
    """Returns a list of the labels, and a list of a sentence about each.

    Args:
        labels: List of `str`.
        hypothesis: The sentence, with `{}` in place of the label.

    Raises:
        ValueError: If an argument has another form.
    """
    names, is_one = as_texts(labels)
    require(not is_one and names, "a list of labels, such as ['sport', 'food']", labels=labels)
    is_sentence = isinstance(hypothesis, str) and "{}" in hypothesis
    expected = f"a sentence with {{}} in place of the label, such as {HYPOTHESIS!r}"
    require(is_sentence, expected, hypothesis=hypothesis)
    return names, [hypothesis.replace("{}", name) for name in names]


def probabilities_of(logits, places, multi_label):
    """Returns how probable each of the new labels is.

    Args:
        logits: float32 `(texts, new labels, labels)`, of each text with each hypothesis.
        places: Result of `places_of_entailment`.
        multi_label: Whether the new labels are independent: the probability is then that of
            entailment against contradiction. Otherwise that of its hypothesis against the others,
            if there are any.

    Returns:
        float32 `(texts, new labels)`.
    """
    yes, no = places
    if multi_label or logits.shape[1] == 1:
        return tf.sigmoid(logits[..., yes] - logits[..., no]).numpy()
    return tf.nn.softmax(logits[..., yes]).numpy()


def places_of_entailment(names):
    """Returns the places of the labels for entailment and for its opposite.

    Args:
        names: The labels of the model.

    Raises:
        ValueError: If the model does not know entailment.
    """
    yes = _place(names, "entail")
    if yes is None:
        raise ValueError(
            "Other `labels` than those of the model need a model of textual entailment (natural "
            f"language inference), one of whose labels is 'entailment'. This one has {names!r}."
        )
    no = _place(names, "contradict", "not_entail", "not entail")
    if no is None:
        no = len(names) - 1 if yes == 0 else 0  # as in transformers
    return yes, no


def _place(names, *beginnings):
    found = (place for place, name in enumerate(names) if name.lower().startswith(beginnings))
    return next(found, None)
