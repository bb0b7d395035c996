"""Byte-pair encoding with the ids of a vocabulary, over bytes or over characters."""

import re

import numpy as np
import tensorflow as tf

from zoo.readers.text.characters import CharacterTable
from zoo.readers.text.merges import Merges
from zoo.readers.text.pieces import BYTE_ALPHABET
from zoo.readers.text.tables import KnownWords, constant, row_ids

_BYTE_OF = {character: byte for byte, character in enumerate(BYTE_ALPHABET)}
_KNOWN_WORDS = 30000  # pieces of lower ids are more frequent
_DROPPED = -1
_SPACE = "▁"
_ACROSS = re.compile(f"[^{_SPACE}]{_SPACE}")
_END = b"\xff"  # occurs in no valid UTF-8
_BEFORE_SPACE = f"([^{_SPACE}]){_SPACE}", rb"\1" + _END + _SPACE.encode()


class BytePairs(tf.Module):
    """Splits words into symbols and merges them.

    Args:
        vocabulary: Dictionary of pieces to their ids.
        merges: List of `(left, right)` pieces, by decreasing priority.
        ranks: Ranks of the merges, as for `Merges`.
        is_byte_level: Whether words are split into bytes, which pieces spell in the alphabet of
            GPT-2, rather than into characters.
        unknown_token: The piece of unknown characters, or `None` to leave them out.
        fuse_unknown: Whether neighboring unknown characters are fused into one piece.
        byte_fallback: Whether unknown characters become the pieces of their bytes, `<0x..>`.
        suffix: Suffix of the last symbol of a word, such as `"</w>"`.
        ignore_merges: Whether a word that is a piece stays whole, regardless of the merges.

    Raises:
        ValueError: If a merge joins pieces that are not in the vocabulary, or a piece of
            `byte_fallback` is missing.
    """

    def __init__(
        self,
        vocabulary,
        merges,
        is_byte_level,
        ranks=None,
        unknown_token=None,
        fuse_unknown=False,
        byte_fallback=False,
        suffix="",
        ignore_merges=False,
    ):
        super().__init__()
        self._is_byte_level, self._fuse_unknown = is_byte_level, fuse_unknown
        self._unknown_id = _DROPPED if unknown_token is None else vocabulary[unknown_token]
        self._suffix, num_ids = suffix, max(vocabulary.values(), default=0) + 1
        self._merges = Merges(*_numbered(merges, vocabulary), num_ids, ranks)
        # If spaces occur only at the start of pieces, each word is merged by itself.
        self._has_words = not is_byte_level and not any(map(_ACROSS.search, vocabulary))
        self._has_words &= _SPACE in vocabulary
        if is_byte_level:
            ends = BYTE_ALPHABET + [character + suffix for character in BYTE_ALPHABET]
            self._byte_ids = constant([vocabulary.get(each, _DROPPED) for each in ends], tf.int64)
        else:
            if suffix:
                raise ValueError(f"the suffix {suffix!r} is implemented for bytes only.")
            ids = np.full(0x110000, _DROPPED)
            for piece, number in vocabulary.items():
                if len(piece) == 1:
                    ids[ord(piece)] = number
            self._character_ids = CharacterTable(ids)
            self._has_fallback = byte_fallback
            if byte_fallback:
                self._byte_ids = constant(_ids_of_bytes(vocabulary), tf.int64)
        self._known = None
        words = self._whole_words(vocabulary)
        if not ignore_merges:
            words = dict(sorted(words.items(), key=lambda item: item[1])[:_KNOWN_WORDS])
        with tf.init_scope(), tf.device("CPU"):
            if ignore_merges:
                ids = tf.constant([*words.values()], tf.int32, [len(words)])
                pieces = tf.RaggedTensor.from_tensor(ids[:, None])
            else:
                pieces = self._split(tf.constant([*words], tf.string))
            self._known = KnownWords([*words], pieces)

    def __call__(self, words):
        """Returns the ids of words: strings `[words]` -> int32 `[words, (pieces)]`."""
        if not self._has_words:
            return self._known(words, self._split)
        parts = tf.strings.split(tf.strings.regex_replace(words, *_BEFORE_SPACE), sep=_END)
        pieces = self._known(parts.values, self._split)
        splits = tf.gather(pieces.row_splits, parts.row_splits)
        return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)

    def _whole_words(self, vocabulary):
        """Returns the words that are a single piece, as bytes, each with its id."""
        words = {}
        for piece, number in vocabulary.items():
            if not piece.endswith(self._suffix) or len(piece) == len(self._suffix):
                continue
            word = piece.removesuffix(self._suffix)
            if not self._is_byte_level:
                words[word.encode()] = number
            elif all(character in _BYTE_OF for character in word):
                word = bytes(_BYTE_OF[character] for character in word)
                if _is_utf8(word):
                    words[word] = number
        return words

    def _split(self, words):
        split = self._bytes if self._is_byte_level else self._characters
        symbols, owners = split(words)
        return self._merges(symbols, owners, tf.size(words, tf.int64))

    def _bytes(self, words):
        """Returns the ids of the bytes of words, and the words that they belong to."""
        ends = tf.cumsum(tf.cast(tf.strings.length(words), tf.int64))
        text = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)  # [symbols]
        symbols = tf.cast(text, tf.int32)
        owners = row_ids(tf.concat([[0], ends], axis=0))
        if self._suffix:
            is_last = tf.concat([owners[1:] != owners[:-1], tf.ones_like(owners[:1]) > 0], axis=0)
            symbols += tf.where(is_last[: tf.size(symbols)], 256, 0)
        return self._without_unknown(tf.gather(self._byte_ids, symbols), owners)

    def _characters(self, words):
        characters = tf.strings.unicode_decode(words, "UTF-8")
        symbols = tf.cast(self._character_ids(characters.values), tf.int64)
        owners = row_ids(characters.row_splits)
        if self._has_fallback:
            text = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
            sizes = 1 + tf.searchsorted([0x80, 0x800, 0x10000], characters.values, side="right")
            starts = tf.cumsum(sizes, exclusive=True)
            new = tf.ragged.range(starts, starts + tf.where(symbols < 0, sizes, 1))
            of = row_ids(tf.cast(new.row_splits, tf.int64))
            of_bytes = tf.gather(self._byte_ids, tf.cast(tf.gather(text, new.values), tf.int32))
            symbols = tf.gather(symbols, of)
            return tf.where(symbols < 0, of_bytes, symbols), tf.gather(owners, of)
        return self._without_unknown(symbols, owners)

    def _without_unknown(self, symbols, owners):
        """Drops or fuses the symbols that the vocabulary lacks, or replaces them with a token."""
        is_unknown = symbols < 0
        kept = ~is_unknown
        if self._unknown_id != _DROPPED:
            kept |= True
            if self._fuse_unknown:
                again = is_unknown[1:] & is_unknown[:-1] & (owners[1:] == owners[:-1])
                kept = ~tf.concat([tf.zeros_like(is_unknown[:1]), again], axis=0)
        kept = tf.where(kept)[:, 0]
        symbols = tf.where(is_unknown, tf.cast(self._unknown_id, tf.int64), symbols)
        return tf.gather(symbols, kept), tf.gather(owners, kept)


def _numbered(merges, vocabulary):
    """Returns the ids of the pairs `[2, merges]`, and those of the merged pieces."""
    pairs, merged = [], []
    for merge in merges:
        left, right = merge
        if not {left, right, left + right} <= vocabulary.keys():
            raise ValueError(f"merge {merge} joins or makes a piece that is not in the vocabulary.")
        pairs.append((vocabulary[left], vocabulary[right]))
        merged.append(vocabulary[left + right])
    return np.array(pairs, np.int64).reshape(-1, 2).T, merged


def _ids_of_bytes(vocabulary):
    """Returns the ids of the 256 bytes of unknown characters.

    A byte that is a character of its own needs no other piece, such as the tab of Gemma.
    """
    ids = []
    for byte in range(256):
        pieces = [f"<0x{byte:02X}>", *([chr(byte)] if byte < 128 else [])]
        found = [vocabulary[piece] for piece in pieces if piece in vocabulary]
        if not found:
            raise ValueError(
                "byte_fallback needs the pieces <0x00> to <0xFF> in the vocabulary. "
                f"{pieces[0]} is missing."
            )
        ids.append(found[0])
    return ids


def _is_utf8(word):
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True
