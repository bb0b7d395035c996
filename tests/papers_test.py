"""Every line of code of the page "From paper to code" makes a layer that computes something."""

import inspect
import pathlib
import re

import keras
import numpy as np
import pytest

import keras_attention

PAGE = pathlib.Path(__file__).parents[1] / "notebooks" / "reference" / "papers.md"
NAMES = {
    "keras": keras,
    **{name: getattr(keras_attention, name) for name in keras_attention.__all__},
}
TEXT = PAGE.read_text(encoding="utf-8")
LINES = re.findall(r"^\|.*\| `([^`]+)` \|$", TEXT, flags=re.MULTILINE)


def test_every_row_has_a_line():
    rows = [row for row in TEXT.splitlines() if row.startswith("|")]
    tables = rows.count("|---|---|---|")
    assert len(LINES) == len(rows) - 2 * tables


@pytest.mark.parametrize("line", LINES)
def test_line_makes_a_layer(line):
    layer = eval(line, dict(NAMES))
    if isinstance(layer, keras_attention.AttentionCell):
        layer = keras_attention.AttentionRNN(layer)
    x = np.random.default_rng(0).normal(size=(2, 6, 16)).astype("float32")
    parameters = inspect.signature(layer.call).parameters.values()
    parameters = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    required = [each for each in parameters if each.default is each.empty]
    found = layer(*[x] * len(required))
    assert np.isfinite(keras.ops.convert_to_numpy(found)).all()
    assert found.shape[0] == 2


def test_the_prefix_language_model_is_causal_after_its_prefix():
    (line,) = [line for line in LINES if "Prefix" in line]
    visible = eval(line, dict(NAMES)).mask(6, 6)[0, 0]
    query, key = np.indices((6, 6))
    assert (keras.ops.convert_to_numpy(visible) == ((key <= query) | (key < 3))).all()
