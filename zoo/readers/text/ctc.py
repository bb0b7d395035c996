"""Tokenizers of characters for CTC: `vocab.json` of a `Wav2Vec2CTCTokenizer` of transformers."""

import pathlib

from zoo.readers.text.special_tokens import ROBERTA, content_of
from zoo.readers.text.tokenizer import Tokenizer
from zoo.readers.text.tokenizer_files import LARGEST_FILE
from zoo.storage.json_files import read_named_json

_ROLES = {"pad": "pad_token", "start": "bos_token", "end": "eos_token", "unknown": "unk_token"}


def read_ctc_tokenizer(folder, size):
    """Reads the tokenizer of a model with a character at each time step.

    As in transformers, tokens of several characters stay whole, and all tokens but the blank, which
    is the padding, are parts of texts.

    Args:
        folder: The folder.
        size: Number of labels of the model. Tokens that some folders add beyond it do not count.

    Returns:
        A `Tokenizer`.

    Raises:
        ValueError: If there is no such tokenizer, or it requires something that is not implemented.
    """
    folder = pathlib.Path(folder)
    config = _json(folder / "tokenizer_config.json")
    named = _json(folder / "special_tokens_map.json") | config
    vocabulary = _json(folder / "vocab.json")
    if not vocabulary:
        raise ValueError(f"{folder / 'vocab.json'} is missing, or empty: it names the tokens.")
    if config.get("target_lang") is not None or not all(
        isinstance(number, int) for number in vocabulary.values()
    ):
        raise ValueError(
            f"{folder / 'vocab.json'} holds the vocabularies of several languages (target_lang), "
            "which is not implemented."
        )
    for number, token in (config.get("added_tokens_decoder") or {}).items():
        vocabulary.setdefault(token["content"], int(number))
    for token, number in _json(folder / "added_tokens.json").items():
        vocabulary.setdefault(token, number)
    vocabulary = {token: number for token, number in vocabulary.items() if number < size}
    roles = {role: content_of(named.get(name) or ROBERTA[name]) for role, name in _ROLES.items()}
    if roles["pad"] not in vocabulary:
        raise ValueError(
            f"{folder / 'vocab.json'} lacks {roles['pad']!r}, which should be the blank. Name "
            "another token as pad_token in tokenizer_config.json."
        )
    roles = {role: token for role, token in roles.items() if token in vocabulary}
    return Tokenizer(_definition(vocabulary, roles, config), roles, size)


def _definition(vocabulary, roles, config):
    """Returns the definition, in the form of `tokenizer.json`."""
    lowercase = bool(config.get("do_lower_case"))
    delimiter = content_of(config.get("word_delimiter_token") or "|")
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": delimiter}
    return {
        "model": {
            "type": "BPE",  # without merges: each character is a token
            "vocab": vocabulary,
            "merges": [],
            "unk_token": roles.get("unknown"),
        },
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*([{"type": "Uppercase"}] if lowercase else []), spaces],
        },
        "decoder": {
            "type": "Characters",
            "delimiter": delimiter,
            "space": config.get("replace_word_delimiter_char", " "),
            "lowercase": lowercase,
            "cleanup": bool(config.get("clean_up_tokenization_spaces")),
        },
        "added_tokens": [
            {
                "id": number,
                "content": token,
                "lstrip": True,
                "rstrip": True,
                "special": token == roles["pad"],
            }
            for token, number in vocabulary.items()
            if len(token) > 1 or token == roles["pad"]
        ],
    }


def _json(path):
    return read_named_json(path, LARGEST_FILE) if path.is_file() else {}
