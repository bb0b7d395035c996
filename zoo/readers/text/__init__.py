"""Tokenizers built from core TensorFlow ops, so that any SavedModel runtime can load them."""

import pathlib

from zoo.readers.text.base import Encoded, TextTokenizer
from zoo.readers.text.byte_bpe import ByteBPETokenizer
from zoo.readers.text.reading import read_tokenizer
from zoo.readers.text.tokenizer import FILE_FORMAT, Tokenizer

__all__ = [
    "ByteBPETokenizer",
    "Encoded",
    "TextTokenizer",
    "Tokenizer",
    "load_tokenizer",
    "read_tokenizer",
]


def load_tokenizer(path):
    """Reads a tokenizer of any kind that its `save` wrote.

    Args:
        path: The file.

    Raises:
        ValueError: If the file does not hold a tokenizer; it says why.
    """
    with open(pathlib.Path(path), encoding="utf-8", errors="replace") as file:
        is_foreign = f'"format": "{FILE_FORMAT}"' in file.read()
    return (Tokenizer if is_foreign else ByteBPETokenizer).load(path)
