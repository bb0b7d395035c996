"""The notebooks run from top to bottom and are stored with the outputs of such a run.

They run with --full. Cells with the tag `flickr8k` run if `FLICKR8K_DIR`
names the folder of the photographs and Keras has the ImageNet weights of MobileNetV2.
"""

import os
import pathlib

import nbclient
import nbformat
import pytest

from tests import imagenet_weights

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def without_photographs(notebook):
    """Leaves out the cells that need photographs or weights, unless both are available."""
    if "FLICKR8K_DIR" not in os.environ or not imagenet_weights.ARE_HERE:
        cells = notebook.cells
        notebook.cells = [cell for cell in cells if "flickr8k" not in cell.metadata.get("tags", [])]
    return notebook


def kinds_of_output(cell):
    """The kinds of output of a cell: text, pictures, errors."""
    return {kind for output in cell.outputs for kind in output.get("data", [output.output_type])}


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_and_shows_what_is_kept(path, monkeypatch):
    monkeypatch.setenv("KERAS_MAX_EPOCHS", "2")  # trains less, shows the same
    monkeypatch.setenv("KERAS_MAX_STEPS_PER_EPOCH", "5")
    kept = without_photographs(nbformat.read(path, as_version=4))
    ran = without_photographs(nbformat.read(path, as_version=4))
    for cell in code_cells(ran):
        cell.outputs = []
    nbclient.NotebookClient(ran, timeout=300, resources={"metadata": {"path": FOLDER}}).execute()
    for now, before in zip(code_cells(ran), code_cells(kept), strict=True):
        shown = kinds_of_output(now) - {"stream"}  # warnings of libraries vary
        assert shown == kinds_of_output(before) - {"stream"}, now.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_was_kept_after_running_from_top_to_bottom(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert "error" not in set().union(*map(kinds_of_output, cells))
    streams = [[each.name for each in cell.outputs if "name" in each] for cell in cells]
    assert all(names in ([], ["stdout"]) for names in streams), "in pieces, or with warnings"
    assert any("image/png" in kinds_of_output(cell) for cell in cells)
    assert notebook.cells[0].source.startswith(f"# {path.stem.split('_')[0]}. ")
