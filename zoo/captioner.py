"""The task of captioning: images in, strings out."""

from collections.abc import Iterable
from numbers import Integral
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_attention import plotting
from zoo import decoding
from zoo.decoding.base import as_length, require
from zoo.decoding.compiled import NUMBERS, for_every_form
from zoo.images import Backbone, image_bytes, read_image, read_images
from zoo.serving import Endpoint, Start, buckets
from zoo.task import (
    Task,
    decoded_texts,
    in_batches_by_length,
    seeds_of,
    serving_inputs,
    unknown_number_of_batches,
    validation_arguments,
)
from zoo.training.batching import bucket_by_length
from zoo.training.captions import annotated, examples_of_lists, pairs
from zoo.training.pairs import is_batches

LONGEST_CAPTION = 60


class Caption(NamedTuple):
    """What `caption(..., return_attention=True)` returns, an entry for each image.

    Attributes:
        texts: List of `str`, the captions.
        words: List of lists of `str`, the words of each caption.
        attention: List of float32 arrays (words × rows × columns), where each word looked; a map
            sums to 1.
        log_probs: float32 array, the log-probability of each caption.
        images: List of `bytes`, the encoded images.
    """

    texts: list
    words: list
    attention: list
    log_probs: np.ndarray
    images: list

    def plot(self, position=0):
        """Draws one of the images, once for each word, with the places that the word looked at.

        Returns:
            The `matplotlib.figure.Figure`.
        """
        picture = read_image(self.images[position])
        return plotting.plot_caption(picture, self.words[position], self.attention[position])


