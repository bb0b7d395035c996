"""Every Python block of the README and of the guides runs, page by page, from top to bottom.

A comment after `print(...)` is its output. The block that captions a photograph runs if Keras has
the ImageNet weights of MobileNetV2.
"""

import configparser
import contextlib
import io
import pathlib
import re

import PIL.Image
import pytest

import keras_attention
import zoo
from tests import imagenet_weights

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = ("quickstart", "coming_from_keras", "training", "sharing", "serving")
PAGES = [ROOT / "README.md", *(ROOT / f"notebooks/reference/{name}.md" for name in GUIDES)]


# Other tests cover what the other pages show; with --full these pages run, too.
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page.stem == "quickstart" else pytest.mark.full)
        for page in PAGES
    ],
    ids=lambda page: page.stem,
)
def test_python_blocks_run(page, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PIL.Image.effect_noise((80, 60), 50).save("photo.jpg")
    namespace = {}
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    if not request.config.getoption("--full"):  # `conformer_test` and `catalog_test` do the same
        names = "conformer_spoken_digit", "luong_nmt_multi30k_en_de"
        blocks = [
            imports(block) if any(name in block for name in names) else block for block in blocks
        ]
    for block in blocks:
        if "photo.jpg" not in block or imagenet_weights.ARE_HERE:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, page.name, "exec"), namespace)
            for expected in re.findall(r"^print\(.*\)  # (.*)", block, flags=re.MULTILINE):
                assert expected in printed.getvalue().splitlines()


def imports(block):
    return "\n".join(re.findall(r"^(?:import|from) .*", block, flags=re.MULTILINE))


def test_blocks_need_what_the_readme_has_installed():
    """In order: an extra is mentioned above the block that needs it."""
    declared = configparser.ConfigParser()
    declared.read(ROOT / "setup.cfg", encoding="utf-8")
    installed = declared["options"]["install_requires"]
    assert {"tokenizers", "tensorflow", "keras"} <= set(re.findall(r"^[\w-]+", installed, re.M))
    before, plot, _ = README.partition(".plot(0)")
    assert plot
    assert 'pip install ".[plot]"' in before.rpartition("**Load")[2]


def test_versions_are_one():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (cited,) = re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE)
    assert zoo.__version__ == keras_attention.__version__ == cited


def test_pages_and_pictures_that_the_readme_links_exist():
    for path in re.findall(r"\]\((?!https?:)(.*?)(?:#.*?)?\)", README):
        assert (ROOT / path).is_file(), path


def test_pictures_are_shown_elsewhere_too():
    """For example on PyPI, where relative links are broken."""
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert pictures
    for address in pictures:
        home, path = re.fullmatch(
            r"https://raw\.githubusercontent\.com/(.*?)/main/(.*)", address
        ).groups()
        assert f"https://github.com/{home}\n" in (ROOT / "setup.cfg").read_text(encoding="utf-8")
        assert (ROOT / path).is_file()


MEASURED = {  # the columns of the tables of models, after the number of weights
    "translation": [
        ("BLEU (lower-cased, Moses tokens)", "test_2016_flickr", 2),
        ("sacreBLEU (cased, detokenized)", "test_2016_flickr", 2),
        ("perplexity", "test_2016_flickr", 2),
    ],
    "language model": [
        ("loss per token, random windows", "validation+test", 4),
        ("loss per token", "validation+test", 4),
        ("loss per token", "test", 4),
    ],
    "captioning": [
        *((metric, "validation", 2) for metric in ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4")),
        ("METEOR", "validation", 2),
        ("CIDEr-D", "validation", 2),
    ],
    "classification": [
        ("accuracy, %", "test", 2),
        ("accuracy, %", "validation", 2),
    ],
    "speech recognition": [
        ("word error rate, %", "test", 2),
        ("word error rate, %", "validation", 2),
    ],
    "masked language model": [
        ("perplexity", "validation", 2),
        ("accuracy, %", "validation", 2),
    ],
    "matching": [
        (f"R@{k}, {way}, %", "validation", 1)
        for way in ("image to text", "text to image")
        for k in (1, 5, 10)
    ],
}


@pytest.mark.parametrize("name", [model.name for model in zoo.list_models() if model.card])
def test_models_are_listed_as_measured(name):
    model = zoo.info(name)
    (row,) = re.findall(rf"\| `{name}` \|.*", README)
    measured = {  # "multi30k/test_2016_flickr" is listed without the data set
        (each["metric"], each["split"].rpartition("/")[2]): each["value"]
        for each in model.card["quality"]
    }
    columns = [
        f"{measured[metric, split]:.{digits}f}"
        for metric, split, digits in MEASURED[model.task]
        if (metric, split) in measured  # the models are not measured on IMDB's test split
    ]
    assert row.strip("| ").split(" | ")[2:] == [f"{model.parameters / 1e6:.1f} M", *columns]
