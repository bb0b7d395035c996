"""Type checkers see the public API: a user's program passes mypy, and its mistakes do not."""

import collections
import pathlib
import re
import subprocess
import sys
import typing

import pytest

import zoo
from zoo import names
from zoo.architectures import ARCHITECTURES

ROOT = pathlib.Path(__file__).parents[1]
PROGRAM = pathlib.Path(__file__).parent / "typed_program.py"
MISTAKES = """
import keras_attention
import zoo

model = zoo.load("luong_nmt_multi30k_en_de")
model.translate(5)
model.translate("a", num_beam=4)
number: int = model.translate("a")
texts: str = model.translate(["a"])
keras_attention.MultiHeadAttention(num_heads="8", key_dim=64)
"""


# Other packages that the library imports: mypy would read some two thousand files of them.
OPTIONS = """
[mypy]
strict = True
follow_imports = silent
[mypy-IPython.*,jax.*,matplotlib.*,onnx.*,torch.*]
follow_imports = skip
"""


@pytest.mark.full
def test_mypy_passes_a_program_and_finds_mistakes(tmp_path, request):
    mistakes = tmp_path / "mistakes.py"
    mistakes.write_text(MISTAKES)
    config = tmp_path / "mypy.ini"
    config.write_text(OPTIONS)
    cache = request.config.cache.mkdir("mypy")
    options = ["--config-file", str(config), "--cache-dir", str(cache)]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(PROGRAM), str(mistakes)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^(.*):(\d+): error", result.stdout, re.MULTILINE)
    assert {pathlib.Path(name).name for name, _ in found} == {mistakes.name}, result.stdout
    assert {int(line) for _, line in found} == set(range(6, 11)), result.stdout + result.stderr


def test_the_names_of_each_task_are_those_of_the_catalog():
    """`zoo.load` returns the task that type checkers expect: add names to `zoo/names.py`."""
    tasks = collections.defaultdict(set)
    for model in zoo.list_models():
        architecture = model.card.get("architecture", model.name)
        tasks[ARCHITECTURES[architecture].task_path.rpartition(".")[2]].add(model.name)
    literals = {each: getattr(names, each) for each in dir(names) if each.endswith("Name")}
    told = {each[:-4]: set(typing.get_args(literal)) for each, literal in literals.items()}
    assert told == tasks