@keras.saving.register_keras_serializable(package="zoo")
class Captioner(Task):
    """A captioning model together with its backbone, tokenizer, decoding and export.

    `fit`, `evaluate` and `caption` take images as they come: encoded bytes, which the same graph
    decodes everywhere.

    Args:
        core: A model of annotation vectors with `start` and `step`, such as `ShowAttendTell`.
        tokenizer: A `ByteBPETokenizer` of the captions.
        backbone: A `zoo.images.Backbone`, which makes the annotation vectors. By default that of
            MobileNetV2 with the weights of ImageNet.
        sampler: How it decodes unless told otherwise; by default beam search with 5 beams.
    """

    task_name = "captioning"
    task_method = "caption"
    usual_sampler = decoding.BeamSampler(num_beams=5, length_penalty=1.0, exact=False)

    def __init__(self, core, tokenizer, backbone=None, sampler=None, **kwargs):
        super().__init__(core, tokenizer, sampler, **kwargs)
        if isinstance(backbone, dict):
            backbone = keras.saving.deserialize_keras_object(backbone)
        self.backbone = Backbone() if backbone is None else backbone
        if self.backbone.channels != core.config["channels"]:
            raise ValueError(
                f"The model takes annotations of {core.config['channels']} channels, and the "
                f"backbone makes {self.backbone.channels}. Make the model with "
                f"channels={self.backbone.channels}, or choose other layers of the backbone."
            )
        self._compiled = for_every_form(self._compile_generate)
        self._compiled_of_annotations = for_every_form(self._compile_of_annotations)

    @property
    def settings(self):
        return {
            **super().settings,
            "backbone": keras.saving.serialize_keras_object(self.backbone),
        }

    def twin(self):
        return type(self)(self.core, self.tokenizer, self.backbone, self.default_sampler)

    @property
    def fingerprint(self):
        """What the backbone makes of a built-in picture: other weights make something else."""
        return self.backbone.fingerprint()

    def check_fingerprint(self, fingerprint):
        """Raises a `ValueError` unless the backbone is the one that the model was trained with."""
        self.backbone.check_fingerprint(fingerprint)

    # ----------------------------------------------------------------------------------- training

    def batches(self, x, y=None, batch_size=64, shuffle=False, subword_dropout=0.0, seed=0):
        """Turns images and their captions into batches for Keras, grouped by length.

        Args:
            x: A list of images as `caption` takes them; or a `tf.data.Dataset` of dictionaries
                with `captions`, strings `(n,)`, and either `image`, the encoded bytes, or
                `annotations`, what the backbone made of it (see `zoo.images.cache_features`, which
                saves making them anew in every epoch); or a data set of such batches, which is
                returned as it is.
            y: If `x` is a list: for each image a caption or a list of captions.
            batch_size: Captions a batch.
            shuffle: Whether captions of images that are near each other are mixed.
            subword_dropout: Probability of BPE dropout: each epoch sees words in other pieces.
            seed: Seed of both.

        Returns:
            A data set of `(inputs, labels, weights)`.
        """
        examples = x if y is None else examples_of_lists(x, y)
        if is_batches(examples):
            return examples
        examples = annotated(examples, self.annotate)

        def tokenize(captions, seed):
            return self.tokenizer.tokenize(captions, subword_dropout, seed)

        tokens = pairs(examples, tokenize, shuffle, seed)
        return bucket_by_length(tokens, batch_size).map(self._teach).prefetch(tf.data.AUTOTUNE)

    def fit(
        self,
        x,
        y=None,
        batch_size=64,
        validation_data=None,
        shuffle=True,
        subword_dropout=0.0,
        seed=0,
        **kwargs,
    ):
        """Trains on images and captions.

        Args:
            x, y, batch_size, shuffle, subword_dropout, seed: As for `batches`.
            validation_data: A data set as `x`, or a tuple of two lists.
            **kwargs: Further arguments of `keras.Model.fit`.

        Returns:
            A `keras.callbacks.History`.
        """
        if validation_data is not None:
            validation_data = validation_arguments(validation_data)
            validation_data = self.batches(*validation_data, batch_size=batch_size)
        train = self.batches(x, y, batch_size, shuffle, subword_dropout, seed)
        with unknown_number_of_batches():
            return super().fit(train, validation_data=validation_data, shuffle=False, **kwargs)

    def evaluate(self, x, y=None, batch_size=64, **kwargs):
        """Returns loss, token accuracy and perplexity on images and captions.

        Args:
            x, y, batch_size: As for `batches`.
            **kwargs: Further arguments of `keras.Model.evaluate`.
        """
        with unknown_number_of_batches():
            return super().evaluate(self.batches(x, y, batch_size), **kwargs)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The mean loss of a word and, in training, what the model adds for its attention."""
        loss = super().compute_loss(x, y, y_pred["logits"], sample_weight, training)
        if not training:
            return loss
        return loss + self.core.attention_loss(y_pred, y, ops.not_equal(sample_weight, 0))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, y_pred["logits"], sample_weight)

    def _teach(self, annotations, target_ids):
        inputs, labels, weights = self.teach(target_ids)
        return {"annotations": annotations, "target_ids": inputs}, labels, weights

    # --------------------------------------------------------------------------------- captioning

    def caption(self, images, sampler=None, return_attention=False, batch_size=32, **options):
        """Describes an image or a list of images.

        Args:
            images: An image or several in a list, each a path (`str` or `pathlib.Path`), encoded
                `bytes`, a `PIL.Image`, or an array `(height, width, 3)`, uint8 or float from 0 to
                1. An array of four axes is a list.
            sampler: `"greedy"`, `"beam"`, `"random"`, `"top_k"`, `"top_p"`, a sampler object of
                `zoo.decoding`, or `None` for the model's own, `model.default_sampler`.
            return_attention: Whether to return the words and where they looked as well.
            batch_size: Images described at a time.
            **options: `seed` for the random samplers, `max_length` for the number of tokens at
                most, and options of the sampler, such as `num_beams=8`.

        Returns:
            A `str` for one image, a list of `str` for a list; or a `Caption`. With
            `num_return_sequences` above 1 each caption is a list, best first.

        Raises:
            ValueError: If something is no image, or sampler or options are unknown.
            FileNotFoundError: If a file is missing.
        """
        seed, max_length, sampler = self._decoding_options(sampler, options)
        images, is_one = _as_list(images)
        encoded = _encoded(images)
        generate = self._compiled(sampler, return_attention)

        def of_batch(places):
            batch = tf.constant([encoded[place] for place in places], tf.string)
            return generate(batch, _seeds(seed, places), tf.fill([len(places)], max_length))

        rows = in_batches_by_length(of_batch, [0] * len(encoded), batch_size)
        texts = [decoded_texts(row) for row in rows]
        if return_attention:
            return self._caption(texts, rows, encoded)
        return texts[0] if is_one else texts

    def caption_annotations(self, annotations, sampler=None, batch_size=64, **options):
        """Describes images by annotation vectors that were made before.

        Args:
            annotations: Array `(images, positions, channels)`.
            sampler, batch_size, **options: As for `caption`.

        Returns:
            A list of `str`, or of lists of them.
        """
        seed, max_length, sampler = self._decoding_options(sampler, options)
        generate = self._compiled_of_annotations(sampler)

        def of_batch(places):
            batch = tf.constant(annotations[places[0] : places[-1] + 1], tf.float32)
            return generate(batch, _seeds(seed, places), tf.fill([len(places)], max_length))

        rows = in_batches_by_length(of_batch, [0] * len(annotations), batch_size)
        return [decoded_texts(row) for row in rows]

    def annotate(self, encoded):
        """Returns the annotation vectors `(batch, positions, channels)` of encoded images."""
        images, is_image = read_images(encoded, self.backbone.image_size)
        broken = tf.reduce_sum(tf.cast(~is_image, tf.int32))
        what = [broken, "of", tf.size(is_image), "images cannot be decoded: leave them out."]
        with tf.control_dependencies([tf.debugging.Assert(broken == 0, what)]):
            return self.backbone(tf.identity(images))

    def generate(self, encoded, seeds, max_lengths, sampler, return_attention=False):
        """The graph behind `caption` and the exported model: encoded images to strings.

        Args:
            encoded: Strings `[batch]`, encoded images; what is none gets an empty caption.
            seeds: int32 `[batch, 2]`, for the random samplers.
            max_lengths: int32 `[batch]`, tokens at most, the end token included.
            sampler: A `zoo.decoding.Sampler`.
            return_attention: Whether to give the attention, too.

        Returns:
            Dictionary of `text`, `token_ids` and `log_prob`, of shapes `[batch, n]`, `[batch, n,
            length]`, `[batch, n]`, where n is the number of hypotheses returned, and `attention`
            `[batch, n, length, rows, columns]`.
        """
        images, is_image = read_images(encoded, self.backbone.image_size)
        max_lengths = tf.where(is_image, max_lengths, 0)
        outputs = self.generate_from_annotations(
            self.backbone(images), seeds, max_lengths, sampler, return_attention
        )
        if return_attention:
            flat = outputs["attention"]
            shape = tf.concat([tf.shape(flat)[:3], self.backbone.grid], axis=0)
            outputs["attention"] = tf.reshape(flat, shape)
        return outputs

    def generate_from_annotations(
        self, annotations, seeds, max_lengths, sampler, return_attention=False
    ):
        """The part of `generate` after the backbone; the attention is `[…, positions]` here."""
        max_length = tf.maximum(tf.reduce_max(max_lengths), 1)
        context, state = self.core.start(annotations, max_length)
        decoded = self.run_decoder(
            context,
            state,
            sampler,
            max_lengths=max_lengths,
            max_length=max_length,
            seeds=seeds,
            return_attention=return_attention,
        )
        return self.write(decoded)

    def serving_endpoints(self, sampler):
        """Returns `serving_default`; `explain`, which adds tokens and attention; and `serving_jit`.

        All take `image_bytes` `[batch]`, and `seed` int32 `[batch]` if the sampler is a random one.
        What is no image gets an empty caption. XLA compiles the decoding alone: a convolutional
        network is faster without.
        """
        inputs = serving_inputs("image_bytes", sampler)

        def describe(return_attention, encoded, seed=None):
            limits = tf.fill(tf.shape(encoded), LONGEST_CAPTION)
            seeds = seeds_of(encoded, seed)
            outputs = self.generate(encoded, seeds, limits, sampler, return_attention)
            return {name: value[:, 0] for name, value in outputs.items()}

        def serving_default(*inputs):
            return describe(False, *inputs)

        def explain(*inputs):
            outputs = describe(True, *inputs)
            outputs["tokens"] = self.tokenizer.piece_texts(outputs["token_ids"])
            return outputs

        def decode(annotations, seeds, max_lengths):
            context, state = self.core.start(annotations, LONGEST_CAPTION)
            limits = {"max_lengths": max_lengths, "max_length": LONGEST_CAPTION}
            return self.run_decoder(context, state, sampler, seeds=seeds, **limits)

        decode_with_xla = buckets.compiled(decode)

        def serving_jit(encoded, seed=None):
            images, is_image = read_images(encoded, self.backbone.image_size)
            limits = tf.where(is_image, LONGEST_CAPTION, 0)
            decoded = decode_with_xla(self.backbone(images), seeds_of(encoded, seed), limits)
            return {name: value[:, 0] for name, value in self.write(decoded).items()}

        grey = tf.io.encode_png(tf.fill([8, 8, 3], tf.constant(128, tf.uint8))).numpy()

        def request(rows):
            return [[grey] * rows, [0] * rows][: len(inputs)]

        return {
            "serving_default": Endpoint(serving_default, inputs, [request(1)]),
            "explain": Endpoint(explain, inputs, [request(1)]),
            "serving_jit": Endpoint(serving_jit, inputs, list(map(request, buckets.ROWS))),
        }

    def serving_start(self):
        def start(images):
            return self.core.start(self.backbone(images), LONGEST_CAPTION)

        size = self.backbone.image_size
        return Start(start, tf.TensorSpec([None, size, size, 3], tf.float32, name="images"))

    def _decoding_options(self, sampler, options):
        seed, max_length = options.pop("seed", 0), options.pop("max_length", LONGEST_CAPTION)
        require(isinstance(seed, Integral), "an integer", seed=seed)
        return seed, as_length(max_length), self.sampler(sampler, **options)

    def _compile_generate(self, with_numbers, return_attention):
        def compiled(numbers, encoded, seeds, max_lengths):
            sampler = with_numbers(numbers)
            return self.generate(encoded, seeds, max_lengths, sampler, return_attention)

        return _traced(compiled, tf.TensorSpec([None], tf.string))

    def _compile_of_annotations(self, with_numbers):
        def compiled(numbers, annotations, seeds, max_lengths):
            sampler = with_numbers(numbers)
            return self.generate_from_annotations(annotations, seeds, max_lengths, sampler)

        return _traced(compiled, tf.TensorSpec([None, None, self.backbone.channels], tf.float32))

    def _caption(self, texts, rows, encoded):
        """Takes the best hypothesis of each row apart into words and maps, unpadded."""
        targets = [row["token_ids"][0] for row in rows]
        lengths = [int(np.sum(ids != self.tokenizer.pad_id)) for ids in targets]
        pieces = self.tokenizer.pieces(
            [ids[:length] for ids, length in zip(targets, lengths, strict=True)]
        )
        maps = [row["attention"][0, :length] for row, length in zip(rows, lengths, strict=True)]
        told = [_of_words(*each) for each in zip(pieces, maps, strict=True)]
        return Caption(
            texts=texts,
            words=[words for words, _ in told],
            attention=[attention for _, attention in told],
            log_probs=np.array([row["log_prob"][0] for row in rows], "float32"),
            images=encoded,
        )


def _as_list(images):
    """Returns a list of images for an image or several, and whether it was one image."""
    if hasattr(images, "shape") and hasattr(images, "dtype"):
        is_list = len(images.shape) in (1, 4)  # paths, or pictures
    else:
        is_bytes = isinstance(images, bytes | bytearray | memoryview)
        is_list = isinstance(images, Iterable) and not is_bytes and not isinstance(images, str)
    return (list(images), False) if is_list else ([images], True)


def _seeds(seed, places):
    return tf.constant([[seed, place] for place in places], tf.int32)


def _traced(function, of_images):
    shapes = [None, 2], [None]
    signature = [NUMBERS, of_images, *(tf.TensorSpec(shape, tf.int32) for shape in shapes)]
    return tf.function(function, signature, autograph=False).get_concrete_function()


def _encoded(images):
    """Returns the bytes of each image; an error tells which one is none."""
    encoded = []
    for position, image in enumerate(images):
        try:
            encoded.append(image_bytes(image))
        except (ValueError, TypeError, OSError) as error:
            error.add_note(f"This is number {position} of {len(images)} images, from 0.")
            raise
    return encoded


def _of_words(pieces, maps):
    """Puts the pieces of words together: their maps are averaged."""
    words, of_word = [], []
    for piece, attention in zip(pieces, maps, strict=True):
        if words and piece.startswith("·"):
            words[-1] += piece[1:]
            of_word[-1].append(attention)
        else:
            words.append(piece)
            of_word.append([attention])
    averages = [np.mean(each, axis=0) for each in of_word]
    return words, np.array(averages, "float32").reshape(len(words), *maps.shape[1:])
