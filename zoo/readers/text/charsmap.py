"""SentencePiece's normalization: replacement rules for characters, compiled into a file.

SentencePiece applies the longest matching rule at each position. The `tokenizers` library works on
grapheme clusters: to one of less than six bytes, it applies the shortest rule as a whole.
"""

import base64
import functools
import unicodedata

import numpy as np
import tensorflow as tf

from zoo.readers.text.characters import CharacterTable, numbers_of_characters
from zoo.readers.text.tables import constant, row_ids
from zoo.readers.text.trie import SEPARATOR, Trie, visited, with_separators

_OTHER, _CONTROL, _EXTENDS, _PREPENDED, _RETURN, _FEED = range(6)
_SMALL = 6  # bytes


class Charsmap(tf.Module):
    """Replaces characters according to rules.

    Args:
        rules: Dictionary from a `str` to its replacement.
        by_clusters: Whether to apply rules like `tokenizers` rather than SentencePiece.
    """

    def __init__(self, rules, by_clusters):
        super().__init__()
        numbers = {text: number for number, text in enumerate(dict.fromkeys(rules.values()), 1)}
        # Texts one after the other; number 0 is a character that stays.
        lengths = [1, *map(len, numbers)]
        self._lengths = constant(lengths, tf.int64)
        self._starts = constant(np.cumsum(lengths) - lengths, tf.int64)
        self._pool = constant([-1, *(ord(each) for text in numbers for each in text)], tf.int32)
        self._rules = Trie([*rules], [numbers[text] for text in rules.values()])
        self._by_clusters = by_clusters
        if by_clusters:
            self._kinds = CharacterTable(numbers_of_characters(_kind))

    def __call__(self, texts):
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        symbols, splits = with_separators(characters)
        apply = self._apply_shortest if self._by_clusters else self._apply_longest
        is_kept, numbers = apply(symbols, splits)
        is_kept &= symbols != SEPARATOR
        kept = tf.where(is_kept)[:, 0]
        numbers = tf.gather(numbers, kept)
        starts = tf.gather(self._starts, numbers)
        new = tf.ragged.range(starts, starts + tf.gather(self._lengths, numbers))
        points = tf.gather(self._pool, new.values)
        old = tf.gather(tf.gather(symbols, kept), row_ids(new.row_splits))
        kept_before = tf.concat([[0], tf.cumsum(tf.cast(is_kept, tf.int64))], axis=0)
        replaced = tf.RaggedTensor.from_row_splits(
            tf.where(points < 0, tf.cast(old, tf.int32), points),
            tf.gather(new.row_splits, tf.gather(kept_before, splits)),
            validate=False,
        )
        return tf.strings.unicode_encode(replaced, "UTF-8")

    def _apply_longest(self, symbols, splits):
        """Returns which positions begin a match or stay, and the index of the text to write."""
        places = tf.range(tf.size(symbols, tf.int64))
        lengths, numbers = self._rules.longest(symbols, places)
        is_first = visited(places + tf.maximum(lengths, 1), splits[:1])
        return is_first, tf.maximum(numbers, 0)

    def _apply_shortest(self, symbols, splits):
        size = tf.size(symbols, tf.int64)
        first = _cluster_starts(self._kinds, symbols)
        cluster = tf.cumsum(tf.cast(first, tf.int64)) - 1
        starts = tf.where(first)[:, 0]
        sizes = tf.concat([starts[1:], [size]], axis=0) - starts
        num_bytes = tf.math.segment_sum(_utf8_bytes(symbols), cluster)
        is_small = (num_bytes < _SMALL) & (sizes > 1)
        found, lengths, numbers = self._rules.matches(symbols, tf.range(size))
        of = tf.gather(cluster, found)
        is_whole = tf.gather(is_small, of) & (found == tf.gather(starts, of))
        is_whole &= lengths <= tf.gather(sizes, of)
        best = tf.where(is_whole, tf.bitwise.left_shift(lengths, 32) | numbers, tf.int64.max)
        best = tf.math.unsorted_segment_min(best, of, tf.size(starts, tf.int64))
        is_replaced = best < tf.int64.max  # the whole cluster
        single = tf.where(lengths == 1, numbers, 0)
        single = tf.maximum(tf.math.unsorted_segment_max(single, found, size), 0)
        replaced = tf.gather(is_replaced, cluster)
        whole = tf.bitwise.bitwise_and(tf.gather(best, cluster), (1 << 32) - 1)
        return first | ~replaced, tf.where(replaced, whole, single)


