"""The pieces behind the ids of a byte-level BPE: special tokens, 256 bytes, merges in order."""

import itertools

import numpy as np

SPECIAL_TOKENS = ("<pad>", "<start>", "<end>")
FIRST_BYTE_ID = len(SPECIAL_TOKENS)
FIRST_MERGE_ID = FIRST_BYTE_ID + 256

# The characters that GPT-2 and `tokenizers` use for bytes: printable ones stand for themselves.
_PRINTABLE_BYTES = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_SUBSTITUTES = itertools.count(256)
BYTE_ALPHABET = [
    chr(byte if byte in _PRINTABLE_BYTES else next(_SUBSTITUTES)) for byte in range(256)
]


def number_pieces(merges):
    """Returns the bytes of each id's piece, and the ids that each merge joins, `[2, merges]`."""
    pieces = [b""] * FIRST_BYTE_ID + [bytes([byte]) for byte in range(256)]
    id_of = {name: FIRST_BYTE_ID + byte for byte, name in enumerate(BYTE_ALPHABET)}
    merged_pairs = []
    for pair in merges:
        if len(pair) != 2 or any(half not in id_of for half in pair):
            raise ValueError(f"merge {pair} does not join two pieces that are made before it.")
        left, right = pair
        if left + right in id_of:
            raise ValueError(f"merge {pair} makes a piece that is made before it.")
        merged_pairs.append((id_of[left], id_of[right]))
        id_of[left + right] = len(pieces)
        pieces.append(pieces[id_of[left]] + pieces[id_of[right]])
    return pieces, np.array(merged_pairs, np.int64).reshape(-1, 2).T


def spell(piece):
    """Spells the bytes of a piece for people: see `ByteBPETokenizer.pieces`."""
    text = piece.decode("utf-8", errors="surrogateescape")
    spelled = "".join(map(_spell_character, text.removeprefix(" ")))
    if text.isspace():
        return "▁" + spelled if text[0] == " " else spelled
    continues_word = text[0].isalnum() or "\udc80" <= text[0] <= "\udcff"
    return "·" + spelled if continues_word else spelled


def _spell_character(character):
    if character == " ":
        return "▁"
    if "\udc80" <= character <= "\udcff":  # a byte that `surrogateescape` could not decode
        return f"<0x{ord(character) - 0xDC00:02X}>"
    return character if character.isprintable() else repr(character)[1:-1]
