"""Ready models made of attention: load, train, translate, serve."""

from zoo.catalog import info, list_models, load
from zoo.generator import TextGenerator, TextScores
from zoo.text import ByteBPETokenizer
from zoo.translator import Translation, Translator

__all__ = [
    "ByteBPETokenizer",
    "TextGenerator",
    "TextScores",
    "Translation",
    "Translator",
    "info",
    "list_models",
    "load",
]
