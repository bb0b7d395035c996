"""`python -m zoo serve` as a process, by short runs of the server benchmarks."""

import socket
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from benchmarks import serving_soak
from benchmarks._serving import (
    LEFT,
    REFUSED,
    RIGHT,
    WRONG,
    Question,
    load,
    serving,
    texts_of_mixed_lengths,
)
from benchmarks.serving_trials import MODEL, end, failures, hang_ups, new_version
from zoo.server import bind
from zoo.serving import Endpoint, write_version

CLIENTS, SECONDS = 8, 0.5


def upper(text):
    """Returns texts in capitals, after some work."""
    table = tf.random.stateless_uniform([500, 500], [1, 2])
    work = tf.reduce_sum(table @ table @ table) * tf.ones(tf.shape(text))
    return {"text": tf.strings.upper(text), "work": work}


def test_a_process_under_load(tmp_path):
    """A fifth of the clients hang up, a new version arrives, and then SIGTERM."""
    folder = tmp_path / MODEL
    inputs = [tf.TensorSpec([None], tf.string, name="text")]
    write_version(folder, [], {"serving_default": Endpoint(upper, inputs)})
    questions = [Question(MODEL, text, "text", text.upper()) for text in texts_of_mixed_lengths(20)]
    with serving(folder) as server:
        changed = [questions[0]._replace(answer="another"), questions[0]._replace(model="none")]
        outcomes, _ = load(server, changed, 1, requests=2)
        assert [each.result for each in outcomes] == [WRONG, "status 404"]
        found, waiting = hang_ups(server, questions, CLIENTS, SECONDS)
        assert (failures(found, LEFT), waiting) == (0, 0)
        assert min(found[LEFT], found[RIGHT]) > 0
        minutes, megabytes, found = serving_soak.measure(server, questions, SECONDS, 0.05)
        assert failures(found, LEFT) == 0
        assert len(minutes) == len(megabytes) >= 5
        found, version = new_version(server, questions, CLIENTS, SECONDS, folder)
        assert (failures(found), version) == (0, 2)
        before, after, status = end(server, questions, CLIENTS, SECONDS)
        assert (failures(before), failures(after, REFUSED), status) == (0, 0, 0)
        assert before[RIGHT] > 0
    serving_soak.plot(tmp_path / "soak.png", minutes, megabytes, warm_up=minutes[1])
    assert (tmp_path / "soak.png").stat().st_size > 1000


ENDLESS = """
import socket, time, types
from zoo.server import run

class Signature:
    inputs = ()
    outputs = property(lambda self: time.sleep(60))

model = types.SimpleNamespace(name="endless", version=1, task=None, refresh=list)
model.signatures = {"serving_default": Signature()}
run.__globals__["SECONDS_TO_FINISH"] = 1
bound = socket.create_server(("127.0.0.1", 0))
print(bound.getsockname()[1], flush=True)
run([model], bound)
"""


@pytest.mark.full
def test_a_computation_that_nobody_awaits_does_not_keep_the_process():
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-c", ENDLESS], **options) as process:
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET /v1/models/endless/metadata HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(1)
            process.terminate()
            assert process.wait(20) == 0


def test_an_address_is_held_while_models_are_loaded():
    with bind(port=0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(ValueError, match=f"Cannot listen on port {port} of 127.0.0.1"):
            bind(port=port)


def test_growth_counts_after_the_warm_up():
    assert serving_soak.growth(range(10), [100, 200, *[210] * 7, 220], 1.0) == pytest.approx(10.0)
