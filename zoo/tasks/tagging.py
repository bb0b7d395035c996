"""The task of tagging: texts in, a label for each word out."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple, overload

import keras
import tensorflow as tf

from zoo.data.batching import is_batches
from zoo.data.labels import require_labels
from zoo.data.received import received
from zoo.readers.text.texts import entries_of
from zoo.readers.text.word_reader import WordReader
from zoo.tasks.encoding import EncodingTask

POSITIONS = ("B", "I", "E", "L", "S", "U")  # of a word in its entity, in front of the kind
BEGINNINGS = ("B", "S", "U")
EXPECTED = (
    "A tagger learns from lists, with a label for each word: x=[['Anna', 'left']], y=[['P', 'O']]; "
    "or from a tf.data.Dataset of (words, labels), two vectors, not batched."
)


class Tag(NamedTuple):
    """A word and its label.

    Attributes:
        word: A `str`.
        label: A `str`; empty for a word that the tokenizer drops, such as a control character.
        probability: A `float`.
    """

    word: str
    label: str
    probability: float


@keras.saving.register_keras_serializable(package="zoo")
class Tagger(EncodingTask):
    """A tagging model, which labels each word, together with its preprocessing.

    A word is a run of letters and digits, or one other character; texts that are split already can
    be passed as lists of words. A word has the label of its first token.

    Args:
        core: A model that returns logits `(batch, length, labels)`, such as
            `zoo.models.text_encoder.TextEncoder(head="tags")`.
        tokenizer: The tokenizer.
        labels: List of the names of the labels.
    """

    task_name = "tagging"
    task_method = "tag"

    def __init__(self, core, tokenizer, labels=(), **kwargs):
        super().__init__(core, tokenizer, WordReader(tokenizer, core.config.max_length), **kwargs)
        self.labels = require_labels(labels, core.config.num_labels)

    @classmethod
    def decides(cls, tokenizer=None, labels=()):
        return {**super().decides(tokenizer), "num_labels": len(labels)}

    @property
    def settings(self):
        return {"labels": self.labels}

    # ----------------------------------------------------------------------------------- training

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0):
        """Turns texts with labels into batches for Keras.

        Args:
            x: A list of texts as `tag` takes them, preferably lists of words; or a finite
                `tf.data.Dataset` of (words, labels), a vector of each, which is read at once. With
                `steps_per_epoch`, `fit` repeats it.
            y: If `x` is a list: for each text the list of the labels of its words, names or
                indices.
            batch_size: Number of texts per batch. Defaults to 64.
            shuffle: Whether to shuffle them.
            seed: Seed of the shuffling.

        Returns:
            A data set of `(inputs, labels, weights)`; each word counts once.

        Raises:
            ValueError: If there are no texts, the numbers of labels and words of a text differ, a
                label is unknown, or a data set has another form.
        """
        if isinstance(x, tf.data.Dataset):
            x, y = _lists_of(x)
        requests, _ = self.reader.requests(x)
        numbers = self._numbers(requests, y)
        examples = tf.data.Dataset.from_tensor_slices((requests, numbers))
        examples = examples.shuffle(len(requests), seed=seed) if shuffle else examples

        def read(requests, numbers):
            token_ids, _, places = self.reader.read_words(requests)
            shape = tf.shape(token_ids)  # batch, chunks, length
            numbers = numbers.to_tensor(0, shape=tf.shape(places, tf.int64))
            rows = tf.broadcast_to(tf.range(shape[0])[:, None], tf.shape(places))
            at = tf.stack([rows, places], axis=-1)[places >= 0]
            of_text = shape[0], shape[1] * shape[2]
            labels = tf.scatter_nd(at, numbers[places >= 0], of_text)
            weights = tf.scatter_nd(at, tf.ones(tf.shape(at)[:1]), of_text)
            by_chunk = -1, shape[2]  # each chunk is a row
            return tuple(tf.reshape(each, by_chunk) for each in (token_ids, labels, weights))

        batches = examples.ragged_batch(batch_size or self.usual_batch_size)
        return batches.map(read, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def _is_read_by_step(self, x):
        return is_batches(x)

    def _numbers(self, requests, labels):
        labels = [] if labels is None else entries_of(labels)
        if not requests or len(labels) != len(requests):
            raise ValueError(
                f"{EXPECTED} Received: {len(requests)} texts and labels for {len(labels)}."
            )
        words = self.reader.read_words(tf.constant(requests)).words.numpy()
        counts = [sum(word != b"" for word in row) for row in words]
        for position, (of_text, count) in enumerate(zip(labels, counts, strict=True)):
            if not hasattr(of_text, "__len__") or len(of_text) != count:
                raise ValueError(
                    f"{EXPECTED} Received: {of_text!r} for {count} words at position {position}."
                )
        known = {label: number for number, label in enumerate(self.labels)}
        known |= {number: number for number in range(len(self.labels))}
        given = (each for row in labels for each in row)
        unknown = sorted({str(x) for x in given if not isinstance(x, Hashable) or x not in known})
        if unknown:
            raise ValueError(
                f"Every label must be one of {self.labels}, or its index. Received: "
                f"{', '.join(unknown)}."
            )
        return tf.ragged.constant([[known[each] for each in row] for row in labels], tf.int32)

    # ------------------------------------------------------------------------------------ tagging

    @overload
    def tag(self, texts: str, batch_size: int = 32) -> list[Tag]: ...
    @overload
    def tag(self, texts: Iterable[str | list[str]], batch_size: int = 32) -> list[list[Tag]]: ...
    def tag(self, texts, batch_size=32):
        """Returns the label of every word.

        Args:
            texts: A `str`, or a list whose entries are each a `str` or a list of words.
            batch_size: Number of texts to process at a time.

        Returns:
            A list of `Tag`s for a `str`, a list of such lists for a list.
            `zoo.tasks.tagging.entities` joins those that belong together.

        Raises:
            ValueError: If an input is neither a text nor a list of words.
        """
        requests, is_one = self.reader.requests(texts)
        tagged = [self._tags(row) for row in self._answers(requests, batch_size)]
        return tagged[0] if is_one else tagged

    def _tags(self, row):
        rows = zip(row["words"], row["labels"], row["probabilities"], strict=True)
        return [
            Tag(word.decode().strip(), label.decode(), float(probability))
            for word, label, probability in rows
            if word
        ]

    def respond(self, requests):
        """Turns requests into labels, in the graph.

        Args:
            requests: Strings `(batch,)`, words separated by
                `zoo.readers.text.word_reader.SEPARATOR`.

        Returns:
            Dictionary of `words` and `labels`, strings `(batch, words)`, empty after the last word
            of a text, and `probabilities` of the labels, float32 `(batch, words)`.
        """
        token_ids, words, places = self.reader.read_words(requests)
        logits = self.core(token_ids, training=False)  # (batch * chunks, length, labels)
        logits = tf.reshape(logits, (tf.shape(token_ids)[0], -1, len(self.labels)))
        logits = tf.gather(logits, tf.maximum(places, 0), batch_dims=1)
        labels = tf.gather(tf.constant(self.labels), tf.argmax(logits, axis=-1))
        best = tf.reduce_max(tf.nn.softmax(logits), axis=-1)
        return {
            "words": words,
            "labels": tf.where(places >= 0, labels, ""),
            "probabilities": tf.where(places >= 0, best, 0.0),
        }

    def endpoints(self):
        def serving_default(texts):
            return self.respond(self.reader.words_of(texts))

        return {"serving_default": self._endpoint(serving_default)}


def _lists_of(examples):
    """Returns the texts and the labels of a data set, two lists."""
    spec = examples.element_spec
    specs = spec if isinstance(spec, tuple) and len(spec) == 2 else (None, None)
    types = [getattr(each, "dtype", None) for each in specs]
    ranks = [each.shape.rank for each in specs] if None not in types else None
    are_words = types[0] == tf.string and ranks in ([0, 1], [1, 1])
    if not are_words or not (types[1] == tf.string or types[1].is_integer):
        raise ValueError(f"{EXPECTED} Received: {received(examples, 'x, y')}.")
    if examples.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "`x` must be a finite data set, since a tagger reads it at once. Received: an endless "
            "one. Leave out repeat(): with `steps_per_epoch`, fit repeats it."
        )
    texts, labels = [], []
    for words, of_words in examples.map(lambda *each: tuple(map(tf.identity, each))):
        texts.append(_decoded(words))
        labels.append(_decoded(of_words))
    return texts, labels


def _decoded(tensor):
    """Returns the strings or numbers of a tensor, in lists if it has axes."""
    values = tensor.numpy().tolist() if tensor.shape.rank else [tensor.numpy()]
    values = [
        each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in values
    ]
    return values if tensor.shape.rank else values[0]


def entities(tags):
    """Joins tagged words to entities: `B-` begins one, `I-` continues it, `O` is outside.

    Labels of the schemes BILOU and IOBES are understood as well: `S-` and `U-` begin an entity,
    `E-` and `L-` continue it. Without such a prefix, neighbors of the same label are one entity.

    Args:
        tags: List of `Tag`s.

    Returns:
        List of `Tag`s, one per entity: its words joined by spaces, and the probability of its least
        certain word.

    Example:

    >>> tags = [Tag("Anna", "B-PER", 0.9), Tag("Lee", "I-PER", 0.8), Tag("left", "O", 1.0)]
    >>> entities(tags)
    [Tag(word='Anna Lee', label='PER', probability=0.8)]
    """
    found = []
    kind = ""
    for word, label, probability in tags:
        position, _, of_label = label.partition("-")
        if position not in POSITIONS or not of_label:  # "O", or a kind alone
            position, of_label = "", "" if label == "O" else label
        if of_label and of_label == kind and position not in BEGINNINGS:
            last = found.pop()
            word, probability = f"{last.word} {word}", min(last.probability, probability)
        if of_label:
            found.append(Tag(word, of_label, probability))
        kind = of_label
    return found
