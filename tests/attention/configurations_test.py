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


@needs_tensorflow
@pytest.mark.parametrize("step", [128, pytest.param(1, marks=pytest.mark.full)])
def test_one_head_touches_no_memory_of_others(step):
    # glibc fills memory that is freed, so that what reads or writes beyond its own shows. With one
    # thread nothing does.
    finished = subprocess.run(
        [sys.executable, "-m", "tests.attention.configurations", str(step)],
        cwd=ROOT,
        env={**os.environ, "MALLOC_PERTURB_": "165", "TF_NUM_INTRAOP_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, (finished.stdout + finished.stderr)[-2000:]
    assert "one head is right everywhere" in finished.stdout


def check(seeds):
    for seed in seeds:
        configuration = configurations.drawn(seed)
        try:
            with configurations.small_tiles():
                configurations.check(configuration)
        except Exception as error:
            error.add_note(f"of {configuration}")
            raise


def test_random_configurations():
    check(range(8))


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_a_thousand_random_configurations(first):
    check(range(first, first + 50))
