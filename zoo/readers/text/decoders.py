"""From pieces to text: the decoders of `tokenizer.json`.

Each gives two functions from a piece to its bytes: for the first piece of a text, and for others.
"""

import re

import tensorflow as tf

from zoo.readers.text.pieces import BYTE_ALPHABET

_BYTE_OF = {character: byte for byte, character in enumerate(BYTE_ALPHABET)}
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_CLEANED = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)
_IN_TEXTS = [(spaced, written) for spaced, written in _CLEANED if "do" not in spaced]


def spelling_of(definition, suffix=""):
    """Returns two functions from a piece to its bytes: for the first of a text, and for others.

    Args:
        definition: The entry of `tokenizer.json`, which may be `None`.
        suffix: Suffix of the last piece of a word, which becomes a space.

    Raises:
        ValueError: If a decoder is not implemented; the message names it.
    """
    if definition is None:
        return _encoded(lambda piece: piece), _encoded(lambda piece: " " + piece)
    kind = definition["type"]
    if kind not in _DECODERS:
        raise ValueError(
            f"the decoder {kind!r} is not implemented. There are: {', '.join(_DECODERS)}."
        )
    return _DECODERS[kind](definition, suffix)


def cleaned(texts):
    """Removes the spaces in front of punctuation and contractions, as transformers does."""
    for spaced, written in _IN_TEXTS:
        texts = tf.strings.regex_replace(texts, re.escape(spaced), written)
    return texts


def _encoded(spell):
    return lambda piece: spell(piece).encode()


def _byte_level(definition, suffix):
    def spell(piece):
        word = piece.removesuffix(suffix)
        if all(character in _BYTE_OF for character in word):
            spelled = bytes(_BYTE_OF[character] for character in word)
        else:
            spelled = word.encode()
        return spelled + b" " if suffix and piece != word else spelled

    return spell, spell


def _word_piece(definition, suffix):
    def clean(text):
        for spaced, written in _CLEANED if definition["cleanup"] else ():
            text = text.replace(spaced, written)
        return text.encode()

    def rest(piece):
        inside = piece.removeprefix(definition["prefix"])
        return clean(inside if inside != piece else " " + piece)

    return clean, rest


def _metaspace(definition, suffix):
    mark = definition["replacement"]
    in_front = definition.get("prepend_scheme", "always") != "never"
    return (
        _encoded(lambda piece: piece.replace(mark, "" if in_front else " ")),
        _encoded(lambda piece: piece.replace(mark, " ")),
    )


def _bpe(definition, suffix):
    def spell(piece):
        return piece.replace(definition["suffix"], " ").encode()

    return spell, spell


def _characters(definition, suffix):
    """As in CTC models of transformers: a token for each character, and one between words."""

    def spell(piece):
        text = definition["space"] if piece == definition["delimiter"] else piece
        return (text.lower() if definition["lowercase"] else text).encode()

    return spell, spell


def _sequence(definition, suffix):
    """As in Llama: marks are spaces, `<0x..>` are bytes, and the first piece loses its space."""
    decoders = {each["type"]: each for each in definition["decoders"]}
    replace, strip = decoders.get("Replace"), decoders.get("Strip")
    is_known = (
        decoders.keys() <= {"Replace", "ByteFallback", "Fuse", "Strip"} and "Fuse" in decoders
    )
    if len(decoders) != len(definition["decoders"]) or not is_known:
        raise ValueError(f"the decoders {[*decoders]} in this order are not implemented.")
    if strip and (strip["content"], strip["start"], strip["stop"]) != (" ", 1, 0):
        raise ValueError(f"the decoder {strip} is not implemented.")

    def rest(piece):
        byte = _BYTE.fullmatch(piece) if "ByteFallback" in decoders else None
        if byte:
            return bytes([int(byte[1], 16)])
        if replace:
            piece = piece.replace(replace["pattern"]["String"], replace["content"])
        return piece.encode()

    return (lambda piece: rest(piece).removeprefix(b" " if strip else b"")), rest


_DECODERS = {
    "BPEDecoder": _bpe,
    "ByteLevel": _byte_level,
    "Characters": _characters,
    "Metaspace": _metaspace,
    "Sequence": _sequence,
    "WordPiece": _word_piece,
}
