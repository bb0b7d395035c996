"""The architecture: dependencies only point down, and the layers do not use TensorFlow."""

import ast
import configparser
import graphlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[1]
PACKAGES = ("keras_attention", "zoo")


def modules():
    """Returns a dictionary that maps the names of all modules to their files."""
    files = [file for package in PACKAGES for file in sorted((REPOSITORY / package).rglob("*.py"))]
    found = {}
    for file in files:
        parts = file.relative_to(REPOSITORY).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = file
    return found


def imports(file, known):
    """Returns the modules of this repository that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relative to itself"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in known else node.module)
    return found & known.keys()


def circle(graph):
    """Returns the names along a cycle of a graph, or `None`."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


@pytest.fixture(scope="module")
def graph():
    known = modules()
    assert len(known) > 100
    return {name: imports(file, known) - {name} for name, file in known.items()}


def test_no_circle_of_files(graph):
    assert circle(graph) is None


def test_no_circle_of_packages(graph):
    def package(name):
        return ".".join(name.split(".")[:2])

    packages = {}
    for name, imported in graph.items():
        of_package = packages.setdefault(package(name), set())
        of_package |= {package(other) for other in imported} - {package(name)}
    assert circle(packages) is None


def test_layers_know_nothing_of_models(graph):
    for name, imported in graph.items():
        if name.startswith("keras_attention"):
            assert not [other for other in imported if other.startswith("zoo")], name


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) is not None
    assert circle({"a": {"b"}, "b": {"c"}, "d": {"a"}}) is None


NAMES_IN_INDEX = {"PIL": "pillow"}  # of libraries that have another name there


def installed_by(requirements):
    """Returns the names of the distributions that pip installs with requirements."""
    found, todo = set(), [(Requirement(each), {""}) for each in requirements]
    while todo:
        requirement, extras = todo.pop()
        marker, name = requirement.marker, requirement.name.lower().replace("_", "-")
        if marker and not any(marker.evaluate({"extra": each}) for each in extras):
            continue
        if (name, *requirement.extras) not in found:
            found.add((name, *requirement.extras))
            needed = importlib.metadata.requires(name) or []
            todo += [(Requirement(each), requirement.extras or {""}) for each in needed]
    return {name for name, *_ in found}


def test_no_function_is_only_a_docstring():
    # TensorFlow's AutoGraph cannot transform one that a user's `tf.function` calls, and warns.
    # `return` makes it a function that it can.
    for file in (REPOSITORY / "keras_attention").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and len(node.body) == 1:
                assert ast.get_docstring(node) is None, f"{node.name} of {file} needs a `return`"


def test_convolutions_do_not_depend_on_the_image_data_format_of_keras():
    files = [*(REPOSITORY / "keras_attention").rglob("*.py"), *(REPOSITORY / "zoo").rglob("*.py")]
    convolutions = [
        (file.name, {keyword.arg for keyword in node.keywords})
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and re.search(r"(Conv[12]D|ops\.conv|ops\.average_pool)$", ast.unparse(node.func))
    ]
    assert len(convolutions) >= 12
    assert [name for name, given in convolutions if "data_format" not in given] == []


def libraries(file):
    """Returns the libraries that a file imports when it is imported itself."""
    statements = ast.parse(file.read_text(encoding="utf-8")).body
    plain = [each for each in statements if isinstance(each, ast.Import)]
    found = {alias.name for each in plain for alias in each.names}
    found |= {each.module for each in statements if isinstance(each, ast.ImportFrom)}
    return {name.split(".")[0] for name in found} - sys.stdlib_module_names - {*PACKAGES}


def test_what_is_imported_is_installed():
    declared = configparser.ConfigParser()
    declared.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    always = declared["options"]["install_requires"].split("\n")[1:]
    of_server = declared["options.extras_require"]["server"].split("\n")[1:]
    always, with_server = installed_by(always), installed_by([*always, *of_server])
    for name, file in modules().items():
        known = with_server if name.startswith("zoo.server") else always
        for library in libraries(file):
            distribution = NAMES_IN_INDEX.get(library, library).replace("_", "-")
            assert distribution in known, f"{name} imports {library}, which is not in setup.cfg"


FEW = """
import pytest


@pytest.mark.few(1)
@pytest.mark.parametrize("case", [1, 2, pytest.param(3, marks=pytest.mark.full), 4])
def test_few(case):
    pass


@pytest.mark.full
@pytest.mark.few(1)
@pytest.mark.parametrize("case", [1, 2])
def test_full(case):
    pass
"""


def test_few_cases_are_chosen_among_those_that_run(tmp_path):
    shutil.copy(REPOSITORY / "conftest.py", tmp_path)
    (tmp_path / "few_test.py").write_text(FEW)
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "few_test.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "few_test.py::test_few[2]\n\n1/6 tests" in result.stdout, result.stdout
