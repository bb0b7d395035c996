"""Speed and memory of attention, forward and backward, compared with Keras layers.

python -m benchmarks.attention_speed
python -m benchmarks.attention_speed --case additive
python -m benchmarks.attention_speed --plot attention.png

Times are measured in one process, with the contenders taking turns. The ratio is the first
contender's median time divided by this contender's: above 1, this contender is faster. Memory is
measured in a separate process: its peak resident memory, minus the peak before the step.
"Products" are the matrix products of the layer and nothing else: a lower bound on its time.
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import click
import keras
import numpy as np
import tensorflow as tf

from keras_attention import Attention, MultiHeadAttention, masks, normalizers, scores

SIZE, HEADS = 512, 8
GROWING = "multi-head "  # followed by the length; all of these cases have the same number of tokens


class Row(NamedTuple):
    """The measurements of a contender."""

    label: str
    seconds: list
    ratio: float  # the first contender's median time divided by this one's
    megabytes: float


class Nothing(normalizers.Normalizer):
    """Takes the scores for weights, so that only the products of a layer remain."""

    def __call__(self, scores, visible=None, training=None):
        return scores


def multi_head(batch, length, mask=None):
    """Contenders for multi-head self-attention."""
    causal = isinstance(mask, masks.Causal)
    array = None if mask is None or causal else mask(length, length)[0, 0]
    peer = keras.layers.MultiHeadAttention(HEADS, SIZE // HEADS)
    contenders = {"keras": lambda x: peer(x, x, use_causal_mask=causal, attention_mask=array)}
    for implementation in ("reference", "blocked", "chunked"):
        layer = MultiHeadAttention(HEADS, SIZE // HEADS, mask=mask, implementation=implementation)
        contenders[implementation] = lambda x, layer=layer: layer(x, x)
    if mask is None:
        products = MultiHeadAttention(HEADS, SIZE // HEADS, normalizer=Nothing())
        contenders["products"] = lambda x: products(x, x)
    return contenders, (batch, length, SIZE)


def additive(batch, length, units):
    """Contenders for additive attention; the Keras layer has no learned projections."""
    peer = keras.layers.AdditiveAttention()
    layer = Attention(scores.Additive(units), implementation="chunked")
    contenders = {"keras": lambda x: peer([x, x, x]), "chunked": lambda x: layer(x, x)}
    return contenders, (batch, length, units)


def long(**arguments):
    """Returns a call of a small multi-head self-attention layer, for long inputs."""
    layer = MultiHeadAttention(4, 16, implementation="chunked", **arguments)
    return lambda x: layer(x, x)


def growth(make, lengths=(2048, 16384)):
    """Contenders that differ only in sequence length, each with its own input."""
    layers = {f"length {length}": long(mask=make(length)) for length in lengths}
    return layers, [(1, length, 64) for length in lengths]


def one_score(name, length=16384):
    score = {
        "location": lambda: scores.Location(max_length=length),
        "dense_synthesizer": lambda: scores.DenseSynthesizer(max_length=length),
        "random_synthesizer": lambda: scores.RandomSynthesizer(max_length=length, rank=8),
    }.get(name, lambda: name)()
    kernels = ("boxcar", "triangular", "epanechnikov")
    normalizer = "sum" if name in kernels else "softmax"
    layer = Attention(score, normalizer=normalizer, implementation="chunked")
    return {name: lambda x: layer(x, x)}, (1, length, 16)


CASES = {
    "additive": lambda: additive(4, 512, 256),
    "multi-head 512": lambda: multi_head(8, 512),
    "multi-head 1024": lambda: multi_head(4, 1024),
    "multi-head 2048": lambda: multi_head(2, 2048),
    "multi-head 4096": lambda: multi_head(1, 4096),
    "causal 2048": lambda: multi_head(2, 2048, masks.Causal()),
    "window 4096": lambda: multi_head(1, 4096, masks.SlidingWindow(left=128, right=127)),
    "window growth": lambda: growth(lambda length: masks.SlidingWindow(left=128, right=127)),
    "BigBird growth": lambda: growth(lambda length: masks.BigBird(length=length)),
    **{f"16384 {name}": lambda name=name: one_score(name) for name in scores.names()},
}


def steps(case, jit):
    """Returns label -> a function that runs one step forward and backward."""
    contenders, shapes = CASES[case]()
    shapes = shapes if isinstance(shapes, list) else [shapes] * len(contenders)
    return {
        label: step_of(call, shape, jit)
        for (label, call), shape in zip(contenders.items(), shapes, strict=True)
    }


def step_of(call, shape, jit):
    x = tf.constant(np.random.default_rng(0).normal(size=shape).astype("float32"))

    @tf.function(jit_compile=jit, autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(call(x) ** 2)
        return tape.gradient(total, [x, *tape.watched_variables()])

    return lambda: step(x)


def peak_megabytes():
    """The peak resident memory of this process so far (on Linux)."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def memory_of(case, label, jit):
    """Returns the megabytes that a step uses, measured in a new process."""
    command = [sys.executable, "-m", "benchmarks.attention_speed", "--case", case]
    command += ["--only", label] + (["--jit"] if jit else [])
    root = pathlib.Path(__file__).parents[1]
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return float(finished.stdout.split()[-1])


