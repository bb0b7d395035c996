"""Error of Performer, Linformer, Nyströmformer and Reformer relative to exact attention, by size.

python -m benchmarks.approximations
"""

import pathlib

import click
import keras
import numpy as np
from keras import ops

from keras_attention import MultiHeadAttention
from keras_attention.linformer import LinformerAttention
from keras_attention.nystrom import NystromAttention
from keras_attention.performer import PerformerAttention
from keras_attention.reformer import ReformerAttention

HEADS, KEY_DIM, LENGTH, SEQUENCES = 4, 32, 256, 8
FEATURES = (16, 32, 64, 128, 256, 512, 1024)
SCALES = (1.0, 0.5, 0.25)  # of the inputs; the scores scale with the square
MIXTURES = (4, 8, 16, 32, 64, 128)  # 256 would be exact: means of one key each
LANDMARKS = (4, 8, 16, 32, 64, 128)  # 256 would be exact
ITERATIONS = (2, 6, 20)
HASHES = (1, 2, 4, 8, 16)
BUCKET_SIZES = (8, 16, 32)
FITTING_STEPS = 300


def slow_sequences(seed):
    """Returns autoregressive sequences of variance 1: each vector keeps 0.9 of the one before."""
    noise = np.random.default_rng(seed).normal(size=(LENGTH, SEQUENCES, HEADS * KEY_DIM))
    for t in range(1, LENGTH):
        noise[t] = 0.9 * noise[t - 1] + np.sqrt(1 - 0.9**2) * noise[t]
    return noise.swapaxes(0, 1).astype("float32")


def same_projections(layer, exact, x):
    """Builds an approximation with the projections of the exact layer."""
    layer.build(x.shape, x.shape)
    for name in ("query", "key", "value", "output"):
        projection = getattr(layer, f"{name}_projection", None)
        if projection is not None:
            projection.set_weights(getattr(exact, f"{name}_projection").get_weights())
    return layer


def relative_error(found, exact):
    found, exact = (ops.convert_to_numpy(each) for each in (found, exact))
    return np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))


def drawn_errors(layer, x, expected, draws):
    """Errors of a layer over repeated draws of its random part."""
    errors = []
    for seed in range(draws):
        layer.redraw(seed)
        errors.append(relative_error(layer(x, x), expected))
    return errors


def performer(x, draws):
    """Label -> sizes, errors (size × draw)."""
    exact, curves = exact_attention(), {}
    for scale in SCALES:
        scaled, errors = scale * x, []
        expected = exact(scaled, scaled)
        for number in FEATURES:
            layer = PerformerAttention(HEADS, KEY_DIM, num_features=number)
            same_projections(layer, exact, scaled)
            errors.append(drawn_errors(layer, scaled, expected, draws))
        label = f"scores with standard deviation {deviation_of_scores(exact, scaled):.2f}"
        curves[label] = FEATURES, np.array(errors)
    return curves


def deviation_of_scores(exact, x):
    query, key = exact.query_projection(x), exact.key_projection(x)
    query, key = (ops.reshape(each, (*x.shape[:2], HEADS, KEY_DIM)) for each in (query, key))
    scores = ops.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(KEY_DIM)
    return float(np.std(ops.convert_to_numpy(scores)))


