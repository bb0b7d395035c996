"""Exports models for ONNX Runtime, LiteRT and other runtimes: numbers in, numbers out."""

import json

from keras_attention.errors import unknown_name
from zoo.serving.export import write_folder
from zoo.serving.to_litert import write_litert
from zoo.serving.to_onnx import write_onnx

TOKENIZER, LABELS, PROMPTS = "tokenizer.json", "labels.json", "prompts.json"
PROCESSOR, CONFIG = "preprocessor_config.json", "config.json"
GRAPH_FORMATS = {"onnx": write_onnx, "litert": write_litert}


def require_format(file_format):
    """Raises a `ValueError` unless it is `"tf_saved_model"` or one of `GRAPH_FORMATS`."""
    formats = ["tf_saved_model", *GRAPH_FORMATS]
    if file_format not in formats:
        raise ValueError(unknown_name("format", file_format, formats))


def write_graphs(path, file_format, core, parts, library=None, contents=None):
    """Writes a model as graphs of numbers, with its tokenizer for the `tokenizers` library.

    Args:
        path: Folder to write, which appears only when it is complete.
        file_format: `"onnx"` for a file for each graph, such as `start.onnx` and `step.onnx`, or
            `model.onnx`, with any batch size and length; or `"litert"` for `model.tflite` with
            these as signatures, for a batch of one and a fixed length.
        core: The model of tensors.
        parts: A `zoo.serving.steps.Start`, or the `zoo.serving.encoders.Encoders` of a model
            without decoding.
        library: The `tokenizers.Tokenizer` of a model of texts.
        contents: Dictionary from names of files, such as `labels.json`, to their JSON contents.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        ValueError: If the folder holds something, the model does not compute in float32, or it has
            operations that the format lacks.
        ImportError: If a library for the conversion is missing.
    """
    if core.compute_dtype != "float32":
        raise ValueError(
            f'format="{file_format}" is for models that compute in float32. This one computes in '
            f'{core.compute_dtype}: load it with dtype="float32".'
        )

    def write(folder):
        if library is not None:
            library.save(str(folder / TOKENIZER))
        for name, content in (contents or {}).items():
            text = json.dumps(content, ensure_ascii=False)
            (folder / name).write_text(text, encoding="utf-8")
        GRAPH_FORMATS[file_format](folder, core, parts)

    return write_folder(path, write)
