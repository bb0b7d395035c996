"""Reads SentencePiece models from their protobuf wire format, without further libraries.

See `sentencepiece_model.proto` of https://github.com/google/sentencepiece.
"""

import base64
import struct

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_UNIGRAM, _BPE = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_model(path):
    """Returns the definition of a tokenizer, as for `Tokenizer`, and its special tokens.

    Args:
        path: A `.model` or `.spm` file.

    Returns:
        The definition, and a dictionary from roles to tokens.

    Raises:
        ValueError: If it is not a model, or requires something that is not implemented; the
            message says what.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        return _definition(content)
    except (IndexError, KeyError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not a SentencePiece model, or is damaged: {error!r}"
        ) from error


def _definition(content):
    model = _fields(content)
    trainer, normalizer = (_fields(model[number][-1]) for number in (2, 3))
    pieces = [_piece(_fields(each)) for each in model[1]]
    kind = _last(trainer, 3, _UNIGRAM)
    if kind not in (_UNIGRAM, _BPE):
        raise ValueError(f"SentencePiece models of type {kind} are not implemented.")
    if not _last(normalizer, 5, 1):
        raise ValueError("SentencePiece with escape_whitespaces=false is not implemented.")
    kinds = [piece[2] for piece in pieces]
    if kind == _BPE and (USER_DEFINED in kinds or UNUSED in kinds):
        raise ValueError("SentencePiece BPE with user-defined or unused pieces is not implemented.")
    user_defined = [piece for piece, _, of in pieces if of == USER_DEFINED]
    if any(" " in piece for piece in user_defined):
        raise ValueError("user-defined pieces with spaces are not implemented.")
    spaces = {
        "type": "SentencePieceSpaces",
        "add_dummy_prefix": bool(_last(normalizer, 3, 1)),
        "remove_extra_whitespaces": bool(_last(normalizer, 4, 1)),
        "treat_whitespace_as_suffix": bool(_last(trainer, 24, 0)),
    }
    charsmap = _last(normalizer, 2, b"")
    rules = {
        "type": "SentencePieceRules",
        "precompiled_charsmap": base64.b64encode(charsmap).decode(),
        "kept": user_defined,
    }
    definition = {
        "normalizer": {"type": "Sequence", "normalizers": [rules, spaces]},
        "model": {
            "type": "SentencePieceUnigram" if kind == _UNIGRAM else "SentencePieceBPE",
            "vocab": pieces,
            "unk_id": kinds.index(UNKNOWN),
            "byte_fallback": bool(_last(trainer, 35, 0)),
        },
        "added_tokens": [
            {"id": number, "content": piece, "special": True, "only_as_id": True}
            for number, (piece, _, of) in enumerate(pieces)
            if of in (UNKNOWN, CONTROL)
        ],
        "decoder": _decoder(spaces),
    }
    names = {"start": 41, "end": 42, "pad": 43}
    numbers = {"start": 1, "end": 2, "pad": -1}
    roles = {"unknown": pieces[kinds.index(UNKNOWN)][0]}
    for role, field in names.items():
        number = _last(trainer, field, numbers[role])
        if 0 <= number < len(pieces) and kinds[number] == CONTROL:
            roles[role] = pieces[number][0]
    return definition, roles


def _decoder(spaces):
    steps = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if spaces["add_dummy_prefix"] and not spaces["treat_whitespace_as_suffix"]:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": steps}


def _piece(fields):
    (score,) = struct.unpack("<f", _last(fields, 2, b"\0\0\0\0"))
    return _last(fields, 1, b"").decode(), score, _last(fields, 3, NORMAL)


def _last(fields, number, default):
    return fields[number][-1] if number in fields else default


def _fields(message):
    """Returns a dictionary from the numbers of fields to their values, in order.

    Varints are `int`; messages, strings and fixed-size numbers are `bytes`.
    """
    fields, place = {}, 0
    while place < len(message):
        tag, place = _varint(message, place)
        wire = tag & 7
        if wire == _VARINT:
            value, place = _varint(message, place)
        else:
            if wire == _BYTES:
                size, place = _varint(message, place)
            else:
                size = {_FIXED64: 8, _FIXED32: 4}[wire]
            value, place = message[place : place + size], place + size
            if len(value) < size:
                raise IndexError("it ends in the middle of a field")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _varint(message, place):
    value, shift = 0, 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not byte & 0x80:
            break
        if shift > 63:
            raise IndexError("a number is too long")
    if value >> 63:
        value -= 1 << 64  # of a negative number
    return value, place
