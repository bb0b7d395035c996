"""LiteRT files, by the converter that is part of TensorFlow."""

import re
import tempfile

import keras
import tensorflow as tf

from zoo.serving.steps import start_and_step

FILE = "model.tflite"


def write_litert(folder, core, start):
    """Writes `model.tflite` with the signatures `start` and `step`.

    Raises:
        ValueError: If the model has operations that LiteRT lacks.
    """
    graphs = start_and_step(core, start, is_fixed=True)
    with tempfile.TemporaryDirectory() as saved:
        archive = keras.export.ExportArchive()
        for name, (function, signature) in graphs.items():
            archive.add_endpoint(name, function, input_signature=signature)
        archive.write_out(saved, verbose=False)
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
