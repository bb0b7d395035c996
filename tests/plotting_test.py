"""Plots of attention: labels, sizes, and no global state."""

import io

import matplotlib
import numpy as np
import pytest

from keras_attention import MultiHeadAttention
from keras_attention.plotting import MAX_INCHES, plot_alignment, plot_caption, plot_heads

WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
SOURCE, TARGET = ["two", "dogs", "<end>"], ["zwei", "Hunde"]
PHOTO = np.full((60, 80, 3), 128, "uint8")
LOOKS = np.random.default_rng(0).random((3, 7, 7))


def draw(figure):
    """Renders a figure: only here do labels fail that matplotlib cannot typeset."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


def texts(labels):
    return [label.get_text() for label in labels]


def test_columns_are_sources_and_rows_are_targets():
    figure = plot_alignment(WEIGHTS, SOURCE, TARGET, title="Dogs")
    axes = figure.axes[0]
    assert texts(axes.get_xticklabels()) == SOURCE
    assert texts(axes.get_yticklabels()) == TARGET
    assert figure.get_suptitle() == "Dogs"
    np.testing.assert_allclose(axes.images[0].get_array(), WEIGHTS)


def test_the_same_weight_has_the_same_color_in_every_plot():
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


@pytest.mark.few(2)
@pytest.mark.parametrize("heads", [1, 2, 3, 5])
def test_heads_are_drawn_side_by_side(heads):
    weights = np.random.default_rng(0).random((heads, 2, 3))
    figure = plot_heads(weights, ["a", "b", "c"], ["x", "y"])
    draw(figure)
    *pictures, bar = figure.axes
    assert bar.get_ylabel() == "attention weight"
    assert [axes.get_title() for axes in pictures] == [f"head {head}" for head in range(heads)]
    for axes, of_head in zip(pictures, weights, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), of_head, rtol=1e-6)
        assert axes.images[0].get_clim() == (0.0, 1.0)


def test_only_the_first_row_of_heads_labels_its_columns():
    *pictures, _ = plot_heads(np.ones((4, 1, 2)) / 2, ["two", "▁"], ["x"]).axes
    shown = [
        [tick.label2.get_visible() for tick in each.xaxis.get_major_ticks()] for each in pictures
    ]
    assert shown == [[True] * 2] * 2 + [[False] * 2] * 2


def test_short_labels_of_columns_are_not_slanted():
    axes = plot_alignment(WEIGHTS, ["▁", "·a", "dogs"], TARGET).axes[0]
    assert [label.get_rotation() for label in axes.get_xticklabels()] == [0.0, 0.0, 60.0]


def test_weights_of_heads_must_fit_the_labels():
    with pytest.raises(ValueError, match=r"\(1, 2\). Received: shape \(2, 2\)"):
        plot_heads(np.ones((3, 2, 2)), ["a", "b"], ["x"])
    for wrong in (np.ones((2, 2)), np.ones((0, 2, 2))):
        with pytest.raises(ValueError, match=r"at least one head.*Received: shape .*alignment"):
            plot_heads(wrong, ["a", "b"], ["x", "y"])


def test_titles_name_every_head():
    figure = plot_heads(np.ones((2, 1, 1)), ["a"], ["x"], titles=["first", "second"])
    assert [axes.get_title() for axes in figure.axes[:2]] == ["first", "second"]
    with pytest.raises(ValueError, match="`titles` must have one title for each head, here 2"):
        plot_heads(np.ones((2, 1, 1)), ["a"], ["x"], titles=["first"])


def test_labels_are_never_formulas():
    odd = ["$$", "$x^$", r"$\frac$"]
    assert draw(plot_alignment(WEIGHTS, odd, odd[:2], title=odd[1]))
    assert draw(plot_heads(WEIGHTS[None], odd, odd[:2], titles=odd[1:2]))
    assert draw(plot_caption(PHOTO, odd, LOOKS, title=odd[1]))


def test_a_huge_alignment_stays_printable():
    tokens = ["token"] * 250
    figure = plot_alignment(np.full((250, 250), 0.004), tokens, tokens)
    assert max(figure.get_size_inches()) <= MAX_INCHES <= 30
    figure = plot_caption(PHOTO, tokens[:30], np.ones((30, 1, 1)), columns=1)
    assert max(figure.get_size_inches()) <= MAX_INCHES


def extents(labels):
    """The bounds of labels in a figure that is drawn, as x0, y0, x1, y1 in pixels."""
    return np.array([label.get_window_extent().extents for label in labels])


@pytest.mark.few(1)
@pytest.mark.parametrize("plot", ["alignment", "heads"])
def test_many_labels_do_not_overlap(plot):
    rows = ["Ägypten"] * 2 + [""] * 298
    weights = np.ones((300, 1))
    figure = (
        plot_alignment(weights, ["a"], rows)
        if plot == "alignment"
        else plot_heads(weights[None], ["a"], rows)
    )
    figure.draw_without_rendering()
    _, bottoms, _, tops = extents(figure.axes[0].get_yticklabels()[:2]).T
    assert tops[1] <= bottoms[0]


@pytest.mark.filterwarnings("error")  # matplotlib warns if labels leave no room for the weights
def test_long_labels_and_titles_are_inside_the_figure():
    compound = "Donaudampfschifffahrtsgesellschaft"
    sentence = "The captain of the steamship company on the Danube is on board today"
    weights, source, target = np.ones((1, 2)) / 2, [compound, "is"], [compound]
    alignment = plot_alignment(weights, source, target, title=sentence)
    heads = plot_heads(weights[None], source, target, titles=[sentence])
    caption = plot_caption(PHOTO, [compound, sentence], LOOKS[:2], title=sentence)
    for figure in (alignment, heads, caption):
        figure.draw_without_rendering()
        drawn = [axes.title for axes in figure.axes] + figure.texts
        if figure is not caption:
            axes = figure.axes[0]
            drawn += axes.get_yticklabels() + axes.get_xticklabels()
        bounds = extents([text for text in drawn if text.get_text()])
        assert (bounds[:, :2] >= 0).all()
        assert (bounds[:, 2:] <= figure.bbox.size).all()


def test_a_caption_is_drawn_over_its_image():
    figure = plot_caption(PHOTO, SOURCE, LOOKS, columns=3, title="Two dogs")
    draw(figure)
    assert texts(axes.title for axes in figure.axes if axes.images) == ["", *SOURCE]
    assert figure.get_suptitle() == "Two dogs"
    alone, *overlaid = [axes.images for axes in figure.axes if axes.images]
    np.testing.assert_array_equal(alone[0].get_array(), PHOTO)
    assert len(alone) == 1
    for image, light in overlaid:
        np.testing.assert_array_equal(image.get_array(), PHOTO)
        assert light.get_extent() == image.get_extent()


def test_a_look_is_smooth_and_brightest_where_the_weight_is_largest():
    looks = np.zeros((1, 5, 9))
    looks[0, 1, 7] = 0.01
    light = plot_caption(PHOTO, ["a"], looks).axes[1].images[1].get_array()
    rows, columns = np.array(light.shape) // (5, 9)
    peak = np.unravel_index(np.argmax(light), light.shape)
    assert (peak[0] // rows, peak[1] // columns) == (1, 7)
    assert (light.min(), light.max()) == (pytest.approx(0.0, abs=1e-6), 1.0)
    assert max(np.abs(np.diff(light, axis=axis)).max() for axis in (0, 1)) < 0.1
    everywhere = plot_caption(PHOTO, ["a"], np.full((1, 5, 9), 0.01)).axes[1].images[1].get_array()
    np.testing.assert_allclose(everywhere, 1.0, rtol=1e-6)


def test_positions_of_a_square_grid_are_taken_row_after_row():
    grids, positions = (
        plot_caption(PHOTO, SOURCE, looks).axes[2].images[1].get_array()
        for looks in (LOOKS, LOOKS.reshape(3, 49))
    )
    np.testing.assert_array_equal(grids, positions)


@pytest.mark.parametrize(
    ("words", "columns", "shape"), [(0, 5, (1, 1)), (4, 5, (1, 5)), (5, 5, (2, 5)), (3, 1, (4, 1))]
)
def test_pictures_of_a_caption_stand_in_columns(words, columns, shape):
    figure = plot_caption(PHOTO, ["a"] * words, np.ones((words, 4, 4)), columns)
    grid = figure.axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == shape
    assert sum(bool(axes.images) for axes in figure.axes) == 1 + words


def test_images_are_integers_or_fractions():
    draw(plot_caption(PHOTO / 255, SOURCE, LOOKS))
    with pytest.raises(ValueError, match="from 0 to 1. Received: a maximum of 128. Divide"):
        plot_caption(PHOTO.astype("float32"), SOURCE, LOOKS)
    with pytest.raises(ValueError, match=r"one image .* Received: shape \(1, 60, 80, 3\)"):
        plot_caption(PHOTO[None], SOURCE, LOOKS)


@pytest.mark.parametrize("shape", [(2, 7, 7), (3, 48), (2, 49), (147,), (1, 3, 7, 7)], ids=str)
def test_looks_must_fit_the_words(shape):
    with pytest.raises(
        ValueError, match="a grid for each word.* 3 words. Received: shape"
    ) as error:
        plot_caption(PHOTO, SOURCE, np.ones(shape))
    assert str(shape) in str(error.value)


def test_columns_are_counted():
    with pytest.raises(ValueError, match="columns=0"):
        plot_caption(PHOTO, SOURCE, LOOKS, columns=0)


def test_pyplot_knows_nothing_of_it():
    import matplotlib.pyplot as plt

    backend, before = matplotlib.get_backend(), plt.get_fignums()
    draw(plot_alignment(WEIGHTS, SOURCE, TARGET))
    draw(plot_caption(PHOTO, SOURCE, LOOKS))
    assert (matplotlib.get_backend(), plt.get_fignums()) == (backend, before)


def test_draws_the_weights_of_a_layer():
    layer, x = MultiHeadAttention(2, 3), np.ones((1, 4, 6), "float32")
    _, weights = layer(x, x, return_attention_scores=True)
    axes = plot_heads(weights[0], "abcd", "abcd").axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), np.full((4, 4), 0.25), atol=1e-6)
