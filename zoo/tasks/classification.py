"""The task of classification: texts, images or sounds in, labels out."""

import functools
import itertools
from collections.abc import Iterable
from typing import Any, overload

import keras
import numpy as np
import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo.data.batching import examples_of
from zoo.data.labels import (
    label_weights,
    labelled,
    multi_labelled,
    require_labels,
    weighed,
    with_weights,
)
from zoo.losses import TokenCrossentropy
from zoo.readers.sound_reader import SoundReader
from zoo.readers.wave_reader import WaveReader
from zoo.tasks.arguments import No, Picture, Sound, Texts
from zoo.tasks.base import part_of
from zoo.tasks.encoding import EncodingTask
from zoo.tasks.entailment import (
    HYPOTHESIS,
    hypotheses_of,
    places_of_entailment,
    probabilities_of,
)
from zoo.tasks.padding import own_padding_of
from zoo.tasks.picture_results import PictureClasses
from zoo.tasks.reading import require_reader_that_fits
from zoo.tasks.sound_results import SoundClasses
from zoo.tasks.text_readers import pair_reader
from zoo.tasks.text_results import TextClasses

SINGLE, MULTI = "single_label_classification", "multi_label_classification"


@keras.saving.register_keras_serializable(package="zoo")
class Classifier(EncodingTask):
    """A classification model together with the preprocessing of its texts, images or sounds.

    `fit`, `evaluate` and `classify` take raw inputs, including pairs of texts; the same graph reads
    them everywhere.

    Args:
        core: A model that returns logits `(batch, labels)`, such as `zoo.models.vit.ViT`.
        tokenizer: The tokenizer, for a model of texts.
        reader: The reader of other inputs: a `zoo.ImageReader` or a `zoo.SoundReader`.
        labels: List of the names of the labels, one for each logit of the core.
        problem_type: `"single_label_classification"` if each input has exactly one label, or
            `"multi_label_classification"` if it has any number of them, each with its own
            probability.

    Raises:
        ValueError: If the parts do not match.
    """

    task_name = "classification"
    task_method = "classify"
    data_options = ("class_weight", "sample_weight")

    def __init__(self, core, tokenizer=None, reader=None, labels=(), problem_type=SINGLE, **kwargs):
        reader = part_of(reader)
        if (tokenizer is None) == (reader is None):
            raise ValueError(
                "A classifier needs either tokenizer=..., for texts, or reader=..., such as "
                f"zoo.ImageReader() or zoo.SoundReader(). Received: tokenizer={tokenizer!r}, "
                f"reader={reader!r}."
            )
        if problem_type not in (SINGLE, MULTI):
            raise ValueError(unknown_name("problem_type", problem_type, (SINGLE, MULTI)))
        require_reader_that_fits(core, reader)
        if isinstance(reader, WaveReader):
            reader = reader.of_shortest(core.subsampling.reach)
        reads_with = reader or pair_reader(core, tokenizer)
        super().__init__(core, tokenizer, reads_with, **kwargs)
        self.labels = require_labels(labels, core.config.num_labels)
        if problem_type == SINGLE and len(self.labels) < 2:
            raise ValueError(
                "A single-label problem needs at least two labels. Received: "
                f"labels={self.labels!r}. For a label that may be absent, pass "
                f"problem_type={MULTI!r}."
            )
        self.problem_type = problem_type
        self._own_reader = reader

    @classmethod
    def decides(cls, tokenizer=None, reader=None, labels=(), **settings):
        reader = part_of(reader)
        of_reader = {} if reader is None else reader.decides
        of_parts = {**own_padding_of(tokenizer), **of_reader}
        return {**super().decides(tokenizer), **of_parts, "num_labels": len(labels)}

    @property
    def settings(self):
        reader = keras.saving.serialize_keras_object(self._own_reader)
        settings = {"labels": self.labels, "problem_type": self.problem_type}
        return settings | ({} if self._own_reader is None else {"reader": reader})

    @property
    def _is_multi(self):
        return self.problem_type == MULTI

    # ----------------------------------------------------------------------------------- training

    def usual_loss(self):
        """Returns cross-entropy; for multi-label problems, the mean binary one of the labels."""
        if self._is_multi:
            return keras.losses.BinaryCrossentropy(from_logits=True)
        # A mean over the weights would undo those of small batches, as of a single input.
        return TokenCrossentropy(reduction="sum_over_batch_size")

    def usual_metrics(self):
        if self._is_multi:
            return [keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)]  # of logits
        return super().usual_metrics()

    def compile(
        self, optimizer="adam", loss=None, weighted_metrics=None, jit_compile=False, **kw
    ) -> None:
        """Configures training; the default metrics count all inputs equally, whatever they weigh.

        Args:
            optimizer, loss, weighted_metrics, jit_compile, **kw: As for `Task.compile`.
        """
        if weighted_metrics is None:
            kw.setdefault("metrics", self.usual_metrics())
        super().compile(optimizer, loss, weighted_metrics or [], jit_compile, **kw)

    def batches(
        self,
        x,
        y=None,
        batch_size=None,
        shuffle=False,
        seed=0,
        class_weight=None,
        sample_weight=None,
    ):
        """Turns inputs with labels into batches for Keras.

        Args:
            x: A list of inputs as `classify` takes them, or a `tf.data.Dataset` of (input, label)
                or of (input, label, weight in the loss): inputs are texts, tuples of two texts,
                encoded images, pixels `(rows, columns, channels)` from 0 to 255, WAV files, or
                samples `(samples,)` at the rate of the reader; labels are names or indices. For
                multi-label problems, they are a vector of names, or a multi-hot vector.
            y: If `x` is a list: the label of each input, or the list of its labels.
            batch_size: Number of inputs per batch. Defaults to 64.
            shuffle: Whether to shuffle lists; a data set is not shuffled.
            seed: Seed of the shuffling.
            class_weight: Dictionary from labels, names or indices, to the weights of their inputs
                in the loss, such as `{"rare": 5.0}`. Other labels weigh 1. As in Keras, the loss is
                the sum of the weighted losses, divided by the number of inputs.
            sample_weight: If `x` is a list: the weight of each input in the loss, `(inputs,)`.

        Returns:
            A data set of `(inputs, labels, weights)`.

        Raises:
            ValueError: If the data or the weights have another form.
        """
        if class_weight is not None and self._is_multi:
            raise ValueError(
                "`class_weight` needs inputs with one label each; this is a multi-label problem. "
                f"Received: class_weight={class_weight!r}. Weight the batches instead: "
                "model.batches(x, y, shuffle=True).map(...)."
            )
        weights = label_weights({} if class_weight is None else class_weight, self.labels)
        of_kind = multi_labelled if self._is_multi else labelled
        make = functools.partial(with_weights, make=functools.partial(of_kind, labels=self.labels))
        examples = examples_of(self.reader, x, y, "input", make, shuffle, seed, sample_weight)
        batches = self.reader.batched(examples, batch_size or self.usual_batch_size)
        return batches.map(lambda inputs, labels: _weighted(inputs, labels, weights)).prefetch(
            tf.data.AUTOTUNE
        )

    # ----------------------------------------------------------------------------- classification

    @overload
    def classify(
        self,
        inputs: Picture | Sound,
        return_probabilities: No = False,
        return_attention: No = False,
        batch_size: int = 32,
    ) -> str: ...
    @overload
    def classify(
        self,
        inputs: Iterable[Picture | Sound | np.ndarray | tuple[str, str]],
        return_probabilities: No = False,
        return_attention: No = False,
        batch_size: int = 32,
    ) -> list[str]: ...
    @overload
    def classify(
        self,
        inputs: Any,
        return_probabilities: bool = False,
        return_attention: bool = False,
        batch_size: int = 32,
        *,
        labels: Texts | None = None,
        hypothesis: str = HYPOTHESIS,
        multi_label: bool = False,
    ) -> Any: ...
    def classify(
        self,
        inputs,
        return_probabilities=False,
        return_attention=False,
        batch_size=32,
        *,
        labels=None,
        hypothesis=HYPOTHESIS,
        multi_label=False,
    ):
        """Returns the best label of an input, or of each input in a list.

        A model of textual entailment (natural language inference) also takes labels that it was not
        trained with: a text has a label if it entails the hypothesis about it (Yin et al. 2019,
        https://aclanthology.org/D19-1404).

        Args:
            inputs: A text, an image or a sound, or a list; or a list of pairs of texts, such as
                `[("It rains.", "The sun shines.")]`. An image is a path, encoded `bytes`, a
                `PIL.Image`, or an array, see `zoo.readers.images.image_bytes`. A sound is the path
                of a WAV file, its `bytes`, or a tuple (samples, rate), see
                `zoo.readers.audio.sound_bytes`.
            return_probabilities: Whether to also return the probabilities of all labels.
            return_attention: Whether to also return the probabilities and the attention.
            batch_size: Number of inputs to process at a time; with `labels`, of pairs of a text and
                a label.
            labels: List of labels in place of those of the model, for texts.
            hypothesis: The sentence about a label, with `{}` in its place.
            multi_label: Whether texts can have several of the `labels`, or none.

        Returns:
            A `str` for one input, a list of `str` for a list; or a `TextClasses`, `PictureClasses`
            or `SoundClasses` with `labels`, `probabilities` (inputs × labels, float32) and, if
            requested, `attention`. A multi-label model returns a list of `str` in place of each
            `str`: the labels whose probability is above 0.5. So does `multi_label`.

        Raises:
            ValueError: If an input is not a text, an image or a sound, `labels` are given and the
                model does not know entailment, or their options are given without `labels`.
            TypeError: If an input has another type.
            FileNotFoundError: If a file is missing.
        """
        if labels is None and (multi_label or hypothesis != HYPOTHESIS):
            raise ValueError(
                "`hypothesis` and `multi_label` go with `labels`. Received: "
                f"hypothesis={hypothesis!r}, multi_label={multi_label!r} without labels."
            )
        requests, is_one = self.reader.requests(inputs)
        if labels is not None:
            if return_attention:
                raise ValueError("With `labels` there is no attention. Leave out return_attention.")
            result = self._entailed(requests, labels, hypothesis, multi_label, batch_size)
            if return_probabilities:
                return result
            return result.labels[0] if is_one else result.labels
        rows = self._answers(requests, batch_size, return_attention=return_attention)
        labels = [self._told(row["label"]) for row in rows]
        if not return_probabilities and not return_attention:
            return labels[0] if is_one else labels
        probabilities = [row["probabilities"] for row in rows]
        probabilities = np.reshape(probabilities, (-1, len(self.labels))).astype("float32")
        if isinstance(self._own_reader, SoundReader):
            return SoundClasses.of(labels, probabilities, rows, requests, self._own_reader)
        if self.tokenizer is None:
            return PictureClasses.of(labels, probabilities, rows, requests)
        return TextClasses.of(labels, probabilities, rows, self.tokenizer, self.reader.pad_id)

    def _entailed(self, texts, labels, hypothesis, multi_label, batch_size):
        """Returns the `TextClasses` of texts with labels that are not those of the model."""
        if self.tokenizer is None or any(isinstance(text, tuple) for text in texts):
            raise ValueError("`labels` are for texts. Received: images, sounds or pairs of texts.")
        places = places_of_entailment(self.labels)
        labels, hypotheses = hypotheses_of(labels, hypothesis)
        pairs = list(itertools.product(texts, hypotheses))
        rows = self._answers(pairs, batch_size, return_logits=True)
        shape = len(texts), len(labels), len(self.labels)
        logits = np.reshape([row["logits"] for row in rows], shape).astype("float32")
        probabilities = probabilities_of(logits, places, multi_label)
        if multi_label:
            names = [list(itertools.compress(labels, row > 0.5)) for row in probabilities]
        else:
            names = [labels[place] for place in probabilities.argmax(axis=1)]
        return TextClasses(names, probabilities, None, None)

    def _told(self, label):
        if not self._is_multi:
            return label.decode()
        return [each.decode() for each in label if each]

    def respond(self, requests, return_attention=False, return_logits=False):
        """Turns requests into labels: the graph behind Python and the exported model.

        Args:
            requests: Strings `(batch,)`, or `(batch, 2)` for pairs of texts.
            return_attention: Whether to also return the attention of the core.
            return_logits: Whether to also return the logits of the core.

        Returns:
            Dictionary of `label`, strings `(batch,)`, empty where a request cannot be read, and
            `probabilities`, float32 `(batch, labels)`, 0 there; with attention also the outputs of
            `core.told`. For a multi-label model, `label` is `(batch, labels)`, empty for labels
            that an input does not have.
        """
        inputs, is_read = self.reader.read(requests)
        flags = {"return_attention_scores": True} if return_attention else {}
        logits = self.core(inputs, training=False, **flags)
        logits, weights = logits if return_attention else (logits, None)
        names, kept = tf.constant(self.labels), tf.cast(is_read, tf.float32)[:, None]
        if self._is_multi:
            probabilities = tf.nn.sigmoid(logits) * kept
            label = tf.where(probabilities > 0.5, names, "")
        else:
            probabilities = tf.nn.softmax(logits) * kept
            label = tf.where(is_read, tf.gather(names, tf.argmax(logits, axis=-1)), "")
        outputs = {"label": label, "probabilities": probabilities}
        if return_logits:
            outputs["logits"] = logits
        return outputs | (self.core.told(inputs, weights) if return_attention else {})

    # ------------------------------------------------------------------------------------- export

    def endpoints(self):
        """Returns a dictionary of the `zoo.serving.Endpoint`s to export and serve.

        `serving_default` returns `label` and `probabilities` in the order of `model.labels`;
        `explain` also returns the attention. `pairs` takes `text` and `text_pair`.
        """

        def explain(requests):
            outputs = self.respond(requests, return_attention=True)
            if "token_ids" in outputs:
                ids = outputs["token_ids"]
                pieces = self.tokenizer.piece_texts(tf.maximum(ids, 0))  # padding may be −1
                outputs["tokens"] = tf.where(ids == self.reader.pad_id, "", pieces)
            return outputs

        endpoints = {**super().endpoints(), "explain": self._endpoint(explain)}
        if self.tokenizer is not None:
            endpoints["pairs"] = self._endpoint_of_pairs()
        return endpoints


def _weighted(inputs, labels, weights):
    labels, of_inputs = weighed(labels)
    if labels.shape.rank == 1:
        of_inputs *= tf.gather(weights, labels)
    return inputs, labels, of_inputs
