"""`SpanReader`: turns questions with contexts into token ids, and locates them in the contexts."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from zoo.readers.text.base import arranged
from zoo.readers.text.normalizers import SPACE
from zoo.readers.text.tables import constant
from zoo.readers.text.text_reader import TextReader
from zoo.readers.text.texts import as_texts
from zoo.readers.text.words import to_valid_utf8

OVERLAP = 128  # tokens that neighbouring windows share, the usual number since BERT
_END = b"\xff"  # occurs in no valid UTF-8


class Windows(NamedTuple):
    """Windows of contexts, one per row, each with the question in front.

    Attributes:
        inputs: Dictionary of `token_ids` and `segment_ids`, int32 `(windows, length)`, padded.
        of_context: Whether each token belongs to the context, boolean `(windows, length)`.
        starts, ends: Offsets of each token in the characters of the context, int32 `(windows,
            length)`; 0 for tokens that do not belong to the context.
        owners: Index of the context of each window, int32 `(windows,)`, ascending.
    """

    inputs: dict
    of_context: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    owners: tf.Tensor


class SpanReader(TextReader):
    """Prepares questions, each with a context that may answer it, for question answering.

    A context that is too long is split into windows, which share 128 tokens with the next one, or
    half of a window if that is less. A question of more than half of the tokens is truncated, on
    the tokenizer's `truncation_side`.

    The offsets of a token are those of its characters. If a tokenizer changes a word beyond
    recognition, such as an unknown one, its tokens get the offsets of the whole word, from white
    space to white space.

    Args:
        tokenizer: As for `TextReader`.
        max_length: Maximum number of tokens in a window, question and special tokens included.

    Raises:
        ValueError: If `max_length` has no room for a question and a context.

    Example:

    >>> from zoo import ByteBPETokenizer
    >>> reader = SpanReader(ByteBPETokenizer([], prefix_space=False), max_length=8)
    >>> windows = reader.read(tf.constant([["a", "bc de"]]))
    >>> windows.inputs["token_ids"].numpy().tolist()
    [[1, 100, 2, 101, 102, 35, 103, 2], [1, 100, 2, 35, 103, 104, 2, 0]]
    >>> windows.starts[1].numpy().tolist(), windows.ends[1].numpy().tolist()
    ([0, 0, 0, 3, 3, 4, 0, 0], [0, 0, 0, 3, 4, 5, 0, 0])
    """

    def __init__(self, tokenizer, max_length):
        super().__init__(tokenizer, max_length)
        items = tokenizer.templates[1]
        self._room = max_length - sum(len(item.token_ids) for item in items)
        if self._room < 4:
            raise ValueError(
                f"max_length={max_length} has no room for a question and a context: it must be at "
                f"least {max_length - self._room + 4}."
            )
        context = next(place for place, item in enumerate(items) if item.text == 1)
        self._special_before = sum(len(item.token_ids) for item in items[:context])
        pieces = [tokenizer.piece_bytes(number) for number in range(tokenizer.vocabulary_size)]
        pieces = [b"".join(piece.split()) for piece in pieces]
        sizes = [sum(map(_begins_character, piece)) for piece in pieces]
        inside = [bool(piece) and not _begins_character(piece[0]) for piece in pieces]
        self._sizes = constant(np.array(sizes, "int32"), tf.int32)
        self._inside = constant(np.array(inside, "int32"), tf.int32)

    def requests(self, questions, contexts):
        """Returns a list of pairs, and whether it was one question.

        Args:
            questions: A `str` or a list of `str`.
            contexts: A `str` for all questions, or a list with one for each.

        Raises:
            ValueError: If they are not texts, or their numbers differ.
        """
        questions, is_one = as_texts(questions)
        contexts, is_same = as_texts(contexts)
        contexts = contexts * len(questions) if is_same else contexts
        if len(contexts) != len(questions):
            raise ValueError(
                "`contexts` must be one text, or a list with one for each question. Received: "
                f"{len(questions)} questions and {len(contexts)} contexts."
            )
        return list(zip(questions, contexts, strict=True)), is_one

    def read(self, requests):
        """Reads questions and contexts, in the graph.

        Args:
            requests: Strings `(batch, 2)`.

        Returns:
            `Windows`.
        """
        questions = self.tokenizer.tokenize(requests[:, 0])
        questions = self.tokenizer.truncated(questions, self._room // 2)
        tokens, starts, ends = self.tokens(requests[:, 1])
        # Of each context: how many tokens fit beside the question, and how many there are.
        space = self._room - tf.cast(questions.row_lengths(), tf.int32)
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        overlap = tf.minimum(OVERLAP, space // 2)
        step = space - overlap
        counts = tf.where(lengths > space, -(-(lengths - overlap) // step), 1)
        owners = tf.repeat(tf.range(tf.size(counts)), counts)
        numbers = tf.ragged.range(counts).values  # of a window among those of its context
        firsts = numbers * tf.gather(step, owners)
        sizes = tf.minimum(tf.gather(space, owners), tf.gather(lengths, owners) - firsts)
        begins = tf.cast(tf.gather(tokens.row_starts(), owners), tf.int32) + firsts
        flat = tf.ragged.range(begins, begins + sizes)  # places among all tokens, (windows, (...))
        contexts = flat.with_values(tf.gather(tokens.values, flat.values))
        questions = tf.gather(questions, owners)
        ids, segments = arranged([questions, contexts], self.tokenizer.templates[1])
        ids, segments = ids.to_tensor(self.tokenizer.pad_id), segments.to_tensor(0)
        before = self._special_before + tf.cast(questions.row_lengths(), tf.int32)
        places = tf.range(tf.shape(ids)[1]) - before[:, None]  # in the window, (windows, length)
        of_context = (places >= 0) & (places < sizes[:, None])

        def of_tokens(values):
            values = tf.concat([values, [0]], axis=0)
            at = tf.where(of_context, begins[:, None] + places, tf.size(values) - 1)
            return tf.gather(values, at)

        inputs = {"token_ids": ids, "segment_ids": segments}
        return Windows(inputs, of_context, of_tokens(starts.values), of_tokens(ends.values), owners)

    def places(self, windows, starts, ends):
        """Returns the positions of answers among the tokens of windows, in the graph.

        Args:
            windows: `Windows`.
            starts, ends: Offsets of each answer in the characters of its context, int32 `(batch,)`,
                without white space around it; both 0 if there is no answer.

        Returns:
            int32 `(windows, 2)`: the positions of the first and the last token; both 0, the start
            token, if a window does not contain the whole answer.
        """
        begin, end = (tf.gather(x, windows.owners)[:, None] for x in (starts, ends))
        before = windows.of_context & (windows.ends <= begin)
        up_to = windows.of_context & (windows.starts < end)
        offset = tf.argmax(windows.of_context, axis=1, output_type=tf.int32)
        first = offset + tf.reduce_sum(tf.cast(before, tf.int32), axis=1)
        last = offset + tf.reduce_sum(tf.cast(up_to, tf.int32), axis=1) - 1
        places = tf.stack([first, last], axis=1)
        length = tf.shape(windows.starts)[1]
        at = tf.clip_by_value(places, 0, length - 1)
        is_whole = tf.gather(windows.starts, at[:, :1], batch_dims=1) <= begin
        is_whole &= tf.gather(windows.ends, at[:, 1:], batch_dims=1) >= end
        is_whole &= (first <= last)[:, None] & (begin < end)
        return tf.where(is_whole, places, 0)

    def tokens(self, contexts):
        """Returns the tokens of contexts and their offsets, in the graph.

        Args:
            contexts: Strings `(batch,)`.

        Returns:
            Ragged int32 ids, starts and ends, each `(batch, (tokens))`.
        """
        marked = tf.strings.regex_replace(to_valid_utf8(contexts), f"[^{SPACE}]+", rb"\0" + _END)
        words = tf.strings.split(marked, _END)  # (batch, (words)), with the white space in front
        bare = tf.strings.regex_replace(words.values, f"[{SPACE}]+", "")
        pieces = self.tokenizer.tokenize(bare if self.tokenizer.prefix_space else words.values)
        lengths = tf.strings.length(words.values, "UTF8_CHAR")
        word_ends = _within(tf.cumsum(lengths), words)
        sizes = tf.strings.length(bare, "UTF8_CHAR")
        word_starts = word_ends - sizes
        of_pieces = tf.gather(self._sizes, pieces.values)
        ends = _within(tf.cumsum(of_pieces), pieces)
        starts = ends - of_pieces - tf.gather(self._inside, pieces.values)
        of_words = tf.reduce_sum(pieces.with_values(of_pieces), axis=1)
        owners = pieces.value_rowids()
        is_alike = tf.gather(of_words == sizes, owners)
        word_starts, word_ends = tf.gather(word_starts, owners), tf.gather(word_ends, owners)
        starts = tf.where(is_alike, word_starts + starts, word_starts)
        ends = tf.where(is_alike, word_starts + ends, word_ends)
        row_splits = tf.gather(pieces.row_splits, words.row_splits)
        return [
            tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)
            for values in (pieces.values, starts, ends)
        ]


def _within(sums, ragged):
    """Returns cumulative sums that begin anew in each row of a ragged tensor."""
    before = tf.gather(tf.concat([[0], sums], axis=0), ragged.row_starts())
    return sums - tf.gather(before, ragged.value_rowids())


def _begins_character(byte):
    return byte & 0xC0 != 0x80
