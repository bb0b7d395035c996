"""The architecture: dependencies only point down, and the layers do not use TensorFlow."""

import ast
import graphlib
from pathlib import Path

import pytest

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
