"""Writes LiteRT files with TensorFlow's converter."""

import re
import tempfile

import tensorflow as tf

from zoo.serving.export import write_saved_model
from zoo.storage.weights import is_quantized

FILE = "model.tflite"


def write_litert(folder, core, parts):
    """Writes `model.tflite` with a signature for each graph, such as `start` and `step`.

    Raises:
        ValueError: If the model is quantized, or has operations that LiteRT lacks.
    """
    if is_quantized(core):
        raise ValueError(
            "LiteRT lacks the products of integers of a quantized model. Export it before "
            '`quantize`, or as a SavedModel: format="tf_saved_model".'
        )
    graphs = parts.graphs(core, is_fixed=True)
    with tempfile.TemporaryDirectory() as saved:
        write_saved_model(saved, [core], graphs)
        converter = tf.lite.TFLiteConverter.from_saved_model(saved, signature_keys=list(graphs))
        try:
            content = converter.convert()
        except Exception as error:
            lacking = re.search(r"(?:TF Select|Custom) ops: (.*)", str(error))
            if lacking is None:
                raise
            raise ValueError(
                f"LiteRT lacks operations of this model: {lacking[1]}. Export it as a SavedModel "
                'instead: format="tf_saved_model".'
            ) from error
    (folder / FILE).write_bytes(content)
