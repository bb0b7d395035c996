"""The task of embedding: texts in, vectors out. Similar meanings have similar vectors."""

import keras
import numpy as np
import tensorflow as tf

from zoo.data.pairs import pairs_of_lists, require_pairs
from zoo.decoding.base import require
from zoo.readers.text.text_reader import TextReader
from zoo.readers.text.texts import as_texts
from zoo.tasks.arguments import Texts
from zoo.tasks.encoding import EncodingTask

SCALE = 20.0  # of cosines, before the softmax in training


@keras.saving.register_keras_serializable(package="zoo")
class Embedder(EncodingTask):
    """A text embedding model together with its preprocessing.

    `embed` and `match` take texts; `fit` and `evaluate` take pairs of texts that belong together,
    such as a question and its answer. Each first text should be nearest to its own second text
    among all second texts of the batch, so larger batches are harder and teach more:

    $$ loss_i = - \\log softmax_j(20 \\cos(first_i, second_j))_i $$

    Paper: Henderson et al. 2017, Efficient Natural Language Response Suggestion, section 4.4
    (https://arxiv.org/abs/1705.00652).

    Args:
        core: A model that returns vectors, such as
            `zoo.models.text_encoder.TextEncoder(head="embedding")`.
        tokenizer: The tokenizer.
        max_tokens: Maximum number of tokens read at once, start and end included; by default as
            many as the core has positions for. The vector of a longer text is the mean of its
            parts.
    """

    task_name = "embedding"
    task_method = "embed"

    def __init__(self, core, tokenizer, max_tokens=None, **kwargs):
        self.max_tokens = max_tokens
        longest = core.config.max_length
        is_length = max_tokens is None or 3 <= max_tokens <= longest
        require(is_length, f"None, or from 3 to {longest}", max_tokens=max_tokens)
        super().__init__(core, tokenizer, TextReader(tokenizer, max_tokens or longest), **kwargs)

    @property
    def settings(self):
        return {"max_tokens": self.max_tokens}

    # ----------------------------------------------------------------------------------- training

    def call(self, inputs, training=None):
        """Returns vectors of token ids; for a dictionary of `first` and `second`, the similarities
        of each first text to all second ones: cosines times 20, `(batch, batch)`.
        """
        if not isinstance(inputs, dict):
            return self.core(inputs, training=training)
        first, second = (self.core(inputs[name], training=training) for name in ("first", "second"))
        first, second = (tf.math.l2_normalize(each, axis=-1) for each in (first, second))
        return SCALE * tf.matmul(first, second, transpose_b=True)

    def usual_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0):
        """Turns pairs of texts into batches for Keras.

        Args:
            x: A list of texts, or a `tf.data.Dataset` of pairs of scalar strings.
            y: If `x` is a list: the matching text for each.
            batch_size: Number of pairs per batch. Defaults to 64.
            shuffle: Whether to shuffle lists; a data set is not shuffled.
            seed: Seed of the shuffling.

        Returns:
            A data set of `(inputs, labels, weights)`.

        Raises:
            ValueError: If `x` and `y` are not pairs of texts.
        """
        pairs = x if y is None else pairs_of_lists(x, y)
        require_pairs(pairs)
        if shuffle and y is not None:
            pairs = pairs.shuffle(len(pairs), seed=seed)

        def read(first, second):
            inputs = {"first": self.reader.read(first)[0], "second": self.reader.read(second)[0]}
            labels = tf.range(tf.shape(first)[0])
            return inputs, labels, tf.ones_like(labels, tf.float32)

        batches = pairs.batch(batch_size or self.usual_batch_size)
        return batches.map(read, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    # ---------------------------------------------------------------------------------- embedding

    def embed(self, texts: str | Texts, batch_size: int = 32) -> np.ndarray:
        """Returns vectors of texts.

        Args:
            texts: A `str` or a list of `str`.
            batch_size: Number of texts to process at a time.

        Returns:
            float32 array `(texts, vector_size)`, or `(vector_size,)` for one text. The vectors have
            unit length, so that dot products are cosines, unless the core is configured otherwise.

        Raises:
            ValueError: If an input is not a text.
        """
        texts, is_one = as_texts(texts)
        rows = [row["embedding"] for row in self._answers(texts, batch_size)]
        vectors = np.reshape(rows, (-1, self.core.config.vector_size)).astype("float32")
        return vectors[0] if is_one else vectors

    def match(self, texts: str | Texts, others: str | Texts, batch_size: int = 32) -> np.ndarray:
        """Returns the cosine similarities of texts to others.

        Args:
            texts, others: Lists of `str`.
            batch_size: Number of texts to process at a time.

        Returns:
            float32 array `(texts, others)`.

        Raises:
            ValueError: If an input is not a text.
        """
        vectors = [np.atleast_2d(self.embed(each, batch_size)) for each in (texts, others)]
        vectors = [x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in vectors]
        return vectors[0] @ vectors[1].T

    def respond(self, requests):
        """Returns a dictionary of `embedding`, float32 `(batch, vector_size)`, in the graph."""
        inputs, _ = self.reader.read(requests)
        return {"embedding": self.core(inputs, training=False)}

    def named(self, outputs):
        return {"embedding": outputs}
