"""Seconds from the start of Python to a first translation, step by step.

python -m benchmarks.starting_speed [NAME] [--rounds 5]

Each measurement is a fresh process; files are in the memory of the machine, as after a first start.
The steps take turns, and what one adds to the step before is told beside it.
"""

import statistics
import subprocess
import sys
import time

import click

STEPS = {
    "import tensorflow": "import tensorflow",
    "import keras": "import keras",
    "import zoo": "import zoo",
    "zoo.load": "import zoo; model = zoo.load({name!r})",
    "first translation": "import zoo; zoo.load({name!r}).translate('A man rides a bike.')",
    "first translation, greedy": (
        "import zoo; zoo.load({name!r}).translate('A man rides a bike.', 'greedy')"
    ),
}
BEFORE = {"first translation, greedy": "zoo.load"}  # else the step above


def seconds_of(program):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return time.perf_counter() - start


@click.command()
@click.argument("name", default="transformer_nmt_multi30k_en_de")
@click.option("--rounds", default=5, show_default=True, help="Rounds after one for warming up.")
def main(name, rounds):
    """Measure how long a translator of the zoo takes to start."""
    seconds = {step: [] for step in STEPS}
    for round_number in range(rounds + 1):
        for step, program in STEPS.items():
            found = seconds_of(program.format(name=name))
            if round_number > 0:
                seconds[step].append(found)
    medians, above = {step: statistics.median(found) for step, found in seconds.items()}, None
    for step, median in medians.items():
        added = median - medians.get(BEFORE.get(step, above), 0.0)
        spread = f"({min(seconds[step]):.2f} to {max(seconds[step]):.2f})"
        click.echo(f"{step:26} {median:6.2f} s {spread:16}  adds {added:5.2f} s")
        above = step


if __name__ == "__main__":
    main()