def linformer(x, draws):
    """Label -> sizes, errors (size × 1)."""
    exact = exact_attention()
    expected, means, fitted = exact(x, x), [], []
    for number in MIXTURES:
        layer = LinformerAttention(HEADS, KEY_DIM, projected_length=number, max_length=LENGTH)
        same_projections(layer, exact, x)
        stretches = np.kron(np.eye(number), np.full((1, LENGTH // number), number / LENGTH))
        layer.key_mixtures.assign(stretches)
        layer.value_mixtures.assign(stretches)
        means.append([relative_error(layer(x, x), expected)])
        fit(layer, exact)
        fitted.append([relative_error(layer(x, x), expected)])
    return {
        "means of segments": (MIXTURES, np.array(means)),
        "trained on other sequences": (MIXTURES, np.array(fitted)),
    }


def fit(layer, exact):
    """Trains only the mixtures of a Linformer, to approximate exact attention."""
    for projection in ("query", "key", "value", "output"):
        getattr(layer, f"{projection}_projection").trainable = False
    x = keras.Input((LENGTH, HEADS * KEY_DIM))
    model = keras.Model(x, layer(x, x))
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    for step in range(FITTING_STEPS):
        batch = slow_sequences(1000 + step)
        model.train_on_batch(batch, exact(batch, batch))


def nystrom(x, draws):
    """Label -> sizes, errors (size × 1)."""
    exact, curves = exact_attention(), {}
    expected = exact(x, x)
    for steps in ITERATIONS:
        layers = [
            NystromAttention(HEADS, KEY_DIM, num_landmarks=number, num_iterations=steps)
            for number in LANDMARKS
        ]
        errors = [
            [relative_error(same_projections(layer, exact, x)(x, x), expected)] for layer in layers
        ]
        curves[f"{steps} iterations"] = LANDMARKS, np.array(errors)
    return curves


def reformer(x, draws):
    """Label -> sizes, errors (size × draw)."""
    exact = same_projections(
        ReformerAttention(HEADS, KEY_DIM, bucket_size=LENGTH), exact_attention(), x
    )
    expected, curves = exact(x, x), {}
    for bucket_size in BUCKET_SIZES:
        errors = []
        for hashes in HASHES:
            layer = ReformerAttention(HEADS, KEY_DIM, bucket_size=bucket_size, num_hashes=hashes)
            errors.append(drawn_errors(same_projections(layer, exact, x), x, expected, draws))
        curves[f"buckets of {bucket_size}"] = HASHES, np.array(errors)
    return curves


def exact_attention(mask=None):
    layer = MultiHeadAttention(
        HEADS, KEY_DIM, mask=mask, kernel_initializer=keras.initializers.GlorotUniform(seed=0)
    )
    layer.build((None, None, HEADS * KEY_DIM), (None, None, HEADS * KEY_DIM))
    return layer


PANELS = {
    "Performer": (performer, "features m", "softmax attention"),
    "Linformer": (linformer, "mixtures k", "softmax attention"),
    "Nyströmformer": (nystrom, "landmarks m", "softmax attention"),
    "Reformer": (reformer, "hashes", "shared-query attention"),
}


def draw(panels):
    """Returns a figure with a panel for each mechanism."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(panels), 4), layout="constrained")
    figure.suptitle(f"Error of the output, {LENGTH} positions, {HEADS} heads of size {KEY_DIM}")
    all_axes = figure.subplots(1, len(panels), sharey=True)
    for axes, (name, curves) in zip(all_axes, panels.items(), strict=True):
        _, size_name, against = PANELS[name]
        for number, (label, (sizes, errors)) in enumerate(curves.items()):
            color = f"C{number}"
            axes.plot(sizes, errors.mean(1), "o-", color=color, label=label)
            axes.fill_between(sizes, errors.min(1), errors.max(1), color=color, alpha=0.2, lw=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xlabel(size_name)
        axes.set_title(f"{name}, compared with {against}", fontsize="medium")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower left")
    percent = (1, 2, 5, 10, 20, 50, 100)
    all_axes[0].set_yscale("log")
    all_axes[0].set_yticks([each / 100 for each in percent], [f"{each}%" for each in percent])
    all_axes[0].set_yticks([], minor=True)
    all_axes[0].set_ylim(0.01, 1.0)
    all_axes[0].set_ylabel("root mean square error, relative")
    return figure


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=pathlib.Path),
    default="notebooks/reference/images/approximations.png",
    show_default=True,
)
@click.option("--draws", default=5, show_default=True, help="Random draws per size.")
def main(output, draws):
    """Measure the errors on fixed data, then print and plot them."""
    keras.utils.set_random_seed(0)
    x, panels = slow_sequences(0), {}
    for name, (measure, size_name, _) in PANELS.items():
        panels[name] = measure(x, draws)
        for label, (sizes, errors) in panels[name].items():
            for size, found in zip(sizes, errors, strict=True):
                click.echo(
                    f"{name:10} {label:35} {size_name:11} {size:5} {found.mean():8.4f}"
                    f"  ({found.min():.4f} to {found.max():.4f})"
                )
    output.parent.mkdir(parents=True, exist_ok=True)
    draw(panels).savefig(output, dpi=110)


if __name__ == "__main__":
    main()
