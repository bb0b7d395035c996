"""The task of embedding: texts or images in, vectors out. Similar ones have similar vectors."""

import functools

import keras
import numpy as np
import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo import serving
from zoo.data.pairs import (
    pairs_of_images,
    pairs_of_lists,
    require_negatives,
    require_pairs,
    with_negatives,
)
from zoo.decoding.base import require
from zoo.readers.several import assert_decoded
from zoo.readers.text.texts import as_text
from zoo.tasks.arguments import FilePath, Picture, PictureOrPictures, Pictures, Texts
from zoo.tasks.base import part_of
from zoo.tasks.encoding import EncodingTask
from zoo.tasks.match_results import Findings
from zoo.tasks.padding import own_padding_of
from zoo.tasks.reading import require_reader_that_fits
from zoo.tasks.searching import (
    cosines,
    find,
    picture_to_find,
    pictures_to_search,
    texts_to_search,
)
from zoo.tasks.text_readers import text_reader

SCALE = 20.0  # of cosines, before the softmax in training
ROLES = "second", "negative"  # of what each first entry is compared with
QUERY, DOCUMENT = ("query",), ("document", "passage")  # names of prompts, the first one there is


@keras.saving.register_keras_serializable(package="zoo")
class Embedder(EncodingTask):
    """An embedding model of texts or of images, together with its preprocessing.

    `embed`, `match` and `search` take texts or images; `fit` and `evaluate` take pairs of them that
    belong together, such as a question and its answer. Each first entry should be nearest to its
    own second entry among all those of the batch, so larger batches are harder and teach more:

    $$ loss_i = - \\log softmax_j(20 \\cos(first_i, second_j))_i $$

    A pair may come with a negative, an input that resembles the right one and is wrong, such as a
    passage with the words of the question and without its answer. The negatives of a batch are
    among the `second_j`, too, and belong to no first entry.

    Paper: Henderson et al. 2017, Efficient Natural Language Response Suggestion, section 4.4
    (https://arxiv.org/abs/1705.00652).

    Args:
        core: A model that returns vectors, such as
            `zoo.models.text_encoder.TextEncoder(head="embedding")`.
        tokenizer: The tokenizer, for a model of texts.
        max_tokens: Maximum number of tokens read at once, start and end included; by default as
            many as the core has positions for. The vector of a longer text is the mean of its
            parts.
        reader: The reader, for a model of images: a `zoo.ImageReader`.
        prompts: Dictionary of the prompts that the model was trained with, by name, such as
            `{"query": "query: ", "passage": "passage: "}`. `embed` puts one in front of texts if
            asked to by name; `search` uses `"query"` for the query, and `"document"` or
            `"passage"` for the texts that it searches. A checkpoint of sentence-transformers has
            those of its `config_sentence_transformers.json`.

    Raises:
        ValueError: If the parts do not match.
    """

    task_name = "embedding"
    task_method = "embed"
    data_options = ("negatives",)

    def __init__(self, core, tokenizer=None, max_tokens=None, reader=None, prompts=None, **kwargs):
        reader = part_of(reader)
        if (tokenizer is None) == (reader is None):
            raise ValueError(
                "An embedder needs either tokenizer=..., for texts, or reader=zoo.ImageReader(). "
                f"Received: tokenizer={tokenizer!r}, reader={reader!r}."
            )
        require_reader_that_fits(core, reader)
        self._own_reader, self.max_tokens = reader, max_tokens
        if reader is None:
            longest = core.config.max_length
            is_length = max_tokens is None or 3 <= max_tokens <= longest
            require(is_length, f"None, or from 3 to {longest}", max_tokens=max_tokens)
            reader = text_reader(core, tokenizer, max_tokens)
        else:
            require(max_tokens is None, "None for a model of images", max_tokens=max_tokens)
        self.prompts = prompts
        super().__init__(core, tokenizer, reader, **kwargs)

    @classmethod
    def decides(cls, tokenizer=None, reader=None, **settings):
        reader = part_of(reader)
        of_reader = {} if reader is None else reader.decides
        return {**super().decides(tokenizer), **own_padding_of(tokenizer), **of_reader}

    @property
    def prompts(self):
        """The prompts by name; may also be set. Those of a model that is saved come with it."""
        return self._prompts

    @prompts.setter
    def prompts(self, prompts):
        is_of_texts = self._own_reader is None
        require(is_of_texts or not prompts, "None for a model of images", prompts=prompts)
        self._prompts = _as_prompts(prompts)

    @property
    def settings(self):
        reader = keras.saving.serialize_keras_object(self._own_reader)
        of_reader = {} if self._own_reader is None else {"reader": reader}
        of_prompts = {"prompts": self.prompts} if self.prompts else {}
        return {"max_tokens": self.max_tokens} | of_reader | of_prompts

    # ----------------------------------------------------------------------------------- training

    def call(self, inputs, training=None):
        """Returns vectors of token ids or pixels; for a dictionary of `first`, `second` and perhaps
        `negative`, the similarities of each first entry to all others: cosines times 20, `(batch,
        batch)` or `(batch, 2 * batch)`, the negatives last.
        """
        if not isinstance(inputs, dict):
            return self.core(inputs, training=training)
        vectors = {
            name: tf.math.l2_normalize(self.core(each, training=training), axis=-1)
            for name, each in inputs.items()
        }
        first = vectors.pop("first")
        others = tf.concat([vectors[name] for name in ROLES if name in vectors], axis=0)
        return SCALE * tf.matmul(first, others, transpose_b=True)

    def usual_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0, negatives=None):
        """Turns pairs of texts or of images into batches for Keras.

        Args:
            x: A list of texts or images, or a `tf.data.Dataset` of pairs of scalar strings: texts,
                or encoded images. The elements may have a third string, a negative.
            y: If `x` is a list: the matching text or image for each.
            batch_size: Number of pairs per batch, at least 2. Defaults to 64.
            shuffle: Whether to shuffle lists; a data set is not shuffled.
            seed: Seed of the shuffling.
            negatives: If `x` is a list: for each pair, a text or an image that is similar to the
                matching one and does not match.

        Returns:
            A data set of `(inputs, labels, weights)`.

        Raises:
            ValueError: If `x` and `y` are not such pairs, `batch_size` is 1, or `negatives` are not
                one for each pair.
        """
        require_negatives("Embedder", batch_size)
        kind = "images" if self.takes_images else "texts"
        if y is None:
            require(
                negatives is None,
                "left out for a data set, which may hold them",
                negatives=negatives,
            )
            pairs = x
        elif self.takes_images:
            pairs = pairs_of_images(*(self.reader.requests(images)[0] for images in (x, y)))
        else:
            pairs = pairs_of_lists(x, y)
        if negatives is not None:
            pairs = with_negatives(pairs, self.reader.requests(negatives)[0], kind)
        require_pairs(pairs, kind, may_have_negatives=True)
        if shuffle and y is not None:
            pairs = pairs.shuffle(len(pairs), seed=seed)

        def read(*texts):
            inputs = dict(zip(("first", *ROLES), map(self._read_all, texts), strict=False))
            labels = tf.range(tf.shape(texts[0])[0])
            return inputs, labels, tf.ones_like(labels, tf.float32)

        batches = pairs.batch(batch_size or self.usual_batch_size)
        return batches.map(read, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def _read_all(self, requests):
        inputs, is_read = self.reader.read(requests)
        if not self.takes_images:
            return inputs
        with tf.control_dependencies([assert_decoded(is_read, "images")]):
            return tf.identity(inputs)

    # ---------------------------------------------------------------------------------- embedding

    def embed(
        self,
        inputs: str | Texts | PictureOrPictures,
        batch_size: int = 32,
        prompt: str | None = None,
    ) -> np.ndarray:
        """Returns vectors of texts or images.

        Args:
            inputs: A text or an image, or a list of them. An image is a path, encoded `bytes`, a
                `PIL.Image`, or an array, see `zoo.readers.images.image_bytes`.
            batch_size: Number of inputs to process at a time.
            prompt: Name of one of `model.prompts` to put in front of each text, such as `"query"`;
                by default none.

        Returns:
            float32 array `(inputs, vector_size)`, or `(vector_size,)` for one input. The vectors of
            texts have unit length, so that dot products are cosines, unless the core is configured
            otherwise. Those of images are as long as the model makes them.

        Raises:
            ValueError: If an input is not a text or an image, or there is no such prompt.
            FileNotFoundError: If a file is missing.
        """
        requests, is_one = self.reader.requests(inputs)
        vectors = self._vectors(requests, batch_size, prompt)
        return vectors[0] if is_one else vectors

    def _vectors(self, requests, batch_size, prompt):
        if prompt is not None:
            front = self._prompt(prompt)
            requests = [front + text for text in requests]
        rows = [row["embedding"] for row in self._answers(requests, batch_size)]
        return np.reshape(rows, (-1, self.core.config.vector_size)).astype("float32")

    def _prompt(self, name):
        if isinstance(name, str) and name in self.prompts:
            return self.prompts[name]
        if not self.prompts:
            raise ValueError(
                f"The model has no prompts. Received: prompt={name!r}. Of a model of texts, set "
                f'model.prompts = {{{name!r}: "..."}}, or put the prompt in front yourself.'
            )
        raise ValueError(unknown_name("prompt", name, self.prompts))

    def match(
        self,
        inputs: str | Texts | PictureOrPictures,
        others: str | Texts | PictureOrPictures,
        batch_size: int = 32,
    ) -> np.ndarray:
        """Returns the cosine similarities of texts to others, or of images to others.

        Args:
            inputs, others: As for `embed`.
            batch_size: Number of inputs to process at a time.

        Returns:
            float32 array `(inputs, others)`.

        Raises:
            ValueError: If an input is not a text or an image.
            FileNotFoundError: If a file is missing.
        """
        return cosines(*(np.atleast_2d(self.embed(each, batch_size)) for each in (inputs, others)))

    def search(
        self,
        query: str | Picture | np.ndarray,
        inputs: FilePath | Texts | Pictures | np.ndarray,
        k: int = 5,
        batch_size: int = 32,
    ) -> Findings:
        """Finds the texts or images that are most similar to a query.

        Args:
            query: A text for a model of texts, an image for one of images.
            inputs: A list of texts; or images, a list of them or a folder, all of whose images are
                searched, though not its subfolders; or their vectors, the array `(inputs,
                vector_size)` that `embed` returned, to search the same inputs again.
            k: Maximum number of inputs to find.
            batch_size: Number of inputs to process at a time.

        Returns:
            A `zoo.tasks.match_results.Findings`, best first: names, cosines, and the texts or
            images. All inputs are returned if there are fewer than `k`.

        Raises:
            ValueError: If `query` is not one text or image, `inputs` are others, there are none,
                or vectors have another size.
            FileNotFoundError: If a file is missing.

        Example:

        >>> import zoo
        >>> tokenizer = zoo.ByteBPETokenizer([])
        >>> sizes = {"size": 16, "num_heads": 2, "hidden": 32, "num_layers": 1}
        >>> model = zoo.load("text_encoder_embedding", weights=None, tokenizer=tokenizer, **sizes)
        >>> answers = ["We ship within a day.", "You can return it for 30 days."]
        >>> model.search("We ship within a day.", answers, k=1).entries
        ['We ship within a day.']
        >>> vectors = model.embed(answers)  # once, for any number of questions
        >>> [answers[name] for name in model.search(answers[1], vectors, k=1).names]
        ['You can return it for 30 days.']
        """
        if self.takes_images:
            query, collection = picture_to_find(query), pictures_to_search(inputs=inputs)
        else:
            query, collection = as_text(query=query), texts_to_search(inputs=inputs)
        of_query, of_inputs = (self._prompt_for(names) for names in (QUERY, DOCUMENT))
        (vector,) = self._vectors([query], batch_size, of_query)
        embed = functools.partial(self._vectors, batch_size=batch_size, prompt=of_inputs)
        return find(query, vector, embed, k, inputs=collection)

    def _prompt_for(self, names):
        return next((name for name in names if name in self.prompts), None)

    def respond(self, requests):
        """Returns a dictionary of `embedding`, float32 `(batch, vector_size)`, in the graph; zeros
        where a request cannot be read.
        """
        inputs, is_read = self.reader.read(requests)
        vectors = self.core(inputs, training=False)
        return {"embedding": tf.where(is_read[:, None], vectors, 0.0)}

    def named(self, outputs):
        return {"embedding": outputs}

    def serving_contents(self):
        prompts = {serving.PROMPTS: self.prompts} if self.prompts else {}
        return super().serving_contents() | prompts

    def endpoints(self):
        """Returns a dictionary of the `zoo.serving.Endpoint`s to export and serve.

        `serving_default` returns `embedding`, of texts as they are. If the model has such prompts,
        `query` and `document` put them in front of texts, as `search` does.
        """
        endpoints = super().endpoints()
        for role, names in {"query": QUERY, "document": DOCUMENT}.items():
            name = self._prompt_for(names)
            if name is not None:
                endpoints[role] = self._endpoint(self._respond_with(self.prompts[name]))
        return endpoints

    def _respond_with(self, prompt):
        return lambda texts: self.respond(tf.strings.join([prompt, texts]))


def _as_prompts(prompts):
    prompts = prompts or {}
    is_dict = isinstance(prompts, dict)
    if not is_dict or not all(isinstance(x, str) for each in prompts.items() for x in each):
        raise ValueError(
            "`prompts` of an embedder must be a dictionary of names to texts, such as "
            f'{{"query": "query: "}}. Received: prompts={prompts!r}.'
        )
    return dict(prompts)
