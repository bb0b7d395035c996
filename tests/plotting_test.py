"""Alignment plots: labels, sizes, and no global state."""

import io

import matplotlib
import numpy as np
import pytest

from keras_attention.plotting import MAX_INCHES, plot_alignment, plot_heads

WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
SOURCE, TARGET = ["two", "dogs", "<end>"], ["zwei", "Hunde"]


def draw(figure):
    """Renders a figure; labels that matplotlib cannot set fail only here."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


def texts(labels):
    return [label.get_text() for label in labels]


def test_columns_are_sources_and_rows_are_targets():
    axes = plot_alignment(WEIGHTS, SOURCE, TARGET, title="Dogs").axes[0]
    assert texts(axes.get_xticklabels()) == SOURCE
    assert texts(axes.get_yticklabels()) == TARGET
    assert axes.get_title() == "Dogs"
    np.testing.assert_allclose(axes.images[0].get_array(), WEIGHTS)


def test_the_same_weight_has_the_same_colour_in_every_plot():
    for weights in (WEIGHTS, WEIGHTS / 10):
        image = plot_alignment(weights, SOURCE, TARGET).axes[0].images[0]
        assert image.get_clim() == (0.0, 1.0)


@pytest.mark.parametrize(
    "wrong", [WEIGHTS.T, WEIGHTS[None], WEIGHTS[0]], ids=lambda x: str(x.shape)
)
def test_weights_must_fit_the_labels(wrong):
    with pytest.raises(ValueError, match=r"\(2, 3\)\. Received: shape") as error:
        plot_alignment(wrong, SOURCE, TARGET)
    assert str(wrong.shape) in str(error.value)


@pytest.mark.parametrize("heads", [1, 2, 3, 5])
def test_heads_are_drawn_side_by_side(heads):
    weights = np.random.default_rng(0).random((heads, 2, 3))
    figure = plot_heads(weights, ["a", "b", "c"], ["x", "y"])
    draw(figure)
    pictures = [axes for axes in figure.axes if axes.get_title().startswith("head")]
    assert [axes.get_title() for axes in pictures] == [f"head {head}" for head in range(heads)]
    for axes, of_head in zip(pictures, weights, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), of_head, rtol=1e-6)
        assert axes.images[0].get_clim() == (0.0, 1.0)


def test_weights_of_heads_must_fit_the_labels():
    with pytest.raises(ValueError, match=r"\(1, 2\). Received: shape \(2, 2\)"):
        plot_heads(np.ones((3, 2, 2)), ["a", "b"], ["x"])


def test_labels_are_never_formulas():
    odd = ["$$", "$x^$", r"$\frac$"]
    assert draw(plot_alignment(WEIGHTS, odd, odd[:2]))


def test_a_huge_alignment_stays_printable():
    tokens = ["token"] * 500
    figure = plot_alignment(np.full((500, 500), 0.002), tokens, tokens)
    assert max(figure.get_size_inches()) <= MAX_INCHES <= 30


def test_pyplot_knows_nothing_of_it():
    import matplotlib.pyplot as plt

    backend, before = matplotlib.get_backend(), plt.get_fignums()
    draw(plot_alignment(WEIGHTS, SOURCE, TARGET))
    assert (matplotlib.get_backend(), plt.get_fignums()) == (backend, before)
