"""Normalization of texts before they are split: the normalizers of `tokenizer.json`."""

import re
import string
import unicodedata
from typing import NamedTuple

import tensorflow as tf

from zoo.readers.text import charsmap
from zoo.readers.text.characters import WHITE_SPACE, CharacterMap, normal_form
from zoo.readers.text.normal_forms import Composed, MarkOrder

SPACE = r"\t-\r \x{85}\p{Z}"  # inside a class of RE2, whose `\s` is ASCII
_KNOWN_PATTERNS = {
    " {2,}": " {2,}",
    r"\s+": f"[{SPACE}]+",
    r"\s{2,}|[\n\r\t]": rf"[{SPACE}]{{2,}}|[\n\r\t]",
}
# A capital sigma at the end of a word, as `str.lower` finds it: behind a cased letter, and before
# none, whatever ignorable characters are in between.
_CASED = r"\p{Lu}\p{Ll}\p{Lt}ªº"
_IGNORED = r"\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'.:\x{b7}\x{2018}\x{2019}\x{2024}\x{2027}"
_FINAL_SIGMA = rf"([{_CASED}][{_IGNORED}]*)Σ([{_IGNORED}]*(?:[^{_CASED}{_IGNORED}]|\z))"
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class EachCharacter(NamedTuple):
    """A step that replaces each character with a text.

    Attributes:
        replace: Function from a character to a `str`.
    """

    replace: callable


def steps_of(definition):
    """Returns the steps of a normalizer: `EachCharacter`, or functions of strings `[texts]`.

    Args:
        definition: The entry of `tokenizer.json`, which may be `None`.

    Raises:
        ValueError: If a normalizer is not implemented; the message names it.
    """
    if definition is None:
        return []
    kind = definition["type"]
    if kind not in _STEPS:
        raise ValueError(
            f"the normalizer {kind!r} is not implemented. There are: {', '.join(_STEPS)}."
        )
    return _STEPS[kind](definition)


def put_together(steps):
    """Returns one function of strings for all steps; `EachCharacter` steps become one table."""
    functions, maps = [], []
    for position, step in enumerate(steps):
        if isinstance(step, EachCharacter):
            maps.append(step.replace)
            continue
        following = steps[position + 1 : position + 2]
        if isinstance(step, MarkOrder) and following == [EachCharacter(without_marks)]:
            continue  # there will be no marks
        if maps:
            functions.append(CharacterMap(*maps))
            maps = []
        functions.append(step)
    if maps:
        functions.append(CharacterMap(*maps))
    return InTurn(functions)


class InTurn(tf.Module):
    """A composition of functions of strings."""

    def __init__(self, functions):
        super().__init__()
        self._functions = functions

    def __call__(self, texts):
        for function in self._functions:
            texts = function(texts)
        return texts


def without_marks(character):
    return "" if unicodedata.category(character)[0] == "M" else character


def lower(character):
    return character.lower()


def upper(character):
    return character.upper()


def _clean(character):
    if character in "\t\n\r":
        return " "
    if character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co"):
        return ""
    return " " if character in WHITE_SPACE else character


def _set_chinese_apart(character):
    is_chinese = any(first <= ord(character) <= last for first, last in _CHINESE)
    return f" {character} " if is_chinese else character


def _without_nonspacing_marks(character):
    return "" if unicodedata.category(character) == "Mn" else character


def _bert(definition):
    strip_accents = definition.get("strip_accents")
    if strip_accents is None:
        strip_accents = definition["lowercase"]
    functions = []
    if definition["clean_text"]:
        functions.append(_clean)
    if definition["handle_chinese_chars"]:
        functions.append(_set_chinese_apart)
    if strip_accents:
        functions += [normal_form("NFD"), _without_nonspacing_marks]
    if definition["lowercase"]:
        functions.append(lower)
    return [EachCharacter(function) for function in functions]


def _decomposed(form):
    return lambda definition: [EachCharacter(normal_form(form)), MarkOrder()]


def _replace(definition):
    pattern = definition["pattern"]
    if "String" in pattern:
        pattern = re.escape(pattern["String"])
    elif pattern["Regex"] in _KNOWN_PATTERNS:
        pattern = _KNOWN_PATTERNS[pattern["Regex"]]
    else:
        raise ValueError(f"a normalizer that replaces {pattern['Regex']!r} is not implemented.")
    content = definition["content"].replace("\\", r"\\")
    return [lambda texts: tf.strings.regex_replace(texts, pattern, content)]


def _prepend(definition):
    return [lambda texts: tf.where(texts == "", texts, definition["prepend"] + texts)]


def _strip(definition):
    sides = []
    if definition.get("strip_left"):
        sides.append(rf"\A[{SPACE}]+")
    if definition.get("strip_right"):
        sides.append(rf"[{SPACE}]+\z")
    return [lambda texts: tf.strings.regex_replace(texts, "|".join(sides), "")] if sides else []


def _rules(definition):
    rules = charsmap.parse(definition["precompiled_charsmap"])
    for kept in definition["kept"]:  # comes before any rule
        rules = {key: text for key, text in rules.items() if not key.startswith(kept)}
    rules |= {kept: kept for kept in definition["kept"]}
    return [charsmap.Charsmap(rules, by_clusters=False)] if rules else []


def _siglip(definition):
    """SigLIP's treatment of texts, which precedes that of its SentencePiece model."""

    def canonical(character):
        if character in string.punctuation:
            return ""
        return " " if character.isspace() or character == "▁" else character

    if not definition["lowercase"]:
        return [EachCharacter(canonical)]
    return [
        lambda texts: tf.strings.regex_replace(texts, _FINAL_SIGMA, r"\1ς\2"),
        EachCharacter(lower),
        EachCharacter(canonical),
    ]


def _spaces(definition):
    """SentencePiece's treatment of white space, which follows its rules."""

    def normalize(texts):
        if definition["remove_extra_whitespaces"]:
            texts = tf.strings.regex_replace(texts, r"\A +| +\z", "")
            texts = tf.strings.regex_replace(texts, " {2,}", " ")
        if definition["add_dummy_prefix"]:
            suffix = definition["treat_whitespace_as_suffix"]
            padded = texts + " " if suffix else " " + texts
            texts = tf.where(texts == "", texts, padded)
        return tf.strings.regex_replace(texts, " ", "▁")

    return [normalize]


_STEPS = {
    "BertNormalizer": _bert,
    "Lowercase": lambda definition: [EachCharacter(lower)],
    "NFC": lambda definition: [Composed("NFC")],
    "NFD": _decomposed("NFD"),
    "NFKC": lambda definition: [Composed("NFKC")],
    "NFKD": _decomposed("NFKD"),
    "Precompiled": lambda definition: [
        charsmap.Charsmap(charsmap.parse(definition["precompiled_charsmap"]), by_clusters=True)
    ],
    "Prepend": _prepend,
    "Replace": _replace,
    "SentencePieceRules": _rules,
    "SentencePieceSpaces": _spaces,
    "SigLIP": _siglip,
    "Sequence": lambda definition: [
        step for each in definition["normalizers"] for step in steps_of(each)
    ],
    "Strip": _strip,
    "StripAccents": lambda definition: [EachCharacter(without_marks)],
    "Uppercase": lambda definition: [EachCharacter(upper)],
}
