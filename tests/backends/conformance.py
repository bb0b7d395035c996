"""Runs test suites of the layers on another Keras backend, in a separate process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    "../plotting_test.py",
    "conformance_test.py",
    "cache_test.py",
    "transformer_steps_test.py",
    "chunked_test.py",
    "recurrent_test.py",
    "recompute_test.py",
    "gradient_forms_test.py",
    "transformer_block_test.py",
    "block_selection_test.py",
    "normalizers_test.py",
    "conformer_test.py",
    "feature_maps_test.py",
    "attention_gate_test.py",
    "cross_covariance_test.py",
]

PART = (  # what is run without --full
    "(several and test_equals_the_equations and gaussian and not half)"
    " or (equations and grouped and luong)"
    " or other_places or closed_form or (unknown_lengths and linformer)"
)


def run(backend, chosen, is_full, **environment):
    """Runs the selected tests.

    Args:
        backend: Name of the backend.
        chosen: Expression for pytest's option `-k`.
        is_full: Whether to run every case.
        **environment: Additional environment variables.
    """
    pytest.importorskip(backend)
    files = [str(ROOT / "tests" / "attention" / name) for name in FILES]
    full = ["--full"] if is_full else []
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", *full, *files, "-k", chosen],
        cwd=ROOT,
        env={**os.environ, **environment, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout[-5000:]
    assert "[100%]" in finished.stdout