@functools.lru_cache(maxsize=2)
def parse(compiled):
    """Returns the rules of a map, a dictionary from `str` to `str`.

    Args:
        compiled: The map as SentencePiece writes it, in base64: a double-array trie of the keys in
            UTF-8, and the replacements. Keys must not be empty.

    Raises:
        ValueError: If it is not such a map.
    """
    compiled = base64.b64decode(compiled)
    if not compiled:
        return {}
    size = int.from_bytes(compiled[:4], "little")
    if size % 4 or not 0 < size <= len(compiled) - 4:
        raise ValueError("the precompiled normalization is damaged.")
    units = np.frombuffer(compiled[4 : 4 + size], "<u4").astype(np.int64)
    texts = compiled[4 + size :]
    offsets = (units >> 10) << ((units & (1 << 9)) >> 6)
    labels = units & ((1 << 31) | 0xFF)
    children = np.flatnonzero((labels > 0) & (labels < 256))
    bases = children ^ labels[children]
    order = np.argsort(bases, kind="stable")
    children, bases = children[order], bases[order]
    rules, nodes, keys = {}, np.array([0]), [b""]
    while keys:
        own = offsets[nodes] ^ nodes
        if np.any(own >= len(units)):
            raise ValueError("the precompiled normalization is damaged.")
        for node, base, key in zip(nodes, own, keys, strict=True):
            if key and units[node] >> 8 & 1:
                start = int(units[base] & (2**31 - 1))
                rules[key.decode()] = texts[start : texts.index(b"\0", start)].decode()
        firsts, ends = np.searchsorted(bases, own), np.searchsorted(bases, own, side="right")
        new = np.concatenate([np.arange(*each) for each in zip(firsts, ends, strict=True)])
        parents = np.repeat(np.arange(len(keys)), ends - firsts)
        nodes = children[new.astype(np.int64)]
        # UTF-8 in keys of at most 32 bytes: a damaged trie may have circles.
        keys = [keys[parent] + bytes([labels[node]]) for parent, node in zip(parents, nodes)]  # noqa: B905
        if keys and len(keys[0]) > 32:
            raise ValueError("the precompiled normalization is damaged.")
    return rules


def _utf8_bytes(points):
    bounds = constant([0x80, 0x800, 0x10000], tf.int64)
    return tf.searchsorted(bounds, points, side="right", out_type=tf.int64) + 1


def _cluster_starts(kinds, symbols):
    """Whether a grapheme cluster begins at each symbol, as far as it matters for small ones."""
    is_separator = symbols == SEPARATOR
    kind = kinds(tf.where(is_separator, tf.zeros_like(symbols), symbols))
    kind = tf.where(is_separator, _CONTROL, kind)
    before, after = kind[:-1], kind[1:]
    is_break = (before == _CONTROL) | (before == _RETURN) | (before == _FEED)
    joins = (after == _EXTENDS) & ~is_break
    joins |= (before == _PREPENDED) & ((after == _OTHER) | (after == _PREPENDED))
    joins |= (before == _RETURN) & (after == _FEED)
    return tf.concat([tf.ones_like(kind[:1], tf.bool), ~joins], axis=0)


_PREPEND = frozenset(
    [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0xD4E, 0x110BD, 0x110CD]
    + [0x111C2, 0x111C3, 0x1193F, 0x11941, 0x11A3A, *range(0x11A84, 0x11A8A), 0x11D46, 0x11F02]
)
_SPACING_LETTERS = frozenset([0xE33, 0xEB3, 0x200C, 0x200D, 0xFF9E, 0xFF9F])
_EMOJI_PARTS = frozenset([*range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080)])
_NO_SPACING_MARKS = frozenset(  # of category Mc, but clusters of their own
    [0x102B, 0x102C, 0x1038, *range(0x1062, 0x1065), *range(0x1067, 0x106E), 0x1083]
    + [*range(0x1087, 0x108D), 0x108F, *range(0x109A, 0x109D), 0x1A61, 0x1A63, 0x1A64]
    + [0xAA7B, 0xAA7D, 0x11720, 0x11721]
)


def _kind(character):
    point = ord(character)
    if point in _PREPEND:
        return _PREPENDED
    if point in _SPACING_LETTERS or point in _EMOJI_PARTS:
        return _EXTENDS
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Mc") and point not in _NO_SPACING_MARKS:
        return _EXTENDS
    if character == "\r":
        return _RETURN
    if character == "\n":
        return _FEED
    return _CONTROL if category in ("Cc", "Cf", "Zl", "Zp") else _OTHER
