"""Splits texts into parts that a translator takes one by one, and joins their translations."""

import re
import warnings
from typing import NamedTuple

import numpy as np

from keras_attention.errors import unknown_name
from zoo.readers.text.sentences import Part, halve, split_sentences
from zoo.tasks.result_parts import hypothesis_log_probs
from zoo.tasks.text_results import Translation

POSITIONS_TOLD = 10
_CODE = re.compile(r"\s*(?P<code>>>[^\s<>]+<<)\s*")


class Passage(NamedTuple):
    """A part of one of several texts.

    Attributes:
        place: Index of the text.
        offset: Where the part begins in the text.
        part: The `Part`.
        tokens: Number of its tokens, or an upper bound.
        code: The language code in front of the text, such as `">>fr<< "`; may be empty.
    """

    place: int
    offset: int
    part: Part
    tokens: int
    code: str

    @property
    def text(self):
        """What the translator reads."""
        return self.code + self.part.text


def passages_of(texts, longest, count, codes=()):
    """Splits texts at sentence ends, and halves sentences that are too long, with a warning.

    Args:
        texts: List of `str`.
        longest: Maximum number of tokens in a part.
        count: Function that takes a list of texts and returns the number of tokens of each.
        codes: The language codes of the tokenizer, such as `[">>fr<<"]`. If a text begins with one,
            so does each of its parts.

    Returns:
        List of `Passage`, in order.

    Raises:
        ValueError: If a text begins with a language code that is not among `codes`, and there are
            some.
    """
    done, cut, waiting = [], set(), []
    for place, text in enumerate(texts):
        code = _code_of(text, codes)
        waiting += _passages(place, len(code), split_sentences(text[len(code) :]), code)
    while waiting:
        counts, halves = count([passage.text for passage in waiting]), []
        for (place, offset, part, _, code), tokens in zip(waiting, counts, strict=True):
            if tokens <= longest or len(part.text) < 2:
                done.append(Passage(place, offset, part, min(tokens, longest), code))
            else:
                cut.add(place)
                halves += _passages(place, offset, halve(part), code)
        waiting = halves
    if cut:
        _warn(sorted(cut), longest)
    return sorted(done)


def _code_of(text, codes):
    """Returns the language code in front of a text, with the white space around it."""
    found = _CODE.match(text) if codes else None
    if found is None:
        return ""
    if found["code"] not in codes:
        raise ValueError(unknown_name("language code", found["code"], codes))
    return found[0]


def _passages(place, offset, parts, code):
    """Yields the parts of a text, the first of which begins at an offset."""
    for row, part in enumerate(parts):
        offset += len(part.gap) if row else 0
        yield Passage(place, offset, part, 0, code)
        offset += len(part.text)


def _warn(places, longest):
    told = ", ".join(map(str, places[:POSITIONS_TOLD]))
    others = len(places) - POSITIONS_TOLD
    told += f" and {others} more" if others > 0 else ""
    warnings.warn(
        f"The text at position {told} has a sentence of more than {longest} tokens, which is "
        "max_source_length. It was cut at clause ends or white space, and the parts were "
        "translated one by one: look at the result, or end the sentences with full stops.",
        stacklevel=4,
    )


def joined_texts(parts, texts):
    """Joins the translations of the parts of a text.

    Args:
        parts: List of `Part`.
        texts: List of their translations, each a `str` or a list of several.

    Example:

    >>> joined_texts([Part("A dog."), Part("A cat.", "\\n")], ["Ein Hund.", "Eine Katze."])
    'Ein Hund.\\nEine Katze.'
    """
    if isinstance(texts[0], list):
        return [joined_texts(parts, several) for several in zip(*texts, strict=True)]
    following = zip(parts[1:], texts[1:], strict=True)
    return texts[0] + "".join((part.gap or " ") + text for part, text in following)


def put_together(tokenizer, texts, of_texts):
    """Returns a `Translation`, with the tokens and attention of the best hypotheses.

    Args:
        tokenizer: A `ByteBPETokenizer`.
        texts: List of the translations.
        of_texts: List of lists: for each text the rows of its sentences, as
            `zoo.data.batching.in_batches_by_length` returns them.
    """
    pad = tokenizer.pad_id
    tokens, source_tokens, attention = [], [], []
    for rows in of_texts:
        targets = [row["token_ids"][0] for row in rows]
        targets = [ids[ids != pad] for ids in targets]
        sources = [row["source_ids"][row["source_ids"] != pad] for row in rows]
        tokens += tokenizer.pieces([np.concatenate(targets)])
        source_tokens += tokenizer.pieces([np.concatenate(sources)])
        blocks = [
            row["attention"][0, : len(target), : len(source)]
            for row, target, source in zip(rows, targets, sources, strict=True)
        ]
        attention.append(block_diagonal(blocks))
    log_probs = hypothesis_log_probs([sum(row["log_prob"] for row in rows) for rows in of_texts])
    return Translation(texts, tokens, source_tokens, attention, log_probs)


def block_diagonal(blocks):
    """Returns a matrix with the given matrices on its diagonal, and zeros elsewhere.

    Example:

    >>> block_diagonal([np.ones((1, 2)), np.ones((2, 1))])
    array([[1., 1., 0.],
           [0., 0., 1.],
           [0., 0., 1.]], dtype=float32)
    """
    ends = np.cumsum([block.shape for block in blocks], axis=0)
    matrix = np.zeros(ends[-1], "float32")
    for block, (row, column) in zip(blocks, ends, strict=True):
        matrix[row - block.shape[0] : row, column - block.shape[1] : column] = block
    return matrix
