"""The task of captioning: images in, strings out."""

from typing import Any, Unpack, overload

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from zoo import decoding
from zoo.data.batching import bucket_by_length
from zoo.data.captions import annotated, examples_of_lists, pairs, pictured
from zoo.decoding.compiled import NUMBERS, for_every_form
from zoo.models.backbone import Backbone
from zoo.readers.images import image_bytes, read_images
from zoo.readers.several import as_requests, assert_decoded
from zoo.serving import PROCESSOR, Start
from zoo.tasks.arguments import (
    No,
    OneEach,
    Options,
    Picture,
    PictureOrPictures,
    Pictures,
    SamplerLike,
    Yes,
    require_dropout,
)
from zoo.tasks.base import part_of
from zoo.tasks.generating import LIMITS, SEEDS, GeneratingTask, best_texts
from zoo.tasks.picture_results import Caption
from zoo.tasks.result_parts import hypothesis_log_probs
from zoo.tasks.seeing import PIXELS, as_annotations, require_captioner_that_sees

LONGEST_CAPTION = 60


@keras.saving.register_keras_serializable(package="zoo")
class Captioner(GeneratingTask):
    """A captioning model together with its backbone or reader, tokenizer, decoding and export.

    `fit`, `evaluate` and `caption` take raw images: encoded bytes, which the same graph decodes
    everywhere.

    Args:
        core: A model of annotation vectors with `start` and `step`, such as `ShowAttendTell`, or
            of pixels, such as `zoo.models.blip.Blip`.
        tokenizer: A tokenizer of the captions.
        backbone: A `zoo.Backbone`, which computes the annotation vectors. Defaults to MobileNetV2
            with ImageNet weights.
        sampler: The default sampler; beam search with 5 beams if omitted.
        reader: A `zoo.ImageReader` in place of a backbone, for a core that takes pixels.
        begin_id: Id of a token that the core was trained to write before each text, or `None`. It
            may be the start token: then the core writes that once more.

    Raises:
        ValueError: If the inputs of the core do not match the vectors of the backbone, or the
            images of the reader.
    """

    task_name = "captioning"
    task_method = "caption"
    usual_sampler = decoding.BeamSampler(num_beams=5, length_penalty=1.0, exact=False)
    data_options = ("subword_dropout",)
    request_name = "image_bytes"

    def __init__(
        self,
        core,
        tokenizer,
        backbone=None,
        sampler=None,
        reader=None,
        begin_id=None,
        **kwargs,
    ):
        super().__init__(core, tokenizer, sampler, **kwargs)
        self.begin_id = begin_id
        backbone, reader = (part_of(each) for each in (backbone, reader))
        if backbone is None and reader is None and core.source != PIXELS:
            backbone = Backbone()
        require_captioner_that_sees(core, backbone, reader)
        self.backbone, self.reader = backbone, reader
        self.takes_images = reader is not None

    def forget_compiled(self):
        super().forget_compiled()
        self._compiled_of_annotations = for_every_form(self._compile_of_annotations)

    @classmethod
    def decides(cls, tokenizer=None, reader=None, **settings):
        of_reader = {} if reader is None else part_of(reader).decides
        return {**super().decides(tokenizer), **of_reader}

    @property
    def parts(self):
        of_pictures = {} if self.backbone is None else {"backbone": self.backbone}
        return {**super().parts, **of_pictures}

    @property
    def settings(self):
        name = "backbone" if self.reader is None else "reader"
        begin = {} if self.begin_id is None else {"begin_id": self.begin_id}
        return {
            **super().settings,
            **begin,
            name: keras.saving.serialize_keras_object(getattr(self, name)),
        }

    @property
    def grid(self):
        """Rows and columns of an attention map."""
        if self.reader is None:
            return (self.core.tail or self.backbone).grid
        side = self.reader.size // self.core.config.patch_size
        return side, side

    # ----------------------------------------------------------------------------------- training

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0, subword_dropout=0.0):
        """Turns images and their captions into batches for Keras, grouped by length.

        Args:
            x: A list of images as `caption` takes them; or a `tf.data.Dataset` of dictionaries
                with `captions`, strings `(n,)`, and either `image`, the encoded bytes, or, for a
                model with a backbone, `annotations`, its output (`zoo.data.features.cache_features`
                saves recomputing it in every epoch).
            y: If `x` is a list: for each image a caption or a list of captions.
            batch_size: Number of captions per batch. Defaults to 64.
            shuffle: Whether to shuffle the captions, within a buffer.
            seed: Seed of the shuffling and of `subword_dropout`.
            subword_dropout: Probability of BPE dropout: each epoch splits words differently.

        Returns:
            A data set of `(inputs, labels, weights)`.

        Raises:
            ValueError: If `x` and `y` are not images with captions, or `subword_dropout` is not a
                probability.
            FileNotFoundError: If a file is missing.
            tf.errors.InvalidArgumentError: From the data set, if an image cannot be decoded, or a
                caption is longer than the model has room for.
        """
        require_dropout(subword_dropout)
        examples = x if y is None else examples_of_lists(x, y)
        # Pixels are made of images batch by batch: those to be shuffled would fill the memory.
        is_late = self.reader is not None
        examples = pictured(examples) if is_late else annotated(examples, self.annotate)

        def tokenize(captions, seed):
            dropout = (subword_dropout, seed) if subword_dropout else ()
            return self.tokenizer.tokenize(captions, *dropout)

        tokens = pairs(examples, self._refined, tokenize, shuffle, seed)
        batches = bucket_by_length(
            tokens, batch_size or self.usual_batch_size, self.tokenizer.pad_id
        )
        return batches.map(self._teach).prefetch(tf.data.AUTOTUNE)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The mean loss per word and, in training, the attention losses that the model adds."""
        loss = super().compute_loss(x, y, _logits_of(y_pred), sample_weight, training)
        if not training or not isinstance(y_pred, dict):
            return loss
        weights = ops.ones_like(y) if sample_weight is None else sample_weight
        return loss + self.core.attention_loss(y_pred, y, ops.not_equal(weights, 0))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, _logits_of(y_pred), sample_weight)

    def _teach(self, images, target_ids):
        """Returns a batch from the annotations of images, or with a reader from encoded ones."""
        if self.reader is not None:
            images = self.annotate(images)
        if self.begin_id is not None:
            begin = tf.fill([tf.shape(target_ids)[0], 1], self.begin_id)
            target_ids = tf.concat([begin, target_ids], axis=1)
        inputs, labels, weights = self.teach(target_ids)
        return {self.core.source: images, "target_ids": inputs}, labels, weights

    # --------------------------------------------------------------------------------- captioning

    @overload
    def caption(
        self,
        images: Picture,
        sampler: SamplerLike = None,
        return_attention: No = False,
        **options: Unpack[OneEach],
    ) -> str: ...
    @overload
    def caption(
        self,
        images: Pictures,
        sampler: SamplerLike = None,
        return_attention: No = False,
        **options: Unpack[OneEach],
    ) -> list[str]: ...
    @overload
    def caption(
        self,
        images: PictureOrPictures,
        sampler: SamplerLike = None,
        *,
        return_attention: Yes,
        **options: Unpack[OneEach],
    ) -> Caption: ...
    @overload
    def caption(
        self,
        images: PictureOrPictures,
        sampler: SamplerLike = None,
        return_attention: bool = False,
        batch_size: int = 32,
        **options: Unpack[Options],
    ) -> Any: ...
    def caption(self, images, sampler=None, return_attention=False, batch_size=32, **options):
        """Describes an image or a list of images.

        Args:
            images: An image or a list of images, each a path (`str` or `pathlib.Path`), encoded
                `bytes`, a `PIL.Image`, or an array `(height, width, 3)`, uint8 or float from 0 to
                1. An array of four axes counts as a list.
            sampler: `"greedy"`, `"beam"`, `"random"`, `"top_k"`, `"top_p"`, a sampler object of
                `zoo.decoding`, or `None` for the model's own, `model.default_sampler`.
            return_attention: Whether to also return the words and their attention maps.
            batch_size: Number of images to process at a time.
            **options: `seed` for the random samplers, `max_length`, the maximum number of tokens,
                and options of the sampler, such as `num_beams=8`.

        Returns:
            A `str` for one image, a list of `str` for a list; or a `Caption`. With
            `num_return_sequences` above 1 each caption is a list, best first.

        Raises:
            ValueError: If an input is not an image, or the sampler or an option is unknown.
            FileNotFoundError: If a file is missing.
        """
        encoded, is_one = as_requests(images, image_bytes, "images", picture_rank=3)
        rows = self._answers(encoded, sampler, return_attention, batch_size, **options)
        texts = [best_texts(row) for row in rows]
        if return_attention:
            return self._caption(texts, rows, encoded)
        return texts[0] if is_one else texts

    def caption_annotations(self, annotations, sampler=None, batch_size=64, **options):
        """Describes images, given as precomputed annotation vectors.

        Args:
            annotations: Array `(images, positions, channels)`, as returned by `annotate`; or
                pixels from the reader.
            sampler, batch_size, **options: As for `caption`.

        Returns:
            A list of `str`; with `num_return_sequences` above 1, a list of lists of `str`.

        Raises:
            ValueError: If `annotations` has another shape, or the sampler or an option is unknown.
        """
        annotations = as_annotations(annotations, self._annotations.shape[1:])
        compiled = self._compiled_of_annotations
        rows = self._answers(
            annotations, sampler, batch_size=batch_size, compiled=compiled, **options
        )
        return [best_texts(row) for row in rows]

    def see(self, encoded):
        """Returns the vectors or the pixels of encoded images, and whether each can be read."""
        if self.reader is not None:
            return self.reader.read(encoded)
        images, is_image = read_images(encoded, self.backbone.image_size)
        return self.backbone(images), is_image

    def annotate(self, encoded):
        """Returns the vectors of the backbone `(batch, positions, channels)` of encoded images, or
        the pixels of the reader.
        """
        vectors, is_image = self.see(encoded)
        with tf.control_dependencies([assert_decoded(is_image, "images")]):
            return tf.identity(vectors)

    @property
    def _annotations(self):
        """The `tf.TensorSpec` of what `annotate` returns."""
        if self.reader is not None:
            return self._pixels
        return tf.TensorSpec([None, None, self.backbone.channels], tf.float32)

    @property
    def _pixels(self):
        """The `tf.TensorSpec` of images, which the backbone or the core reads."""
        if self.reader is None:
            side, channels = self.backbone.image_size, 3
        else:
            side, channels = self.reader.size, self.reader.channels
        return tf.TensorSpec([None, side, side, channels], tf.float32, name="images")

    def _refined(self, vectors):
        """Returns what the core reads of the result of `annotate`, or of encoded images."""
        return vectors if self.reader is not None else self.core.refine(vectors)

    # ---------------------------------------------------------------------------------- the graph

    def read(self, requests, served=False):
        """Returns what the core takes of encoded images; anything else may have no caption."""
        vectors, is_image = self.see(requests)
        return self._refined(vectors), tf.where(is_image, self.longest_answer(vectors), 0)

    def decode(self, inputs, seeds, limits, *arguments, **options):
        """As every task does; the start token may come again if the core writes it."""
        if self.begin_id == self.tokenizer.start_id:
            first = tf.fill([tf.shape(limits)[0]], self.begin_id)
            options |= {"start_id": None, "first_tokens": first, "prompt_ids": first[:, None]}
        return super().decode(inputs, seeds, limits, *arguments, **options)

    def write(self, decoded):
        """As every task does; the attention is `[batch, n, length, rows, columns]`."""
        outputs = super().write(decoded)
        if decoded.attention is not None:
            shape = tf.concat([tf.shape(decoded.attention)[:3], self.grid], axis=0)
            outputs["attention"] = tf.reshape(decoded.attention, shape)
        return outputs

    def longest_answer(self, inputs):
        return min(LONGEST_CAPTION, self.longest or LONGEST_CAPTION)

    def example_request(self, length):
        """Returns a gray image."""
        return tf.io.encode_png(tf.fill([8, 8, 3], tf.constant(128, tf.uint8))).numpy()

    def serving_start(self):
        def start(images):
            vectors = images if self.backbone is None else self.backbone(images)
            return self.core.start(self._refined(vectors), self.longest_answer(vectors))

        return Start(start, self._pixels)

    def serving_contents(self):
        return {} if self.reader is None else {PROCESSOR: self.reader.processor}

    def _compile_of_annotations(self, with_numbers, return_attention, jit_compile):
        """Compiles `answer_inputs` for the samplers of one form."""

        def compiled(numbers, annotations, seeds, max_lengths):
            limits = self._limits(max_lengths, self.longest_answer(annotations))
            sampler = with_numbers(numbers)
            inputs = self._refined(annotations)
            return self.answer_inputs(inputs, seeds, limits, sampler, return_attention)

        signature = [NUMBERS, self._annotations, SEEDS, LIMITS]
        return tf.function(compiled, signature, autograph=False).get_concrete_function()

    def _caption(self, texts, rows, encoded):
        """Splits the best hypothesis of each row into words and maps, without padding and the token
        that begins texts.
        """
        targets, others = [row["token_ids"][0] for row in rows], [self.tokenizer.pad_id]
        others += [] if self.begin_id is None else [self.begin_id]
        told = [~np.isin(ids, others) for ids in targets]
        pieces = self.tokenizer.pieces(
            [ids[is_told] for ids, is_told in zip(targets, told, strict=True)]
        )
        maps = [row["attention"][0][is_told] for row, is_told in zip(rows, told, strict=True)]
        told = [_of_words(*each) for each in zip(pieces, maps, strict=True)]
        return Caption(
            texts=texts,
            words=[words for words, _ in told],
            attention=[attention for _, attention in told],
            log_probs=hypothesis_log_probs([row["log_prob"] for row in rows]),
            images=encoded,
        )


def _logits_of(outputs):
    """Returns the logits among the outputs of a core, which may also tell of its attention."""
    return outputs["logits"] if isinstance(outputs, dict) else outputs


def _of_words(pieces, maps):
    """Joins the pieces of each word and averages their maps."""
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
