"""Unicode normal forms: the order of combining marks, and their composition with letters.

The tables are those of Python's `unicodedata`.
"""

import functools
import itertools
import unicodedata

import tensorflow as tf

from zoo.readers.text.characters import (
    CharacterMap,
    CharacterTable,
    normal_form,
    numbers_of_characters,
)
from zoo.readers.text.tables import row_ids, static_table

_HANGUL = 0xAC00, 19, 21, 28  # the first syllable; leading consonants, vowels, trailing consonants
_JAMO = 0x1100, 0x1161, 0x11A7


class MarkOrder(tf.Module):
    """Puts the combining marks after each letter in canonical order."""

    def __init__(self):
        super().__init__()
        self._classes = CharacterTable(numbers_of_characters(unicodedata.combining))

    def __call__(self, texts):
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        return tf.strings.unicode_encode(self.order(characters), "UTF-8")

    def order(self, characters):
        """Orders code points: a `tf.RaggedTensor`, `[texts, (characters)]`."""
        points = characters.values
        classes = tf.cast(self._classes(points), tf.int64)
        # Marks at the beginning of a text do not belong to the previous text.
        groups = tf.cumsum(tf.cast(classes == 0, tf.int64)) + row_ids(characters.row_splits)
        places = tf.range(tf.size(points, tf.int64))
        keys = (groups * 256 + classes) * tf.size(points, tf.int64) + places  # none twice
        return characters.with_values(tf.gather(points, tf.argsort(keys)))


class Composed(tf.Module):
    """Converts texts to the normal form NFC or NFKC.

    Texts whose characters all stay the same in any context are skipped.

    Args:
        form: `"NFC"` or `"NFKC"`.
    """

    def __init__(self, form):
        super().__init__()
        self._decompose = CharacterMap(normal_form(form.replace("C", "D")))
        self._order = MarkOrder()
        pairs = _compositions()
        self._touched = CharacterTable(_touched(form))
        with tf.init_scope(), tf.device("CPU"):
            self._pairs = static_table(
                [ord(first) << 21 | ord(second) for first, second in pairs],
                [ord(character) for character in pairs.values()],
                default=-1,
            )

    def __call__(self, texts):
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        return tf.cond(
            tf.reduce_any(self._touched(characters.values) > 0),
            lambda: tf.strings.unicode_encode(self._compose(characters), "UTF-8"),
            lambda: texts,
        )

    @tf.autograph.experimental.do_not_convert
    def _compose(self, characters):
        characters = self._order.order(self._decompose.replace(characters))
        points = tf.cast(characters.values, tf.int64)
        rows = row_ids(characters.row_splits)

        def goes_on(points, rows, is_changed):
            return is_changed

        def compose_first(points, rows, _):
            """Composes every letter with the first mark that it can take."""
            classes = self._order._classes(points)
            places = tf.range(tf.size(points, tf.int64))
            starters = tf.where(classes == 0)[:, 0]
            groups = tf.cumsum(tf.cast(classes == 0, tf.int64))  # 0: before any starter
            # The last starter before each character, itself if it is none.
            own = tf.gather(tf.concat([[-1], starters], axis=0), groups)
            before = tf.gather(tf.concat([[-1], starters], axis=0), tf.maximum(groups - 1, 0))
            starter = tf.where(classes == 0, before, own)
            first = tf.gather(points, tf.maximum(starter, 0))
            pair = tf.bitwise.left_shift(first, 21) | points
            composed = self._pairs.lookup(pair)
            previous = tf.concat([[0], classes[:-1]], axis=0)
            is_next = places == starter + 1
            is_free = is_next | ((previous < classes) & (classes > 0))
            in_row = tf.gather(rows, tf.maximum(starter, 0)) == rows
            can = (composed >= 0) & is_free & (starter >= 0) & in_row
            # Only the first mark of each starter; no starter is both base and mark.
            candidates = tf.where(can, places, tf.size(points, tf.int64))
            size = tf.size(points, tf.int64)
            firsts = tf.math.unsorted_segment_min(candidates, tf.maximum(starter, 0), size)
            chosen = can & (tf.gather(firsts, tf.maximum(starter, 0)) == places)
            takes = tf.math.unsorted_segment_max(
                tf.cast(chosen, tf.int32), tf.maximum(starter, 0), size
            )
            first_taker = (takes > 0) & ~chosen
            chosen &= tf.gather(first_taker, tf.maximum(starter, 0))
            taken = tf.where(chosen)[:, 0]
            points = tf.tensor_scatter_nd_update(
                points, tf.gather(starter, taken)[:, None], tf.gather(composed, taken)
            )
            kept = tf.where(~chosen)[:, 0]
            return tf.gather(points, kept), tf.gather(rows, kept), tf.size(taken) > 0

        vector = tf.TensorShape([None])
        points, rows, _ = tf.while_loop(
            goes_on,
            compose_first,
            (points, rows, tf.constant(True)),
            (vector, vector, tf.TensorShape([])),
        )
        return tf.RaggedTensor.from_value_rowids(
            tf.cast(points, tf.int32), rows, nrows=characters.nrows(), validate=False
        )


@functools.cache
def _touched(form):
    """Whether a character may change in a normal form, `[0x110000]`."""
    taken = {second for _, second in _compositions()}
    return numbers_of_characters(
        lambda character: (
            character in taken
            or unicodedata.combining(character) > 0
            or unicodedata.normalize(form, character) != character
        )
    )


@functools.cache
def _compositions():
    """Returns a dictionary from pairs of characters to their composition."""
    pairs = {}
    for point in (*range(0xAC00), *range(0xF900, 0x2FA20)):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(part, 16)) for part in parts)
            if unicodedata.normalize("NFC", pair) == chr(point):
                pairs[tuple(pair)] = chr(point)
    first, leads, vowels, trails = _HANGUL
    lead, vowel, trail = _JAMO
    for i, j in itertools.product(range(leads), range(vowels)):
        syllable = first + (i * vowels + j) * trails
        pairs[chr(lead + i), chr(vowel + j)] = chr(syllable)
        for k in range(1, trails):
            pairs[chr(syllable), chr(trail + k)] = chr(syllable + k)
    return pairs
