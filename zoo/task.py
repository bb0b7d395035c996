"""What every task has in common."""

import abc
import collections.abc
import contextlib
import dataclasses
import os
import reprlib
import warnings

import keras
import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo import decoding, serving
from zoo.metrics.perplexity import Perplexity
from zoo.training.losses import TokenCrossentropy

TOKENS_A_PLACE = 400  # source and translation together, before a batch takes fewer


def as_texts(texts):
    """Returns a list of texts for a text or a list of them, and whether it was one text.

    Half of a surrogate pair, as in an undecodable file name, counts as U+FFFD.
    """
    if isinstance(texts, str):
        return [_valid_unicode(texts)], True
    is_several = isinstance(texts, collections.abc.Iterable)
    if not is_several or isinstance(texts, bytes | collections.abc.Mapping):
        raise ValueError(
            f"Expected a str or a list of str. Received: {texts!r} of type {type(texts).__name__}."
        )
    texts = list(texts)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"Expected a str or a list of str. Received: {text!r} of type "
                f"{type(text).__name__} at position {position}."
            )
    return [_valid_unicode(text) for text in texts], False


def _valid_unicode(text):
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def in_batches_by_length(function, lengths, batch_size, tokens=None):
    """Calls a function on batches of places of similar length.

    Args:
        function: Takes a list of places, returns a dictionary of tensors with the batch first.
        lengths: Length of what stands at each place, to sort by.
        batch_size: Places a batch at most.
        tokens: Tokens that each place takes part in at most. Their padded number in a batch, places
            times the largest, is at most `batch_size * TOKENS_A_PLACE`, unless one alone is more.

    Returns:
        A list of dictionaries of NumPy arrays, one for each place, in the original order.
    """
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1. Received: batch_size={batch_size}.")
    tokens = [0] * len(lengths) if tokens is None else tokens
    rows = [None] * len(lengths)
    for places in _batches(lengths, batch_size, tokens):
        outputs = {name: value.numpy() for name, value in function(places).items()}
        for row, place in enumerate(places):
            rows[place] = {name: value[row] for name, value in outputs.items()}
    return rows


def _batches(lengths, batch_size, tokens):
    batch, longest = [], 0
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        padded = (len(batch) + 1) * max(longest, tokens[place])
        if batch and (len(batch) == batch_size or padded > batch_size * TOKENS_A_PLACE):
            yield batch
            batch, longest = [], 0
        batch.append(place)
        longest = max(longest, tokens[place])
    if batch:
        yield batch


