"""Seconds from starting Python to the first translation, step by step.

python -m benchmarks.starting_speed [NAME] [--rounds 5]

Each measurement runs in a new process, with all files already in the file cache, as after a first
start. The steps take turns. Each row also shows the difference from the step that it builds on.
"""

import statistics
import subprocess
import sys
import time

import click

SENTENCE = "A man rides a bike."
# Name, the step it builds on, and the program. `import zoo` imports Keras only when needed.
STEPS = [
    ("import zoo", None, "import zoo"),
    ("import tensorflow", None, "import tensorflow"),
    ("import keras", "import tensorflow", "import keras"),
    ("zoo.load", "import keras", "import zoo; zoo.load({name!r})"),
    ("translate", "zoo.load", "import zoo; zoo.load({name!r}).translate({text!r})"),
    (
        "translate, greedy",
        "zoo.load",
        "import zoo; zoo.load({name!r}).translate({text!r}, 'greedy')",
    ),
]


def seconds_of(program):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return time.perf_counter() - start


@click.command()
@click.argument("name", default="transformer_nmt_multi30k_en_de")
@click.option("--step", "chosen", type=click.Choice([step for step, *_ in STEPS]), multiple=True)
@click.option("--rounds", default=5, show_default=True, help="Measurements per step.")
def main(name, chosen, rounds):
    """Measure how long a translator of the zoo takes to start, in all steps or the given ones."""
    steps = [each for each in STEPS if not chosen or each[0] in chosen]
    programs = {step: program.format(name=name, text=SENTENCE) for step, _, program in steps}
    seconds_of(f"import zoo; zoo.load({name!r})")  # brings all files into the file cache
    seconds = {step: [] for step in programs}
    for _ in range(rounds):
        for step, program in programs.items():
            seconds[step].append(seconds_of(program))
    medians = {step: statistics.median(found) for step, found in seconds.items()}
    for step, before, _ in steps:
        spread = f"({min(seconds[step]):.2f} to {max(seconds[step]):.2f})"
        added = f"{medians[step] - medians[before]:+.2f} s vs {before}" if before in medians else ""
        click.echo(f"{step:18} {medians[step]:6.2f} s {spread:16}  {added}".rstrip())


if __name__ == "__main__":
    main()
