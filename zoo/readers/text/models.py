"""From words to ids: the models of `tokenizer.json`."""

from zoo.readers.text.byte_pairs import BytePairs
from zoo.readers.text.unigram import Unigram
from zoo.readers.text.word_piece import WordPiece


def vocabulary_of(definition):
    """Returns a dictionary of pieces to ids."""
    if definition["type"] == "Unigram":
        return {piece: number for number, (piece, _) in enumerate(definition["vocab"])}
    return definition["vocab"]


def model_of(definition, vocabulary, is_byte_level):
    """Returns what turns words, strings `[words]`, into ids `[words, (pieces)]`.

    Args:
        definition: The entry of `tokenizer.json`.
        vocabulary: Its pieces and ids.
        is_byte_level: Whether words are split into bytes.

    Raises:
        ValueError: If a model or an option of it is not implemented; it names it.
    """
    kind = definition["type"]
    if kind not in _MODELS:
        raise ValueError(f"the model {kind!r} is not implemented. There are: {', '.join(_MODELS)}.")
    if is_byte_level and kind != "BPE":
        raise ValueError(f"{kind} over bytes is not implemented.")
    return _MODELS[kind](definition, vocabulary, is_byte_level)


def _word_piece(definition, vocabulary, is_byte_level):
    return WordPiece(
        vocabulary,
        definition["unk_token"],
        definition.get("continuing_subword_prefix", "##"),
        definition.get("max_input_chars_per_word", 100),
    )


def _byte_pairs(definition, vocabulary, is_byte_level):
    for option in ("dropout", "continuing_subword_prefix"):
        if definition.get(option):
            raise ValueError(f"BPE with {option}={definition[option]!r} is not implemented.")
    merges = [
        merge.split(" ") if isinstance(merge, str) else merge for merge in definition["merges"]
    ]
    return BytePairs(
        vocabulary,
        merges,
        is_byte_level,
        unknown_token=definition.get("unk_token"),
        fuse_unknown=definition.get("fuse_unk", False),
        byte_fallback=definition.get("byte_fallback", False),
        suffix=definition.get("end_of_word_suffix") or "",
        ignore_merges=definition.get("ignore_merges", False),
    )


def _unigram(definition, vocabulary, is_byte_level):
    return Unigram(
        definition["vocab"],
        definition["unk_id"],
        definition.get("byte_fallback", False),
        is_sentencepiece=definition.get("is_sentencepiece", False),
    )


_MODELS = {"BPE": _byte_pairs, "Unigram": _unigram, "WordPiece": _word_piece}
