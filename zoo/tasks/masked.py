"""The task of filling masks: texts with masks in, the most probable words out."""

from numbers import Integral
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from zoo.data.seeds import seed_stream
from zoo.decoding.base import require
from zoo.learning.masked import AS_MASK, AS_OTHER
from zoo.metrics.perplexity import Perplexity
from zoo.metrics.token_accuracy import TokenAccuracy
from zoo.readers.text.text_reader import TextReader
from zoo.readers.text.texts import as_texts, refuse_paths, require_scalar_strings
from zoo.tasks.arguments import Texts
from zoo.tasks.encoding import EncodingTask

MASKED = 0.15  # share of the tokens in training


class Candidate(NamedTuple):
    """A candidate for a mask.

    Attributes:
        token: The piece of text, a `str`.
        probability: A `float`.
        text: The text with the candidate in place of the mask; other masks are kept.
    """

    token: str
    probability: float
    text: str


@keras.saving.register_keras_serializable(package="zoo")
class MaskFiller(EncodingTask):
    """A masked language model together with its tokenizer.

    `fill_mask` takes texts with masks; `fit` and `evaluate` take texts without masks, and hide some
    of their tokens, different ones in each epoch.

    Args:
        core: A model that returns logits `(batch, length, vocabulary_size)`, such as
            `zoo.models.text_encoder.TextEncoder(head="masked")`.
        tokenizer: A tokenizer with a mask token.

    Raises:
        ValueError: If the tokenizer has none.
    """

    task_name = "masked language model"
    task_method = "fill_mask"
    usual_batch_size = 32

    def __init__(self, core, tokenizer, **kwargs):
        super().__init__(core, tokenizer, TextReader(tokenizer, core.config.max_length), **kwargs)
        if tokenizer.mask_id is None:
            raise ValueError(
                "`tokenizer` of MaskFiller must have a mask token, such as those that "
                f"zoo.readers.text.read_tokenizer reads. Received: {tokenizer!r}, which has none."
            )
        self.mask = tokenizer.pieces([[tokenizer.mask_id]])[0][0]

    # ----------------------------------------------------------------------------------- training

    def usual_metrics(self):
        return [TokenAccuracy("accuracy"), Perplexity()]

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0):
        """Turns texts into batches for Keras, in which 15% of the tokens are to be predicted.

        Of these, 80% become masks, 10% random tokens, and 10% stay as they are, as in Devlin et al.
        2019, section 3.1. With `shuffle`, different tokens are hidden in each epoch.

        Args:
            x: A list of texts, or a `tf.data.Dataset` of scalar strings.
            y: Not used: a text is its own target.
            batch_size: Number of texts per batch. Defaults to 32.
            shuffle: Whether to hide different tokens in each epoch, and to shuffle lists.
            seed: Seed of the masking and the shuffling.

        Returns:
            A data set of `(inputs, labels, weights)`.

        Raises:
            ValueError: If `x` does not consist of texts, or is empty.
        """
        require(y is None, "left out: a masked language model learns from texts alone", y=y)
        refuse_paths(x)
        texts = x
        if isinstance(x, tf.data.Dataset):
            require_scalar_strings(x)
        else:
            texts, _ = as_texts(x)
            require(texts, "texts", x=x)
            texts = tf.data.Dataset.from_tensor_slices(texts)
            texts = texts.shuffle(len(texts), seed=seed) if shuffle else texts
        batches = texts.batch(batch_size or self.usual_batch_size)

        def hide(texts, seed):
            ids, _ = self.reader.read(texts)
            ids = tf.reshape(ids, (-1, tf.shape(ids)[-1]))  # every chunk is a text
            return self.hidden(ids, seed)

        seeds = seed_stream(seed, rerandomize=shuffle)
        batches = tf.data.Dataset.zip(batches, seeds).map(hide, tf.data.AUTOTUNE)
        return batches.prefetch(tf.data.AUTOTUNE)

    def _validation_arguments(self, validation_data):
        return (validation_data,)

    def hidden(self, ids, seed):
        """Hides tokens, in the graph.

        Args:
            ids: int32 `(batch, length)`.
            seed: int32 `(2,)`.

        Returns:
            `(inputs, labels, weights)`, each `(batch, length)`; weights are 1 for tokens to be
            predicted.
        """
        tokenizer = self.tokenizer
        special = tf.constant([tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id])
        seeds = tf.random.split(seed, 3)
        dice = tf.random.stateless_uniform(tf.shape(ids), seeds[0])
        is_told = (dice < MASKED) & tf.reduce_all(ids[..., None] != special, axis=-1)
        dice = tf.random.stateless_uniform(tf.shape(ids), seeds[1])
        others = tf.random.stateless_uniform(
            tf.shape(ids), seeds[2], 0, tokenizer.vocabulary_size, tf.int32
        )
        inputs = tf.where(is_told & (dice < AS_MASK + AS_OTHER), others, ids)
        inputs = tf.where(is_told & (dice < AS_MASK), tokenizer.mask_id, inputs)
        return inputs, ids, tf.cast(is_told, tf.float32)

    # -------------------------------------------------------------------------------------- masks

    def fill_mask(
        self, texts: str | Texts, num_candidates: int = 5, batch_size: int = 32
    ) -> list[Any]:
        """Returns the most probable candidates for the masks of texts.

        Args:
            texts: A `str` or a list of `str`, each with one `model.mask` or several.
            num_candidates: Number of candidates for each mask.
            batch_size: Number of texts to process at a time.

        Returns:
            For a text with one mask, a list of `Candidate`s, best first; with several masks, one
            such list per mask, each predicted independently. For a list of texts, a list of these.

        Raises:
            ValueError: If a text has no mask, or an argument is out of range.
        """
        texts, is_one = as_texts(texts)
        for text in texts:
            require(self.mask in text, f"texts with {self.mask}", texts=text)
        size = self.tokenizer.vocabulary_size
        is_number = isinstance(num_candidates, Integral) and 1 <= num_candidates <= size
        require(is_number, f"an integer from 1 to {size}", num_candidates=num_candidates)
        rows = self._answers(texts, batch_size, num_candidates=int(num_candidates))
        found = [self._candidates(text, row) for text, row in zip(texts, rows, strict=True)]
        return found[0] if is_one else found

    def _candidates(self, text, row):
        parts = text.split(self.mask)
        of_masks = []
        for number in range(len(parts) - 1):
            before, after = (self.mask.join(x) for x in (parts[: number + 1], parts[number + 1 :]))
            tokens = [each.decode() for each in row["tokens"][number]]
            of_masks.append(
                [
                    Candidate(token.strip(), float(probability), _joined(before, token, after))
                    for token, probability in zip(tokens, row["probabilities"][number], strict=True)
                ]
            )
        return of_masks[0] if len(of_masks) == 1 else of_masks

    def respond(self, requests, num_candidates=5):
        """Turns requests into candidates, in the graph.

        Args:
            requests: Strings `(batch,)`.
            num_candidates: Number of candidates for each mask.

        Returns:
            Dictionary of `tokens`, strings with the white space before them, and `probabilities`,
            both `(batch, masks, num_candidates)`: the masks in order, padded to the text with the
            most masks with empty strings and 0.
        """
        ids, _ = self.reader.read(requests)
        shape = tf.shape(ids)  # batch, chunks, length
        logits = self.core(ids, training=False)  # (batch * chunks, length, vocabulary_size)
        ids = tf.reshape(ids, (shape[0], -1))
        places = tf.RaggedTensor.from_tensor(
            tf.where(ids == self.tokenizer.mask_id, tf.range(tf.shape(ids)[1]), -1)
        )
        places = tf.ragged.boolean_mask(places, places >= 0).to_tensor(-1)  # (batch, masks)
        logits = tf.reshape(logits, (shape[0], -1, self.tokenizer.vocabulary_size))
        logits = tf.gather(logits, tf.maximum(places, 0), batch_dims=1)
        probabilities, best = tf.math.top_k(tf.nn.softmax(logits), num_candidates)
        is_mask = (places >= 0)[..., None]
        return {
            "tokens": tf.where(is_mask, self.tokenizer.piece_texts(best), ""),
            "probabilities": tf.where(is_mask, probabilities, 0.0),
        }


def _joined(before, token, after):
    """Returns a text with a token in place of a mask, without a space if it is inside a word."""
    return (before if token[:1].isspace() else before.rstrip()) + token.strip() + after