def print_memory(step):
    # Exclude the memory that the framework needs to run anything at all.
    tf.function(lambda x: tf.matmul(x, x))(tf.ones((512, 512)))
    floor = peak_megabytes()
    step()
    print(peak_megabytes() - floor)


def measure(case, rounds, jit):
    """Returns a `Row` for each contender of a case."""
    contenders = steps(case, jit)
    seconds = {label: [] for label in contenders}
    for round_number in range(rounds + 1):
        for label, step in contenders.items():
            start = time.perf_counter()
            step()
            if round_number > 0:
                seconds[label].append(time.perf_counter() - start)
    first = statistics.median(next(iter(seconds.values())))
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # nothing is timed any more
        megabytes = pool.map(lambda label: memory_of(case, label, jit), seconds)
    return [
        Row(label, found, first / statistics.median(found), used)
        for (label, found), used in zip(seconds.items(), megabytes, strict=True)
    ]


def draw(rows_of_cases, path):
    """Plots time and memory of multi-head attention against the length."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cases = {
        int(case.removeprefix(GROWING)): rows
        for case, rows in rows_of_cases.items()
        if case.startswith(GROWING)
    }
    lengths = sorted(cases)
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for label in [row.label for row in cases[lengths[0]]]:
        of_label = [row for length in lengths for row in cases[length] if row.label == label]
        medians = [statistics.median(row.seconds) for row in of_label]
        axes[0].plot(lengths, medians, "o-", label=label)
        axes[1].plot(lengths, [row.megabytes for row in of_label], "o-", label=label)
    for ax, what in zip(axes, ("seconds", "memory, MB"), strict=True):
        ax.set(xscale="log", xlabel="length", ylabel=what)
        ax.set_ylim(bottom=0)
        ax.set_xticks(lengths, lengths)
        ax.minorticks_off()
        ax.legend()
    figure.suptitle(f"Multi-head attention, forward and backward, {8 * 512} tokens per batch")
    figure.savefig(path, dpi=110)


@click.command()
@click.option("--case", "chosen", type=click.Choice(list(CASES)), multiple=True)
@click.option("--rounds", default=5, show_default=True, help="Measured rounds, after a warm-up.")
@click.option("--jit", is_flag=True, help="Compile all contenders with XLA.")
@click.option("--plot", "path", type=click.Path(dir_okay=False), help="Plot multi-head attention.")
@click.option("--only", hidden=True, help="Print the memory of one contender of one case.")
def main(chosen, rounds, jit, path, only):
    """Measure all cases, or only the given ones."""
    if only:
        print_memory(steps(chosen[0], jit)[only])
        return
    chosen = chosen or list(CASES)
    if path and not any(case.startswith(GROWING) for case in chosen):
        raise click.UsageError("--plot needs at least one multi-head --case.")
    rows_of_cases = {}
    for case in chosen:
        rows_of_cases[case] = measure(case, rounds, jit)
        for label, found, ratio, megabytes in rows_of_cases[case]:
            click.echo(
                f"{case:24} {label:14} {statistics.median(found):8.3f} s "
                f"({min(found):.3f} to {max(found):.3f})  ratio {ratio:5.2f}  {megabytes:7.0f} MB"
            )
    if path:
        draw(rows_of_cases, path)


if __name__ == "__main__":
    main()
