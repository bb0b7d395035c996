"""From words to ids: the models of `tokenizer.json`."""

from zoo.readers.text.byte_pairs import BytePairs
from zoo.readers.text.sentencepiece_files import NORMAL, USER_DEFINED
from zoo.readers.text.unigram import Renumbered, SentencePieceUnigram, Unigram
from zoo.readers.text.word_piece import WordPiece


def vocabulary_of(definition):
    """Returns a dictionary from pieces to ids."""
    if definition.get("ids") is not None:
        return definition["ids"]
    if isinstance(definition["vocab"], list):
        return {entry[0]: number for number, entry in enumerate(definition["vocab"])}
    return definition["vocab"]


def kind_of(definition):
    """Returns the type of a model, which files of 2020 leave to its options to tell.

    >>> [kind_of({"vocab": {}, "merges": []}), kind_of({"vocab": [["a", -1.0]]})]
    ['BPE', 'Unigram']
    >>> [kind_of({"vocab": {}, "max_input_chars_per_word": 100}), kind_of({"vocab": {}})]
    ['WordPiece', 'WordLevel']
    """
    if "type" in definition:
        return definition["type"]
    if "merges" in definition:
        return "BPE"
    if isinstance(definition["vocab"], list):
        return "Unigram"
    return "WordPiece" if "max_input_chars_per_word" in definition else "WordLevel"


def model_of(definition, vocabulary, is_byte_level):
    """Returns the model that turns words, strings `[words]`, into ids `[words, (pieces)]`.

    Args:
        definition: The entry of `tokenizer.json`.
        vocabulary: Its pieces and ids.
        is_byte_level: Whether words are split into bytes.

    Raises:
        ValueError: If a model or an option of it is not implemented; the message names it.
    """
    kind = kind_of(definition)
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
    unknown_id, fallback = definition["unk_id"], definition.get("byte_fallback", False)
    return Unigram(definition["vocab"], unknown_id, fallback)


def _sentencepiece_unigram(definition, vocabulary, is_byte_level):
    pieces = [(piece, score) for piece, score, _ in definition["vocab"]]
    kinds = [kind for *_, kind in definition["vocab"]]
    names = [piece for piece, _ in pieces]
    is_renumbered = definition.get("ids") is not None
    others = [name for name in vocabulary if name not in {*names}] if is_renumbered else []
    model = SentencePieceUnigram(
        pieces,
        definition["unk_id"],
        definition["byte_fallback"],
        hidden=[i for i, kind in enumerate(kinds) if kind not in (NORMAL, USER_DEFINED)],
        user_defined=[i for i, kind in enumerate(kinds) if kind == USER_DEFINED],
        names={name: number for number, name in enumerate(others, len(names))},
    )
    if not is_renumbered:
        return model
    unknown_id = vocabulary[names[definition["unk_id"]]]
    return Renumbered(model, [vocabulary.get(name, unknown_id) for name in names + others])


def _sentencepiece_bpe(definition, vocabulary, is_byte_level):
    """Any two pieces that make a piece are merged, the piece with the best score first.

    Of pieces with equal scores, such as the runs of spaces of Llama, the left one comes first.
    """
    pieces = [(piece, score) for piece, score, kind in definition["vocab"] if kind == NORMAL]
    pieces.sort(key=lambda piece: -piece[1])
    normal = {piece for piece, _ in pieces}
    rank_of = {score: rank for rank, score in enumerate(dict.fromkeys(dict(pieces).values()))}
    merges, ranks = [], []
    for piece, score in pieces:
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in normal and right in normal:
                merges.append((left, right))
                ranks.append(rank_of[score])
    return BytePairs(
        vocabulary,
        merges,
        is_byte_level=False,
        ranks=ranks,
        unknown_token=definition["vocab"][definition["unk_id"]][0],
        fuse_unknown=True,
        byte_fallback=definition["byte_fallback"],
    )


_MODELS = {
    "BPE": _byte_pairs,
    "SentencePieceBPE": _sentencepiece_bpe,
    "SentencePieceUnigram": _sentencepiece_unigram,
    "Unigram": _unigram,
    "WordPiece": _word_piece,
}
