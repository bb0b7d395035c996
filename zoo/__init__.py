"""Ready models made of attention: load, train, translate, caption, generate, serve."""

from zoo.catalog import info, list_models, load
from zoo.models.backbone import Backbone
from zoo.readers.text import ByteBPETokenizer
from zoo.tasks.captioning import Captioner
from zoo.tasks.results import Caption, TextScores, Translation
from zoo.tasks.translation import Translator
from zoo.tasks.writing import TextGenerator

__all__ = [
    "Backbone",
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
