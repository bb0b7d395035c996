"""Splits normalized texts into words: the pre-tokenizers of `tokenizer.json`.

`\\xff`, which occurs in no valid UTF-8, marks the ends of words, before texts are split there.
"""

import string
import unicodedata

import tensorflow as tf

from zoo.readers.text.characters import WHITE_SPACE
from zoo.readers.text.normalizers import SPACE, EachCharacter

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_CASED = (  # of "ATTENTIONLayers", "ATTENTION" and "Layers" are words
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%(ends)s"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%(ends)s"
    r"|%(digits)s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT4O = _CASED % {"ends": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "digits": r"\p{N}{1,3}"}
TEKKEN = _CASED % {"ends": "", "digits": r"\p{N}"}
CLIP = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"  # an inner class, which only adds its characters
_PATTERNS = {
    "GPT-2": GPT2,
    "Llama 3": LLAMA3,
    "Qwen 2": QWEN2,
    "GPT-4o": GPT4O,
    "Mistral NeMo": TEKKEN,
    "CLIP": CLIP,
    "BLOOM": BLOOM,
}
_LAST_SPACES = r"\s+(?!\S)|"  # RE2 has no lookahead
_END = b"\xff"


class Words:
    """Splits texts `[texts]`, one splitter after the other, into words `[texts, (words)]`.

    Args:
        definition: The entry of `tokenizer.json`, which may be `None`.

    Attributes:
        steps: Normalization steps before the texts are split, as by `normalizers.steps_of`.
        is_byte_level: Whether the model reads the bytes of words.

    Raises:
        ValueError: If a pre-tokenizer is not implemented; the message names it.
    """

    def __init__(self, definition):
        splitters = _sequence(definition)
        kinds = [splitter["type"] for splitter in splitters]
        self.steps = []
        self.is_byte_level = "ByteLevel" in kinds
        if "BertPreTokenizer" in kinds:
            if len(kinds) > 1:
                raise ValueError("BertPreTokenizer among other pre-tokenizers is not implemented.")
            self.steps = [EachCharacter(_spaces_around)]
        if self.is_byte_level and kinds.index("ByteLevel") != len(kinds) - 1:
            raise ValueError("pre-tokenizers behind ByteLevel are not implemented.")
        if any(is_first_only(splitter) for splitter in splitters[1:]):
            raise ValueError("Metaspace for the first word of many is not implemented.")
        self._functions = [_splitter(splitter) for splitter in splitters]

    def __call__(self, texts, is_first):
        """Returns the words of texts.

        Args:
            texts: Strings.
            is_first: Whether each text is the beginning of a user's text, `[texts]`.
        """
        words = None
        for function in self._functions:
            if words is None:
                words = function(texts, is_first)
            else:
                words = words.with_values(function(words.values, is_first)).merge_dims(1, 2)
        if words is None:
            words = tf.RaggedTensor.from_tensor(texts[:, None])
        return words


def is_first_only(definition):
    return definition["type"] == "Metaspace" and definition.get("prepend_scheme") == "first"


def split_at_marks(texts):
    return tf.strings.split(texts, sep=_END)


def to_re2(pattern):
    """Returns a pattern for RE2, and one that separates the last white space of a run.

    A run of white space before a word is a word of its own, except for its last character.
    """
    spaces = SPACE
    last = SPACE if r"\s*[\r\n]+" not in pattern else r"\t\x0b\x0c \x{85}\p{Z}"
    apart = rf"([{spaces}])([{last}][^{spaces}])" if _LAST_SPACES in pattern else None
    pattern = pattern.replace(_LAST_SPACES, "")
    pattern = pattern.replace(r"[^\s", f"[^{spaces}").replace(r"\s", f"[{spaces}]")
    return pattern, apart


def _sequence(definition):
    if definition is None:
        return []
    if definition["type"] == "Sequence":
        return [each for inner in definition["pretokenizers"] for each in _sequence(inner)]
    return [definition]


def _splitter(definition):
    kind = definition["type"]
    if kind not in _SPLITTERS:
        raise ValueError(
            f"the pre-tokenizer {kind!r} is not implemented. There are: {', '.join(_SPLITTERS)}."
        )
    return _SPLITTERS[kind](definition)


def _spaces_around(character):
    if character in WHITE_SPACE:
        return " "
    is_mark = character in string.punctuation or unicodedata.category(character)[0] == "P"
    return f" {character} " if is_mark else character


def _at_spaces(definition):
    return lambda texts, is_first: tf.strings.split(texts)


def _at_all_white_space(definition):
    def split(texts, is_first):
        return tf.strings.split(tf.strings.regex_replace(texts, f"[{SPACE}]+", " "))

    return split


def _by_pattern(pattern):
    pattern, apart = to_re2(pattern)

    def split(texts):
        if apart is not None:
            texts = tf.strings.regex_replace(texts, apart, rb"\1" + _END + rb"\2")
        return split_at_marks(tf.strings.regex_replace(texts, pattern, rb"\0" + _END))

    return split


def _byte_level(definition):
    by_pattern = _by_pattern(GPT2)

    def split(texts, is_first):
        if definition["add_prefix_space"]:
            has_space = tf.strings.regex_full_match(texts, r"(?s: .*)")
            texts = tf.where(has_space | (texts == ""), texts, " " + texts)
        if definition.get("use_regex", True):
            return by_pattern(texts)
        return tf.RaggedTensor.from_tensor(texts[:, None])

    return split


def _split(definition):
    pattern = definition["pattern"].get("Regex")
    form = definition["behavior"], definition["invert"]
    if definition["pattern"] == {"String": " "} and form == ("MergedWithPrevious", False):  # Gemma
        return lambda texts, is_first: split_at_marks(
            tf.strings.regex_replace(texts, " ", b" " + _END)
        )
    if pattern not in _PATTERNS.values():
        raise ValueError(
            f"words of the pattern {definition['pattern']!r} are not implemented. There are those "
            f"of {', '.join(_PATTERNS)}."
        )
    if pattern == BLOOM and form == ("Isolated", False):
        words = BLOOM.replace(r"\s", SPACE).replace("[.", ".").replace("])]", ")]")
        return lambda texts, is_first: split_at_marks(
            tf.strings.regex_replace(texts, words, _END + rb"\0" + _END)
        )
    by_pattern = _by_pattern(pattern)
    if pattern == CLIP and form == ("Removed", True):
        outside = f"[{SPACE}]+"  # the text between matches
        return lambda texts, is_first: by_pattern(tf.strings.regex_replace(texts, outside, _END))
    if pattern not in (CLIP, BLOOM) and form in (("Isolated", False), ("Removed", True)):
        return lambda texts, is_first: by_pattern(texts)  # it matches every character
    raise ValueError(f"Split with behavior={form[0]!r}, invert={form[1]} is not implemented.")


def _metaspace(definition):
    mark = definition["replacement"]
    scheme = definition.get("prepend_scheme", "always")
    if scheme not in ("always", "first", "never"):
        raise ValueError(f"Metaspace with prepend_scheme={scheme!r} is not implemented.")

    def split(texts, is_first):
        texts = tf.strings.regex_replace(texts, " ", mark)
        if scheme != "never":
            bare = ~tf.strings.regex_full_match(texts, f"(?s:{mark}.*)") & (texts != "")
            if scheme == "first":
                bare &= is_first
            texts = tf.where(bare, mark + texts, texts)
        if not definition.get("split", True):
            return tf.RaggedTensor.from_tensor(texts[:, None])
        return split_at_marks(tf.strings.regex_replace(texts, mark, _END + mark.encode()))

    return split


def _digits(definition):
    pattern = r"\p{N}" if definition["individual_digits"] else r"\p{N}+"

    def split(texts, is_first):
        return split_at_marks(tf.strings.regex_replace(texts, pattern, _END + rb"\0" + _END))

    return split


_SPLITTERS = {
    "BertPreTokenizer": _at_spaces,
    "ByteLevel": _byte_level,
    "Digits": _digits,
    "Metaspace": _metaspace,
    "Split": _split,
    "WhitespaceSplit": _at_all_white_space,
}
