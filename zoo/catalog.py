"""The models by name: the trained ones of the package, those from elsewhere, architectures.

What `list_models` and `info` tell stands in cards and in `ARCHITECTURES`. Keras, TensorFlow and the
classes of models are imported when one is loaded.
"""

import contextlib
import difflib
import importlib
import inspect
import pathlib
import textwrap
from typing import NamedTuple

from zoo.checkpoints.settings import Settings
from zoo.options import options_of
from zoo.storage import CARD, CONFIG, TOKENIZER, WEIGHTS
from zoo.storage.cards import measured, read_card, told
from zoo.storage.kinds import is_checkpoint

PRESETS = pathlib.Path(__file__).parent / "presets"


class Architecture(NamedTuple):
    """A kind of model, before anybody has trained it.

    Attributes:
        task_name: What it does, as the class of the task names it.
        description: One line for people.
        task_path: Where the class is that users call.
        core_path: Where the class of the model of tensors is.
        defaults: Options of that which differ from its own.
    """

    task_name: str
    description: str
    task_path: str
    core_path: str
    defaults: dict = {}  # noqa: RUF012

    @property
    def task(self):
        """The class that users call."""
        return _class_at(self.task_path)

    @property
    def core(self):
        """The class of the model of tensors."""
        return _class_at(self.core_path)


def _class_at(path):
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


ARCHITECTURES = {
    "bahdanau_nmt": Architecture(
        "translation",
        "GRU translator that attends before each step (Bahdanau et al. 2015)",
        "zoo.tasks.translation.Translator",
        "zoo.models.recurrent_nmt.AttentionRNNTranslator",
        {"order": "bahdanau", "score": "additive", "cell": "gru"},
    ),
    "clip": Architecture(
        "matching",
        "Pictures and texts in one space (Radford et al. 2021)",
        "zoo.tasks.matching.Matcher",
        "zoo.models.clip.Clip",
    ),
    "conformer": Architecture(
        "classification",
        "Conformer (Gulati et al. 2020)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.conformer.Conformer",
    ),
    "luong_nmt": Architecture(
        "translation",
        "LSTM translator that attends after each step, with input feeding (Luong et al. 2015)",
        "zoo.tasks.translation.Translator",
        "zoo.models.recurrent_nmt.AttentionRNNTranslator",
        {"order": "luong", "score": "general", "cell": "lstm"},
    ),
    "show_attend_tell": Architecture(
        "captioning",
        "LSTM that looks at a picture again before each word (Xu et al. 2015)",
        "zoo.tasks.captioning.Captioner",
        "zoo.models.show_attend_tell.ShowAttendTell",
    ),
    "t5": Architecture(
        "text to text",
        "Text-to-text Transformer (Raffel et al. 2020)",
        "zoo.tasks.text_to_text.TextToText",
        "zoo.models.t5.T5",
    ),
    "text_encoder": Architecture(
        "classification",
        "Text encoder (Devlin et al. 2019)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.text_encoder.TextEncoder",
    ),
    "text_encoder_embedding": Architecture(
        "embedding",
        "Text encoder to a vector (Reimers and Gurevych 2019)",
        "zoo.tasks.embedding.Embedder",
        "zoo.models.text_encoder.TextEncoder",
        {"head": "embedding", "pooling": "mean", "pooler": None},
    ),
    "text_encoder_masked": Architecture(
        "masked language model",
        "Text encoder that fills gaps (Devlin et al. 2019)",
        "zoo.tasks.masked.MaskFiller",
        "zoo.models.text_encoder.TextEncoder",
        {"head": "masked"},
    ),
    "text_encoder_score": Architecture(
        "scoring",
        "Text encoder to a number (Devlin et al. 2019)",
        "zoo.tasks.scoring.Scorer",
        "zoo.models.text_encoder.TextEncoder",
        {"head": "score"},
    ),
    "text_encoder_tags": Architecture(
        "tagging",
        "Text encoder to a label for each word (Devlin et al. 2019)",
        "zoo.tasks.tagging.Tagger",
        "zoo.models.text_encoder.TextEncoder",
        {"head": "tags"},
    ),
    "transformer_lm": Architecture(
        "language model",
        "Transformer language model",
        "zoo.tasks.writing.TextGenerator",
        "zoo.models.transformer_lm.TransformerLanguageModel",
    ),
    "transformer_nmt": Architecture(
        "translation",
        "Transformer translator (Vaswani et al. 2017)",
        "zoo.tasks.translation.Translator",
        "zoo.models.transformer_nmt.TransformerTranslator",
    ),
    "vit": Architecture(
        "classification",
        "Vision Transformer (Dosovitskiy et al. 2021)",
        "zoo.tasks.classification.Classifier",
        "zoo.models.vit.ViT",
    ),
}
READ_BY = {"conformer": "SoundReader", "vit": "ImageReader"}


