"""Writes checkpoints that transformers reads."""

import json
import os
import pathlib
import shutil
import warnings
from typing import Any

from zoo.atomic import whole
from zoo.checkpoints.names import modern, namer, tensors_of
from zoo.checkpoints.sentence_transformers import MODULES
from zoo.checkpoints.tensor_files import OF_DENSE, SAFETENSORS, TensorFiles
from zoo.storage import CONFIG
from zoo.storage.json_files import read_named_json
from zoo.storage.kinds import LARGEST_CONFIG
from zoo.storage.weights import require_float

_OF_LABELS = "_num_labels", "num_labels", "id2label", "label2id", "problem_type", "finetuning_task"
_WEIGHTS = (  # endings of files of weights, and of the state of an optimizer
    ".bin",
    ".ckpt",
    ".gguf",
    ".h5",
    ".index.json",
    ".msgpack",
    ".onnx",
    ".ot",
    ".pt",
    ".pth",
    ".safetensors",
)


def save_checkpoint(model: Any, path: str | os.PathLike[str]) -> pathlib.Path:
    """Writes a model that was loaded from a checkpoint as a checkpoint, with its current weights.

    Tensors that the model does not use, such as BERT's pooler in an embedder, stay as they are. A
    text encoder with a new head becomes a model of the class that has such a head, such as
    `BertForSequenceClassification`, with its labels; tensors of the former head are left out.

    Args:
        model: A task that `zoo.load` loaded from a checkpoint, which must still be in its place:
            the tokenizer and the settings are copied from there.
        path: A new folder. It appears only when it is complete.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        ValueError: If the model was not loaded from a checkpoint, or with another reader, the path
            exists, the model is quantized, or transformers has no class for a model with its new
            head.
        ImportError: If safetensors is missing.

    Warns:
        UserWarning: If settings of the task, such as the sampler, are not those of the files.
    """
    try:
        from safetensors.numpy import save_file
    except ImportError as error:
        raise ImportError(
            "A checkpoint is written by safetensors: pip install 'keras-attention-zoo[hub]'."
        ) from error
    path = pathlib.Path(path)
    if path.exists():
        raise ValueError(f"{path} exists already. Remove it, or choose another name.")
    if getattr(model, "checkpoint", None) is None:
        raise ValueError(
            "Only a model that zoo.load loaded from a checkpoint can be saved as one. Received: a "
            f"{type(model).__name__} from elsewhere. Use model.save_to_preset instead."
        )
    source, names, settings, has_new_reader = model.checkpoint
    if has_new_reader:
        raise ValueError(
            "The model was loaded with a reader of its own, reader=..., and the files of its "
            "checkpoint describe another one. Use model.save_to_preset instead."
        )
    if names.new_head and not names.new_settings:
        raise ValueError(
            "transformers has no class of this model with labels, so its new head cannot be saved "
            "as a checkpoint. Use model.save_to_preset instead."
        )
    require_float(model)
    files = TensorFiles(source)
    stored = {modern(name): name for name in files.shapes}
    local = namer(stored, names)
    config = read_named_json(source / CONFIG, LARGEST_CONFIG)
    config = _with_dtype(config, model.core.variable_dtype)
    tensors = {}
    for name, array in tensors_of(model.core, names):
        shape = files.shapes[stored[local(name)]] if local(name) in stored else array.shape
        tensors[name if names.new_head else local(name)] = array.reshape(shape).copy()
    if names.new_head:
        head = tensors_of(model.core, names._replace(table=names.new_head))
        tensors |= {name: array.copy() for name, array in head}  # in the order of memory
        config = {name: value for name, value in config.items() if name not in _OF_LABELS}
        config |= names.new_settings
        copied = {name: local(name) for name in names.carried if local(name) in stored}
    else:
        left = stored.keys() - tensors.keys() - set(map(local, names.tied))
        copied = dict(zip(left, left, strict=True))
    for name, in_file in copied.items():
        array = files.read(stored[in_file])
        is_bfloat16 = array.dtype.kind == "V"
        tensors[name] = array.astype("float32") if is_bfloat16 else array
    replaced = CONFIG, *([MODULES] if names.new_head else [])  # the latter makes an embedder
    with whole(path) as unfinished:
        unfinished.mkdir()
        for file in source.iterdir():
            if file.is_dir() and file.name.endswith("_Pooling"):
                shutil.copytree(file, unfinished / file.name)
            elif file.is_file() and not file.name.endswith(_WEIGHTS) and file.name not in replaced:
                shutil.copy(file, unfinished)
        (unfinished / CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")
        for dense in source.glob(OF_DENSE):
            here = [name for name in tensors if name.startswith(f"{dense.name}.")]
            here = {name.partition(".")[2]: tensors.pop(name) for name in here}
            if here:
                (unfinished / dense.name).mkdir()
                shutil.copy(dense / CONFIG, unfinished / dense.name)
                save_file(here, unfinished / dense.name / SAFETENSORS, metadata={"format": "pt"})
        save_file(tensors, unfinished / SAFETENSORS, metadata={"format": "pt"})
    changed = [name for name, each in model.settings.items() if each != settings.get(name)]
    if changed:
        warnings.warn(
            f"The checkpoint does not hold what was set in Python: {', '.join(changed)}. Set it "
            "again after loading, or use model.save_to_preset, which keeps it.",
            stacklevel=2,
        )
    return path


def _with_dtype(config, dtype):
    """Returns a config for weights of this type: transformers converts them to the one it names."""
    if not isinstance(config, dict):
        return config
    return {
        name: dtype if name in ("dtype", "torch_dtype") else _with_dtype(value, dtype)
        for name, value in config.items()
    }
