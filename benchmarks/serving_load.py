"""Latency, requests per second and wrong answers of a zoo server under load.

python -m benchmarks.serving_load [NAME...] [--full]

Starts `python -m zoo serve NAME...` as a separate process, once with batching and once without, and
asks it for translations and labels of texts of mixed lengths, with one text per request. With
`--full`, 1, 8 and then 32 clients ask the models in turn; by default, only 32 do. Each client waits
for an answer before it asks the next question. Every answer is compared with that of the model in
memory. Exits with status 1 if any answer is wrong.

With `--full`, first prints an upper bound on the gain from batching: the texts per second of each
model in one process with one thread, without a server, one by one, in batches of 32 in their
original order, and in batches sorted by length.
"""

import statistics
import sys
import time
from collections import Counter

import click
import tensorflow as tf

import zoo
from benchmarks._serving import RIGHT, load, questions_of, serving

NAMES = ("transformer_nmt_multi30k_en_de", "text_encoder_imdb")
WARM_UP = 64  # requests before each row, to exclude first-time allocations
# Numbers of clients; maximum requests and seconds per row.
QUICK, FULL = ((32,), 200, 5.0), ((1, 8, 32), 10_000, 600.0)


def print_bound(name, task, texts):
    """Prints texts per second of a model without a server, one by one and in batches."""
    text = [tf.TensorSpec([None], tf.string)]
    answer = tf.function(task.endpoints()["serving_default"].function, text, autograph=False)

    def rate(texts, rows):
        start = time.perf_counter()
        for first in range(0, len(texts), rows):
            answer(tf.constant(texts[first : first + rows]))
        return len(texts) / (time.perf_counter() - start)

    orders = {
        "one by one": (texts, 1),
        "in batches of 32": (texts, 32),
        "sorted by length": (sorted(texts, key=len), 32),
    }
    for order in orders.values():
        rate(*order)  # the first time traces and allocates
    rates = {title: rate(*order) for title, order in orders.items()}
    told = ", ".join(f"{found:.1f} {title}" for title, found in rates.items())
    print(f"{name}, texts/s with one thread: {told}", flush=True)


def row(title, clients, outcomes, seconds):
    """Prints a row; returns the requests per second and the number of wrong answers."""
    cuts = statistics.quantiles([each.seconds for each in outcomes], n=100)
    told = "".join(f"{1000 * cuts[each]:8.0f}" for each in (49, 94, 98))
    found = Counter(each.result for each in outcomes)
    wrong = len(outcomes) - found[RIGHT]
    rate = len(outcomes) / seconds
    head = f"{title:10} {clients:8} {len(outcomes):9}"
    print(f"{head}{told} {rate:15.1f} {wrong:7}", flush=True)
    if wrong:
        print(f"  {dict(found)}")
    return rate, wrong


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--full/--quick", help="Per row, at most 10,000 requests and 10 minutes, or 200 and 5 s."
)
def main(names, full):
    names, (numbers, requests, seconds) = names or NAMES, FULL if full else QUICK
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tasks = {name: zoo.load(name) for name in names}
    questions = questions_of(tasks, 200 if full else 32)
    if full:
        for name, task in tasks.items():
            texts = [question.text for question in questions if question.model == name]
            print_bound(name, task, texts)
    print(f"models: {', '.join(names)}")
    print("            clients  requests     p50     p95     p99 ms   requests/s   wrong")
    rates, wrong = {}, 0
    for option, title in (("--batch", "batched"), ("--no-batch", "unbatched")):
        with serving(*names, option) as server:
            for clients in numbers:
                load(server, questions, clients, WARM_UP, seconds)
                found = load(server, questions, clients, requests, seconds)
                rates[title, clients], others = row(title, clients, *found)
                wrong += others
    for clients in numbers:
        ratio = rates["batched", clients] / rates["unbatched", clients]
        print(f"with batching, {clients} clients: {ratio:.2f} times as many requests/s")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
