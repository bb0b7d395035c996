"""The conformance suite on the other backends of Keras: whole on PyTorch, a part of it on JAX."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    "conformance_test.py",
    "cache_test.py",
    "chunked_test.py",
    "recurrent_test.py",
    "recompute_test.py",
    "gradient_forms_test.py",
]
# JAX compiles every new shape, which takes a second for each case, less without optimizations.
QUICKLY = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
PART = (
    "several and ((test_equals_the_equations and softmax and nested)"
    " or (hidden and chunked and (additive or scaled_dot or synthesizer))"
    " or (finite_differences and chunked and (additive or scaled_dot or shaw)))"
    " or (every_position and multi_head) or (same_forward and single_head)"
    " or (every_weight_gets and luong) or learns_with_an_attention or trains_in_a_model"
    " or (equations and grouped and GRUCell and luong) or leaves_no_tile or empty_lengths"
    " or tiny_sums or other_places or (learn_the_same and chunked) or closed_form"
)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="it would call itself")
@pytest.mark.parametrize(
    ("backend", "chosen"), [("torch", ["-k", "not compile"]), ("jax", ["-k", PART])]
)
def test_conformance(backend, chosen):
    pytest.importorskip(backend)
    files = [str(ROOT / "tests" / "attention" / name) for name in FILES]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", *files, *chosen],
        cwd=ROOT,
        env={**os.environ, **QUICKLY, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout[-5000:]
    assert "[100%]" in finished.stdout
