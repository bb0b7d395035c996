"""Tokenizers built from core TensorFlow ops, so that any SavedModel runtime can load them."""

from zoo.readers.text.base import Encoded, TextTokenizer
from zoo.readers.text.byte_bpe import ByteBPETokenizer
from zoo.readers.text.reading import read_tokenizer
from zoo.readers.text.tokenizer import Tokenizer

__all__ = ["ByteBPETokenizer", "Encoded", "TextTokenizer", "Tokenizer", "read_tokenizer"]