def register():
    """Imports the classes of all models and tasks, which registers them with Keras."""
    for architecture in ARCHITECTURES.values():
        _ = architecture.task, architecture.core
    for reader in ("image_reader", "sound_reader"):  # which configs of presets may hold
        importlib.import_module(f"zoo.readers.{reader}")


class ModelInfo(NamedTuple):
    """What is known of a model of the zoo.

    Attributes:
        name: Its name; `zoo.load` takes that of a model of the package.
        task: What it does, such as `"translation"`.
        description: One line for people.
        data: What it was trained on; empty for an architecture.
        parameters: Number of weights; `None` for an architecture or a checkpoint.
        megabytes: Size on disk; `None` for an architecture.
        quality: Dictionary of a metric and its protocol to the value measured.
        card: Everything that `card.json` says; empty for an architecture.
        options: List of the `zoo.options.Option`s of an architecture; empty for a trained model.
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

    def __str__(self):
        lines = [self.name, f"  {self.description}"]
        if self.options:
            lines.append(f"  {self.task}, to train: weights=None, and options of")
            width = max(len(f"{each.name}={each.default!r}") for each in self.options)
            for name, default, text in self.options:
                lines += _wrapped(f"    {f'{name}={default!r}':{width}}  ", text)
        if self.card:
            trained = f", trained on {self.data}" if self.data else ""
            lines.append(f"  {self.task}{trained}")
            millions = self.parameters / 1e6
            lines.append(f"  {millions:.1f} M weights, {self.megabytes:.1f} MB on disk")
            for title, text in told(self.card).items():
                lines += _wrapped(f"  {title}: ", text)
        elif self.megabytes is not None:
            lines.append(f"  {self.megabytes:.1f} MB on disk")
        lines += [f"  {metric}: {value}" for metric, value in self.quality.items()]
        return "\n".join(lines)


def _wrapped(beginning, text):
    width = max(100, len(beginning) + 40)
    options = {"initial_indent": beginning, "subsequent_indent": " " * min(len(beginning), 40)}
    return textwrap.wrap(
        text, width, break_on_hyphens=False, break_long_words=False, **options
    ) or [beginning.rstrip()]


def list_models():
    """Returns the `ModelInfo` of every trained model, then of every architecture.

    Example:

    >>> [model.name for model in list_models() if not model.card]  # doctest: +NORMALIZE_WHITESPACE
    ['bahdanau_nmt', 'clip', 'conformer', 'luong_nmt', 'show_attend_tell', 't5', 'text_encoder',
     'text_encoder_embedding', 'text_encoder_masked', 'text_encoder_score', 'text_encoder_tags',
     'transformer_lm', 'transformer_nmt', 'vit']
    """
    trained = sorted(folder.parent for folder in PRESETS.glob(f"*/{CARD}"))
    return [_preset_info(folder) for folder in trained] + [
        _architecture_info(name) for name in ARCHITECTURES
    ]


def info(name):
    """Returns the `ModelInfo` of an architecture, or of a trained model from anywhere.

    Args:
        name: As for `load`.

    Raises:
        ValueError: If there is no such model; the nearest names are in the message.
    """
    if name in ARCHITECTURES:
        return _architecture_info(name)
    folder = _folder(name)
    return _preset_info(folder) if (folder / CARD).is_file() else _checkpoint_info(name, folder)


def load(name, weights="pretrained", tokenizer=None, dtype=None, **overrides):
    """Loads a model: strings in, strings out.

    Args:
        name: Name of a trained model or of an architecture (see `list_models`), or a preset that
            `model.save_to_preset` or `python -m zoo train` wrote: its folder, its archive
            `"model.zip"`, `"https://.../model.zip"`, or `"hf://user/name"` and
            `"hf://user/name@revision"` on the Hugging Face Hub (`pip install
            "keras-attention-zoo[hub]"`). What is downloaded stays in `~/.keras/presets`, or in the
            client's cache, and is there without internet the next time. An archive may be pinned
            by its hash, `"https://.../model.zip#sha256=..."`; without one, a new archive behind the
            same URL is not looked for.
            Or a checkpoint as transformers writes it: a folder with `config.json`, safetensors and
            a tokenizer, or `"hf://organization/name"`. `zoo.checkpoints.families` lists what can be
            loaded.
        weights: `"pretrained"`, `None` for fresh ones, or the path of a `.weights.h5` file: of
            `model.save_weights`, of a checkpoint in training, or of a preset.
        tokenizer: The tokenizer of a model with fresh weights. A trained model has its own.
        dtype: Keras dtype policy of the computation; the global one by default.
        **overrides: Arguments of the architecture, for fresh weights; of a checkpoint, arguments
            that change no weights, such as `dropout` or `sampler`; `labels` for a classifier with
            a new, untrained head; and `problem_type`, as transformers calls it: with
            `"multi_label_classification"` an input may have several labels, with `"regression"` the
            head is one for a number.

    Returns:
        A task, such as `zoo.Translator`.

    Raises:
        ValueError: If the name or an argument is unknown, a file is not what the card says, or a
            preset asks for a class that the program has not registered: it brings no code. If its
            files do not fit each other: no weight is made that its file of weights lacks.
        OSError: If it could not be downloaded.

    Example:

    >>> from zoo import ByteBPETokenizer
    >>> model = load("bahdanau_nmt", weights=None, tokenizer=ByteBPETokenizer([]), dropout=0.2)
    >>> model.core.config.dropout
    0.2
    """
    register()
    from zoo.readers.text import load_tokenizer
    from zoo.storage.configs import read_config
    from zoo.storage.presets import check_files
    from zoo.storage.weights import load_weights

    if name in ARCHITECTURES:
        return _fresh_architecture(name, weights, tokenizer, dtype, overrides)
    folder = _folder(name)
    if not (folder / CARD).is_file():
        if weights != "pretrained" or tokenizer is not None:
            raise ValueError(
                f"{name} is a checkpoint, which has weights and a tokenizer of its own. Received: "
                f"weights={weights!r}, tokenizer={tokenizer!r}."
            )
        return _of_checkpoint(folder, dtype, **overrides)
    check_files(
        folder,
        "Restore the file: install the package again, get the preset anew, or remove "
        f"{folder} if it is a download, to repeat it.",
    )
    architecture, arguments = read_config(folder)
    if weights is not None and (overrides or tokenizer is not None):
        changed = [*overrides, *(["tokenizer"] if tokenizer is not None else [])]
        raise ValueError(
            f"The weights of {name} fit its own architecture and tokenizer only. Received: "
            f"{', '.join(changed)}. Pass weights=None to train it anew with these."
        )
    has_texts = (folder / TOKENIZER).is_file()
    own = load_tokenizer(folder / TOKENIZER) if has_texts else None
    model = _of_preset(folder, architecture, own, dtype, arguments)
    if overrides or tokenizer is not None:
        arguments = {**arguments, **overrides}
        return build(architecture, tokenizer or own, dtype, **arguments)
    if weights is not None:
        load_weights(model, folder / WEIGHTS if weights == "pretrained" else weights)
        if model.fingerprint is not None:
            expected = read_card(folder).get("fingerprint")
            if expected is None:
                raise ValueError(f"{folder / CARD} lacks the fingerprint of the backbone.")
            model.check_fingerprint(expected)
    return model


def build(name, tokenizer, dtype=None, within=None, /, **overrides):
    """Returns a task with fresh weights.

    Args:
        name: Name of an architecture.
        tokenizer: The tokenizer, which decides on the size of the vocabulary; `None` for a model
            without texts.
        dtype: Keras dtype policy of the computation; the global one by default.
        within: Context manager that the weights of the core are made in; by default none.
        **overrides: Options of the core that differ from the architecture's own, and those of the
            task, such as `sampler`.

    Raises:
        ValueError: If the architecture or an option is unknown.
    """
    from keras_attention.errors import unknown_name

    if name not in ARCHITECTURES:
        raise ValueError(unknown_name("architecture", name, ARCHITECTURES))
    task, core, defaults = (getattr(ARCHITECTURES[name], x) for x in ("task", "core", "defaults"))
    parameters = inspect.signature(task).parameters.values()
    settings = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    settings = settings[2:]  # without core and tokenizer
    allowed = sorted([*core.options(), *settings])
    for override in overrides:
        if override not in allowed:
            raise ValueError(unknown_name(f"option of {name}", override, allowed))
    of_task = {key: overrides.pop(key) for key in settings if key in overrides}
    decided = task.decides(tokenizer, **of_task)
    with within or contextlib.nullcontext():
        core = core(**{**decided, **defaults, **overrides}, dtype=dtype)
        core.build()
    model = task(core, tokenizer, **of_task)
    model.build()
    return model


def _of_preset(folder, architecture, tokenizer, dtype, arguments):
    """Returns the task of a preset with fresh weights, which have room in its file of weights."""
    from zoo.storage.arrays import arrays_in
    from zoo.storage.weights import limited_to

    weights = folder / WEIGHTS
    arrays = len(arrays_in(weights))
    layers = _most_layers(arguments)
    if layers > arrays:  # before a weight is made, layers are
        raise ValueError(
            f"{folder / CONFIG} asks for {layers} layers, and {weights} has {arrays} arrays. Get "
            "all files of the preset anew, from one place."
        )
    with _named(f"The model of {folder / CONFIG} cannot be made."):
        return build(architecture, tokenizer, dtype, limited_to(weights), **arguments)


def _of_checkpoint(folder, dtype, **overrides):
    """Returns the task of a checkpoint of Hugging Face."""
    from zoo.checkpoints.loading import read_checkpoint
    from zoo.checkpoints.names import fill
    from zoo.checkpoints.tensor_files import TensorFiles

    with _named(f"The checkpoint {folder} cannot be loaded."):
        files = TensorFiles(folder)
        head = {name: overrides.pop(name, None) for name in ("labels", "problem_type")}
        plan, tokenizer = read_checkpoint(folder, **head)
        layers = _most_layers(plan.options)
        if layers > len(files.shapes):  # before a weight is made, layers are
            raise ValueError(
                f"{folder / CONFIG} asks for {layers} layers, and the files have "
                f"{len(files.shapes)} tensors. Get all files anew, from one place."
            )
        options = {**plan.options, **overrides}
        within = files.limit(all_are_filled=not plan.names.fresh)
        model = build(plan.architecture, tokenizer, dtype, within, **options)
        fill(model.core, files, plan.names)
    model.checkpoint = folder, plan.names
    return model


def _most_layers(arguments):
    """Returns the number of layers of the highest stack that arguments ask for."""
    stacks = [arguments, *(each for each in arguments.values() if isinstance(each, dict))]
    numbers = [stack.get("num_layers") for stack in stacks]
    return max((number for number in numbers if isinstance(number, int)), default=0)


@contextlib.contextmanager
def _named(what):
    """Makes a `ValueError` that says so of whatever strange files lead to."""
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
            f"{name} is an architecture, without weights of its own. Load a trained model "
            f"({', '.join(trained) or 'none yet'}), or pass weights=None for fresh weights."
        )
    if name in READ_BY and "reader" not in overrides:
        raise ValueError(
            f"{name} with fresh weights needs what reads its inputs, and labels: reader="
            f"zoo.{READ_BY[name]}(), labels=['one', 'another']."
        )
    if tokenizer is None and "reader" not in overrides:
        raise ValueError(
            f"{name} with fresh weights needs a tokenizer: tokenizer=zoo.ByteBPETokenizer.train("
            "sentences, vocabulary_size=8000), with the sentences of both languages."
        )
    model = build(name, tokenizer, dtype, **overrides)
    if weights is not None:
        from zoo.storage.weights import load_weights

        load_weights(model, weights)
    return model


def _folder(name):
    """Returns the folder of a preset of the package, of one anywhere, or of a download."""
    for folder in (PRESETS / str(name), pathlib.Path(name)):
        if (folder / CARD).is_file() or is_checkpoint(folder):
            return folder
    if "://" in str(name) or ".zip" in str(name):
        from zoo.storage import downloads

        if downloads.is_elsewhere(str(name)):
            return downloads.fetch(str(name))
    near = difflib.get_close_matches(str(name), [model.name for model in list_models()])
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(
        f"Unknown model {str(name)!r}.{hint} `python -m zoo list` names all. "
        "Or pass the folder or .zip file of a preset, https://..., hf://user/name."
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
    return ModelInfo(str(name), "checkpoint", description, "", None, size / 1e6, {}, {}, [])


def _architecture_info(name):
    architecture = ARCHITECTURES[name]
    options = options_of(architecture.core_path, architecture.defaults)
    task, description = architecture.task_name, architecture.description
    return ModelInfo(name, task, description, "", None, None, {}, {}, options)
