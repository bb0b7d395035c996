"""The architectures: the names that `zoo.load` takes with `weights=None`, and their classes.

Keras, TensorFlow and the classes of models are only imported when `zoo.loading` creates one.
"""

import importlib
from typing import NamedTuple

_TOKENIZER = "zoo.ByteBPETokenizer.train(texts, vocabulary_size=8000)"
_OF_LANGUAGES = "zoo.ByteBPETokenizer.train(sources + targets, vocabulary_size=8000)"
_OF_PASSAGES = "zoo.ByteBPETokenizer.train(texts, vocabulary_size=8000, prefix_space=False)"
_WITH_MASK = "zoo.readers.text.Tokenizer.train(texts, vocabulary_size=8000)"
_LABELS = "['one', 'another']"


class Architecture(NamedTuple):
    """An architecture: a kind of model, without trained weights.

    Attributes:
        task_name: Name of the task, as in the class of the task.
        description: One line that describes it.
        task_path: Path of the task class, which users call.
        core_path: Path of the core class, the model of tensors.
        defaults: Options of the core whose defaults differ from those of its class.
        needs: Dictionary of the arguments that fresh weights need, each with an example in Python.
    """

    task_name: str
    description: str
    task_path: str
    core_path: str
    defaults: dict = {}  # noqa: RUF012
    needs: dict = {"tokenizer": _TOKENIZER}  # noqa: RUF012

    @property
    def task(self):
        """The task class, which users call."""
        return _class_at(self.task_path)

    @property
    def core(self):
        """The core class, the model of tensors."""
        return _class_at(self.core_path)


def _class_at(path):
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


