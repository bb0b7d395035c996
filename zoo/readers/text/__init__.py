"""Tokenizers built from core TensorFlow ops, so that any SavedModel runtime can load them."""

from zoo.readers.text.byte_bpe import ByteBPETokenizer
from zoo.readers.text.tokenizer import Tokenizer

__all__ = ["ByteBPETokenizer", "Tokenizer"]
