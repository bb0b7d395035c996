"""Splits texts into sentences, and sentences that are too long into parts."""

import re
from typing import NamedTuple

_MARKS, _WIDE_MARKS, _CLOSERS = ".!?…", "。！？", "\"'”’»›)\\]」』"
# Marks that may end a sentence, or a line break, and the white space after them. A run of marks or
# of white space is matched once, from its start, so that the time is linear in the text.
_CANDIDATE = re.compile(
    rf"(?:(?P<wide>(?<![{_WIDE_MARKS}])[{_WIDE_MARKS}]++)[{_CLOSERS}]*+\s*+"
    rf"|(?P<marks>(?<![{_MARKS}])[{_MARKS}]++)[{_CLOSERS}]*+\s++"
    r"|(?<=\S)[^\S\n]*+\n\s*+)(?=\S)(?=[^\w\s]*+(?P<next>\w?))"
)
_WORD_BEFORE = re.compile(r"[\w.]*\Z")
_LONGEST_WORD = 24  # that is looked at
_ABBREVIATIONS = frozenset(
    re.findall(
        r"\w+",
        """
        mr mrs ms mx dr prof st sr jr rev hon gen col capt lt sgt gov sen rep pres mt ft ave blvd rd
        dept univ inc ltd co corp bros vs etc nos vol ed eds fig figs pp approx est al ca cf
        jan feb mar apr jun jul aug sep sept oct nov dec
        hr fr bzw nr str usw evtl ggf inkl zzgl abb bd mme mlle
        """,
    )
)
_CLAUSE_END = re.compile(r"(?<=[,;:])\s+|(?<=[，、；：])")
_SPACE = re.compile(r"\s+")


class Part(NamedTuple):
    """A part of a text.

    Attributes:
        text: The part.
        gap: The white space before it, after the previous part; may be empty.
    """

    text: str
    gap: str = ""


def split_sentences(text):
    """Splits a text at sentence ends; gaps and texts, joined alternately, give the text again.

    A sentence ends with `.`, `!`, `?` or `…` and closing quotes before white space, unless the next
    word begins with a lower-case letter. It ends with full-width marks, `。`, `！` or `？`. It ends
    with a line break, unless that is a single one before a lower-case letter. A full stop does not
    end it after an initial, letters with full stops between them (`U.S.`), a common abbreviation,
    or a number that begins the sentence.

    Args:
        text: A `str`.

    Returns:
        List of `Part`, at least one.

    Example:

    >>> [part.text for part in split_sentences("Mr. J. Hunt has 2.5 dogs. Do they bark? Yes.")]
    ['Mr. J. Hunt has 2.5 dogs.', 'Do they bark?', 'Yes.']
    """
    parts, start, gap = [], 0, ""
    for found in _CANDIDATE.finditer(text):
        end = found.start() + len(found[0].rstrip())
        if _ends_sentence(found, text[end : found.end()], start):
            parts.append(Part(text[start:end], gap))
            start, gap = found.end(), text[end : found.end()]
    return [*parts, Part(text[start:], gap)]


def _ends_sentence(found, gap, start):
    """Whether a candidate and the white space after it end the sentence that begins at `start`."""
    if found["wide"]:
        return True
    if "\n" in gap:
        return gap.count("\n") > 1 or not found["next"].islower()
    if not found["next"] or found["next"].islower():
        return False
    if found["marks"] != ".":
        return True
    text, end = found.string, found.start()
    word = _WORD_BEFORE.search(text[max(start, end - _LONGEST_WORD) : end])[0]
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    is_item = word.isdecimal() and word == text[start:end].strip()
    return not (is_initial or is_item or "." in word or word.lower() in _ABBREVIATIONS)


def halve(part):
    """Splits a part near its middle: at the end of a clause, or at white space, or anywhere.

    Args:
        part: A `Part` of at least two characters.

    Returns:
        Two `Part`s.

    Example:

    >>> [half.text for half in halve(Part("a man who sleeps, and a dog"))]
    ['a man who sleeps,', 'and a dog']
    """
    text = part.text
    middle = len(text) // 2
    for pattern in (_CLAUSE_END, _SPACE):
        breaks = list(pattern.finditer(text, len(text) // 4, len(text) - len(text) // 4))
        if breaks:
            nearest = min(breaks, key=lambda found: abs(found.start() - middle))
            first, gap, second = text[: nearest.start()], nearest[0], text[nearest.end() :]
            if first and second:
                return Part(first, part.gap), Part(second, gap)
    return Part(text[:middle], part.gap), Part(text[middle:])
