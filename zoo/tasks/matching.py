"""The task of matching: which image belongs to which text."""

import functools
import pathlib
from typing import overload

import keras
import numpy as np
import tensorflow as tf

from keras_attention._backend import interpreted
from keras_attention._checks import require_positive_integers_or_none
from zoo import serving
from zoo.data.batching import in_batches_by_length
from zoo.data.captions import annotated, examples_of_lists, images_with_captions, plain
from zoo.data.pairs import require_negatives
from zoo.decoding.compiled import made_once
from zoo.models.backbone import Backbone
from zoo.readers.image_reader import ImageReader
from zoo.readers.images import image_bytes, read_images
from zoo.readers.several import as_requests, assert_decoded
from zoo.readers.text.texts import as_text, as_texts
from zoo.serving import Endpoint
from zoo.tasks.arguments import (
    FilePath,
    No,
    Picture,
    PictureOrPictures,
    Pictures,
    Texts,
    Yes,
    require_dropout,
)
from zoo.tasks.base import Task, part_of
from zoo.tasks.lora import has_lora, merged
from zoo.tasks.match_results import Findings, Matches
from zoo.tasks.matching_graphs import write_matching_graphs
from zoo.tasks.padding import padding_of
from zoo.tasks.picture_results import PictureClasses
from zoo.tasks.searching import find, is_path_of_picture, picture_to_find, pictures_to_search
from zoo.tasks.seeing import as_annotations, require_eyes_that_fit

REQUESTS = tf.TensorSpec([None], tf.string)


