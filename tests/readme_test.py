"""Every Python block of the README and of the guides runs, page by page, from top to bottom.

The one that captions a photograph runs where Keras has the ImageNet weights of MobileNetV2.
"""

import pathlib
import re

import PIL.Image
import pytest

import zoo
from tests import imagenet_weights

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = ("quickstart", "training", "sharing", "serving")
PAGES = [ROOT / "README.md", *(ROOT / f"notebooks/reference/{name}.md" for name in GUIDES)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PIL.Image.effect_noise((80, 60), 50).save("photo.jpg")
    namespace = {}
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        if "photo.jpg" not in block or imagenet_weights.ARE_HERE:
            exec(compile(block, page.name, "exec"), namespace)


def test_pages_and_pictures_that_the_readme_links_exist():
    for path in re.findall(r"\]\((?!https?:)(.*?)(?:#.*?)?\)", README):
        assert (ROOT / path).is_file(), path


MEASURED = {  # the columns of the tables of models, after the number of weights
    "translation": [
        ("BLEU (lower-cased, Moses tokens)", "test_2016_flickr", 2),
        ("sacreBLEU (cased, detokenized)", "test_2016_flickr", 2),
        ("perplexity", "test_2016_flickr", 2),
    ],
    "language model": [
        ("loss a token, random windows", "validation+test", 4),
        ("loss a token", "validation+test", 4),
        ("loss a token", "test", 4),
    ],
    "captioning": [
        *((metric, "validation", 2) for metric in ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4")),
        ("METEOR", "validation", 2),
        ("CIDEr-D", "validation", 2),
    ],
}


@pytest.mark.parametrize("name", [model.name for model in zoo.list_models() if model.card])
def test_models_are_listed_as_measured(name):
    model = zoo.info(name)
    (row,) = re.findall(rf"\| `{name}` \|.*", README)
    measured = {  # of "multi30k/test_2016_flickr" the data set is left out
        (each["metric"], each["split"].rpartition("/")[2]): each["value"]
        for each in model.card["quality"]
    }
    columns = [
        f"{measured[metric, split]:.{digits}f}" for metric, split, digits in MEASURED[model.task]
    ]
    assert row.strip("| ").split(" | ")[2:] == [f"{model.parameters / 1e6:.1f} M", *columns]
