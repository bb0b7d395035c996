"""Ready-to-use models with attention: load, train, translate, caption, generate, serve.

`import zoo` is fast: TensorFlow is imported with the first name that needs it. If the program has
already imported Keras or TensorFlow, everything is imported at once, so that
`keras.saving.load_model` finds the classes of the zoo.
"""

import importlib
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from zoo.architectures import register
from zoo.catalog import info, list_models
from zoo.loading import load

if TYPE_CHECKING:
    from zoo.checkpoints.saving import save_checkpoint
    from zoo.models.backbone import Backbone
    from zoo.readers.image_reader import ImageReader
    from zoo.readers.sound_reader import SoundReader
    from zoo.readers.spectrogram_reader import SpectrogramReader
    from zoo.readers.speech_reader import SpeechReader
    from zoo.readers.text import ByteBPETokenizer
    from zoo.readers.wave_reader import WaveReader
    from zoo.tasks.answering import Answerer
    from zoo.tasks.captioning import Captioner
    from zoo.tasks.classification import Classifier
    from zoo.tasks.embedding import Embedder
    from zoo.tasks.masked import MaskFiller
    from zoo.tasks.matching import Matcher
    from zoo.tasks.picture_results import Caption
    from zoo.tasks.recognition import Recognizer
    from zoo.tasks.scoring import Scorer
    from zoo.tasks.sound_results import Recognition, Transcription
    from zoo.tasks.tagging import Tagger
    from zoo.tasks.text_results import TextScores, Translation
    from zoo.tasks.text_to_text import TextToText
    from zoo.tasks.timed_texts import Segment, TimedTranscription
    from zoo.tasks.transcription import Transcriber
    from zoo.tasks.translation import Translator
    from zoo.tasks.writing import TextGenerator

__version__ = "0.1.0"
__all__ = [
    "Answerer",
    "Backbone",
    "ByteBPETokenizer",
    "Caption",
    "Captioner",
    "Classifier",
    "Embedder",
    "ImageReader",
    "MaskFiller",
    "Matcher",
    "Recognition",
    "Recognizer",
    "Scorer",
    "Segment",
    "SoundReader",
    "SpectrogramReader",
    "SpeechReader",
    "Tagger",
    "TextGenerator",
    "TextScores",
    "TextToText",
    "TimedTranscription",
    "Transcriber",
    "Transcription",
    "Translation",
    "Translator",
    "WaveReader",
    "info",
    "list_models",
    "load",
    "save_checkpoint",
]

_HOMES = {
    "Answerer": "zoo.tasks.answering",
    "Backbone": "zoo.models.backbone",
    "ByteBPETokenizer": "zoo.readers.text",
    "Caption": "zoo.tasks.picture_results",
    "Captioner": "zoo.tasks.captioning",
    "Classifier": "zoo.tasks.classification",
    "Embedder": "zoo.tasks.embedding",
    "ImageReader": "zoo.readers.image_reader",
    "MaskFiller": "zoo.tasks.masked",
    "Matcher": "zoo.tasks.matching",
    "Recognition": "zoo.tasks.sound_results",
    "Recognizer": "zoo.tasks.recognition",
    "Scorer": "zoo.tasks.scoring",
    "Segment": "zoo.tasks.timed_texts",
    "SoundReader": "zoo.readers.sound_reader",
    "SpectrogramReader": "zoo.readers.spectrogram_reader",
    "SpeechReader": "zoo.readers.speech_reader",
    "Tagger": "zoo.tasks.tagging",
    "TextGenerator": "zoo.tasks.writing",
    "TextScores": "zoo.tasks.text_results",
    "TextToText": "zoo.tasks.text_to_text",
    "TimedTranscription": "zoo.tasks.timed_texts",
    "Transcriber": "zoo.tasks.transcription",
    "Transcription": "zoo.tasks.sound_results",
    "Translation": "zoo.tasks.text_results",
    "Translator": "zoo.tasks.translation",
    "WaveReader": "zoo.readers.wave_reader",
    "save_checkpoint": "zoo.checkpoints.saving",
}
_PACKAGES = ("data", "decoding", "metrics", "serving", "storage", "training")


def __getattr__(name):
    if name in _PACKAGES:
        return importlib.import_module(f"zoo.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'zoo' has no attribute {name!r}")
    register()
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__():
    return [*globals(), *_HOMES, *_PACKAGES]


# Without TensorFlow, tasks cannot be imported; `zoo.learning` does not need it.
if not sys.modules.keys().isdisjoint(["keras", "tensorflow"]) and find_spec("tensorflow"):
    register()
