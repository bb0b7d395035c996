"""What the benchmarks of the server share: its process, questions with known answers, clients."""

import contextlib
import http.client
import itertools
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

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
RIGHT, WRONG, LEFT, REFUSED, CUT_OFF = "right", "wrong", "left", "refused", "cut off"
ANSWERS = {"translate": "text", "classify": "label"}  # what a kind of model calls its answer


class Question(NamedTuple):
    """A text for a model on the server, and the answer that is right.

    Attributes:
        model: Name on the server.
        text: What it is asked.
        field: What the server calls the answer.
        answer: That of the model in memory.
    """

    model: str
    text: str
    field: str
    answer: str


def texts_of_mixed_lengths(number, shortest=3, longest=16):
    """Returns texts of so many words."""
    lengths = range(shortest, longest + 1)
    return [
        " ".join(
            itertools.islice(
                itertools.cycle(WORDS[start % len(WORDS) :] + WORDS), lengths[start % len(lengths)]
            )
        )
        for start in range(number)
    ]


def questions_of(tasks, number=200):
    """Returns questions to several models, in turns.

    Args:
        tasks: Dictionary of names on the server to the same models in memory: translators, and
            classifiers of texts, whose texts have up to 60 words.
        number: Questions to each.
    """
    found = []
    for name, task in tasks.items():
        texts = texts_of_mixed_lengths(number, longest=60 if task.task_method == "classify" else 16)
        answers = getattr(task, task.task_method)(texts)
        field = ANSWERS[task.task_method]
        pairs = zip(texts, answers, strict=True)
        found.append([Question(name, text, field, answer) for text, answer in pairs])
    return [question for together in zip(*found, strict=True) for question in together]


# --------------------------------------------------------------------------------------- the server


class Server(NamedTuple):
    """A server: its process, and the port it listens at."""

    process: subprocess.Popen
    port: int

    def get(self, path):
        """Returns status and text of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()

    def megabytes(self):
        """Returns the resident memory of the process, on Linux."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextlib.contextmanager
def serving(*arguments):
    """Gives the block a `Server` that is ready: `python -m zoo serve` with arguments."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "zoo", "serve", *map(str, arguments), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    server = Server(process, port)
    try:
        while not _is_ready(server):
            if process.poll() is not None:
                raise RuntimeError(f"The server did not start: {' '.join(command)}")
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(60)


def _is_ready(server):
    try:
        return server.get("/v2/health/ready")[0] == 200
    except OSError:
        return False


# -------------------------------------------------------------------------------------- the clients


class Outcome(NamedTuple):
    """What became of a request.

    Attributes:
        start: When it was sent, by `time.perf_counter`.
        seconds: How long it took.
        result: `"right"`, `"wrong"`, `"left"` by the client, `"refused"` before an answer began,
            `"cut off"` within one, or the status.
    """

    start: float
    seconds: float
    result: str


def load(server, questions, clients, requests=sys.maxsize, seconds=60.0, leaves=0, stop=None):
    """Lets clients ask at a time, each of which waits for an answer before the next question.

    A client ends when it cannot connect.

    Args:
        server: A `Server`.
        questions: List of `Question`.
        clients: How many.
        requests: Requests at most.
        seconds: Time at most.
        leaves: Of so many requests, clients hang up after one; 0 for none.
        stop: A `threading.Event` that ends it.

    Returns:
        List of `Outcome`, and the seconds in all.
    """
    places, taking = iter(range(requests)), threading.Lock()
    stop = stop or threading.Event()
    start = time.perf_counter()

    def client(_):
        connection, outcomes = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300), []
        while time.perf_counter() < start + seconds and not stop.is_set():
            with taking:
                place = next(places, None)
            if place is None:
                break
            if connection.sock is None:
                try:
                    connection.connect()
                except OSError:  # nobody listens any more
                    break
            began = time.perf_counter()
            is_left = leaves and place % leaves == 0
            result = _ask(connection, questions[place % len(questions)], is_left)
            outcomes.append(Outcome(began, time.perf_counter() - began, result))
        connection.close()
        return outcomes

    with ThreadPoolExecutor(clients) as pool:
        outcomes = [each for found in pool.map(client, range(clients)) for each in found]
    return outcomes, time.perf_counter() - start


def _ask(connection, question, is_left):
    """Returns the result of a request."""
    content = json.dumps({"instances": [question.text]})
    try:
        connection.request("POST", f"/v1/models/{question.model}:predict", content)
        if is_left:
            connection.close()
            return LEFT
        response = connection.getresponse()
    except (OSError, http.client.HTTPException):
        connection.close()
        return REFUSED
    try:
        content = response.read()
    except (OSError, http.client.HTTPException):
        connection.close()
        return CUT_OFF
    if response.status != 200:
        return f"status {response.status}"
    answer = json.loads(content)["predictions"][0][question.field]
    return RIGHT if answer == question.answer else WRONG
