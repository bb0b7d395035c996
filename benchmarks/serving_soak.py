"""Memory of a server under sustained load.

python -m benchmarks.serving_soak [NAME...] [--full] [--plot soak.png]

`python -m zoo serve NAME...` answers 8 clients that send requests all the time and hang up after a
tenth of them. The quick run takes 3 minutes, the first of which is a warm-up; the full run takes
30 minutes, with a warm-up of 3. After the warm-up, memory must not grow by more than 5%: the mean
over the tenth of the run that follows the warm-up is compared with the mean over the last tenth.
Exits with status 1 if memory grew by more, or if an answer is wrong or missing.
"""

import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import click

import zoo
from benchmarks._serving import LEFT, RIGHT, load, questions_of, serving
from benchmarks.serving_load import NAMES

CLIENTS = 8
QUICK, FULL = (3.0, 1.0), (30.0, 3.0)  # total minutes, and minutes of warm-up
MOST_GROWTH = 5.0  # percent


def measure(server, questions, seconds, interval):
    """Returns times in minutes, the megabytes at those times, and a counter of the results."""
    minutes, megabytes, start = [], [], time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load, server, questions, CLIENTS, seconds=seconds, leaves=10)
        while not loading.done():
            minutes.append((time.perf_counter() - start) / 60)
            megabytes.append(server.megabytes())
            time.sleep(interval)
        outcomes, _ = loading.result()
    return minutes, megabytes, Counter(each.result for each in outcomes)


def growth(minutes, megabytes, warm_up):
    """Returns by how many percent memory grew after `warm_up` minutes."""
    later = [size for time, size in zip(minutes, megabytes, strict=True) if time >= warm_up]
    tenth = max(1, len(megabytes) // 10)
    return 100 * (sum(later[-tenth:]) / sum(later[:tenth]) - 1)


def plot(path, minutes, megabytes, warm_up):
    """Plots the memory over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(minutes, megabytes)
    axes.axvline(warm_up, color="grey", linestyle="--", label="end of the warm-up")
    axes.set(xlabel="minutes", ylabel="resident memory, MB", ylim=(0, 1.15 * max(megabytes)))
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=110)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--full/--quick", help="Run for 30 minutes, or 3.")
@click.option("--plot", "path", type=click.Path(dir_okay=False), help="File to plot the memory to.")
def main(names, full, path):
    names, (minutes, warm_up) = names or NAMES, FULL if full else QUICK
    questions = questions_of({name: zoo.load(name) for name in names})
    with serving(*names) as server:
        found = measure(server, questions, 60 * minutes, interval=2.0)
    times, megabytes, results = found
    grown = growth(times, megabytes, warm_up)
    failed = sum(results.values()) - results[RIGHT] - results[LEFT]
    print(f"{minutes:g} minutes, {dict(results)}, {megabytes[-1]:.0f} MB at the end")
    print(f"memory growth after the warm-up: {grown:+.1f}% (at most {MOST_GROWTH:g}%)")
    if path:
        plot(path, times, megabytes, warm_up)
        print(f"Wrote {path}.")
    sys.exit(failed > 0 or grown > MOST_GROWTH)


if __name__ == "__main__":
    main()
