"""A tiny random backbone, a small collection of pictures, and fresh interpreters."""

import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.images import pictures
from zoo.models.backbone import Backbone

ROOT = pathlib.Path(__file__).parents[2]
SIZE = 32


@pytest.fixture(scope="session")
def backbone():
    """Gives a different 4 × 4 grid for each picture."""
    return Backbone("MobileNetV2", ["block_6_expand_relu"], image_size=SIZE, weights=None)


@pytest.fixture(scope="session")
def examples():
    """Ten pictures of different sizes with three captions each."""
    return [
        {
            "name": f"{number}.png",
            "image": pictures.encoded(pictures.scene(rows=20 + 5 * number), "PNG"),
            "captions": [f"picture {number}", f"a {number}", "ü"],
        }
        for number in range(10)
    ]


@pytest.fixture(scope="session")
def images(examples):
    columns = {name: [example[name] for example in examples] for name in examples[0]}
    return tf.data.Dataset.from_tensor_slices(columns)


@pytest.fixture(scope="session")
def run_python():
    """Runs some code in a fresh interpreter where `import zoo` works."""

    def run(code, *arguments):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    return run
