"""Tokenizers built from core TensorFlow ops, so that any SavedModel runtime can load them."""

from zoo.readers.text.byte_bpe import ByteBPETokenizer

__all__ = ["ByteBPETokenizer"]
