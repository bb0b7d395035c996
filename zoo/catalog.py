"""The catalog of models: trained ones in the package, those from elsewhere, and architectures.

`list_models` and `info` read cards and `ARCHITECTURES`. Keras, TensorFlow and the classes of models
are only imported when `zoo.loading` creates one.
"""

import difflib
import importlib
import os
import pathlib
import textwrap
from typing import NamedTuple

from zoo.checkpoints.settings import Settings
from zoo.options import options_of
from zoo.storage import CARD, CONFIG
from zoo.storage.cards import measured, read_card, told
from zoo.storage.kinds import is_checkpoint

PRESETS = pathlib.Path(__file__).parent / "presets"
INDENT = 40  # maximum indentation of wrapped lines

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


class ModelInfo(NamedTuple):
    """Information about a model of the zoo.

    Attributes:
        name: Its name; `zoo.load` takes the name of a model of the package.
        task: What it does, such as `"translation"`.
        description: One line that describes it.
        data: What it was trained on; empty for an architecture.
        parameters: Number of weights; `None` for an architecture or a checkpoint.
        megabytes: Size on disk; `None` for an architecture.
        quality: Dictionary from a metric and its protocol to the measured value.
        card: The contents of `card.json`; empty for an architecture.
        options: List of the `zoo.options.Option`s of an architecture; empty for a trained model.
        needs: Dictionary of the other arguments that an architecture needs, each with an example in
            Python; empty for a trained model.
    """

    name: str
    task: str
    description: str
    data: str
    parameters: int | None
    megabytes: float | None
    quality: dict
    card: dict
    options: list
    needs: dict = {}  # noqa: RUF012

    def __str__(self):
        lines = [self.name, f"  {self.description}"]
        if self.options:
            lines.append(f"  {self.task}, to train: weights=None, with")
            lines += [f"    {name}={example}" for name, example in self.needs.items()]
            lines.append("  and options of")
            width = max(len(f"{each.name}={each.default!r}") for each in self.options)
            width = min(width, INDENT - 6)  # a longer one does not move the others
            for name, default, text in self.options:
                lines += wrapped(f"    {f'{name}={default!r}':{width}}  ", text)
        if self.card:
            trained = f", trained on {self.data}" if self.data else ""
            lines.append(f"  {self.task}{trained}")
            millions = self.parameters / 1e6
            lines.append(f"  {millions:.1f} M weights, {self.megabytes:.1f} MB on disk")
            for title, text in told(self.card).items():
                lines += wrapped(f"  {title}: ", text)
        elif self.megabytes is not None:
            lines.append(f"  {self.megabytes:.1f} MB on disk")
        lines += [f"  {metric}: {value}" for metric, value in self.quality.items()]
        return "\n".join(lines)


def wrapped(beginning, text):
    """Returns the lines of a text, the first one after `beginning` and the others indented."""
    width = max(100, len(beginning) + 40)
    indent = " " * min(len(beginning), INDENT)
    options = {"initial_indent": beginning, "subsequent_indent": indent}
    return textwrap.wrap(
        text, width, break_on_hyphens=False, break_long_words=False, **options
    ) or [beginning.rstrip()]


def list_models() -> list[ModelInfo]:
    """Returns the `ModelInfo` of every trained model, then of every architecture.

    Example:

    >>> [model.name for model in list_models() if not model.card]  # doctest: +NORMALIZE_WHITESPACE
    ['bahdanau_nmt', 'bart', 'bart_classifier', 'blip', 'clip', 'conformer', 'conformer_ctc',
     'luong_nmt', 'mbart', 'pegasus', 'show_attend_tell', 'siglip', 'spectrogram_transformer',
     'swin', 'swin_embedding', 't5', 'text_encoder', 'text_encoder_embedding',
     'text_encoder_masked', 'text_encoder_score', 'text_encoder_span', 'text_encoder_tags',
     'transformer_lm', 'transformer_nmt', 'vision_encoder_decoder', 'vit', 'vit_embedding',
     'wav2vec2', 'wav2vec2_ctc', 'whisper']
    """
    trained = sorted(folder.parent for folder in PRESETS.glob(f"*/{CARD}"))
    return [_preset_info(folder) for folder in trained] + [
        _architecture_info(name) for name in ARCHITECTURES
    ]


def info(name: str | os.PathLike[str]) -> ModelInfo:
    """Returns the `ModelInfo` of an architecture, or of a trained model from anywhere.

    Args:
        name: As for `load`.

    Raises:
        ValueError: If there is no such model; the message suggests similar names.
    """
    if name in ARCHITECTURES:
        return _architecture_info(name)
    folder = folder_of(name)
    return _preset_info(folder) if (folder / CARD).is_file() else _checkpoint_info(name, folder)


def folder_of(name):
    """Returns the folder of a preset, in the package, anywhere else, or downloaded."""
    for folder in (PRESETS / str(name), pathlib.Path(name)):
        # `os.path` answers for any text, `pathlib` fails for one that is too long for a name.
        if os.path.isdir(folder) and ((folder / CARD).is_file() or is_checkpoint(folder)):
            return folder
    if "://" in str(name) or ".zip" in str(name):
        from zoo.storage import downloads

        if downloads.is_elsewhere(str(name)):
            return downloads.fetch(str(name))
    _refuse_files_of_keras(name)
    if os.path.isdir(name):
        raise ValueError(
            f"The folder {name} holds neither a preset nor a checkpoint of transformers: it has no "
            f"{CARD}, and no readable {CONFIG} of a model."
        )
    near = difflib.get_close_matches(str(name), [model.name for model in list_models()])
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(
        f"Unknown model {str(name)!r}.{hint} `python -m zoo list` names all. "
        "Or pass the folder or .zip file of a preset, https://..., hf://user/name."
    )


def _refuse_files_of_keras(name):
    path = str(name)
    if not path.endswith((".keras", ".h5")) or not pathlib.Path(name).is_file():
        return
    if path.endswith(".weights.h5"):
        raise ValueError(
            f"`name` must be an architecture or a preset. Received: {path!r}, a file of weights. "
            f"Pass it with the model that it fits: zoo.load(name, weights={path!r})."
        )
    raise ValueError(
        f"`name` must be an architecture or a preset. Received: {path!r}, a file of model.save. "
        f"Load it with keras.saving.load_model({path!r}), with `import keras` before `import zoo`."
    )


def _preset_info(folder):
    card = read_card(folder)
    size = sum(each["bytes"] for each in card["files"].values())
    return ModelInfo(
        name=card["name"],
        task=card["task"],
        description=card["description"],
        data=card["data"]["name"],
        parameters=card["parameters"],
        megabytes=size / 1e6,
        quality={measured(each): each["value"] for each in card["quality"]},
        card=card,
        options=[],
    )


def _checkpoint_info(name, folder):
    settings = Settings.read(folder / CONFIG)
    size = sum(each.stat().st_size for each in folder.iterdir() if each.is_file())
    description = f"Checkpoint of transformers: {settings.architecture or settings.model_type}"
    return ModelInfo(
        name=str(name),
        task="checkpoint",
        description=description,
        data="",
        parameters=None,
        megabytes=size / 1e6,
        quality={},
        card={},
        options=[],
    )


def _architecture_info(name):
    architecture = ARCHITECTURES[name]
    return ModelInfo(
        name=name,
        task=architecture.task_name,
        description=architecture.description,
        data="",
        parameters=None,
        megabytes=None,
        quality={},
        card={},
        options=options_of(architecture.core_path, architecture.defaults),
        needs=architecture.needs,
    )
