"""A server of the zoo under load: latencies, requests a second, wrong answers, memory.

python -m benchmarks.serving_load [NAME] [--requests 1000] [--seconds 60] [--soak-minutes 0]

Starts `python -m zoo serve NAME` as a process of its own, once with batches and once without, and
asks it for translations of mixed lengths, one text a request, from 1, 8 and 32 clients that wait
for an answer before the next question. Every answer is compared with that of `model.translate`.
With `--soak-minutes`, 8 clients go on asking for so long, and the growth of the server's memory
after the first minute is told.
"""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import click

import zoo

WORDS = (
    "a",
    "man",
    "in",
    "a",
    "red",
    "shirt",
    "rides",
    "his",
    "old",
    "bike",
    "while",
    "two",
    "dogs",
)
CLIENTS = (1, 8, 32)
PORT = 8599


def texts_of_mixed_lengths(number=200):
    """Returns texts of 3 to 16 words."""
    return [
        " ".join(itertools.islice(itertools.cycle(WORDS[start % 12 :] + WORDS), 3 + start % 14))
        for start in range(number)
    ]


def ask(connection, name, text):
    """Returns the seconds that an answer took, and its text."""
    start = time.perf_counter()
    connection.request("POST", f"/v1/models/{name}:predict", json.dumps({"instances": [text]}))
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise click.ClickException(f"{response.status}: {content.decode()}")
    return time.perf_counter() - start, json.loads(content)["predictions"][0]["text"]


def load(name, expected, clients, requests, seconds):
    """Lets clients ask at a time; returns their latencies, seconds in all, and wrong answers."""
    texts, places = list(expected), iter(range(requests))
    start, taking = time.perf_counter(), threading.Lock()

    def client(_):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=300)
        answers = []
        while time.perf_counter() < start + seconds:
            with taking:
                place = next(places, None)
            if place is None:
                break
            text = texts[place % len(texts)]
            latency, answer = ask(connection, name, text)
            answers.append((latency, answer == expected[text]))
        return answers

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        answers = [each for found in pool.map(client, range(clients)) for each in found]
    seconds = time.perf_counter() - start
    return [each for each, _ in answers], seconds, sum(not is_right for _, is_right in answers)


def megabytes(process):
    """Returns the resident memory of a process, on Linux."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextlib.contextmanager
def serving(name, *options):
    """Gives the block the process of a server that answers."""
    command = [sys.executable, "-m", "zoo", "serve", name, "--port", str(PORT), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while not answers():
            if process.poll() is not None:
                raise click.ClickException("The server did not start.")
            time.sleep(0.5)
        yield process
    finally:
        process.terminate()
        process.wait(60)


def answers():
    """Returns whether a server is ready."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False


def soak(name, expected, process, minutes):
    """Tells how the memory of a server grows while it answers 8 clients."""
    load(name, expected, 8, sys.maxsize, 60)
    before = megabytes(process)
    latencies, _, wrong = load(name, expected, 8, sys.maxsize, 60 * minutes)
    after = megabytes(process)
    growth = f"{before:.0f} -> {after:.0f} MB, {100 * (after / before - 1):+.1f} %"
    print(f"soak: {len(latencies)} requests in {minutes:g} minutes, {wrong} wrong, {growth}")


@click.command()
@click.argument("name", default="transformer_nmt_multi30k_en_de")
@click.option("--requests", default=1000, show_default=True, help="Requests of each row at most.")
@click.option("--seconds", default=60.0, show_default=True, help="Time of each row at most.")
@click.option("--soak-minutes", default=0.0)
def main(name, requests, seconds, soak_minutes):
    texts = texts_of_mixed_lengths()
    expected = dict(zip(texts, zoo.load(name).translate(texts), strict=True))
    print("            clients  requests     p50     p95     p99 ms   requests/s   wrong")
    for option, title in (("--batch", "batched"), ("--no-batch", "unbatched")):
        with serving(name, option) as process:
            load(name, expected, 32, 64, seconds)  # what is allocated at first
            for clients in CLIENTS:
                latencies, taken, wrong = load(name, expected, clients, requests, seconds)
                cuts = statistics.quantiles(latencies, n=100)
                told = "".join(f"{1000 * cuts[each]:8.0f}" for each in (49, 94, 98))
                answered = len(latencies)
                head = f"{title:10} {clients:8} {answered:9}"
                print(f"{head}{told} {answered / taken:15.1f} {wrong:7}", flush=True)
            if soak_minutes and option == "--batch":
                soak(name, expected, process, soak_minutes)


if __name__ == "__main__":
    main()
