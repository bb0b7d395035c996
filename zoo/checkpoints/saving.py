"""Writes checkpoints that transformers reads."""

import os
import pathlib
import shutil
from typing import Any

from zoo.atomic import whole
from zoo.checkpoints.names import modern, namer, tensors_of
from zoo.checkpoints.tensor_files import SAFETENSORS, TensorFiles
from zoo.storage.weights import require_float

_WEIGHTS = ".safetensors", ".bin", ".index.json", ".h5", ".msgpack", ".onnx"


def save_checkpoint(model: Any, path: str | os.PathLike[str]) -> pathlib.Path:
    """Writes a model that was loaded from a checkpoint as a checkpoint, with its current weights.

    Tensors that the model does not use, such as BERT's pooler in an embedder, stay as they are.

    Args:
        model: A task that `zoo.load` loaded from a checkpoint, which must still be in its place:
            the tokenizer and the settings are copied from there.
        path: A new folder. It appears only when it is complete.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        ValueError: If the model was not loaded from a checkpoint, the path exists, the labels are
            new (transformers would name their head differently), or the model is quantized.
        ImportError: If safetensors is missing.
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
    source, names = model.checkpoint
    if names.fresh:
        raise ValueError(
            "A model with new labels has a head that the checkpoint did not have, for which the "
            "format has no names. Use model.save_to_preset instead."
        )
    require_float(model)
    files = TensorFiles(source)
    stored = {modern(name): name for name in files.shapes}
    local = namer(stored, names)
    tensors = {local(name): array for name, array in tensors_of(model.core, names)}
    tensors = {
        name: array.reshape(files.shapes[stored[name]]).copy() for name, array in tensors.items()
    }
    for name in stored.keys() - tensors.keys() - set(map(local, names.tied)):
        array = files.read(stored[name])
        tensors[name] = array.astype("float32") if array.dtype.kind == "V" else array  # bfloat16
    with whole(path) as unfinished:
        unfinished.mkdir()
        for file in source.iterdir():
            if file.is_dir() and file.name.endswith("_Pooling"):
                shutil.copytree(file, unfinished / file.name)
            elif file.is_file() and not file.name.endswith(_WEIGHTS):
                shutil.copy(file, unfinished)
        save_file(tensors, unfinished / SAFETENSORS, metadata={"format": "pt"})
    return path
