"""Plot kernel regression: the kernels, and the effect of their width.

python -m benchmarks.nadaraya_watson
"""

import pathlib

import click
import numpy as np
from keras import ops
from matplotlib.figure import Figure

from keras_attention import NadarayaWatson, scores

KERNELS = {
    "boxcar": (scores.Boxcar, "#b07aa1"),
    "triangular": (scores.Triangular, "#e15759"),
    "epanechnikov": (scores.Epanechnikov, "#f28e2b"),
    "gaussian": (scores.Gaussian, "#4e79a7"),
}
WIDTHS = (0.1, 0.3, 1.0, 3.0)
DOMAIN = 0.0, 5.0
POINTS = 50


def truth(x):
    return 2 * np.sin(x) + x


def regress(kernel, width, query_x, key_x, value_y):
    """Returns the values at `query_x`; NaN where no point is within reach."""
    layer = NadarayaWatson(kernel, width)
    given = (each[None, :, None] for each in (query_x, key_x, value_y))
    found, weights = layer(*given, return_attention_scores=True)
    is_reached = ops.convert_to_numpy(weights)[0].any(axis=-1)
    return np.where(is_reached, ops.convert_to_numpy(found)[0, :, 0], np.nan)


def draw_kernel(axes, name):
    """Plots the kernel itself, as a function of the distance divided by the width."""
    score, color = KERNELS[name]
    u = np.linspace(-2.5, 2.5, 501)
    height = ops.convert_to_numpy(score()(np.zeros((1, 1, 1)), u[None, :, None]))[0, 0]
    height = np.exp(height) if name == "gaussian" else height
    axes.fill_between(u, height, color=color, alpha=0.25, linewidth=0)
    axes.plot(u, height, color=color, linewidth=2)
    axes.set_title(name, color=color, fontweight="bold")
    axes.set_ylim(0, 1.15)
    axes.set_xlabel("distance / width")


def draw_fit(axes, name, width, key_x, value_y):
    """Plots the regression, its points and the true function."""
    x = np.linspace(*DOMAIN, 500)
    axes.plot(key_x, value_y, "o", color="0.7", markersize=3, label="points")
    axes.plot(x, truth(x), "--", color="0.25", linewidth=1.2, label="2 sin x + x")
    values = regress(name, width, x, key_x, value_y)
    axes.plot(x, values, color=KERNELS[name][1], linewidth=2, label="regression")
    error = np.sqrt(np.nanmean((values - truth(x)) ** 2))
    gaps = np.isnan(values).mean()
    note = f"rms error {error:.2f}" + (f", {gaps:.0%} out of reach" if gaps else "")
    axes.text(0.97, 0.05, note, transform=axes.transAxes, ha="right", fontsize=8, color="0.25")


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=pathlib.Path),
    default=pathlib.Path("notebooks/reference/images/nadaraya_watson.png"),
    show_default=True,
)
@click.option("--seed", default=0, show_default=True, help="Seed of the points and their noise.")
def main(output, seed):
    """Plot all kernels (columns) at all widths (rows) for y = 2 sin x + x + noise."""
    rng = np.random.default_rng(seed)
    key_x = np.sort(rng.uniform(*DOMAIN, size=POINTS))
    value_y = truth(key_x) + 0.5 * rng.normal(size=POINTS)

    figure = Figure(figsize=(12, 10.5), layout="constrained")
    rows = figure.subplots(
        1 + len(WIDTHS), len(KERNELS), sharey="row", height_ratios=[0.6] + [1] * len(WIDTHS)
    )
    for column, name in enumerate(KERNELS):
        draw_kernel(rows[0, column], name)
        for row, width in enumerate(WIDTHS, start=1):
            draw_fit(rows[row, column], name, width, key_x, value_y)
    for row, width in enumerate(WIDTHS, start=1):
        rows[row, 0].set_ylabel(f"width {width:g}")
    rows[0, 0].set_ylabel("kernel")
    for axes in rows[1:-1].flat:
        axes.tick_params(labelbottom=False)
    handles, labels = rows[1, -1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    for axes in rows.flat:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, dpi=90)
    click.echo(f"Wrote {output}.")


if __name__ == "__main__":
    main()
