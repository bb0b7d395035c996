"""Ready models made of attention: load, train, translate, caption, generate, serve."""

from zoo.captioner import Caption, Captioner
from zoo.catalog import info, list_models, load
from zoo.generator import TextGenerator, TextScores
from zoo.text import ByteBPETokenizer
from zoo.translation import Translation
from zoo.translator import Translator

__all__ = [
    "ByteBPETokenizer",
    "Caption",
    "Captioner",
    "TextGenerator",
    "TextScores",
    "Translation",
    "Translator",
    "info",
    "list_models",
    "load",
]
