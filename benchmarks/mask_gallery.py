"""Plot every mask: `notebooks/reference/images/masks.png`.

python -m benchmarks.mask_gallery
"""

import pathlib
import textwrap

import click
import numpy as np
from matplotlib.figure import Figure

from keras_attention import masks

OUTPUT = pathlib.Path(__file__).parents[1] / "notebooks" / "reference" / "images" / "masks.png"
LENGTH = 24
COLUMNS = 4
PICTURE_INCHES = 3.0
TITLE_WIDTH = 36  # characters per line

IDS = np.repeat([[0, 1, 2]], [7, 12, 5], axis=1)
# title: mask
GALLERY = {
    "Causal": masks.Causal(),
    "Sliding window": masks.SlidingWindow(left=3, right=3),
    "Causal window": masks.Causal() & masks.SlidingWindow(left=5, right=0),
    "Dilated window": masks.Dilated(left=3, right=3, dilation=3),
    "Strided": masks.Dilated(left=None, right=0, dilation=4),
    "Blocks": masks.SlidingWindow(left=0, right=0, block_size=6),
    "Global tokens": masks.GlobalTokens([0, 1, 12]),
    "Prefix LM": masks.Causal() | masks.Prefix(8),
    "Padding": masks.Lengths([17]),
    "Packed documents": masks.Document(IDS),
    "Packed documents, causal": masks.Causal() & masks.Document(IDS),
    "All but the window": masks.Causal() & ~masks.SlidingWindow(left=4, right=0),
    "Random blocks": masks.RandomBlocks(block_size=2, num_blocks=2, length=LENGTH),
    "Longformer": masks.Longformer(window=6, num_global_tokens=2),
    "BigBird": masks.BigBird(block_size=2, num_global=1, num_random=2, length=LENGTH),
    "BigBird, causal": masks.Causal() & masks.BigBird(block_size=2, num_global=1, num_random=2),
    "Windows of an image": masks.GridWindows(grid=(4, 6), window=(2, 3)),
    "Shifted windows": masks.GridWindows(grid=(4, 6), window=(2, 3), shift=(1, 1)),
    "Neighborhood": masks.Neighborhood(grid=(4, 6), window=3),
    "Neighborhood, with registers": masks.Neighborhood(grid=(4, 5), window=3, num_prefix_tokens=4),
}


def draw(gallery, length):
    """Returns a figure with a plot of each mask below its name and its code."""
    rows = -(-len(gallery) // COLUMNS)
    size = COLUMNS * PICTURE_INCHES, rows * (PICTURE_INCHES + 0.45)
    figure = Figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    grid = figure.subplots(rows, COLUMNS, squeeze=False)
    for axes, (name, mask) in zip(grid.flat, gallery.items(), strict=False):
        mask.plot(length, ax=axes)
        code = textwrap.fill(axes.get_title(), TITLE_WIDTH, break_long_words=False)
        axes.set_title(name, fontsize=11, weight="bold", pad=24)
        small = {"fontsize": 7, "family": "monospace", "color": "dimgray"}
        axes.text(0.5, 1.02, code, transform=axes.transAxes, ha="center", va="bottom", **small)
        axes.set_xticks(range(0, length, 4))
        axes.set_yticks(range(0, length, 4))
        axes.label_outer()
    for axes in grid.flat[len(gallery) :]:
        axes.set_visible(False)
    return figure


@click.command()
@click.option("--output", type=click.Path(path_type=pathlib.Path), default=OUTPUT)
@click.option("--length", default=LENGTH, show_default=True, help="Queries and keys per plot.")
@click.option("--dpi", default=110, show_default=True)
def main(output, length, dpi):
    """Plot the gallery of masks."""
    draw(GALLERY, length).savefig(output, dpi=dpi, bbox_inches="tight", pad_inches=0.1)
    click.echo(f"{len(GALLERY)} masks: {output}")


if __name__ == "__main__":
    main()
