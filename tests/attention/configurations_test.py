"""Configurations of attention with one head, and random ones, against the equations in float64."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from tests.attention import configurations

ROOT = Path(__file__).parents[2]
needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="is about the memory of TensorFlow"
)


@pytest.mark.full
@needs_tensorflow
@pytest.mark.parametrize("step", [128, 1])
def test_one_head_touches_no_memory_of_others(step):
    # glibc overwrites freed memory, so that invalid reads and writes show up. With one thread, they
    # do not.
    found = alone("one_head", step, MALLOC_PERTURB_="165", TF_NUM_INTRAOP_THREADS="2")
    assert "one head is right everywhere" in found


def test_random_configurations():
    configurations.check_random(0, 5)  # with --full, a thousand


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_a_thousand_random_configurations(first):
    # A process crashes after some hundreds of XLA compilations.
    assert "50 configurations are right in every form" in alone("in_every_form", first, first + 50)


def alone(*arguments, **environment):
    """Runs `tests.attention.configurations` in a process; returns its output."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.attention.configurations", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, (finished.stdout + finished.stderr)[-4000:]
    return finished.stdout
