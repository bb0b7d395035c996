"""A model as files for ONNX Runtime, LiteRT and others: numbers in, numbers out."""

import json

from zoo.serving.export import write_folder
from zoo.serving.to_litert import write_litert
from zoo.serving.to_onnx import write_onnx

TOKENIZER, LABELS = "tokenizer.json", "labels.json"
GRAPH_FORMATS = {"onnx": write_onnx, "litert": write_litert}


def write_graphs(path, file_format, core, parts, tokenizer, labels=None):
    """Writes a model as graphs of numbers, with its tokenizer for the `tokenizers` library.

    Args:
        path: Folder to write, which appears only when it is complete.
        file_format: `"onnx"` for `start.onnx` and `step.onnx`, or `model.onnx`, whose batch and
            length are free; or `"litert"` for `model.tflite` with these as signatures, for a batch
            of one and a fixed length.
        core: The model of token ids.
        parts: A `zoo.serving.steps.Start`, or the `zoo.serving.encoders.Encode` of a model that
            reads an input at once.
        tokenizer: A `ByteBPETokenizer`, or a `Tokenizer` that the library reads.
        labels: List of names for `labels.json`, if the model has some.

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
    library = tokenizer.to_library()  # an ImportError tells what is missing

    def write(folder):
        library.save(str(folder / TOKENIZER))
        if labels is not None:
            text = json.dumps(labels, ensure_ascii=False)
            (folder / LABELS).write_text(text, encoding="utf-8")
        GRAPH_FORMATS[file_format](folder, core, parts)

    return write_folder(path, write)
