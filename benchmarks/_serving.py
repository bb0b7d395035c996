"""Shared by the server benchmarks: the server process, questions with known answers, clients."""

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
ANSWERS = {"translate": "text", "classify": "label"}  # task method -> field of the answer


class Question(NamedTuple):
    """A text for a model on the server, and the right answer.

    Attributes:
        model: Name of the model on the server.
        text: Text to send.
        field: Field of the server's response that holds the answer.
        answer: Answer of the model in memory.
    """

    model: str
    text: str
    field: str
    answer: str


def texts_of_mixed_lengths(number, shortest=3, longest=16):
    """Returns texts with `shortest` to `longest` words."""
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
    """Returns questions to several models, alternating between the models.

    Args:
        tasks: Dictionary from names on the server to the same models in memory: translators, and
            text classifiers, whose texts have up to 60 words.
        number: Number of questions to each model.
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
    """A server: its process, and the port it listens on."""

    process: subprocess.Popen
    port: int

    def get(self, path):
        """Returns the status and text of a response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()

    def megabytes(self):
        """Returns the resident memory of the process (on Linux)."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextlib.contextmanager
def serving(*arguments):
    """Runs `python -m zoo serve` with arguments, and yields a `Server` once it is ready."""
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
    """The outcome of a request.

    Attributes:
        start: When it was sent, by `time.perf_counter`.
        seconds: How long it took.
        result: `"right"`, `"wrong"`, `"left"` if the client hung up, `"refused"` if the connection
            failed before the response began, `"cut off"` if it failed during the response, or
            `"status CODE"` if the HTTP status is not 200.
    """

    start: float
    seconds: float
    result: str


def load(server, questions, clients, requests=sys.maxsize, seconds=60.0, leaves=0, stop=None):
    """Runs clients concurrently; each waits for an answer before it asks the next question.

    A client stops when it cannot connect.

    Args:
        server: A `Server`.
        questions: List of `Question`.
        clients: Number of clients.
        requests: Maximum number of requests.
        seconds: Maximum time.
        leaves: Clients hang up after one in `leaves` requests; 0 for never.
        stop: A `threading.Event` that stops the clients.

    Returns:
        List of `Outcome`, and the total time in seconds.
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
                except OSError:  # the server no longer listens
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
