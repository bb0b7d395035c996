"""The memory of a server over a long time under load.

python -m benchmarks.serving_soak [NAME...] [--minutes 30] [--plot soak.png]

`python -m zoo serve NAME...` answers 8 clients that ask all the time, a tenth of which hang up.
After a tenth of the time, in which it warms up, its memory should not grow by more than 5 %: what
is compared is the mean over the tenth that follows, and over the last one. Ends with status 1 if it
grew, or an answer is wrong or missing.
"""

import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import click

import zoo
from benchmarks._serving import LEFT, RIGHT, load, questions_of, serving
from benchmarks.serving_load import NAMES

CLIENTS, PARTS = 8, 10
MOST_GROWTH = 5.0  # per cent


def measure(server, questions, seconds, interval):
    """Returns minutes, megabytes at those times, and a counter of the results."""
    minutes, megabytes, start = [], [], time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load, server, questions, CLIENTS, seconds=seconds, leaves=10)
        while not loading.done():
            minutes.append((time.perf_counter() - start) / 60)
            megabytes.append(server.megabytes())
            time.sleep(interval)
        outcomes, _ = loading.result()
    return minutes, megabytes, Counter(each.result for each in outcomes)


def growth(megabytes):
    """Returns by how many per cent memory grew after the warm-up."""
    size = max(1, len(megabytes) // PARTS)
    first, last = megabytes[size : 2 * size], megabytes[-size:]
    return 100 * (sum(last) / sum(first) - 1)


def plot(path, minutes, megabytes):
    """Draws the memory over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(minutes, megabytes)
    axes.axvline(minutes[-1] / PARTS, color="grey", linestyle="--", label="end of the warm-up")
    axes.set(xlabel="minutes", ylabel="resident memory, MB", ylim=(0, 1.15 * max(megabytes)))
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=110)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--minutes", default=30.0, show_default=True)
@click.option("--plot", "path", type=click.Path(dir_okay=False), help="Draw the memory into this.")
def main(names, minutes, path):
    names = names or NAMES
    questions = questions_of({name: zoo.load(name) for name in names})
    with serving(*names) as server:
        found = measure(server, questions, 60 * minutes, interval=min(5, 0.6 * minutes))
    times, megabytes, results = found
    grown = growth(megabytes)
    failed = sum(results.values()) - results[RIGHT] - results[LEFT]
    print(f"{minutes:g} minutes, {dict(results)}, {megabytes[-1]:.0f} MB at the end")
    print(f"growth after the warm-up: {grown:+.1f} % (at most {MOST_GROWTH:g} %)")
    if path:
        plot(path, times, megabytes)
        print(f"Wrote {path}.")
    sys.exit(failed > 0 or grown > MOST_GROWTH)


if __name__ == "__main__":
    main()