ARCHITECTURES = {
    "bahdanau_nmt": Architecture(
        "translation",
        "GRU translator with attention before each step (Bahdanau et al. 2015)",
        "zoo.tasks.translation.Translator",
        "zoo.models.recurrent_nmt.AttentionRNNTranslator",
        {"order": "bahdanau", "score": "additive", "cell": "gru"},
        needs={"tokenizer": _OF_LANGUAGES},
    ),
    "bart": Architecture(
        "text to text",
        "Text-to-text Transformer (Lewis et al. 2020)",
        "zoo.tasks.text_to_text.TextToText",
        "zoo.models.bart.Bart",
    ),
    "bart_classifier": Architecture(
        "classification",
        "Text-to-text Transformer for classification (Lewis et al. 2020)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.bart_classifier.BartClassifier",
        needs={"tokenizer": _TOKENIZER, "labels": _LABELS},
    ),
    "blip": Architecture(
        "captioning",
        "Transformer for image captioning (Li et al. 2022)",
        "zoo.tasks.captioning.Captioner",
        "zoo.models.blip.Blip",
        needs={"reader": "zoo.ImageReader()", "tokenizer": _TOKENIZER},
    ),
    "clip": Architecture(
        "matching",
        "Joint embedding of images and texts (Radford et al. 2021)",
        "zoo.tasks.matching.Matcher",
        "zoo.models.clip.Clip",
    ),
    "conformer": Architecture(
        "classification",
        "Conformer for audio classification (Gulati et al. 2020)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.conformer.Conformer",
        needs={"reader": "zoo.SoundReader()", "labels": _LABELS},
    ),
    "conformer_ctc": Architecture(
        "speech recognition",
        "Conformer for speech recognition (Gulati et al. 2020)",
        "zoo.tasks.recognition.Recognizer",
        "zoo.models.conformer_ctc.ConformerCTC",
        needs={"reader": "zoo.SoundReader()", "tokenizer": _TOKENIZER},
    ),
    "luong_nmt": Architecture(
        "translation",
        "LSTM translator with attention after each step and input feeding (Luong et al. 2015)",
        "zoo.tasks.translation.Translator",
        "zoo.models.recurrent_nmt.AttentionRNNTranslator",
        {"order": "luong", "score": "general", "cell": "lstm"},
        needs={"tokenizer": _OF_LANGUAGES},
    ),
    "mbart": Architecture(
        "translation",
        "Transformer translator of many languages (Liu et al. 2020)",
        "zoo.tasks.translation.Translator",
        "zoo.models.mbart.MBart",
        needs={"tokenizer": _OF_LANGUAGES},
    ),
    "pegasus": Architecture(
        "text to text",
        "Text-to-text Transformer for summaries (Zhang et al. 2020)",
        "zoo.tasks.text_to_text.TextToText",
        "zoo.models.pegasus.Pegasus",
    ),
    "show_attend_tell": Architecture(
        "captioning",
        "LSTM captioning model with visual attention (Xu et al. 2015)",
        "zoo.tasks.captioning.Captioner",
        "zoo.models.show_attend_tell.ShowAttendTell",
    ),
    "siglip": Architecture(
        "matching",
        "Joint embedding of images and texts by a sigmoid loss (Zhai et al. 2023)",
        "zoo.tasks.matching.Matcher",
        "zoo.models.siglip.Siglip",
        needs={"reader": "zoo.ImageReader()", "tokenizer": _TOKENIZER},
    ),
    "spectrogram_transformer": Architecture(
        "classification",
        "Audio Spectrogram Transformer (Gong et al. 2021)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.spectrogram_transformer.SpectrogramTransformer",
        needs={"reader": "zoo.SpectrogramReader()", "labels": _LABELS},
    ),
    "swin": Architecture(
        "classification",
        "Swin Transformer (Liu et al. 2021)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.swin.Swin",
        needs={"reader": "zoo.ImageReader()", "labels": _LABELS},
    ),
    "swin_embedding": Architecture(
        "embedding",
        "Swin Transformer for image embeddings (Liu et al. 2021)",
        "zoo.tasks.embedding.Embedder",
        "zoo.models.swin.Swin",
        {"num_labels": 0},
        needs={"reader": "zoo.ImageReader()"},
    ),
    "t5": Architecture(
        "text to text",
        "Text-to-text Transformer (Raffel et al. 2020)",
        "zoo.tasks.text_to_text.TextToText",
        "zoo.models.t5.T5",
    ),
    "text_encoder": Architecture(
        "classification",
        "Text encoder for classification (Devlin et al. 2019)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.text_encoder.TextEncoder",
        needs={"tokenizer": _TOKENIZER, "labels": _LABELS},
    ),
    "text_encoder_embedding": Architecture(
        "embedding",
        "Text encoder for text embeddings (Reimers and Gurevych 2019)",
        "zoo.tasks.embedding.Embedder",
        "zoo.models.text_encoder.TextEncoder",
        {"head": "embedding", "pooling": "mean", "pooler": None},
    ),
    "text_encoder_masked": Architecture(
        "masked language model",
        "Text encoder for masked language modeling (Devlin et al. 2019)",
        "zoo.tasks.masked.MaskFiller",
        "zoo.models.text_encoder.TextEncoder",
        {"head": "masked"},
        needs={"tokenizer": _WITH_MASK},
    ),
    "text_encoder_score": Architecture(
        "scoring",
        "Text encoder for scoring (Devlin et al. 2019)",
        "zoo.tasks.scoring.Scorer",
        "zoo.models.text_encoder.TextEncoder",
        {"head": "score"},
    ),
    "text_encoder_span": Architecture(
        "question answering",
        "Text encoder for extractive question answering (Devlin et al. 2019)",
        "zoo.tasks.answering.Answerer",
        "zoo.models.text_encoder.TextEncoder",
        {"head": "span"},
    ),
    "text_encoder_tags": Architecture(
        "tagging",
        "Text encoder for tagging words (Devlin et al. 2019)",
        "zoo.tasks.tagging.Tagger",
        "zoo.models.text_encoder.TextEncoder",
        {"head": "tags"},
        needs={"tokenizer": _TOKENIZER, "labels": _LABELS},
    ),
    "transformer_lm": Architecture(
        "language model",
        "Transformer language model",
        "zoo.tasks.writing.TextGenerator",
        "zoo.models.transformer_lm.TransformerLanguageModel",
        needs={"tokenizer": _OF_PASSAGES},
    ),
    "transformer_lm_embedding": Architecture(
        "embedding",
        "Transformer language model for text embeddings (Zhang et al. 2025)",
        "zoo.tasks.embedding.Embedder",
        "zoo.models.transformer_lm_reader.TransformerLMReader",
        {"head": "embedding"},
    ),
    "transformer_lm_labels": Architecture(
        "classification",
        "Transformer language model for classification (Radford et al. 2018)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.transformer_lm_reader.TransformerLMReader",
        needs={"tokenizer": _TOKENIZER, "labels": _LABELS},
    ),
    "transformer_lm_score": Architecture(
        "scoring",
        "Transformer language model for scoring (Radford et al. 2018)",
        "zoo.tasks.scoring.Scorer",
        "zoo.models.transformer_lm_reader.TransformerLMReader",
        {"head": "score"},
    ),
    "transformer_nmt": Architecture(
        "translation",
        "Transformer translator (Vaswani et al. 2017)",
        "zoo.tasks.translation.Translator",
        "zoo.models.transformer_nmt.TransformerTranslator",
        needs={"tokenizer": _OF_LANGUAGES},
    ),
    "vision_encoder_decoder": Architecture(
        "captioning",
        "Transformer for reading text in images, and for captioning (Li et al. 2023)",
        "zoo.tasks.captioning.Captioner",
        "zoo.models.vision_encoder_decoder.VisionEncoderDecoder",
        needs={"reader": "zoo.ImageReader(size=384)", "tokenizer": _TOKENIZER},
    ),
    "vit": Architecture(
        "classification",
        "Vision Transformer (Dosovitskiy et al. 2021)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.vit.ViT",
        needs={"reader": "zoo.ImageReader()", "labels": _LABELS},
    ),
    "vit_embedding": Architecture(
        "embedding",
        "Vision Transformer for image embeddings (Dosovitskiy et al. 2021)",
        "zoo.tasks.embedding.Embedder",
        "zoo.models.vit.ViT",
        {"num_labels": 0},
        needs={"reader": "zoo.ImageReader()"},
    ),
    "wav2vec2": Architecture(
        "classification",
        "wav2vec 2.0 for audio classification (Baevski et al. 2020)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.wav2vec2.Wav2Vec2",
        needs={"reader": "zoo.WaveReader()", "labels": _LABELS},
    ),
    "wav2vec2_ctc": Architecture(
        "speech recognition",
        "wav2vec 2.0 for speech recognition (Baevski et al. 2020)",
        "zoo.tasks.recognition.Recognizer",
        "zoo.models.wav2vec2_ctc.Wav2Vec2CTC",
        needs={"reader": "zoo.WaveReader()", "tokenizer": _TOKENIZER},
    ),
    "whisper": Architecture(
        "transcription",
        "Transformer for speech transcription (Radford et al. 2022)",
        "zoo.tasks.transcription.Transcriber",
        "zoo.models.whisper.Whisper",
        needs={"reader": "zoo.SpeechReader()", "tokenizer": _TOKENIZER},
    ),
}


_READERS_IN_CONFIGS = (
    "image_reader",
    "sound_reader",
    "spectrogram_reader",
    "speech_reader",
    "wave_reader",
)


def register():
    """Imports the classes of all models and tasks, which registers them with Keras."""
    for architecture in ARCHITECTURES.values():
        _ = architecture.task, architecture.core
    for reader in _READERS_IN_CONFIGS:
        importlib.import_module(f"zoo.readers.{reader}")
