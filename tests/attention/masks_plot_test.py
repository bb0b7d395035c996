"""Plots of masks: cells, axis labels, title, and no global state."""

import io
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_attention import masks
from tests.attention.mask_cases import ALL, PAIRS


def draw(figure):
    """Renders a figure: only here does matplotlib fail on what it cannot draw."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


def test_filled_squares_are_the_visible_pairs():
    mask = masks.Causal() & masks.SlidingWindow(left=2, right=0)
    axes = mask.plot(4, 6).axes[0]
    expected = [[1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1]]
    assert axes.images[0].get_array().astype(int).tolist() == expected
    assert axes.images[0].get_extent() == [-0.5, 5.5, 5.5, 1.5]  # queries are at positions 2 to 5
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key position", "query position")
    assert axes.get_title() == "Causal & SlidingWindow(left=2, right=0)"


@pytest.mark.few(5)
@pytest.mark.parametrize("name", ALL)
def test_every_mask_draws_itself(name):
    figure = ALL[name][0].plot(4, 6)
    assert figure.axes[0].images[0].get_array().shape == (4, 6)
    assert draw(figure)


def test_as_many_keys_as_queries_by_default():
    assert masks.Causal().plot(5).axes[0].images[0].get_array().shape == (5, 5)


def test_the_first_example_and_head_are_shown():
    shown = masks.Array(PAIRS).plot(4, 6).axes[0].images[0].get_array()
    np.testing.assert_array_equal(shown, PAIRS[0, 0])


def test_it_draws_into_axes_that_are_given():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert masks.Causal().plot(3, ax=right) is figure
    assert not left.images
    assert right.images


@pytest.mark.parametrize("lengths", [(1, 1), (1, 500), (2000, 3), (600, 600)])
def test_every_size_is_printable(lengths):
    figure = masks.Longformer(4, 1).plot(*lengths)
    assert max(figure.get_size_inches()) <= 14
    assert draw(figure)


def test_pyplot_knows_nothing_of_it():
    import matplotlib.pyplot as plt

    backend, before = matplotlib.get_backend(), plt.get_fignums()
    draw(masks.Causal().plot(3))
    assert (matplotlib.get_backend(), plt.get_fignums()) == (backend, before)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"keras-attention-zoo\[plot\]"):
        masks.Causal().plot(3)
