"""Byte-level byte-pair encoding inside the TensorFlow graph."""

import functools
import json
from collections.abc import Iterable
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from zoo.atomic import whole
from zoo.readers.text import library
from zoo.readers.text.base import TextTokenizer
from zoo.readers.text.merges import Merges
from zoo.readers.text.pieces import (
    BYTE_ALPHABET,
    FIRST_BYTE_ID,
    FIRST_MERGE_ID,
    SPECIAL_TOKENS,
    number_pieces,
    spell,
)
from zoo.readers.text.tables import KnownWords, row_ids
from zoo.readers.text.templates import around
from zoo.readers.text.texts import as_texts_to_learn
from zoo.readers.text.words import split_words, to_valid_utf8
from zoo.readers.tracing import traced_once
from zoo.storage import LARGEST, TOKENIZER
from zoo.storage.json_files import read_json

FILE_FORMAT = "ByteBPETokenizer 1"


@keras.saving.register_keras_serializable(package="zoo")
class ByteBPETokenizer(TextTokenizer):
    """Lossless byte-level byte-pair encoding (BPE), made of core TensorFlow ops only.

    A text becomes a sequence of pieces: frequent words stay whole, rare words are split into parts,
    and anything else into single bytes, so that no text is ever unknown. It runs eagerly, in a
    `tf.function`, in `tf.data` and in a SavedModel on any runtime, and returns the same pieces as
    the Hugging Face `tokenizers` library, which trains it.

    A text gets one leading space, so that a word is the same piece at the start of a sentence and
    inside it; `prefix_space=False` omits it, so that texts can be split and joined. Ids are 0 for
    padding, 1 for start, 2 for end, then 256 bytes, then merges in order.

    Papers: Sennrich et al. 2016, Neural Machine Translation of Rare Words with Subword Units
    (https://aclanthology.org/P16-1162); Provilkov et al. 2020, BPE-Dropout: Simple and Effective
    Subword Regularization (https://aclanthology.org/2020.acl-main.170).

    Args:
        merges: List of `(left, right)` pairs of pieces to join, by decreasing priority. Bytes are
            written in the printable alphabet of GPT-2, where a space is `"Ġ"`.
        words: Frequent words, with their leading space, to be looked up whole. They change the
            speed, never the pieces.
        prefix_space: Whether a text gets a leading space, which `detokenize` removes again.

    Raises:
        ValueError: If a merge joins something that is not a piece yet, or repeats a piece.

    Example:

    >>> tokenizer = ByteBPETokenizer([("Ġ", "h"), ("Ġh", "i")])
    >>> tokenizer.tokenize(["hi", "hihi", ""])
    <tf.RaggedTensor [[260], [260, 107, 108], []]>
    >>> tokenizer.detokenize([[260, 107, 108, 2, 0]]).numpy().tolist()
    [b'hihi']
    """

    pad_id = 0
    start_id = 1
    end_id = 2
    templates = around(start_id, end_id)

    def __init__(
        self, merges: Iterable[Any], words: Iterable[str] = (), prefix_space: bool = True
    ) -> None:
        super().__init__()
        self.prefix_space = prefix_space
        merges = list(merges)
        words = list(dict.fromkeys(["", *words]))  # `split_words` gives the empty word as well
        pieces, merged_pairs = number_pieces(merges)
        # Arrays of objects, because a tf.Module tracks every entry of a list.
        self._merges = np.array(merges, dtype=object).reshape(-1, 2)
        self._words = np.array(words, dtype=object)
        self._pieces = np.array(pieces, dtype=object)
        with tf.init_scope(), tf.device("CPU"):
            self._piece_bytes = tf.constant(pieces, tf.string)
            merged_ids = range(FIRST_MERGE_ID, len(pieces))
            self._merge = Merges(merged_pairs, merged_ids, len(pieces))
            self._known = KnownWords(words, self._merge_words(tf.constant(words)))
        self._tokenize = traced_once(
            lambda texts: self._split(texts, lambda words: self._known(words, self._merge_words))
        )
        self._with_dropout = functools.cache(self._compile_with_dropout)

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        vocabulary_size: int = 8000,
        num_words: int = 20000,
        prefix_space: bool = True,
    ) -> Self:
        """Learns merges and frequent words from text, with the `tokenizers` library.

        Args:
            sentences: Iterable of `str`.
            vocabulary_size: Number of ids, at least 259. A short text may result in fewer.
            num_words: Number of most frequent words to look up whole.
            prefix_space: As for the class.

        Returns:
            A `ByteBPETokenizer`, the same for the same text.

        Raises:
            ImportError: If `tokenizers` is not installed.
            ValueError: If there are no sentences, or `vocabulary_size` is too small.

        Example:

        >>> tokenizer = ByteBPETokenizer.train(["the cat", "the hat"], vocabulary_size=300)
        >>> tokenizer.pieces(tokenizer.tokenize(["the hats"]))
        [['the', 'hat', '·s']]
        """
        if vocabulary_size < FIRST_MERGE_ID:
            raise ValueError(
                f"vocabulary_size must be at least {FIRST_MERGE_ID} (special tokens and bytes). "
                f"Received: {vocabulary_size}."
            )
        sentences = as_texts_to_learn(sentences=sentences)
        if not any(sentences):
            raise ValueError("sentences holds no text to learn from (an exhausted generator?).")
        merges = library.learn_merges(sentences, vocabulary_size - FIRST_BYTE_ID, prefix_space)
        words = library.frequent_words(sentences, num_words, prefix_space)
        return cls(merges, words, prefix_space)

    @property
    def vocabulary_size(self):
        """Number of ids: special tokens, bytes and merges."""
        return len(self._pieces)

    @property
    def longest_piece(self):
        """Number of bytes of the longest piece: a text of n tokens has at most n times as many."""
        return max(map(len, self._pieces))

    # AutoGraph, which tf.data applies, would take seconds and change nothing.
    @tf.autograph.experimental.do_not_convert
    def tokenize(self, texts, dropout=0.0, seed=None):
        """Splits texts into the ids of their pieces, without start and end tokens.

        Invalid UTF-8 counts as U+FFFD.

        Args:
            texts: Strings of shape `[batch]`.
            dropout: Probability that a pair is skipped in a merge step, so that training sees a
                word in many splits (BPE dropout, as in the paper; the library retries some dropped
                pairs, and splits less). 1 gives bytes.
            seed: Integer tensor of shape `[2]`, required with dropout. The same seed gives the same
                split.

        Returns:
            A `tf.RaggedTensor` of int32 ids, of shape `[batch, (pieces)]`.

        Raises:
            ValueError: If `texts` is not `[batch]`, or `dropout` is not in [0, 1] or has no seed.

        Example:

        >>> tokenizer = ByteBPETokenizer([("Ġ", "h"), ("Ġh", "i")])
        >>> tokenizer.tokenize(["hi"], dropout=1.0, seed=[0, 1])
        <tf.RaggedTensor [[35, 107, 108]]>
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        if texts.shape.rank not in (1, None):
            raise ValueError(f"texts must have the shape [batch]. Received: {texts.shape}.")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be between 0 and 1. Received: {dropout}.")
        if dropout and seed is None:
            raise ValueError("dropout needs a seed: an integer tensor of shape [2].")
        if not dropout:
            return self._tokenize(texts)
        return self._with_dropout(dropout)(texts, tf.convert_to_tensor(seed))

    @tf.autograph.experimental.do_not_convert
    def detokenize(self, token_ids, begins_text=True):
        """Joins pieces back into texts, up to the first end token.

        Other special tokens are left out; bytes that are not valid UTF-8 become U+FFFD.

        Args:
            token_ids: Integer ids of shape `[batch, length]`, dense or ragged.
            begins_text: Whether the ids begin a text, or continue one, so that a leading space is
                kept.

        Returns:
            Strings of shape `[batch]`.

        Example:

        >>> ByteBPETokenizer([]).detokenize([[1, 35, 75, 108, 2, 75]]).numpy().tolist()
        [b'Hi']
        """
        if isinstance(token_ids, tf.RaggedTensor):
            token_ids = token_ids.to_tensor(self.pad_id)
        token_ids = tf.convert_to_tensor(token_ids, dtype_hint=tf.int32)  # [batch, length]
        ended = tf.cumsum(tf.cast(token_ids == self.end_id, tf.int32), axis=1) > 0
        token_ids = tf.where(ended, tf.cast(self.pad_id, token_ids.dtype), token_ids)
        texts = tf.strings.reduce_join(tf.gather(self._piece_bytes, token_ids), axis=1)  # [batch]
        texts = to_valid_utf8(texts)
        if not self.prefix_space or not begins_text:
            return texts
        return tf.strings.regex_replace(texts, r"\A ", "", replace_global=False)

    def piece_texts(self, token_ids):
        """Returns the texts of ids, in the graph: strings of the shape of `token_ids`.

        A leading space is part of a piece. Special tokens are empty, and bytes that are not whole
        characters become U+FFFD.

        Example:

        >>> ByteBPETokenizer([("Ġ", "h")]).piece_texts([[259, 108, 2]]).numpy().tolist()
        [[b' h', b'i', b'']]
        """
        return to_valid_utf8(tf.gather(self._piece_bytes, token_ids))

    def piece_bytes(self, token_id):
        """Returns the bytes behind one id, none for a special token.

        Example:

        >>> ByteBPETokenizer([]).piece_bytes(3 + 0xC3)
        b'\xc3'
        """
        return self._pieces[token_id]

    def pieces(self, token_ids):
        """Returns readable pieces for ids, such as for the axes of an attention plot.

        A piece inside a word starts with `·`, a piece of white space is shown as `▁`, and a byte
        that is not a whole character as `<0xC3>`.

        Args:
            token_ids: Integer ids of shape `[batch, length]`: dense, ragged or nested lists.

        Returns:
            A list of lists of `str`, one for each id.

        Example:

        >>> tokenizer = ByteBPETokenizer([("Ġ", "h"), ("Ġh", "i")])
        >>> tokenizer.pieces([[1, 260, 107, 108, 3 + 0xC3, 2]])
        [['<start>', 'hi', '·h', '·i', '·<0xC3>', '<end>']]
        """
        if isinstance(token_ids, tf.RaggedTensor):
            token_ids = token_ids.to_list()
        return [[self._spell(int(token)) for token in row] for row in token_ids]

    def save(self, path):
        """Writes merges and words to one readable JSON file, for `load`.

        Args:
            path: Where to write.
        """
        content = {
            "format": FILE_FORMAT,
            "merges": [" ".join(pair) for pair in self._merges],
            "words": self._words[1:].tolist(),
            "prefix_space": self.prefix_space,
        }
        with whole(path) as unfinished:
            text = json.dumps(content, ensure_ascii=False, indent=1)
            unfinished.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path):
        """Reads a tokenizer that `save` wrote.

        Args:
            path: The file.

        Returns:
            A `ByteBPETokenizer`.

        Raises:
            ValueError: If the file does not hold a tokenizer; the message says why.
        """
        try:
            return cls(*_parse_content(read_json(path, LARGEST[TOKENIZER])))
        except ValueError as error:
            raise ValueError(f"{path} does not hold a ByteBPETokenizer: {error}") from error

    def get_config(self):
        return {
            "merges": self._merges.tolist(),
            "words": self._words[1:].tolist(),
            "prefix_space": self.prefix_space,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def to_library(self):
        """Returns the same tokenizer as an object of the `tokenizers` library.

        Returns:
            A `tokenizers.Tokenizer` that encodes texts into the same ids.

        Raises:
            ImportError: If `tokenizers` is not installed.
        """
        merges = [tuple(pair) for pair in self._merges]
        names = [*SPECIAL_TOKENS, *BYTE_ALPHABET, *map("".join, merges)]
        vocabulary = {name: token for token, name in enumerate(names)}
        return library.encoder(vocabulary, merges, self.prefix_space)

    def _compile_with_dropout(self, dropout):
        def tokenize(texts, seed):
            return self._split(texts, lambda words: self._merge_words(words, dropout, seed))

        return traced_once(tokenize)

    def _split(self, texts, pieces_of):
        """Returns the ids of texts `[batch]` -> `[batch, (pieces)]`, from those of their words."""
        with tf.device("CPU"):  # where strings and tables are: a GPU would only send ids to and fro
            words = split_words(texts, self.prefix_space)  # [batch, (words)]
            pieces = words.with_values(pieces_of(words.values))  # [batch, (words), (pieces)]
            return pieces.merge_dims(1, 2)

    def _merge_words(self, words, dropout=0.0, seed=None):
        """Returns the ids of words `[words]` -> `[words, (pieces)]`, by merging their bytes."""
        ends = tf.cumsum(tf.cast(tf.strings.length(words), tf.int64))
        text = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)  # [symbols]
        symbols = tf.cast(text, tf.int64) + FIRST_BYTE_ID
        owners = row_ids(tf.concat([[0], ends], axis=0))
        return self._merge(symbols, owners, tf.size(words, tf.int64), dropout, seed)

    def _spell(self, token):
        return SPECIAL_TOKENS[token] if token < FIRST_BYTE_ID else spell(self._pieces[token])


def _parse_content(content):
    """Returns the merges and words of a file, and whether texts get a leading space."""
    if not isinstance(content, dict) or content.get("format") != FILE_FORMAT:
        raise ValueError(f'"format" is not "{FILE_FORMAT}".')
    for key in ("merges", "words"):
        entries = content.get(key)
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise ValueError(f'"{key}" is not a list of strings.')
    merges = [tuple(merge.split(" ")) for merge in content["merges"]]
    prefix_space = content.get("prefix_space", True)
    if not isinstance(prefix_space, bool):
        raise ValueError('"prefix_space" is neither true nor false.')
    return merges, content["words"], prefix_space
