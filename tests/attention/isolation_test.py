"""Importing the layers imports Keras and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
WHAT_KERAS_DOES_NOT_BRING = """
import sys
import keras
before = set(sys.modules)
import keras_attention
print(*(set(sys.modules) - before))
"""


@pytest.mark.full  # the next test checks all import statements
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_import_brings_nothing_that_keras_does_not_bring(backend):
    pytest.importorskip(backend)
    finished = subprocess.run(
        [sys.executable, "-c", WHAT_KERAS_DOES_NOT_BRING],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "KERAS_BACKEND": backend},
    )
    packages = {module.split(".")[0] for module in finished.stdout.split()}
    assert packages - set(sys.stdlib_module_names) == {"keras_attention"}


def test_no_file_imports_tensorflow_or_the_zoo():
    files = set((REPOSITORY / "keras_attention").rglob("*.py"))
    assert len(files) > 10
    # Keras has no function that computes gradients, so one file calls the backend.
    for file in files - {REPOSITORY / "keras_attention" / "_backend.py"}:
        lines = [line.split() for line in file.read_text().splitlines()]
        imported = {line[1].split(".")[0] for line in lines if line[:1] in (["import"], ["from"])}
        assert not imported & {"tensorflow", "zoo", "jax", "torch"}, file
