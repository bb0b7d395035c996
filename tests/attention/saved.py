"""Checks that layers are restored from their configs, and models from their files."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np

REPOSITORY = Path(__file__).parents[2]
FRESH_PROCESS = """
import importlib
import sys

import keras
import numpy as np

path, inputs, outputs, *modules = sys.argv[1:]
for module in modules:
    importlib.import_module(module)
model = keras.models.load_model(path)
found = model(dict(np.load(inputs)))
np.savez(outputs, **{name: np.float32(array) for name, array in found.items()})
"""


def plain(value):
    """The config of a value, which is equal for two equal objects."""
    return keras.saving.serialize_keras_object(value)


def check_config(layer_class, arguments):
    """Checks that the config has every argument of the constructor and restores the layer."""
    layer = layer_class(**arguments)
    config = layer.get_config()
    for name, value in arguments.items():
        value = keras.dtype_policies.get(value) if name == "dtype" else value
        assert plain(config[name]) == plain(value), name
    again = keras.saving.deserialize_keras_object(plain(layer))
    assert type(again) is layer_class
    assert again.get_config() == config


def check_file(model, inputs, folder, modules=("keras_attention",), atol=1e-5):
    """Checks that a saved model predicts the same in a process that only imports some modules.

    Args:
        model: Model with a dictionary of outputs.
        inputs: Dictionary of its inputs.
        folder: Folder for the files.
        modules: Modules that the process imports.
        atol: Largest allowed difference between predictions.
    """
    expected = model(inputs)
    model.save(folder / "model.keras")
    np.savez(folder / "inputs.npz", **inputs)
    files = [folder / name for name in ("model.keras", "inputs.npz", "outputs.npz")]
    finished = subprocess.run(
        [sys.executable, "-c", FRESH_PROCESS, *files, *modules],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert finished.returncode == 0, finished.stderr
    assert "UserWarning" not in finished.stderr
    with np.load(folder / "outputs.npz") as found:
        assert set(found) == set(expected)
        for name in found:
            np.testing.assert_allclose(
                found[name], np.float32(expected[name]), atol=atol, err_msg=name
            )
