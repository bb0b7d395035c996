"""How `--workers` scales: rows of a file per second with one local process and with two.

python -m benchmarks.workers_speed [NAME] [--full] [--threads 1]

Translates a file as `python -m zoo translate NAME --input FILE --output FILE --workers N` does, and
compares the outputs. The time to start the workers and load the model is not counted.
"""

import os
import pathlib
import tempfile
import time

import click

from benchmarks._serving import texts_of_mixed_lengths
from zoo.cli_inputs import ROWS_AT_ONCE, load
from zoo.file_workers import OnWorker, workers
from zoo.files import TextFile, answer_file

WORKERS = (1, 2)
WARM_UP = 16  # chunks, enough that each worker gets some


def translations(model, texts, before):
    return [{"translation": each} for each in model.translate(texts)]


def seconds(run, name, source, output, at_once):
    """Returns how many seconds the workers take to translate a file."""
    start = time.perf_counter()
    answer_file(source, output, OnWorker(load, (name, "translate"), translations), {}, at_once, run)
    return time.perf_counter() - start


@click.command()
@click.argument("name", default="luong_nmt_multi30k_en_de")
@click.option("--full/--quick", help="Translate 4,000 rows, or 500.")
@click.option("--threads", default=1, show_default=True, help="Threads of each worker.")
def main(name, full, threads):
    rows = 4000 if full else 500
    os.environ |= {"TF_NUM_INTRAOP_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    texts, rates, outputs = texts_of_mixed_lengths(rows), [], []
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "all.txt").write_text("\n".join(texts))
        (folder / "some.txt").write_text("\n".join(texts[: 8 * WARM_UP]))
        for number in WORKERS:
            some, output = folder / f"some{number}", folder / f"all{number}"
            with workers(str(number)) as run:
                seconds(run, name, TextFile(folder / "some.txt"), some, 8)
                taken = seconds(run, name, TextFile(folder / "all.txt"), output, ROWS_AT_ONCE)
            rates.append(rows / taken)
            outputs.append(output.read_bytes())
            told = f"{rates[-1]:.0f} rows/s, {rates[-1] / rates[0]:.2f} times as fast as one"
            print(f"{number} workers with {threads} threads: {told}", flush=True)
    print("same output" if len(set(outputs)) == 1 else "the outputs differ")


if __name__ == "__main__":
    main()
