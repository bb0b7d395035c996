"""Every Python block of the README runs, one after the other as a reader would run them."""

import pathlib
import re

import pytest

import zoo

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_blocks_run():
    namespace = {}
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)


def test_files_that_the_readme_shows_are_there():
    for path in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("name", [model.name for model in zoo.list_models() if model.card])
def test_models_are_listed_as_measured(name):
    model = zoo.info(name)
    (row,) = re.findall(rf"\| `{name}` \|.*", README)
    measured = {
        entry["metric"].split(" ")[0]: f"{entry['value']:.2f}"
        for entry in model.card["quality"]
        if entry["split"] == "test_2016_flickr"
    }
    columns = [measured["BLEU"], measured["sacreBLEU"], measured["perplexity"]]
    assert row.strip("| ").split(" | ")[2:] == [f"{model.parameters / 1e6:.1f} M", *columns]
