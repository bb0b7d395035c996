"""The documentation builds and shows every public name, equation, picture and notebook."""

import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import keras_attention
import zoo
import zoo.decoding
import zoo.metrics
from keras_attention import (
    alignments,
    compute,
    drop_in,
    masks,
    normalizers,
    plotting,
    positions,
    scores,
)

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("notebooks/reference/*.md")]
IMAGES = ROOT / "notebooks" / "reference" / "images"
PACKAGES = [
    *(keras_attention, alignments, compute, drop_in, masks, normalizers, positions, scores),
    *(zoo, zoo.decoding, zoo.metrics),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the pages, built from the current docstrings."""
    folder = tmp_path_factory.mktemp("reference")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    result = subprocess.run(
        [*build, "-f", str(ROOT / "notebooks" / "mkdocs.yml"), "-d", str(folder)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {page.stem: page.read_text(encoding="utf-8") for page in site.glob("*.html")}


@pytest.fixture(scope="module")
def sections(pages):
    return set(re.findall(r'<h\d id="([\w.]+)"', "".join(pages.values())))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_has_a_section(package, sections):
    for name in package.__all__:
        if callable(getattr(package, name)):
            assert f"{package.__name__}.{name}" in sections


def test_every_picture_has_a_section(sections):
    for name, function in inspect.getmembers(plotting, inspect.isfunction):
        if name.startswith("plot"):
            assert f"{function.__module__}.{name}" in sections


def test_pictures_and_notebooks_are_shown(pages, site):
    every_page = "".join(pages.values())
    shown = set(re.findall(r'src="(images/[^"]+)"', every_page))
    assert {f"images/{path.name}" for path in IMAGES.glob("*.png")} == shown
    for path in shown:
        assert (site / path).is_file(), path
    linked = set(
        re.findall(r'href="https://github.com/[^"]+/(notebooks/[^"/]+\.ipynb)"', every_page)
    )
    assert {f"notebooks/{path.name}" for path in ROOT.glob("notebooks/*.ipynb")} == linked


def test_equations_are_drawn(pages):
    for page in ("layers", "scores", "masks", "normalizers", "alignments", "positions", "decoding"):
        assert "<math" in pages[page]
        assert "$$" not in pages[page]
    shown = re.search(r'<h2 id="keras_attention.scores.ScaledDot".*?</math>', pages["scores"], re.S)
    assert "<msqrt>" in shown[0]


def test_sections_of_a_docstring_are_shown(pages):
    assert "<code>dropout</code>: Fraction of the weights" in pages["layers"]
    assert "<strong>Example</strong>" in pages["layers"]
    assert "&gt;&gt;&gt;" in pages["layers"]


@pytest.mark.parametrize(
    ("page", "line"),
    [
        ("masks", "from keras_attention.masks import BigBird"),
        ("layers", "from keras_attention import MultiHeadAttention"),
        ("decoding", "from zoo.decoding import BeamSampler"),
        ("pictures", "from keras_attention.plotting import plot_heads"),
        ("layers", "import numpy as np"),
    ],
)
def test_examples_begin_with_their_imports(pages, page, line):
    assert line in re.sub("<.*?>", "", pages[page])


def test_names_of_classes_are_found_whole(site):
    config = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))[
        "config"
    ]
    separator = re.compile(config["separator"])
    for name in ("BigBird", "MultiHeadAttention", "ONNX", "LiteRT"):
        assert separator.split(name) == [name]
    assert separator.split("multi-head, scaled_dot") == ["multi", "head", "scaled", "dot"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_compile_the_models_they_train(page):
    """Also those of the Hub, which no test loads."""
    text, compiled = page.read_text(encoding="utf-8"), set()
    blocks = re.findall(r"^```py(?:thon)?\n(.*?)^```", text, re.S | re.M)
    for name, call in re.findall(r"^(\w+)( = zoo\.load|\.\w+)\(", "".join(blocks), re.M):
        if call == ".compile":
            compiled.add(name)
        elif call == " = zoo.load":
            compiled.discard(name)
        elif call in (".fit", ".evaluate"):
            assert name in compiled, f"{name}{call}"


def test_the_example_of_the_contributors_guide_runs():
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", guide, flags=re.DOTALL | re.MULTILINE)
    namespace = {}
    exec(example, namespace)
    layer = keras_attention.MultiHeadAttention(2, 4, score=namespace["Manhattan"]())
    assert layer(np.ones((1, 3, 8)), np.ones((1, 5, 8))).shape == (1, 3, 8)
