"""Tables of all characters, and the replacement of characters one by one."""

import functools
import unicodedata

import numpy as np
import tensorflow as tf

from zoo.readers.text.tables import constant, row_ids

WHITE_SPACE = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    chr(point) for point in range(0x2000, 0x200B)
}
_PAGE = 256
_END = 0x110000
_LAST_ASSIGNED = 0x33480  # of the planes for scripts; then come planes of one kind
_ALIKE = (  # ranges whose characters are all like the first one
    (_LAST_ASSIGNED, 0xE0000),
    (0xE0200, 0xF0000),
    (0xF0000, 0xFFFFE),
    (0x100000, 0x10FFFE),
)


class CharacterTable(tf.Module):
    """A table of a number for each character; equal pages are stored once.

    Args:
        values: Integers, `[0x110000]`.
    """

    def __init__(self, values):
        super().__init__()
        pages = np.reshape(values, [-1, _PAGE]).astype("int32")
        numbers = {}  # of different pages: `np.unique` would take a third of a second to sort them
        places = [numbers.setdefault(page.tobytes(), len(numbers)) for page in pages]
        self._places = constant(np.multiply(places, _PAGE), tf.int32)
        self._values = constant(np.frombuffer(b"".join(numbers), "int32"), tf.int32)

    def __call__(self, code_points):
        """Returns the numbers of code points, int32, in their shape."""
        code_points = tf.cast(code_points, tf.int32)
        page = tf.gather(self._places, code_points // _PAGE)
        return tf.gather(self._values, page + code_points % _PAGE)


class CharacterMap(tf.Module):
    """Replaces every character with a text, which may be empty.

    Args:
        *functions: Functions from a character to a `str`, applied one after the other.
    """

    def __init__(self, *functions):
        super().__init__()
        numbers, texts = _replacements(functions)
        lengths = [1, *map(len, texts)]
        pool = [-1, *(ord(character) for text in texts for character in text)]
        self._numbers = CharacterTable(numbers)
        self._lengths = constant(lengths, tf.int64)
        self._starts = constant(np.cumsum(lengths) - lengths, tf.int64)
        self._pool = constant(pool, tf.int32)

    def __call__(self, texts):
        """Replaces the characters of texts, strings `[texts]`."""
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        return tf.strings.unicode_encode(self.replace(characters), "UTF-8")

    def replace(self, characters):
        """Replaces code points: a `tf.RaggedTensor`, `[texts, (characters)]`."""
        numbers = self._numbers(characters.values)
        starts = tf.gather(self._starts, numbers)
        lengths = tf.gather(self._lengths, numbers)
        new = tf.ragged.range(starts, starts + lengths)  # [characters, (of each)]
        points = tf.gather(self._pool, new.values)
        old = tf.gather(characters.values, row_ids(new.row_splits))
        return tf.RaggedTensor.from_row_splits(
            tf.where(points < 0, old, points),
            tf.gather(new.row_splits, characters.row_splits),
            validate=False,
        )


@functools.cache
def numbers_of_characters(number):
    """Returns the values of a function for all characters, `[0x110000]`, for a `CharacterTable`."""
    numbers = np.zeros(_END, np.int32)
    for point in _representatives():
        numbers[point] = number(chr(point))
    for first, last in _ALIKE:
        numbers[first:last] = numbers[first]
    return numbers


@functools.cache
def normal_form(form):
    """Returns the function that gives the normal form of a single character."""
    return functools.partial(unicodedata.normalize, form)


@functools.cache
def _replacements(functions):
    """Returns the index of each character's replacement, 0 for none, and the texts from index 1."""
    points = list(_representatives())
    replaced = characters = list(map(chr, points))
    for function in functions:
        replaced = [
            function(text) if len(text) == 1 else "".join(map(function, text)) for text in replaced
        ]
    numbers, texts = np.zeros(_END, np.int32), {}
    for point, character, text in zip(points, characters, replaced, strict=True):
        if text != character:
            numbers[point] = texts.setdefault(text, len(texts) + 1)
    for first, last in _ALIKE:
        numbers[first:last] = numbers[first]
    return numbers, [*texts]


def _representatives():
    yield from range(0xD800)
    yield from range(0xE000, _LAST_ASSIGNED)
    yield from range(0xE0000, 0xE0200)
    yield from (first for first, _ in _ALIKE)
    yield from (0xFFFFE, 0xFFFFF, 0x10FFFE, 0x10FFFF)