@keras.saving.register_keras_serializable(package="zoo")
class Matcher(Task):
    """A joint embedding model of images and texts, together with the preprocessing of both.

    All methods take raw texts and images; the same graph reads them everywhere. `evaluate` returns
    the loss, which is that of batches. Recall is a property of a whole collection: compute it with
    `zoo.metrics.retrieval_scores(model.match(images, texts), owners)`, where `owners[j]` is the
    index of the image of text `j`.

    Args:
        core: A model with `embed_images` and `embed_texts`: `zoo.models.clip.Clip` or
            `zoo.models.siglip.Siglip`.
        tokenizer: The tokenizer of the texts.
        backbone: A `zoo.Backbone`, which computes the vectors of an image that the core takes.
            Defaults to MobileNetV2 with ImageNet weights.
        plain_texts: Whether texts are read in lower case and without punctuation.
        reader: A `zoo.ImageReader` in place of a backbone, for a core that takes pixels.

    Raises:
        ValueError: If the inputs of the core do not match the vectors of the backbone, or the
            images of the reader.
    """

    task_name = "matching"
    task_method = "match"
    usual_batch_size = 256
    data_options = ("captions_per_image", "subword_dropout")

    def __init__(self, core, tokenizer, backbone=None, plain_texts=True, reader=None, **kwargs):
        super().__init__(core, tokenizer, **kwargs)
        backbone, reader = (part_of(each) for each in (backbone, reader))
        if tokenizer.end_id != core.config.end_id:
            raise ValueError(
                "`tokenizer` must end texts with the end token that the model looks for. "
                f"Received: end_id={core.config.end_id}, and a tokenizer with {tokenizer.end_id}."
            )
        if backbone is None and core.config.patch_size is None:
            backbone = Backbone()
        require_eyes_that_fit(core.config, backbone, reader)
        self.backbone, self.reader = backbone, reader
        self.takes_images = reader is not None
        self.plain_texts = plain_texts
        self.forget_compiled()

    def forget_compiled(self):
        super().forget_compiled()
        self._compiled = made_once(self._compile)

    @classmethod
    def decides(cls, tokenizer=None, reader=None, **settings):
        reader = part_of(reader)
        of_reader = {} if reader is None else reader.decides
        of_tokens = {} if tokenizer is None else {"end_id": tokenizer.end_id}
        return {**super().decides(tokenizer), **padding_of(tokenizer), **of_tokens, **of_reader}

    @property
    def parts(self):
        of_pictures = {} if self.backbone is None else {"backbone": self.backbone}
        return {**super().parts, **of_pictures}

    @property
    def settings(self):
        name = "backbone" if self.reader is None else "reader"
        of_pictures = keras.saving.serialize_keras_object(getattr(self, name))
        return {**super().settings, name: of_pictures, "plain_texts": self.plain_texts}

    # ----------------------------------------------------------------------------------- training

    def usual_loss(self):
        """Returns the `zoo.metrics.ContrastiveLoss`, or for a SigLIP the `SigmoidLoss` there."""
        return self.core.usual_loss()

    def usual_metrics(self):
        return []

    def batches(
        self,
        x,
        y=None,
        batch_size=None,
        shuffle=False,
        seed=0,
        captions_per_image=None,
        subword_dropout=0.0,
    ):
        """Turns images and their captions into batches for Keras.

        The other pairs of a batch serve as negatives, so large batches teach more.

        Args:
            x: A list of images as `match` takes them; or a `tf.data.Dataset` of dictionaries with
                `captions`, strings `(n,)`, and either `image`, the encoded bytes, or `annotations`,
                the output of the backbone for it (`zoo.data.features.cache_features` saves
                recomputing it in every epoch).
            y: If `x` is a list: for each image a caption or a list of captions.
            batch_size: Number of images per batch, at least 2. Defaults to 256.
            shuffle: Whether to shuffle the images, within a buffer.
            seed: Seed of the shuffling, of `captions_per_image` and of `subword_dropout`.
            captions_per_image: Number of captions per image, sampled again in every epoch; all by
                default.
            subword_dropout: Probability of BPE dropout: each epoch splits words differently.

        Returns:
            A data set of `(inputs, labels, weights)`: inputs are `images` and `token_ids` of all
            their captions; labels `(images, texts)` mark the pairs that belong together.

        Raises:
            ValueError: If an argument is out of range, such as a `batch_size` of 1.
        """
        require_negatives("Matcher", batch_size)
        require_positive_integers_or_none("Matcher", captions_per_image=captions_per_image)
        require_dropout(subword_dropout)
        examples = x if y is None else examples_of_lists(x, y)
        examples = annotated(examples, self.annotate)
        batches = images_with_captions(
            examples, batch_size or self.usual_batch_size, shuffle, seed, captions_per_image
        )
        options = (subword_dropout,) if subword_dropout else ()

        def teach(annotations, captions, owners, seeds):
            token_ids = self.read_texts(captions, *options, *((seeds,) if options else ()))
            inputs = {"images": annotations, "token_ids": token_ids}
            belongs = tf.one_hot(owners, tf.shape(annotations)[0], axis=0)
            return inputs, belongs, tf.ones_like(belongs[:, 0])

        return batches.map(teach, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The loss of a batch, which depends on all of its pairs at once: weights are ignored."""
        return super().compute_loss(x, y, y_pred, None, training)

    def see(self, encoded):
        """Returns the inputs of the core for encoded images, and whether each can be read."""
        if self.reader is not None:
            return self.reader.read(encoded)
        images, is_image = read_images(encoded, self.backbone.image_size)
        return self.backbone(images), is_image

    def annotate(self, encoded):
        """Returns the inputs of the core for encoded images: `(batch, positions, channels)`, the
        annotation vectors of a backbone, or the pixels of a reader.
        """
        vectors, is_image = self.see(encoded)
        with tf.control_dependencies([assert_decoded(is_image, "images")]):
            return tf.identity(vectors)

    def read_texts(self, texts, subword_dropout=0.0, seed=None):
        """Returns the padded ids `(batch, length)` of texts `(batch,)`, in the graph.

        Each text begins with the start token, except for a SigLIP, and ends with the end token.
        Texts are truncated to the `max_length` of the core, on the tokenizer's `truncation_side`.
        For a SigLIP, they are also padded to it.
        """
        if self.plain_texts:
            texts = plain(texts)
        dropout = (subword_dropout, seed) if subword_dropout else ()
        tokens = tf.cast(self.tokenizer.tokenize(texts, *dropout), tf.int32)
        config, has_start = self.core.config, self.core.has_start
        tokens = self.tokenizer.truncated(tokens, config.max_length - 1 - has_start)
        one = tf.ones((tokens.nrows(), 1), tf.int32)
        start = [self.tokenizer.start_id * one] if has_start else []
        tokens = tf.concat([*start, tokens, config.end_id * one], 1)
        length = config.max_length if self.core.is_padded else None
        return tokens.to_tensor(config.pad_id, shape=[None, length])

    # ----------------------------------------------------------------------------------- matching

    def embed(
        self,
        texts: str | Texts | None = None,
        images: PictureOrPictures | None = None,
        batch_size: int = 64,
    ) -> np.ndarray:
        """Returns unit vectors of texts or of images: matching ones are near each other.

        Args:
            texts: A text, or a list of texts.
            images: An image or a list, each a path (`str` or `pathlib.Path`), encoded `bytes`, a
                `PIL.Image`, or an array `(height, width, 3)`, uint8 or float from 0 to 1.
            batch_size: Number of inputs to process at a time.

        Returns:
            float32 `(inputs, embedding_size)`, or `(embedding_size,)` for one input.

        Raises:
            ValueError: If both or none are given, or an input is not a text or an image.
            FileNotFoundError: If a file is missing.
        """
        if (texts is None) == (images is None):
            given = "none" if texts is None else "both"
            raise ValueError(f"Pass either texts=... or images=... to embed. Received: {given}.")
        if texts is not None:
            kind, (requests, is_one) = "texts", as_texts(texts)
        else:
            kind, (requests, is_one) = "images", self._requests(images)
        vectors = self._embed(kind, requests, batch_size)
        return vectors[0] if is_one else vectors

    def embed_annotations(self, annotations, batch_size=256):
        """Returns unit vectors of images, given as precomputed annotation vectors.

        Args:
            annotations: Array `(images, positions, channels)`, or pixels from the reader.
            batch_size: Number of images to process at a time.

        Returns:
            float32 `(images, embedding_size)`.

        Raises:
            ValueError: If `annotations` has another shape.
        """
        annotations = as_annotations(annotations, self._shape_of_image())
        return self._embed("annotations", annotations, batch_size)

    @overload
    def match(
        self,
        images: PictureOrPictures,
        texts: str | Texts,
        return_matches: No = False,
        batch_size: int = 64,
    ) -> np.ndarray: ...
    @overload
    def match(
        self,
        images: PictureOrPictures,
        texts: str | Texts,
        return_matches: Yes,
        batch_size: int = 64,
    ) -> Matches: ...
    def match(self, images, texts, return_matches=False, batch_size=64):
        """Returns the similarity of each image to each text.

        Args:
            images, texts: As for `embed`.
            return_matches: Whether to also return images and texts, in a `Matches` that can be
                plotted.
            batch_size: Number of inputs to process at a time.

        Returns:
            float32 (images × texts) of cosines from -1 to 1, or a `Matches`.

        Raises:
            ValueError: If an input is not an image or a text.
            FileNotFoundError: If a file is missing.
        """
        requests, _ = self._requests(images)
        texts, _ = as_texts(texts)
        found = self._embed("images", requests, batch_size)
        similarities = found @ self._embed("texts", texts, batch_size).T
        return Matches(similarities, texts, requests) if return_matches else similarities

    @overload
    def classify(
        self, images: Picture, labels: Texts, return_probabilities: No = False, batch_size: int = 64
    ) -> str: ...
    @overload
    def classify(
        self,
        images: Pictures,
        labels: Texts,
        return_probabilities: No = False,
        batch_size: int = 64,
    ) -> list[str]: ...
    @overload
    def classify(
        self,
        images: PictureOrPictures,
        labels: Texts,
        return_probabilities: Yes,
        batch_size: int = 64,
    ) -> PictureClasses: ...
    def classify(self, images, labels, return_probabilities=False, batch_size=64):
        """Returns the label that matches an image best (zero-shot classification).

        Args:
            images: As for `embed`.
            labels: List of texts, such as `["a dog on grass", "a child on a swing"]`. A model knows
                the words that it was trained with, and does best with similar texts.
            return_probabilities: Whether to also return the probabilities of all labels. They sum
                to 1; for a SigLIP, each label has a probability of its own, and none may fit.
            batch_size: Number of images to process at a time.

        Returns:
            A `str` for one image, a list of `str` for a list; or a `PictureClasses` with `labels`
            and `probabilities` (images × labels, float32).

        Raises:
            ValueError: If an input is not an image, or `labels` is not a list of texts.
            FileNotFoundError: If a file is missing.
        """
        texts, is_one_label = as_texts(labels)
        if is_one_label or not texts:
            raise ValueError(f"`labels` must be a list of texts. Received: labels={labels!r}.")
        labels = texts
        requests, is_one = self._requests(images)
        similarities = self.match(requests, labels, batch_size=batch_size)
        names = [labels[place] for place in similarities.argmax(axis=1)]
        if not return_probabilities:
            return names[0] if is_one else names
        probabilities = self.core.probabilities(similarities).numpy()
        return PictureClasses(names, probabilities, None, None, requests)

    def search(
        self,
        query: str | Picture | np.ndarray,
        images: FilePath | Pictures | np.ndarray,
        k: int = 5,
        batch_size: int = 64,
    ) -> Findings:
        """Finds the images that match a text, or another image, best.

        Args:
            query: A text, or an image as for `embed`. A `str` is a text: pass the path of an image
                as a `pathlib.Path`.
            images: A folder, all of whose images are searched, though not its subfolders; or a
                list of images as for `embed`; or their vectors, the array `(images,
                embedding_size)` that `embed` returned, to search the same images again.
            k: Maximum number of images to find.
            batch_size: Number of images to process at a time.

        Returns:
            A `zoo.tasks.match_results.Findings`, best first: names, similarities and images. All
            images are returned if there are fewer than `k`.

        Raises:
            ValueError: If `query` is not one text or image, or a `str` that looks like a path; if
                there is no image, or vectors have another size.
            FileNotFoundError: If a file is missing.

        Example:

        >>> import zoo
        >>> tower = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32}
        >>> sizes = {"positions": 4, "patch_size": 4, "embedding_size": 8}
        >>> model = zoo.load(
        ...     "clip",
        ...     weights=None,
        ...     tokenizer=zoo.ByteBPETokenizer([]),
        ...     reader=zoo.ImageReader(size=8),
        ...     **sizes,
        ...     text=tower,
        ...     image=tower,
        ... )
        >>> photos = list(np.random.default_rng(0).uniform(size=(3, 8, 8, 3)))
        >>> model.search(photos[1], photos, k=1).names
        [1]
        >>> vectors = model.embed(images=photos)  # once, for any number of queries
        >>> model.search(photos[2], vectors, k=1).names
        [2]
        """
        if isinstance(query, str):
            query, kind = as_text(query=query), "texts"
            if is_path_of_picture(query):
                raise ValueError(
                    "`query` of search is a text if it is a str. Received: what looks like a path, "
                    f"{query!r}. To search for an image, pass pathlib.Path({query!r})."
                )
        else:
            query, kind = picture_to_find(query), "images"
        collection = pictures_to_search(images=images)
        (vector,) = self._embed(kind, [query], batch_size)
        embed = functools.partial(self._embed, "images", batch_size=batch_size)
        return find(query, vector, embed, k, images=collection)

    def _requests(self, images):
        return as_requests(images, image_bytes, "images", picture_rank=3)

    def _embed(self, kind, inputs, batch_size):
        run = self._compiled(kind)

        def of_batch(places):
            return run(tf.convert_to_tensor([inputs[place] for place in places]))

        rows = in_batches_by_length(of_batch, list(map(len, inputs)), batch_size)
        vectors = [row["embedding"] for row in rows]
        return np.reshape(vectors, (-1, self.core.config.embedding_size)).astype("float32")

    # ---------------------------------------------------------------------------------- the graph

    def answer_texts(self, requests):
        """Turns texts into vectors: the graph behind Python and the exported model.

        Args:
            requests: Strings `(batch,)`.

        Returns:
            Dictionary of `embedding`, float32 `(batch, embedding_size)`.
        """
        return {"embedding": self.core.embed_texts(self.read_texts(requests), training=False)}

    def answer_images(self, requests):
        """Turns encoded images into vectors, like `answer_texts`; all 0 for unreadable images."""
        inputs, is_image = self.see(requests)
        vectors = self._answer_annotations(inputs)["embedding"]
        return {"embedding": vectors * tf.cast(is_image, tf.float32)[:, None]}

    def _answer_annotations(self, annotations):
        return {"embedding": self.core.embed_images(annotations, training=False)}

    def _shape_of_image(self):
        """Returns the shape of the input of the core for an image, a tuple."""
        config, reader = self.core.config, self.reader
        shape = (config.positions,) if reader is None else (reader.size, reader.size)
        return *shape, config.channels

    def _compile(self, kind):
        if kind == "annotations":
            inputs = tf.TensorSpec([None, *self._shape_of_image()])
            answer = self._answer_annotations
        else:
            inputs = REQUESTS
            answer = self.answer_texts if kind == "texts" else self.answer_images
        return tf.function(interpreted(answer), [inputs], autograph=False).get_concrete_function()

    def export(self, path: FilePath, format: str = "tf_saved_model") -> pathlib.Path:
        """Exports the model for serving.

        `"tf_saved_model"` is for TF Serving, texts or encoded images in, vectors out:
        `serving_default` takes `text`, and `images` takes `image_bytes`, strings `[batch]`; both
        return `embedding`, unit vectors whose dot products are similarities.

        `"onnx"` and `"litert"` are for runtimes that take numbers only, which get two graphs of the
        same vectors, `text` of token ids and `image` of pixels: see `zoo.tasks.matching_graphs`.

        Args:
            path: For a SavedModel the folder of all versions of this model: the export goes to the
                next version number in it. Otherwise a new folder.
            format: `"tf_saved_model"`, `"onnx"` or `"litert"`.

        Returns:
            `pathlib.Path` of the export.

        Raises:
            ValueError: If `path` is not free, `format` is unknown, or the format lacks something
                that the model needs.
            ImportError: If a library for the format is missing.
        """
        if has_lora(self.core):
            return merged(self).export(path, format)
        if format in serving.GRAPH_FORMATS:
            return write_matching_graphs(path, format, self)
        serving.require_format(format)
        return serving.write_version(path, [self.core, self.tokenizer], self.endpoints())

    def endpoints(self):
        """Returns a dictionary of the `zoo.serving.Endpoint`s to export and serve."""
        text = [tf.TensorSpec([None], tf.string, name="text")]
        image = [tf.TensorSpec([None], tf.string, name="image_bytes")]
        return {
            "serving_default": Endpoint(self.answer_texts, text, [[["a"]]]),
            "images": Endpoint(self.answer_images, image, [[[ImageReader().example()]]]),
        }
