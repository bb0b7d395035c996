"""What every task has in common."""

import abc
import dataclasses

import keras
import tensorflow as tf

from zoo import decoding, serving


def as_texts(texts):
    """Returns a list of texts for a text or a list of them, and whether it was one text."""
    if isinstance(texts, str):
        return [texts], True
    texts = list(texts)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"Expected a str or a list of str. Received: {text!r} of type "
                f"{type(text).__name__} at position {position}."
            )
    return texts, False


def in_batches_by_length(function, lengths, batch_size):
    """Calls a function on batches of places of similar length.

    Args:
        function: Takes a list of places, returns a dictionary of tensors with the batch first.
        lengths: Length of what stands at each place.
        batch_size: Places a batch.

    Returns:
        A list of dictionaries of NumPy arrays, one for each place, in the original order.
    """
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    rows = [None] * len(lengths)
    for first in range(0, len(lengths), batch_size):
        places = by_length[first : first + batch_size]
        outputs = {name: value.numpy() for name, value in function(places).items()}
        for row, place in enumerate(places):
            rows[place] = {name: value[row] for name, value in outputs.items()}
    return rows


class Task(keras.Model, abc.ABC):
    """A model that also owns its text processing, decoding and export.

    Args:
        core: The model of token ids, with the step protocol of `zoo.decoding`.
        tokenizer: What turns strings into its ids and back.

    Class attributes:
        task_name: What it does, in a word or two.
        default_sampler: How it decodes unless told otherwise.
    """

    task_name = None
    default_sampler = decoding.GreedySampler()

    def __init__(self, core, tokenizer, **kwargs):
        super().__init__(**kwargs)
        self.core = core
        self.tokenizer = tokenizer

    def call(self, inputs, training=None):
        return self.core(inputs, training=training)

    def build(self, input_shape=None):
        self.core.build()

    def build_from_config(self, config):
        self.build()

    @abc.abstractmethod
    def serving_endpoints(self, sampler):
        """Returns the endpoints of the exported model, for `zoo.serving.write_version`."""

    def export(self, path, sampler=None, **options):
        """Writes a SavedModel that TF Serving takes as it is: strings in, strings out.

        Args:
            path: Folder of the versions of this model: the export goes to the next number in it,
                `path/1` first, and appears there only when it is complete.
            sampler: As for generation in Python; one hypothesis is returned.
            **options: Options of a sampler given by its name.

        Returns:
            `pathlib.Path` of the new version.
        """
        sampler = decoding.get(sampler or self.default_sampler, **options)
        if sampler.num_return_sequences > 1:
            sampler = dataclasses.replace(sampler, num_return_sequences=1)
        endpoints = self.serving_endpoints(sampler)
        return serving.write_version(path, [self.tokenizer], endpoints)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        config = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype_policy}
        parts = {"core": self.core, "tokenizer": self.tokenizer}
        return {name: serialize(value) for name, value in {**config, **parts}.items()}

    @classmethod
    def from_config(cls, config):
        deserialize = keras.saving.deserialize_keras_object
        return cls(**{name: deserialize(value) for name, value in config.items()})


def flat_spec(dtype, name):
    """Returns the spec of a batch of scalars: an input that a server can batch."""
    return tf.TensorSpec([None], dtype, name=name)