class Task(keras.Model, abc.ABC):
    """A model that also owns its text processing, decoding and export.

    Args:
        core: The model of token ids, with the step protocol of `zoo.decoding`.
        tokenizer: What turns strings into its ids and back.
        sampler: How it decodes unless told otherwise: a name, a sampler of `zoo.decoding`, or
            `None` for the usual one of the task.
        dtype: Keras dtype policy; by default that of the core, which computes.

    Class attributes:
        task_name: What it does, in a word or two.
        task_method: The method that does it.
        usual_sampler: The sampler where none was chosen for the model.
        fingerprint: What tells whether a network that others trained is the right one, if the task
            builds on one; `check_fingerprint` then compares it.
    """

    task_name = None
    task_method = None
    usual_sampler = decoding.GreedySampler()
    fingerprint = None

    def __init__(self, core, tokenizer, sampler=None, dtype=None, **kwargs):
        # Whether to scale the loss, Keras decides by the policy of the whole.
        super().__init__(dtype=dtype or core.dtype_policy, **kwargs)
        self.core = core
        self.tokenizer = tokenizer
        self.default_sampler = sampler or self.usual_sampler

    def __call__(self, inputs, *args, **kwargs):
        self._require_batch(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None):
        return self.core(inputs, training=training)

    def predict(self, x, *args, **kwargs):
        """Returns what the core gives for batches of numbers, as `keras.Model.predict` does.

        Args:
            x: What the core takes, or a data set of such batches, as `fit` makes them.
            *args, **kwargs: Further arguments of `keras.Model.predict`.

        Raises:
            ValueError: If `x` holds texts or images.
        """
        self._require_batch(getattr(x, "element_spec", x))
        with unknown_number_of_batches():
            return super().predict(x, *args, **kwargs)

    def _require_batch(self, inputs):
        """Raises a `ValueError` for what is yet to become numbers of a batch."""
        for leaf in filter(_is_text_or_image, keras.tree.flatten(inputs)):
            is_array = hasattr(leaf, "shape")
            received = f"shape {leaf.shape}, {leaf.dtype}" if is_array else repr(leaf)
            raise ValueError(
                f"{type(self).__name__} takes batches of numbers here. Received: {received}. For "
                f"texts or images call `{self.task_method}`; to learn from them, `fit`."
            )

    def build(self, input_shape=None):
        if not self.core.built:
            self.core.build()

    def build_from_config(self, config):
        self.build()

    def compile(self, optimizer="adam", loss=None, weighted_metrics=None, jit_compile=False, **kw):
        """Configures training: cross-entropy, token accuracy and perplexity unless told otherwise.

        Args:
            optimizer, loss, weighted_metrics, jit_compile: As for `keras.Model.compile`.
            **kw: Further arguments of `keras.Model.compile`.
        """
        if weighted_metrics is None:
            accuracy = keras.metrics.SparseCategoricalAccuracy("token_accuracy")
            weighted_metrics = [accuracy, Perplexity()]
        super().compile(
            optimizer=optimizer,
            loss=loss or TokenCrossentropy(),
            weighted_metrics=weighted_metrics,
            jit_compile=jit_compile,
            **kw,
        )

    def fit(self, *args, **kwargs):
        """Trains as `keras.Model.fit` does, which begins in half the time here.

        Where an optimizer makes its variables within the first step, TensorFlow traces that step
        twice.
        """
        if self.compiled and self.built and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        return super().fit(*args, **kwargs)

    def teach(self, target_ids):
        """Teacher forcing: from the tokens so far, the next one; the end token comes last.

        Args:
            target_ids: int32 `[rows, length]`, padded.

        Returns:
            `(inputs, labels, weights)`, each `[rows, length + 1]`; weights are 1 for tokens and 0
            for padding.
        """
        rows = tf.shape(target_ids)[0]
        start = tf.fill([rows, 1], self.tokenizer.start_id)
        inputs = tf.concat([start, target_ids], axis=1)
        lengths = tf.reduce_sum(tf.cast(target_ids != self.tokenizer.pad_id, tf.int32), axis=1)
        end = tf.one_hot(lengths, tf.shape(inputs)[1], self.tokenizer.end_id, dtype=tf.int32)
        labels = tf.pad(target_ids, [[0, 0], [0, 1]]) + end
        weights = tf.sequence_mask(lengths + 1, tf.shape(inputs)[1], tf.float32)
        return inputs, labels, weights

    def write(self, decoded):
        """Returns what was decoded, and its texts, as the exported model names them.

        Args:
            decoded: What `run_decoder` returned.

        Returns:
            Dictionary of `text` and `log_prob`, of shape `[batch, n]`, `token_ids` `[batch, n,
            length]`, and `attention` if it was asked for.
        """
        shape = tf.shape(decoded.token_ids)  # batch, n, length
        flat = tf.reshape(decoded.token_ids, [-1, shape[2]])  # [batch * n, length]
        outputs = {
            "text": tf.reshape(self.tokenizer.detokenize(flat), shape[:2]),
            "token_ids": decoded.token_ids,
            "log_prob": decoded.log_probs,
        }
        return outputs if decoded.attention is None else outputs | {"attention": decoded.attention}

    def run_decoder(self, context, state, sampler, **options):
        """Runs the decoding loop from what the core started: see `zoo.decoding.decode`."""
        return decoding.decode(
            self.core.step,
            context,
            state,
            sampler,
            start_id=self.tokenizer.start_id,
            end_id=self.tokenizer.end_id,
            pad_id=self.tokenizer.pad_id,
            **options,
        )

    def compile_from_config(self, config):
        """Compiles a model that comes from a file, whose optimizer goes on where it was."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    @abc.abstractmethod
    def serving_endpoints(self, sampler):
        """Returns a dictionary of the `zoo.serving.Endpoint`s of the exported model."""

    @abc.abstractmethod
    def serving_start(self):
        """Returns the `zoo.serving.Start` of the model exported as graphs of numbers."""

    def export(self, path, sampler=None, format="tf_saved_model", jit_compile=True, **options):
        """Writes the model for others to serve.

        `"tf_saved_model"` is for TF Serving, strings in, strings out: `serving_default`,
        `serving_jit`, which XLA compiles for a few sizes, and, where the model can, `explain`. With
        tensorflow-serving-api installed it holds warm-up requests for each of them.

        `"onnx"` and `"litert"` are for run-times of numbers, who get two graphs and the tokenizer:
        see `zoo.serving.steps`. Picking the next token is up to the caller.

        Args:
            path: For a SavedModel the folder of all versions of this model: the export goes to the
                next number in it, `path/1` first, so `path` itself must not be a number. Otherwise
                a new folder. It appears only when it is complete.
            sampler: For a SavedModel, as for generation in Python; one hypothesis is returned.
            format: `"tf_saved_model"`, `"onnx"` or `"litert"`.
            jit_compile: Whether a SavedModel has `serving_jit`. TF Serving on a CPU then needs
                `--xla_cpu_compilation_enabled`; without, it refuses the model at its warm-up.
            **options: Options of the sampler.

        Returns:
            `pathlib.Path` of what was written.

        Raises:
            ValueError: If `path` is not free, an argument is unknown, or the format lacks
                something that the model needs.
            ImportError: If a library for the format is missing.
        """
        if format in serving.GRAPH_FORMATS:
            if sampler is not None or options:
                raise ValueError(
                    f"A sampler or its options go into a SavedModel only; with format={format!r} "
                    "whoever calls the graphs picks the tokens."
                )
            start = self.serving_start()
            return serving.write_graphs(path, format, self.core, start, self.tokenizer)
        if format != "tf_saved_model":
            formats = ["tf_saved_model", *serving.GRAPH_FORMATS]
            raise ValueError(unknown_name("format", format, formats))
        sampler = self.sampler(sampler, **options)
        if sampler.num_return_sequences > 1:
            sampler = dataclasses.replace(sampler, num_return_sequences=1)
        endpoints = self.serving_endpoints(sampler)
        if not jit_compile:
            del endpoints["serving_jit"]
        return serving.write_version(path, [self.tokenizer], endpoints)

    def save_to_preset(self, path, description="", data="", quality=None, license="", dtype=None):
        """Writes the model as a preset, which `zoo.load` reads: whole or not at all.

        A preset is four files that hold no code: a card, a config, the weights and the tokenizer,
        with hashes that `zoo.load` checks. It does not hold the optimizer; `model.save(path.keras)`
        does. Offer an archive at any URL, or a folder by
        `huggingface_hub.upload_folder(repo_id="user/name", folder_path=path)`.

        Args:
            path: A new folder, or a new archive that ends with `.zip`.
            description: One line for people; by default that of the architecture.
            data: What the model was trained on, in a few words.
            quality: Dictionary of a metric with its protocol to the value, such as
                `{"BLEU, test split": 38.7}`.
            license: Terms for those who use it, such as `"CC-BY-4.0"`.
            dtype: `None` for the weights as they are: the model that is loaded computes the same
                numbers. `"float16"` for half the size: floats are rounded to 3 decimal digits.

        Returns:
            What `zoo.load` takes, a `str`: the path, for an archive with its hash,
            `model.zip#sha256=...`, which may go behind a URL as well.

        Raises:
            ValueError: If the path exists, the architecture is none of the zoo's, or a weight is
                not finite or beyond `dtype`.
        """
        from zoo.storage import cards, presets  # they need the architectures, these the tasks

        card = cards.make_card(self, description, data, quality, license)
        return presets.save(self, path, card, dtype)

    def sampler(self, sampler=None, **options):
        """Returns a sampler by its name, or the default one with other options."""
        if sampler is not None:
            return decoding.get(sampler, **options)
        try:
            return dataclasses.replace(self.default_sampler, **options)
        except TypeError as error:
            raise ValueError(
                f"The default sampler {self.default_sampler!r} lacks one of the options "
                f"{', '.join(options)}. Name another: sampler='greedy', 'beam', 'random', "
                "'top_k' or 'top_p'."
            ) from error

    @property
    def default_sampler(self):
        """The sampler that it decodes with unless told otherwise; may be set by name, too."""
        return self._default_sampler

    @default_sampler.setter
    def default_sampler(self, sampler):
        self._default_sampler = decoding.get(sampler)

    @property
    def settings(self):
        """What the task takes besides core and tokenizer, as it goes into a config."""
        return {"sampler": keras.saving.serialize_keras_object(self.default_sampler)}

    def twin(self):
        """Returns a task of the very same parts, not compiled."""
        return type(self)(self.core, self.tokenizer, **self.settings)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        config = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype_policy}
        parts = {"core": self.core, "tokenizer": self.tokenizer}
        serialized = {name: serialize(value) for name, value in {**config, **parts}.items()}
        return {**serialized, **self.settings}

    @classmethod
    def from_config(cls, config):
        deserialize = keras.saving.deserialize_keras_object
        return cls(**{name: deserialize(value) for name, value in config.items()})


def decoded_texts(row):
    """Returns the texts of a row of what was generated: a `str`, or a list of several."""
    texts = [text.decode() for text in row["text"]]
    return texts[0] if len(texts) == 1 else texts


def validation_arguments(validation_data):
    """Returns the arguments of `batches` for the validation data of `fit`: one, or `x` and `y`.

    Raises:
        ValueError: If it is something else.
    """
    if isinstance(validation_data, tf.data.Dataset):
        return (validation_data,)
    if not isinstance(validation_data, list | tuple) or len(validation_data) != 2:
        raise ValueError(
            "`validation_data` must be a tf.data.Dataset or a tuple (x, y) of two lists. Received: "
            f"{reprlib.repr(validation_data)}."
        )
    return tuple(validation_data)


@contextlib.contextmanager
def unknown_number_of_batches():
    """Keeps Keras from calling the end of such a data set an interruption of the training."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Your input ran out of data")
        yield


def serving_inputs(name, sampler):
    """Returns the specs of a batch of strings and, for a random sampler, of their seeds.

    They are flat, so that a server can batch them.

    Example:

    >>> serving_inputs("text", decoding.get("random"))
    [TensorSpec(shape=(None,), dtype=tf.string, name='text'),
     TensorSpec(shape=(None,), dtype=tf.int32, name='seed')]
    """
    specs = [tf.TensorSpec([None], tf.string, name=name)]
    return [*specs, tf.TensorSpec([None], tf.int32, name="seed")] if sampler.is_random else specs


def seeds_of(strings, seed):
    """Returns int32 `[batch, 2]` for a request, whose `seed` is `None` if no sampler needs one."""
    seed = tf.zeros(tf.shape(strings), tf.int32) if seed is None else seed
    return tf.stack([seed, tf.zeros_like(seed)], axis=1)


def _is_text_or_image(leaf):
    if isinstance(leaf, str | bytes | os.PathLike):
        return True
    if not hasattr(leaf, "shape"):
        return False
    return tf.as_dtype(leaf.dtype) == tf.string or tf.TensorShape(leaf.shape).rank == 4
