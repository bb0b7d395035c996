"""Disturb a server under load, and check that no request is affected.

python -m benchmarks.serving_trials [NAME] [--full]

Exports the model, and serves the folder with `python -m zoo serve` to clients that send requests
all the time. First, they hang up after a fifth of their requests; then, a new version appears in
the folder; finally, the process receives SIGTERM. Every answer is compared with that of the model
in memory. Exits with status 1 if an answer is wrong or missing. After SIGTERM, the server must
still answer the requests that were sent before it, but may refuse later ones.
"""

import pathlib
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import click

import zoo
from benchmarks._serving import LEFT, REFUSED, RIGHT, load, questions_of, serving

MODEL = "nmt"  # its name on the server
CLIENTS = 32
ON_THE_WAY = 0.2  # seconds that a request may take to reach the server


def hang_ups(server, questions, clients, seconds):
    """Runs clients that hang up after a fifth of their requests.

    Returns:
        Counter of the results, and the number of requests that the server still holds at the end.
    """
    outcomes, _ = load(server, questions, clients, seconds=seconds, leaves=5)
    deadline = time.monotonic() + 60
    while (waiting := _waiting(server)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return Counter(each.result for each in outcomes), waiting


def new_version(server, questions, clients, seconds, folder):
    """Adds a version to the folder of the model while clients send requests.

    Returns:
        Counter of the results, and the version that the server serves at the end.
    """
    newest = max(int(each.name) for each in folder.iterdir() if each.name.isdecimal())
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load, server, questions, clients, seconds=seconds)
        time.sleep(seconds / 4)
        unfinished = folder / f".unfinished-{newest + 1}"
        shutil.copytree(folder / str(newest), unfinished)
        unfinished.rename(folder / str(newest + 1))
        outcomes, _ = loading.result()
    return Counter(each.result for each in outcomes), _version(server, newest + 1)


def end(server, questions, clients, seconds):
    """Sends SIGTERM while clients send requests.

    Returns:
        Counter of the results of requests sent before SIGTERM, which the server has to answer;
        counter of those sent after it; and the exit status of the process.
    """
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load, server, questions, clients, seconds=seconds + 60)
        time.sleep(seconds)
        told = time.perf_counter()
        server.process.terminate()
        status = server.process.wait(60)
        outcomes, _ = loading.result()
    before, after = Counter(), Counter()
    for each in outcomes:
        (before if each.start < told - ON_THE_WAY else after)[each.result] += 1
    return before, after, status


def _waiting(server):
    """Returns the number of requests that the server holds."""
    _, text = server.get("/metrics")
    return sum(float(each) for each in re.findall(r"^zoo_waiting\{.*\} (.*)$", text, re.MULTILINE))


def _version(server, wanted):
    """Waits up to a minute for the wanted version; returns the version that is then served."""
    deadline = time.monotonic() + 60
    while True:
        _, text = server.get(f"/v1/models/{MODEL}")
        version = int(re.search(r'"version": ?"(\d+)"', text)[1])
        if version == wanted or time.monotonic() > deadline:
            return version
        time.sleep(0.1)


def failures(results, *allowed):
    """Returns how many of the results are neither right nor allowed."""
    return sum(results.values()) - sum(results[each] for each in (RIGHT, *allowed))


@click.command()
@click.argument("name", default="transformer_nmt_multi30k_en_de")
@click.option("--full/--quick", help="60 seconds per trial, or 5.")
def main(name, full):
    seconds = 60.0 if full else 5.0
    task, failed = zoo.load(name), 0
    questions = questions_of({MODEL: task})
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place) / MODEL
        task.export(folder, jit_compile=False)
        with serving(folder) as server:
            found, waiting = hang_ups(server, questions, CLIENTS, seconds)
            print(f"hanging up: {dict(found)}; held afterwards: {waiting:.0f}", flush=True)
            failed += failures(found, LEFT) + waiting
            found, version = new_version(server, questions, CLIENTS, seconds, folder)
            print(f"new version: {dict(found)}; served afterwards: {version}", flush=True)
            failed += failures(found) + (version != 2)
            before, after, status = end(server, questions, CLIENTS, seconds)
            print(f"SIGTERM: before {dict(before)}, after {dict(after)}; exit status {status}")
            failed += failures(before) + failures(after, REFUSED) + (status != 0)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
