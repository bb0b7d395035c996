"""Tokenizers built from core TensorFlow ops, so that any SavedModel runtime can load them."""

import pathlib

from zoo.readers.text import multilingual, tokenizer, two_sided
from zoo.readers.text.base import Encoded, TextTokenizer
from zoo.readers.text.byte_bpe import ByteBPETokenizer
from zoo.readers.text.multilingual import MultilingualTokenizer
from zoo.readers.text.reading import read_tokenizer
from zoo.readers.text.tokenizer import Tokenizer
from zoo.readers.text.two_sided import TwoSidedTokenizer

__all__ = [
    "ByteBPETokenizer",
    "Encoded",
    "MultilingualTokenizer",
    "TextTokenizer",
    "Tokenizer",
    "TwoSidedTokenizer",
    "load_tokenizer",
    "read_tokenizer",
]


def load_tokenizer(path):
    """Reads a tokenizer of any kind from a file written by its `save`.

    Args:
        path: The file.

    Raises:
        ValueError: If the file does not hold a tokenizer; the message says why.
    """
    with open(pathlib.Path(path), encoding="utf-8", errors="replace") as file:
        content = file.read()
    kinds = {
        tokenizer.FILE_FORMAT: Tokenizer,
        two_sided.FILE_FORMAT: TwoSidedTokenizer,
        multilingual.FILE_FORMAT: MultilingualTokenizer,
    }
    found = [kind for name, kind in kinds.items() if f'"format": "{name}"' in content]
    return (found[0] if found else ByteBPETokenizer).load(path)
