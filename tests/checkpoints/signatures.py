"""Signatures of models that were exported."""

import tensorflow as tf


def default_signature(request, model, folder):
    """Returns the default signature of an exported model, a function of named inputs.

    Without `--full` it calls what would be exported; `zoo/classification_test` always exports.
    """
    if request.config.getoption("--full"):
        return tf.saved_model.load(str(model.export(folder))).signatures["serving_default"]
    function = model.endpoints()["serving_default"].function
    return lambda **inputs: function(*inputs.values())
