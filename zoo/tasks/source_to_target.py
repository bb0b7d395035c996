"""The base class of tasks that read a text, the source, and write another, the target."""

from numbers import Integral, Real
from typing import Any

import numpy as np
import tensorflow as tf

from zoo import decoding
from zoo.data.batching import bucket_by_length, number_of_batches
from zoo.data.pairs import pairs_of_lists, require_pairs
from zoo.data.seeds import seed_stream
from zoo.decoding.base import require
from zoo.decoding.processors import ForcedFirstToken
from zoo.serving import Start, buckets
from zoo.tasks.arguments import SamplerLike, require_dropout
from zoo.tasks.generating import GeneratingTask
from zoo.tasks.padding import padding_of, require_same_padding

TEXTS_A_TOKENIZER_CALL = 256
MOST_COUNTED = 50_000  # pairs in lists that are tokenized in advance, in a few seconds
LONGEST_TARGET = 400
LONGEST_SOURCE, SHORTEST_LIMIT = 128, 8  # any character has room in the latter


class SourceToTargetTask(GeneratingTask):
    """A task that reads texts, the sources, and writes a text for each, the target.

    Args:
        core: A model of token ids with `start` and `step`. If it has room for only `longest`
            tokens, this limits sources and targets.
        tokenizer: A tokenizer of both, which may be a `TwoSidedTokenizer` or a
            `MultilingualTokenizer`.
        sampler: The default sampler.
        max_source_length: Maximum number of tokens of a source, the end token included; the
            exported model answers longer texts with an empty one.
    """

    data_options = ("subword_dropout",)

    def __init__(self, core, tokenizer, sampler=None, max_source_length=LONGEST_SOURCE, **kwargs):
        super().__init__(core, tokenizer, sampler, **kwargs)
        require_same_padding(core, tokenizer.pad_id)
        self.max_source_length = max_source_length

    @classmethod
    def decides(cls, tokenizer=None, **settings):
        return {**super().decides(tokenizer), **padding_of(tokenizer)}

    @property
    def max_source_length(self):
        """Maximum number of source tokens read at once, the end token included; may be set."""
        return self._max_source_length

    @max_source_length.setter
    def max_source_length(self, tokens):
        self._max_source_length = as_source_length(tokens)

    @property
    def settings(self):
        return {**super().settings, "max_source_length": self.max_source_length}

    @property
    def served_lengths(self):
        """Lengths of texts, in tokens, that the exported model warms up for."""
        longest = self._room(self.max_source_length)
        return sorted({min(length, longest) for length in buckets.LENGTHS})

    def sampler(self, sampler: SamplerLike = None, **options: Any) -> decoding.Sampler:
        """Returns a sampler, as `GeneratingTask.sampler`.

        It begins each target with the token of the target language, if the tokenizer has one.
        """
        chosen = super().sampler(sampler, **options)
        language_id = self.tokenizer.language_id
        if self.tokenizer.tail_ids and any(map(_forces, chosen.processors)):
            # It follows the start token, which is a language: files name the one of their training.
            language_id = self.tokenizer.start_id
        if language_id is None:
            return chosen
        return decoding.with_options(chosen, forced_first_token=language_id)

    # ----------------------------------------------------------------------------------- training

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0, subword_dropout=0.0):
        """Turns pairs of texts into batches for Keras, grouped by length.

        Args:
            x: `tf.data.Dataset` of (source, target) strings, one pair per element; or a list of
                sources.
            y: List of targets, if `x` is a list.
            batch_size: Number of pairs per batch. Defaults to 64.
            shuffle: Whether to shuffle pairs given as lists; a data set is not shuffled.
            seed: Seed of the shuffling and of `subword_dropout`.
            subword_dropout: Probability of BPE dropout: each epoch splits words differently.

        Returns:
            A data set of `(inputs, labels, weights)`. It has a `len` if `x` and `y` are lists of at
            most 50,000 texts and `subword_dropout` is 0; otherwise, the number of batches is known
            after an epoch.

        Raises:
            ValueError: If `x` and `y` are not pairs of texts, or `subword_dropout` is not a
                probability.
            tf.errors.InvalidArgumentError: When it is read, if a text has more tokens than the core
                has room for.
        """
        require_dropout(subword_dropout)
        pairs = x if y is None else pairs_of_lists(x, y)
        require_pairs(pairs)
        if shuffle and y is not None:
            pairs = pairs.shuffle(len(pairs), seed=seed)

        def tokenize(texts, seeds):
            source, target = texts
            return (
                self.source_tokens(source, subword_dropout, seeds[:2]),
                _tokens(self.tokenizer, target, subword_dropout, seeds[2:]),
            )

        texts = tf.data.Dataset.zip(pairs.batch(TEXTS_A_TOKENIZER_CALL), seed_stream(seed, 4))
        tokens = texts.map(tokenize, num_parallel_calls=tf.data.AUTOTUNE).unbatch()
        batch_size = batch_size or self.usual_batch_size
        batches = bucket_by_length(tokens, batch_size, self.tokenizer.pad_id)
        if y is not None and len(pairs) <= MOST_COUNTED and not subword_dropout:
            number = number_of_batches(self._lengths(pairs), batch_size)
            batches = batches.apply(tf.data.experimental.assert_cardinality(number))
        return batches.map(self._teach).prefetch(tf.data.AUTOTUNE)

    def _lengths(self, pairs):
        """Returns the number of tokens of the longer text of each pair, as in a batch."""
        lengths = [
            tf.maximum(self.source_lengths(source), self.tokenizer.tokenize(target).row_lengths())
            for source, target in pairs.batch(TEXTS_A_TOKENIZER_CALL)
        ]
        return np.concatenate(lengths)

    def source_tokens(self, texts, subword_dropout=0.0, seed=None, longest=None):
        """Returns the ragged tokens of texts, the end token included, as the encoder reads them.

        Texts of more than `longest` tokens are truncated.
        """
        tokens = _tokens(self.tokenizer.source, texts, subword_dropout, seed)
        end = self.tokenizer.end_id, *self.tokenizer.source.tail_ids
        tokens = tokens if longest is None else tokens[:, : longest - len(end)]
        return tf.concat([tokens, tf.tile([end], [tf.shape(texts)[0], 1])], axis=1)

    def source_lengths(self, texts):
        """Returns int64 `[batch]`, the numbers of tokens of texts, the end token included."""
        return self.source_tokens(texts).row_lengths()

    def _teach(self, source_ids, target_ids):
        inputs, labels, weights = self.teach(target_ids)
        source_ids = self._with_room(source_ids)
        return {"source_ids": source_ids, "target_ids": inputs}, labels, weights

    # ---------------------------------------------------------------------------------- the graph

    def read(self, requests, served=False):
        """Returns int32 tokens `[batch, source_length]`, and the limits on the target lengths.

        A served text of more than `max_source_length` tokens counts as empty.
        """
        if served:
            requests, tokens = self._without_longer(requests, self._room(self.max_source_length))
        else:
            tokens = self.source_tokens(requests, longest=self.longest)
        source_ids = tokens.to_tensor(self.tokenizer.pad_id)
        is_empty = tf.cast(tf.shape(requests)[0] == 0, tf.int32)
        pad_id = self.tokenizer.pad_id
        # An RNN needs at least one step.
        source_ids = tf.pad(source_ids, [[0, 0], [0, is_empty]], constant_values=pad_id)
        lengths = tf.reduce_sum(tf.cast(source_ids != self.tokenizer.pad_id, tf.int32), axis=1)
        is_blank = tf.strings.regex_full_match(requests, r"[\s\v\x{85}\p{Z}]*")
        return source_ids, tf.where(is_blank, 0, self._usual_length(lengths))

    def _without_longer(self, texts, longest):
        """Returns texts and their tokens; texts of more tokens than the limit count as empty."""
        texts = tf.where(tf.strings.length(texts) > self._most_bytes(longest), "", texts)
        tokens = self.source_tokens(texts)
        is_kept = tokens.row_lengths() <= longest
        is_kept_token = tf.gather(is_kept, tokens.value_rowids())
        is_kept_token |= tokens.values == self.tokenizer.end_id
        tokens = tf.ragged.boolean_mask(tokens, tokens.with_values(is_kept_token))
        return tf.where(is_kept, texts, ""), tokens

    def explanation(self, inputs):
        return {"source_ids": inputs}

    def fill_up(self, inputs):
        return buckets.filled_up(
            inputs, buckets.LENGTHS, axis=1, longest=self.longest, value=self.tokenizer.pad_id
        )

    def longest_answer(self, inputs):
        return self._usual_length(tf.shape(inputs)[1])

    def _usual_length(self, source_length):
        """Returns the default maximum number of tokens in a translation."""
        usual = tf.minimum(2 * source_length + 10, LONGEST_TARGET)
        return usual if self.longest is None else tf.minimum(usual, self.longest)

    def example_request(self, length):
        """Returns a text of that many tokens, the end token included, or a few less."""
        tokens_a_word = self.tokenizer.source.tokenize(["a"]).row_lengths()[0]
        length -= 1 + len(self.tokenizer.source.tail_ids)
        return " ".join(["a"] * int(length // tokens_a_word))

    def serving_start(self):
        def start(source_ids):
            return self.core.start(source_ids, self.longest_answer(source_ids))

        source_ids = tf.TensorSpec([None, None], tf.int32, name="source_ids")
        return Start(start, source_ids, buckets.LENGTHS[-1])

    def _room(self, max_source_length):
        """Returns the number of source tokens that there is room for."""
        return min(max_source_length, self.longest or max_source_length)

    def _most_bytes(self, max_source_length):
        """Returns the maximum number of bytes of a text of at most that many tokens."""
        return (max_source_length - 1) * self.tokenizer.longest_piece


def _tokens(tokenizer, texts, subword_dropout, seed):
    """Returns the ragged tokens of texts, with BPE dropout only if requested."""
    if isinstance(subword_dropout, Real) and subword_dropout == 0.0:
        return tokenizer.tokenize(texts)
    return tokenizer.tokenize(texts, subword_dropout, seed)


def _forces(processor):
    return isinstance(processor, ForcedFirstToken)


def as_source_length(tokens):
    is_length = isinstance(tokens, Integral) and tokens >= SHORTEST_LIMIT
    require(is_length, f"an integer of at least {SHORTEST_LIMIT}", max_source_length=tokens)
    return int(tokens)
