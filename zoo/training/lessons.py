"""Sequence-level distillation: a model learns from the translations of a trained one."""

import json
import pathlib

import keras
import tensorflow as tf

from zoo.atomic import whole
from zoo.data.pairs import sources_and_references
from zoo.metrics.bleu import sentence_bleu

SOURCES_AT_ONCE = 2048


def with_translations(examples, teacher, path, num_beams=5):
    """Returns examples with one additional target: the translation of a trained model.

    If there is a target, it is the beam closest to a target by `sentence_bleu`, otherwise the best
    one.

    Paper: Kim and Rush 2016, Sequence-level knowledge distillation, section 3.3
    (https://arxiv.org/abs/1606.07947).

    Args:
        examples: Data set of sources with a vector of targets, which may be empty; or of pairs.
        teacher: A trained `Translator`.
        path: JSON lines file of the result. If it exists, it is read and nothing is translated.
        num_beams: Number of beams of the teacher.

    Returns:
        A data set of `(source, targets)`, a string and a vector of at least one string.
    """
    path = pathlib.Path(path)
    if not path.exists():
        with whole(path) as unfinished, open(unfinished, "w", encoding="utf-8") as file:
            for lesson in _translated(examples, teacher, num_beams):
                file.write(json.dumps(lesson, ensure_ascii=False) + "\n")
    with open(path, encoding="utf-8") as file:
        sources, targets = zip(*map(json.loads, file), strict=True)
    targets = tf.ragged.constant(targets, tf.string)
    return tf.data.Dataset.from_tensor_slices((list(sources), targets))


def _translated(examples, teacher, num_beams):
    """Yields each source and its targets."""
    sources, targets = sources_and_references(examples)
    progress = keras.utils.Progbar(len(sources), unit_name="sentence")
    for first in range(0, len(sources), SOURCES_AT_ONCE):
        places = slice(first, first + SOURCES_AT_ONCE)
        beams = teacher.translate(
            sources[places], sampler="beam", num_beams=num_beams, num_return_sequences=num_beams
        )
        for source, own, texts in zip(sources[places], targets[places], beams, strict=True):
            own = [own] if isinstance(own, str) else own
            yield source, [*own, _closest(texts, own)]
        progress.add(len(beams))


def _closest(texts, targets):
    if not targets:
        return texts[0]
    return max(texts, key=lambda text: max(sentence_bleu([text] * len(targets), targets)))
