"""A server of the zoo under load: latencies, requests a second, wrong answers, memory.

python -m benchmarks.serving_load [NAME] [--requests 10000] [--soak-minutes 0]

Starts `python -m zoo serve NAME` as a process of its own and asks it for translations of mixed
lengths, one text a request, from 1, 8 and 32 clients that wait for an answer before the next
question. Every answer is compared with that of `model.translate`. With `--soak-minutes`, 8 clients
go on asking for so long, and the growth of the server's memory after the first minute is told.
"""

import concurrent.futures
import http.client
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
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


def load(name, expected, clients, requests):
    """Lets clients ask at a time; returns their latencies, seconds in all, and wrong answers."""
    texts = list(expected)

    def client(number):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
        answers = []
        for place in range(number, requests, clients):
            text = texts[place % len(texts)]
            seconds, answer = ask(connection, name, text)
            answers.append((seconds, answer == expected[text]))
        return answers

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        answers = [each for found in pool.map(client, range(clients)) for each in found]
    seconds = time.perf_counter() - start
    return [each for each, _ in answers], seconds, sum(not is_right for _, is_right in answers)


def megabytes(process):
    """Returns the resident memory of a process, on Linux."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def started(name):
    """Starts a server and waits until it answers."""
    command = [sys.executable, "-m", "zoo", "serve", name, "--port", str(PORT)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
            connection.request("GET", "/v2/health/ready")
            if connection.getresponse().status == 200:
                return process
        except OSError:
            time.sleep(0.5)
    raise click.ClickException("The server did not start.")


@click.command()
@click.argument("name", default="transformer_nmt_multi30k_en_de")
@click.option("--requests", default=10_000, help="Requests in all, a third from each of the loads.")
@click.option("--soak-minutes", default=0.0)
def main(name, requests, soak_minutes):
    texts = texts_of_mixed_lengths()
    expected = dict(zip(texts, zoo.load(name).translate(texts), strict=True))
    process = started(name)
    try:
        load(name, expected, 32, 200)  # what is compiled and allocated at first
        print("clients     p50     p95     p99 ms   requests/s   wrong")
        for clients in CLIENTS:
            latencies, seconds, wrong = load(name, expected, clients, requests // len(CLIENTS))
            cuts = statistics.quantiles(latencies, n=100)
            told = "".join(f"{1000 * cuts[each]:8.1f}" for each in (49, 94, 98))
            print(f"{clients:7}{told} {len(latencies) / seconds:15.1f} {wrong:7}", flush=True)
        if soak_minutes:
            load(name, expected, 8, 1000)
            before, end, answered = megabytes(process), time.time() + 60 * soak_minutes, 0
            while time.time() < end:
                answered += len(load(name, expected, 8, 1000)[0])
            after = megabytes(process)
            print(f"soak: {answered} requests, {before:.0f} -> {after:.0f} MB")
    finally:
        process.terminate()
        process.wait(60)


if __name__ == "__main__":
    main()
