"""Loads a task by its name, with the weights of a preset or of a checkpoint, or with fresh ones.

Keras, TensorFlow and the classes of models are imported when they are needed, so that commands that
load nothing are fast.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

from zoo.architectures import ARCHITECTURES, register
from zoo.catalog import folder_of, list_models, of_same_name
from zoo.storage import CARD, CONFIG, TOKENIZER, WEIGHTS
from zoo.storage.cards import read_card

# What decides how a checkpoint is read.
LANGUAGES = "source_language", "target_language"
CHOSEN = "labels", "problem_type", *LANGUAGES
# Architectures of images, sounds and language models -> those of their classifiers.
WITH_LABELS = {
    "conformer": "conformer",
    "spectrogram_transformer": "spectrogram_transformer",
    "swin": "swin",
    "swin_embedding": "swin",
    "transformer_lm": "transformer_lm_labels",
    "transformer_lm_embedding": "transformer_lm_labels",
    "transformer_lm_labels": "transformer_lm_labels",
    "transformer_lm_score": "transformer_lm_labels",
    "vit": "vit",
    "vit_embedding": "vit",
    "wav2vec2": "wav2vec2",
}

if TYPE_CHECKING:
    from zoo import names
    from zoo.tasks.answering import Answerer
    from zoo.tasks.captioning import Captioner
    from zoo.tasks.classification import Classifier
    from zoo.tasks.embedding import Embedder
    from zoo.tasks.masked import MaskFiller
    from zoo.tasks.matching import Matcher
    from zoo.tasks.recognition import Recognizer
    from zoo.tasks.scoring import Scorer
    from zoo.tasks.tagging import Tagger
    from zoo.tasks.text_to_text import TextToText
    from zoo.tasks.transcription import Transcriber
    from zoo.tasks.translation import Translator
    from zoo.tasks.writing import TextGenerator


@overload
def load(name: str | os.PathLike[str], *, problem_type: str, **options: Any) -> Any: ...
@overload
def load(name: names.MaskFillerName, *, labels: Iterable[str], **options: Any) -> Classifier: ...
@overload
def load(name: names.TextGeneratorName, *, labels: Iterable[str], **options: Any) -> Classifier: ...
@overload
def load(name: names.AnswererName, *arguments: Any, **options: Any) -> Answerer: ...
@overload
def load(name: names.CaptionerName, *arguments: Any, **options: Any) -> Captioner: ...
@overload
def load(name: names.ClassifierName, *arguments: Any, **options: Any) -> Classifier: ...
@overload
def load(name: names.EmbedderName, *arguments: Any, **options: Any) -> Embedder: ...
@overload
def load(name: names.MaskFillerName, *arguments: Any, **options: Any) -> MaskFiller: ...
@overload
def load(name: names.MatcherName, *arguments: Any, **options: Any) -> Matcher: ...
@overload
def load(name: names.RecognizerName, *arguments: Any, **options: Any) -> Recognizer: ...
@overload
def load(name: names.ScorerName, *arguments: Any, **options: Any) -> Scorer: ...
@overload
def load(name: names.TaggerName, *arguments: Any, **options: Any) -> Tagger: ...
@overload
def load(name: names.TextGeneratorName, *arguments: Any, **options: Any) -> TextGenerator: ...
@overload
def load(name: names.TextToTextName, *arguments: Any, **options: Any) -> TextToText: ...
@overload
def load(name: names.TranscriberName, *arguments: Any, **options: Any) -> Transcriber: ...
@overload
def load(name: names.TranslatorName, *arguments: Any, **options: Any) -> Translator: ...
@overload
def load(
    name: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = "pretrained",
    tokenizer: Any = None,
    dtype: Any = None,
    **overrides: Any,
) -> Any: ...
def load(name, weights="pretrained", tokenizer=None, dtype=None, **overrides):
    """Loads a model as a task, which takes and returns raw data such as strings.

    Args:
        name: Name of a trained model or of an architecture (see `list_models`), or a preset written
            by `model.save_to_preset` or `python -m zoo train`: its folder, its archive
            `"model.zip"`, `"https://.../model.zip"`, or `"hf://user/name"` and
            `"hf://user/name@revision"` on the Hugging Face Hub (`pip install
            "keras-attention-zoo[hub]"`). Downloads stay in `~/.keras/presets`, or in the cache of
            the Hub client, and are available offline from then on. An archive may be pinned by its
            hash, `"https://.../model.zip#sha256=..."`; without one, a cached archive is not updated
            if the file behind the URL changes.
            Or a checkpoint in the format of transformers: a folder with `config.json`, safetensors
            and a tokenizer, or `"hf://organization/name"`. `zoo.checkpoints.families` lists the
            supported models. Or an adapter of PEFT (LoRA) for one of these, which names its base:
            the base is loaded, too, and the adapter is merged into its weights. If it brings a head
            of its own, `labels` are the names of what that was trained for.
        weights: `"pretrained"`, `None` for fresh ones, or the path of a `.weights.h5` file: from
            `model.save_weights`, from a training checkpoint, or from a preset.
        tokenizer: The tokenizer of a model with fresh weights. A trained model has its own.
        dtype: Keras dtype policy of the computation; defaults to the global one. On a processor
            with bfloat16 multiplication (AMX, AVX512-BF16), `"bfloat16"` translates batches faster
            and a little less precisely.
        **overrides: With fresh weights, arguments of the architecture. For a checkpoint, arguments
            that change no weights, such as `dropout` or `sampler`. For a checkpoint, or a trained
            text encoder, language model, or model of images or sounds, `labels` for a classifier
            with a new, untrained head, and with them `problem_type`, as in transformers: with
            `"multi_label_classification"` an input may have several labels, and with
            `"token_classification"` each word has one. For a checkpoint alone, `problem_type` also
            sets the task of its own head: `"regression"` predicts a number, `"question_answering"`
            finds answers. For a checkpoint of many languages, M2M100, NLLB or mBART,
            `source_language` and `target_language` are the codes of those to translate between,
            such as `"en"`, `"eng_Latn"` or `"en_XX"`.

    Returns:
        A task, such as `zoo.Translator`.

    Raises:
        ValueError: If the name or an argument is unknown, a file does not match the card, or the
            files of a preset do not match each other. Also if a preset refers to a class that the
            program has not registered: presets contain no code.
        OSError: If the download fails.

    Example:

    >>> from zoo import ByteBPETokenizer
    >>> model = load("bahdanau_nmt", weights=None, tokenizer=ByteBPETokenizer([]), dropout=0.2)
    >>> model.core.config.dropout
    0.2
    """
    register()
    from zoo.data.labels import label_names

    if tokenizer is not None and not hasattr(tokenizer, "vocabulary_size"):
        raise ValueError(
            "`tokenizer` must be a tokenizer of the zoo, such as zoo.ByteBPETokenizer.train(texts) "
            f"or zoo.ByteBPETokenizer.load(path). Received: tokenizer={tokenizer!r:.200}."
        )
    reader = overrides.get("reader")
    if not (reader is None or isinstance(reader, dict) or hasattr(reader, "decides")):
        raise ValueError(
            "`reader` must be a reader of the zoo, such as zoo.ImageReader(size=224) or "
            f"zoo.SoundReader(rate=16000). Received: reader={reader!r:.200}."
        )
    if "labels" in overrides:
        overrides["labels"] = label_names(overrides["labels"])
    if name in ARCHITECTURES:
        return _fresh_architecture(name, weights, tokenizer, dtype, overrides)
    folder = folder_of(name)
    if not (folder / CARD).is_file():
        if weights != "pretrained" or tokenizer is not None:
            raise ValueError(
                f"{name} is a checkpoint, which has its own weights and tokenizer. Received: "
                f"weights={weights!r}, tokenizer={tokenizer!r}."
            )
        return _of_checkpoint(folder, dtype, **overrides)
    return _from_folder(name, folder, weights, tokenizer, dtype, overrides)


def _from_folder(name, folder, weights, tokenizer, dtype, overrides):
    """Returns the task of a preset; arguments as for `load`, and the folder of the preset."""
    from zoo.readers.text import load_tokenizer
    from zoo.storage.configs import read_config
    from zoo.storage.presets import check_files

    check_files(
        folder,
        "Restore the file: install the package again, get the preset again, or remove "
        f"{folder} if it is a download, to repeat it.",
    )
    languages = [each for each in LANGUAGES if each in overrides]
    if languages:
        raise ValueError(
            f"{name} is a preset, whose languages are those that it was saved with. Received: "
            f"{', '.join(languages)}. If it knows others, load it without, and call "
            "model.between(source_language, target_language)."
        )
    architecture, arguments = read_config(folder)
    asks_for_labels = "labels" in overrides and _takes_labels(architecture)
    if asks_for_labels and weights is not None and tokenizer is None:
        return _with_labels(load(name, dtype=dtype), weights, dtype, overrides)
    is_changed = bool(overrides) or tokenizer is not None
    if weights is not None and is_changed:
        _refuse_changes(name, architecture, tokenizer, overrides)
    has_texts = (folder / TOKENIZER).is_file()
    own = load_tokenizer(folder / TOKENIZER) if has_texts else None
    model = _of_preset(folder, architecture, own, dtype, arguments)
    if is_changed:
        arguments = {**arguments, **overrides}
        model = build(architecture, tokenizer or own, dtype, **arguments)
        _require_size_of_reader(f"{name} with fresh weights", model, overrides.get("image_size"))
    elif weights is not None:
        _fill(model, folder, weights)
    return model


def _refuse_changes(name, architecture, tokenizer, overrides):
    """Raises a `ValueError` for arguments that the weights of a preset do not fit."""
    takes_labels = _takes_labels(architecture)
    settings, options = _option_names(architecture)
    of_head = ["labels", "problem_type"] if takes_labels else []
    _refuse_unknown(architecture, overrides, {*settings, *options, *of_head})
    if takes_labels and "problem_type" in overrides and tokenizer is None:
        raise ValueError(
            f"`problem_type` of {name} goes with a new head: labels=['one', 'another']. "
            f"Received: problem_type={overrides['problem_type']!r} without labels, which only "
            "a checkpoint of transformers takes."
        )
    changed = [*overrides, *(["tokenizer"] if tokenizer is not None else [])]
    raise ValueError(
        f"The weights of {name} fit its own architecture and tokenizer only. Received: "
        f"{', '.join(changed)}. Pass weights=None to train a new model with these."
    )


def _fill(model, folder, weights):
    """Fills the model of a preset with its own weights, or with those of a file."""
    from zoo.storage.weights import load_weights

    load_weights(model, folder / WEIGHTS if weights == "pretrained" else weights)
    if model.fingerprint is not None:
        expected = read_card(folder).get("fingerprint")
        if expected is None:
            raise ValueError(f"{folder / CARD} lacks the fingerprint of the backbone.")
        model.backbone.check_fingerprint(expected)


def build(name, tokenizer, dtype=None, within=None, /, **overrides):
    """Returns a task with fresh weights.

    Args:
        name: Name of an architecture.
        tokenizer: The tokenizer, which determines the size of the vocabulary; `None` for a model
            without texts.
        dtype: Keras dtype policy of the computation; defaults to the global one.
        within: Context manager in which the weights of the core are created; none by default.
        **overrides: Options of the core that differ from the defaults of the architecture, and
            options of the task, such as `sampler`.

    Raises:
        ValueError: If the architecture or an option is unknown.
    """
    settings, options = _option_names(name)
    _refuse_unknown(name, overrides, {*settings, *options})
    task, core, defaults = (getattr(ARCHITECTURES[name], x) for x in ("task", "core", "defaults"))
    of_task = {key: overrides.pop(key) for key in settings if key in overrides}
    taken = [field.name for field in dataclasses.fields(core.Config)]
    decided = task.decides(tokenizer, **of_task)
    # A reader that does not fit is refused by the task, which tells why.
    decided = {key: value for key, value in decided.items() if key in taken}
    with within or contextlib.nullcontext():
        core = core(**{**decided, **defaults, **overrides}, dtype=dtype)
        core.build()
    model = task(core, tokenizer, **of_task)
    model.build()
    return model


def _option_names(name):
    """Returns the names of the options of an architecture: of its task, and of its core."""
    from keras_attention.errors import unknown_name

    if name not in ARCHITECTURES:
        raise ValueError(unknown_name("architecture", name, ARCHITECTURES))
    parameters = inspect.signature(ARCHITECTURES[name].task).parameters.values()
    settings = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    return settings[2:], ARCHITECTURES[name].core.options()  # without core and tokenizer


def _refuse_unknown(name, overrides, known):
    from keras_attention.errors import unknown_name

    for override in overrides:
        if override not in known:
            raise ValueError(unknown_name(f"option of {name}", override, sorted(known)))


def _of_preset(folder, architecture, tokenizer, dtype, arguments):
    """Returns the task of a preset with fresh weights, which its weights file can fill."""
    from zoo.storage.arrays import arrays_in
    from zoo.storage.weights import limited_to

    weights = folder / WEIGHTS
    arrays = len(arrays_in(weights))
    layers = _most_layers(arguments)
    if layers > arrays:  # before a weight is made, layers are
        raise ValueError(
            f"{folder / CONFIG} asks for {layers} layers, and {weights} has {arrays} arrays. Get "
            "all files of the preset again, from a single source."
        )
    with _named(f"The model of {folder / CONFIG} cannot be made."):
        return build(architecture, tokenizer, dtype, limited_to(weights), **arguments)


def _takes_labels(architecture):
    """Whether `labels` gives a trained model of this architecture a new head."""
    return architecture.startswith("text_encoder") or architecture in WITH_LABELS


def _with_labels(trained, weights, dtype, overrides):
    """Returns a classifier, or a tagger, of new labels.

    Args:
        trained: The task of a trained encoder or classifier.
        weights: `"pretrained"` for its weights and a new head, or the path of a file with all of
            them.
        dtype, overrides: As for `load`.
    """
    from zoo.checkpoints.settings import TAGS
    from zoo.storage.weights import load_weights
    from zoo.tasks.base import part_of

    name = WITH_LABELS.get(trained.core.architecture, "text_encoder")
    known, own = ARCHITECTURES[name].core.options(), trained.core.get_config()
    options = {**{key: own[key] for key in known if key in own}, **overrides}
    decided = {"head", "num_labels", "vector_size", "projections"}
    if trained.tokenizer is None:
        options = {"reader": trained.settings["reader"], **options}
        decided |= {*part_of(options["reader"]).decides} - {*overrides}
    for each in decided:
        options.pop(each, None)
    if name == "text_encoder" and options.get("problem_type") == TAGS:
        name = "text_encoder_tags"
        del options["problem_type"]
    model = build(name, trained.tokenizer, dtype, **options)
    _require_size_of_reader("trained weights", model, overrides.get("image_size"))
    if weights != "pretrained":
        load_weights(model, weights)
        return model
    try:
        model.core.begin_with(trained.core)
    except ValueError as error:
        changed = [f"{key}={value!r}" for key, value in overrides.items() if key not in CHOSEN]
        raise ValueError(
            "The trained weights do not fit these options, which must be left out, or be as in "
            f"training: {', '.join(changed)}. {error}"
        ) from error
    return model


def _of_checkpoint(folder, dtype, **overrides):
    """Returns the task of a Hugging Face checkpoint."""
    import keras

    from zoo.checkpoints.adapters import AdaptedFiles, base_of
    from zoo.checkpoints.loading import read_checkpoint
    from zoo.checkpoints.names import fill
    from zoo.checkpoints.tensor_files import TensorFiles
    from zoo.storage.kinds import is_adapter

    with _named(f"The checkpoint {folder} cannot be loaded."):
        chosen = {name: overrides.pop(name, None) for name in CHOSEN}
        if is_adapter(folder):
            adapter, folder = folder, folder_of(base_of(folder))
            files = AdaptedFiles(folder, adapter)
            head = files.arguments_of_head(chosen["labels"], chosen["problem_type"])
            plan, tokenizer = read_checkpoint(folder, **{**chosen, **(head or {})})
            files.require_own_output(plan.names)
            names = plan.names.with_trained_head() if head else plan.names
        else:
            files = TensorFiles(folder)
            plan, tokenizer = read_checkpoint(folder, **chosen)
            names = plan.names
        layers = _most_layers(plan.options)
        if layers > len(files.shapes):  # before a weight is made, layers are
            raise ValueError(
                f"{folder / CONFIG} asks for {layers} layers, and the files have "
                f"{len(files.shapes)} tensors. Get all files again, from a single source."
            )
        options = {**plan.options, **overrides}
        within = files.limit(all_are_filled=not names.fresh)
        model = build(plan.architecture, tokenizer, dtype, within, **options)
        _require_size_of_reader("a checkpoint", model, overrides.get("image_size"))
        fill(model.core, files, names)
    # Some can be changed in place; those that Keras tracks refer to the model, weights and all.
    settings = keras.tree.map_structure(lambda each: each, model.settings)
    of_files = {name: each for name, each in settings.items() if name not in overrides}
    model.checkpoint = folder, plan.names, of_files, "reader" in overrides
    return model


def _most_layers(arguments):
    """Returns the number of layers of the tallest stack that the arguments ask for."""
    stacks = [arguments, *(each for each in arguments.values() if isinstance(each, dict))]
    numbers = [stack.get("num_layers") for stack in stacks]
    numbers = [each if isinstance(each, list | tuple) else [each] for each in numbers]  # by stage
    return max(sum(each for each in stages if isinstance(each, int)) for stages in numbers)


@contextlib.contextmanager
def _named(what):
    """Turns any error that malformed files lead to into a `ValueError` that names them."""
    try:
        yield
    except (OSError, ImportError):
        raise
    except Exception as error:  # such as of an argument of the wrong kind
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{what} {kind}{error}") from error


def _fresh_architecture(name, weights, tokenizer, dtype, overrides):
    if weights == "pretrained":
        trained = [each.name for each in list_models() if each.card.get("architecture") == name]
        raise ValueError(
            f"{name} is an architecture, without weights. Load a trained model "
            f"({', '.join(trained) or 'none yet'}), or pass weights=None for fresh weights."
            f"{of_same_name(name)}"
        )
    given = {**overrides, **({} if tokenizer is None else {"tokenizer": tokenizer})}
    examples = dict(ARCHITECTURES[name].needs)
    if examples.get("reader") == "zoo.ImageReader()" and "image_size" in overrides:
        examples["reader"] = f"zoo.ImageReader(size={overrides['image_size']})"
    missing = [f"{need}={example}" for need, example in examples.items() if need not in given]
    if missing:
        raise ValueError(
            f"{name} with fresh weights needs {' and '.join(examples)}. Received: "
            f"{', '.join(given) or 'neither options nor parts'}. Pass {', '.join(missing)}."
        )
    model = build(name, tokenizer, dtype, **overrides)
    if weights is None:
        _require_size_of_reader(f"{name} with fresh weights", model, overrides.get("image_size"))
    else:
        from zoo.storage.weights import load_weights

        load_weights(model, weights)
    return model


def _require_size_of_reader(what, model, asked):
    """Raises a `ValueError` if a model is asked for a size that its reader does not make.

    Weights from a file may be of another size than the reader: their positions are interpolated.
    """
    if asked is not None and asked != model.reader.size:
        raise ValueError(
            f"`image_size` of {what} must be the size of its reader, {model.reader.size}. "
            f"Received: image_size={asked}. Leave it out, or pass "
            f"reader=zoo.{model.reader.of_size(asked)}."
        )
