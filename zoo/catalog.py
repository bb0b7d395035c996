"""What is known about models: trained ones in the package, those from elsewhere, architectures.

`list_models` and `info` read cards and `ARCHITECTURES`, and need neither Keras nor TensorFlow.
"""

import difflib
import os
import pathlib
import textwrap
import warnings
from typing import NamedTuple

from zoo.architectures import ARCHITECTURES
from zoo.checkpoints.settings import Settings
from zoo.options import options_of
from zoo.storage import CARD, CONFIG
from zoo.storage.cards import measured, read_card, told
from zoo.storage.kinds import is_checkpoint

PRESETS = pathlib.Path(__file__).parent / "presets"
INDENT = 40  # maximum indentation of wrapped lines


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
     'transformer_lm', 'transformer_lm_embedding', 'transformer_lm_labels', 'transformer_lm_score',
     'transformer_nmt', 'vision_encoder_decoder', 'vit', 'vit_embedding', 'wav2vec2',
     'wav2vec2_ctc', 'whisper']
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
    is_path = os.path.basename(str(name)) != str(name)  # "./vit_mnist" is not the model of the zoo
    for folder in [*([] if is_path else [PRESETS / str(name)]), pathlib.Path(name)]:
        # `os.path` answers for any text, `pathlib` fails for one that is too long for a name.
        if os.path.isdir(folder) and ((folder / CARD).is_file() or is_checkpoint(folder)):
            hint = of_same_name(name) if folder.parent == PRESETS else ""
            if hint:
                warnings.warn(f"{name} is a model of the zoo.{hint}", stacklevel=3)
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


def of_same_name(name):
    """Returns a hint, after a space, if there is a preset with the name of a model of the zoo."""
    folder = pathlib.Path(name)
    if not (folder / CARD).is_file() or folder.resolve().parent == PRESETS.resolve():
        return ""
    return f" The folder of that name is another one: {os.path.join(os.curdir, folder)!r}."


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
