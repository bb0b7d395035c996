"""The server over a real socket: TF Serving's and OpenAI's protocols, limits, new versions."""

import base64
import concurrent.futures
import functools
import http.client
import json
import math
import random
import re
import socket
import struct
import threading
import time
import types
import zlib

import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.serving.client import Client, predict, serving
from tests.zoo.pictures import IMAGES
from zoo.readers.images import image_bytes
from zoo.server import ExportedModel, Limits, LoadedModel, make_app
from zoo.server import models as server_models
from zoo.serving import Endpoint, write_version

TEXTS = ["a man sleeps", "der hund", "two women ride bikes", "", "a dog"]


@pytest.fixture(scope="module")
def served(model):
    """Loads a tiny model as a server does."""
    return functools.cache(lambda name: LoadedModel(name, model(name)))


@pytest.fixture(scope="module")
def client(served):
    models = [served("luong_nmt"), served("transformer_lm")]
    with serving(models, Limits(body_bytes=10_000, text_bytes=2_000)) as found:
        yield found


def test_instances_and_inputs_are_answered_as_in_python(client, model):
    expected = model("luong_nmt").translate(TEXTS)
    status, by_rows, _ = predict(client, "luong_nmt", {"instances": TEXTS})
    assert status == 200
    assert [row["text"] for row in by_rows["predictions"]] == expected
    assert set(by_rows["predictions"][0]) == {"text", "token_ids", "log_prob"}
    named = {"instances": [{"text": text} for text in TEXTS]}
    assert predict(client, "luong_nmt/versions/1", named)[1] == by_rows
    _, by_name, _ = predict(client, "luong_nmt", {"inputs": {"text": TEXTS}})
    assert by_name["outputs"]["text"] == expected
    assert predict(client, "luong_nmt", {"inputs": TEXTS})[1] == by_name
    encoded = [{"b64": base64.b64encode(text.encode()).decode()} for text in TEXTS]
    assert predict(client, "luong_nmt", {"instances": encoded})[1] == by_rows


def test_signatures_are_chosen_and_told(client):
    content = {"signature_name": "explain", "instances": TEXTS[:2]}
    _, answer, _ = predict(client, "luong_nmt", content)
    assert {"attention", "source_tokens"} < answer["predictions"][0].keys()
    status, told, _ = client("/v1/models/luong_nmt/metadata")
    assert status == 200
    signatures = told["metadata"]["signature_def"]["signature_def"]
    assert signatures.keys() == {"serving_default", "explain", "serving_jit"}
    shape = {"dim": [{"size": "-1"}], "unknown_rank": False}
    text = {"dtype": "DT_STRING", "tensor_shape": shape, "name": "text"}
    assert signatures["serving_default"]["inputs"] == {"text": text}
    status, told, _ = client("/v1/models/luong_nmt")
    assert told["model_version_status"][0]["state"] == "AVAILABLE"


def test_concurrent_requests_get_their_own_answers(client, model):
    texts = [f"{word} {number}" for number in range(20) for word in ("man", "dog")]
    expected = dict(zip(texts, model("luong_nmt").translate(texts), strict=True))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = pool.map(lambda text: predict(client, "luong_nmt", {"instances": [text]}), texts)
        found = {
            text: each[1]["predictions"][0]["text"]
            for text, each in zip(texts, answers, strict=True)
        }
    assert found == expected


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"{", 400, "not JSON"),
        (b"[" * 5000, 400, "not JSON|JSON object"),
        (b"[]", 400, "JSON object"),
        ({}, 400, "either 'instances'"),
        ({"instances": []}, 400, "not empty"),
        ({"instances": "a"}, 400, "list"),
        ({"instances": ["a"] * 33}, 400, "1 to 32 rows"),
        ({"instances": [1.5]}, 400, "string belongs stands float"),
        ({"instances": [["a"]]}, 400, "must be string of the shape"),
        ({"instances": [["a"], "b"]}, 400, "must be string of the shape"),
        ({"instances": [{"words": "a"}]}, 400, "takes text. Received: words"),
        ({"instances": ["a", {"words": "a"}]}, 400, "same inputs"),
        ({"instances": [{"b64": "?"}]}, 400, "not base64"),
        (b'{"instances": ["\\ud800"]}', 400, "not Unicode"),
        ({"inputs": {"text": "a"}}, 400, "must be string of the shape"),
        ({"instances": ["a"], "signature_name": "x"}, 404, "no signature 'x'"),
        ({"instances": ["a"], "signature_name": ["x"]}, 404, r"no signature \['x'\]"),
        ({"instances": ["a"], "signature_name": {}}, 404, "no signature {}"),
        (b'{"instances": %s"a"%s}' % (b"[" * 60, b"]" * 60), 400, "must be string of the shape"),
        (b'{"instances": %s"a"%s}' % (b"[" * 900, b"]" * 900), 400, "too deep"),
        ({"instances": ["a", "\u00e4" * 1_001]}, 400, "at most 2000 bytes. Received: 2002"),
        ({"instances": ["a" * 20_000]}, 413, "at most 10000 bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_wrong_is_told(client, content, status, message):
    found, answer, _ = predict(client, "luong_nmt", content)
    assert found == status
    assert re.search(message, answer["error"])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"text": ["a"]}, "takes text, seed"),
        ({"text": ["a"], "seed": [1.5]}, "seed must be int32"),
        ({"text": ["a"], "seed": [2**40]}, "seed must be int32"),
        ({"text": ["a"], "seed": [True, 1]}, "as many rows"),
    ],
)
def test_numbers_are_checked(client, inputs, message):
    status, answer, _ = predict(client, "transformer_lm", {"inputs": inputs})
    assert status == 400
    assert message in answer["error"]


def test_unknown_models_and_versions(client):
    for path in ("/v1/models/x", "/v1/models/x/metadata", "/v1/models/luong_nmt/versions/2"):
        status, answer, _ = client(path)
        assert status == 404
        assert "error" in answer


def test_hostile_requests_never_end_in_a_fault_of_the_server(client):
    draws = random.Random(0)
    whole = json.dumps({"signature_name": "explain", "instances": ["a man", {"text": "b"}]})
    for _ in range(150):
        body = bytearray(whole.encode())
        for _ in range(draws.randint(1, 5)):
            body[draws.randrange(len(body))] = draws.randrange(256)
        body = bytes(body[: draws.randint(0, len(body))] if draws.random() < 0.3 else body)
        status, _, _ = predict(client, "luong_nmt", body)
        assert status in (200, 400, 404), body


# ---------------------------------------------------------------------------- language models


def test_completions_are_those_of_generate(client, model):
    task = model("transformer_lm")
    content = {"model": "transformer_lm", "prompt": ["a", "b"], "max_tokens": 9, "seed": 3}
    status, answer, _ = client("/v1/completions", content)
    assert status == 200
    expected = task.generate(["a", "b"], 9, "random", temperature=1.0, seed=3)
    assert [choice["text"] for choice in answer["choices"]] == expected
    assert answer["usage"]["prompt_tokens"] == 2
    greedy = {**content, "prompt": "a", "temperature": 0, "stop": "e"}
    defaults = {"n": 1, "best_of": 1, "echo": False, "presence_penalty": 0.0, "suffix": None}
    for sent in (greedy, {**greedy, **defaults}):
        (choice,) = client("/v1/completions", sent)[1]["choices"]
        assert choice["text"] == task.generate("a", 9, "greedy", stop="e")


def text_of(tokens):
    """Returns the text of tokens that are spelled as in OpenAI's protocol."""
    parts = [
        bytes.fromhex(token[6:].replace("\\x", ""))
        if token.startswith("bytes:")
        else token.encode()
        for token in tokens
    ]
    return b"".join(parts).decode("utf-8", "replace")


def test_log_probs_are_those_of_the_model(client, model):
    task = model("transformer_lm")
    content = {"model": "transformer_lm", "prompt": "a man", "max_tokens": 9, "temperature": 0}
    whole = client("/v1/completions", content)[1]["choices"][0]
    (choice,) = client("/v1/completions", {**content, "logprobs": 3})[1]["choices"]
    told = choice.pop("logprobs")
    assert whole == {**choice, "logprobs": None}
    assert text_of(told["tokens"]) == choice["text"]
    assert told["text_offset"] == list(range(9))  # an invalid byte is a character of its own
    expected = list(task.stream_tokens("a man", 9, "greedy", top=3))
    assert told["token_logprobs"] == [each.log_prob for each in expected]
    assert told["top_logprobs"] == [each.likely for each in expected]

    short = {**content, "temperature": 1.5, "top_k": 20, "seed": 2}
    stop = client("/v1/completions", short)[1]["choices"][0]["text"][4]
    short |= {"logprobs": 0, "stop": stop}
    (choice,) = client("/v1/completions", short)[1]["choices"]
    told, options = choice["logprobs"], {"k": 20, "temperature": 1.5, "seed": 2}
    assert choice["text"] == task.generate("a man", 9, "top_k", stop=stop, **options)
    assert choice["finish_reason"] == "stop"
    assert text_of(told["tokens"]) == choice["text"]
    chosen = zip(told["tokens"], told["token_logprobs"], strict=True)
    assert told["top_logprobs"] == [{token: log_prob} for token, log_prob in chosen]


@pytest.mark.parametrize("options", [{}, {"logprobs": 2}], ids=["texts", "log-probabilities"])
def test_streamed_events_put_together_are_the_completion(client, options):
    content = {"model": "transformer_lm", "prompt": "a", "max_tokens": 12, "top_p": 0.9, "seed": 9}
    content |= options
    free = client("/v1/completions", content)[1]["choices"][0]["text"]
    # One stop string occurs; another only begins to, and its text is held back for a while.
    for stops in [[], [free[7:9], free[4] + "nowhere"]]:
        whole = client("/v1/completions", {**content, "stop": stops})[1]["choices"][0]
        asked = {**content, "stop": stops, "stream": True}
        status, text, response = client("/v1/completions", asked)
        assert status == 200
        assert response.getheader("content-type").startswith("text/event-stream")
        *events, last = [event.removeprefix("data: ") for event in text.strip().split("\n\n")]
        assert last == "[DONE]"
        choices = [json.loads(event)["choices"][0] for event in events]
        assert len(choices) > 2
        assert "".join(choice["text"] for choice in choices) == whole["text"]
        assert {choice["finish_reason"] for choice in choices[:-1]} == {None}
        assert choices[-1]["finish_reason"] == whole["finish_reason"]
        if options:
            told = [choice["logprobs"] for choice in choices]
            joined = {name: [x for each in told for x in each[name]] for name in whole["logprobs"]}
            assert joined == whole["logprobs"]


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"model": "luong_nmt"}, 404),
        ({"model": None}, 404),
        ({"model": []}, 404),
        ({"temperature": -1}, 400),
        ({"temperature": "hot"}, 400),
        ({"temperature": 10**400}, 400),
        ({"top_p": 1.5}, 400),
        ({"top_p": math.nan}, 400),
        ({"prompt": "\ud800"}, 400),
        ({"stop": "\ud800"}, 400),
        ({"prompt": ["a"] * 33}, 400),
        ({"max_tokens": 10**9}, 400),
        ({"max_tokens": True}, 400),
        ({"prompt": 7}, 400),
        ({"prompt": ["a", "b" * 2001]}, 400),
        ({"stop": ""}, 400),
        ({"seed": 2**70}, 400),
        ({"logit_bias": {}}, 400),
        ({"n": 2}, 400),
        ({"best_of": 2}, 400),
        ({"echo": True}, 400),
        ({"logprobs": 6}, 400),
        ({"logprobs": True}, 400),
        ({"logprobs": 1, "prompt": ["a", "b"]}, 400),
        ({"top_k": 7}, 400),
    ],
)
def test_completions_that_are_not_offered(client, options, status):
    content = {"model": "transformer_lm", "prompt": "a", **options}
    found, answer, _ = client("/v1/completions", content)
    assert found == status
    assert answer["error"]


def test_a_client_that_hangs_up_stops_the_stream(model):
    asked = []

    class Slow:
        """Records the pieces that are requested."""

        tokenizer, sampler = model("transformer_lm").tokenizer, model("transformer_lm").sampler

        @staticmethod
        def stream(*arguments):
            for number in range(1000):
                asked.append(number)
                time.sleep(0.01)
                yield "x"

    with serving([types.SimpleNamespace(name="lm", task=Slow, refresh=list)]) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port)
        content = {"model": "lm", "prompt": "a", "stream": True, "max_tokens": 1000}
        connection.request("POST", "/v1/completions", json.dumps(content))
        connection.getresponse().read(400)
        connection.close()
        time.sleep(0.5)
        seen = len(asked)
        time.sleep(0.3)
        assert len(asked) == seen < 500


# ------------------------------------------------------------------------------------ the page


def test_the_page_gets_answers_and_views(client, model):
    content = {"text": "a man. two women", "sampler": {"name": "beam", "num_beams": 4}}
    status, answer, _ = client("/page/luong_nmt", content)
    assert status == 200
    options = {"num_beams": 4, "return_attention": True}  # the page's options: compiled once
    assert [answer["text"]] == model("luong_nmt").translate(
        [content["text"]], "beam", **options
    ).texts
    (view,) = answer["views"]
    assert (view["name"], view["layers"], view["heads"]) == ("alignment", 1, 1)
    status, answer, _ = client("/page/luong_nmt", {"text": ""})
    assert (status, answer) == (200, {"text": "", "views": []})


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({}, 400),
        ({"text": "\ud800"}, 400),
        ({"text": "a" * 5001}, 400),
        ({"text": "a", "seed": True}, 400),
        ({"text": "a", "sampler": "beam"}, 400),
        ({"text": "a", "sampler": {"name": "beam"}}, 400),
        ({"text": "a", "sampler": {"name": "beam", "num_beams": 99}}, 400),
        ({"text": "a", "sampler": {"name": "greedy", "k": 5}}, 400),
        ({"text": "a", "sampler": {"name": "random", "temperature": "hot"}}, 400),
        ({"text": "a", "sampler": {"name": "random", "temperature": -1}}, 400),
    ],
)
def test_what_the_page_cannot_ask_is_refused(client, content, status):
    found, answer, _ = client("/page/luong_nmt", content)
    assert found == status
    assert answer["error"]


# ------------------------------------------------------------------------ operating the server


def test_health_metrics_and_models(client):
    assert client("/v2/health/live")[0] == client("/v2/health/ready")[0] == 200
    predict(client, "luong_nmt", {"instances": TEXTS})
    _, text, _ = client("/metrics")
    assert 'zoo_requests_total{model="luong_nmt",status="200"}' in text
    assert 'zoo_rows_bucket{le="8.0",model="luong_nmt"}' in text
    assert 'zoo_batch_rows_bucket{le="8.0",model="luong_nmt"}' in text
    _, listed, _ = client("/v1/models")
    assert {each["id"] for each in listed["data"]} == {"luong_nmt", "transformer_lm"}


class Waiting:
    """A model whose signature waits to answer until it is told to."""

    name, version, task = "waiting", 1, None

    def __init__(self, signature):
        self.go_on = threading.Event()
        self.inputs, self.outputs, self._signature = signature.inputs, signature.outputs, signature
        self.signatures = {"serving_default": self}

    def __call__(self, tensors, observe):
        assert self.go_on.wait(30)
        return self._signature(tensors, observe)

    def refresh(self):
        pass


@pytest.fixture
def waiting(served):
    return Waiting(served("luong_nmt").signatures["serving_default"])


def test_a_full_server_says_when_to_try_again_and_finishes_what_runs(waiting):
    client = Client(make_app([waiting], Limits(waiting=2)))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        content = {"instances": ["a"]}
        running = [pool.submit(predict, client, "waiting", content) for _ in range(2)]
        while 'zoo_waiting{model="waiting"} 2.0' not in client("/metrics")[1]:
            time.sleep(0.01)
        status, answer, response = predict(client, "waiting", content)
        assert (status, response.getheader("retry-after")) == (503, "1")
        assert client("/v2/health/live")[0] == 200
        client.server.should_exit = True  # as SIGTERM does
        time.sleep(0.2)
        waiting.go_on.set()
        assert [each.result()[0] for each in running] == [200, 200]
    client.stop()
    assert not client.thread.is_alive()


def test_a_body_that_does_not_arrive_is_given_up(waiting):
    head = b"POST /v1/models/waiting:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n"
    with (
        serving([waiting], Limits(seconds=0.1)) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection,
    ):
        connection.sendall(head + b"{")
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert response.status == 408
        assert "did not arrive within 0.1 seconds" in response.read().decode()


def test_an_answer_that_takes_too_long_is_given_up(waiting):
    content = {"instances": ["a"]}
    with serving([waiting], Limits(seconds=0.1, waiting=1)) as client:
        assert predict(client, "waiting", content)[0] == 504
        # Its thread is still running, and counts.
        assert predict(client, "waiting", content)[0] == 503
        waiting.go_on.set()
        deadline = time.time() + 60
        status = None
        while status != 200 and time.time() < deadline:
            time.sleep(0.01)
            status, *_ = predict(client, "waiting", content)
        assert status == 200


@pytest.mark.parametrize(
    ("path", "content", "status", "message"),
    [
        (
            "/v1/models/luong_nmt:predict",
            None,
            405,
            "luong_nmt:predict does not take GET: use POST",
        ),
        ("/v1/models/luong_nmt:classify", {}, 404, "asked by :predict, not by :classify"),
        ("/v1/models/luong_nmt/versions/1:regress", {}, 404, "by :predict, not by :regress"),
        ("/v1/models/luong_nmt", {}, 405, "/v1/models/luong_nmt does not take POST: use GET"),
        ("/v1/completions", None, 405, "does not take GET: use POST"),
        ("/v3", None, 404, "There is nothing at /v3"),
    ],
)
def test_other_addresses_and_methods_are_told_in_json(client, path, content, status, message):
    found, answer, response = client(path, content)
    assert (found, response.getheader("allow") is not None) == (status, status == 405)
    assert message in answer["error"]


def test_a_server_without_language_models_says_so(served):
    with serving([served("luong_nmt")]) as client:
        status, answer, _ = client("/v1/completions", {"model": "luong_nmt", "prompt": "a"})
    assert status == 404
    assert answer["error"] == "This server has no language model. Ask its models by :predict."


def test_a_token_is_asked_for(served):
    with serving([served("luong_nmt")], token="ß secret") as client:
        assert client("/v1/models/luong_nmt")[0] == 401
        assert client("/v1/models/luong_nmt", Authorization="Bearer other")[0] == 401
        token = "Bearer ß secret".encode().decode("latin-1")
        assert client("/v1/models/luong_nmt", Authorization=token)[0] == 200
        assert client("/v2/health/live")[0] == 200


def test_names_must_differ(served):
    with pytest.raises(ValueError, match="names of their own. Received: luong_nmt, luong_nmt"):
        make_app([served("luong_nmt")] * 2)


def export_times(folder, factor):
    """Writes a version of a model that multiplies numbers by a factor."""
    inputs = [tf.TensorSpec([None], tf.float32, name="x")]
    endpoint = Endpoint(lambda x: {"y": factor * x}, inputs)
    return write_version(folder, [], {"serving_default": endpoint})


def test_a_new_version_is_taken_over_while_requests_run(tmp_path):
    folder, answers, stop = tmp_path / "times", [], threading.Event()
    export_times(folder, 2.0)
    exported = ExportedModel("times", folder)
    with serving([exported], Limits(refresh_seconds=0.05)) as client:

        def ask():
            while not stop.is_set():
                answers.append(predict(client, "times", {"instances": [1.0, 2.5]})[:2])

        asking = threading.Thread(target=ask)
        asking.start()
        export_times(folder, 3.0)
        deadline = time.time() + 60
        while exported.version == 1 and time.time() < deadline:
            time.sleep(0.05)
        stop.set()
        asking.join()
        assert client("/v1/models/times/versions/2")[0] == 200
        assert predict(client, "times", {"inputs": [1.0]})[1] == {"outputs": [3.0]}
    assert {status for status, _ in answers} == {200}
    assert [2.0, 5.0] in [answer["predictions"] for _, answer in answers]


def test_a_broken_version_leaves_the_old_one_and_is_told_once(tmp_path, capfd):
    folder, told = tmp_path / "times", "times: a new version could not be loaded"
    export_times(folder, 2.0)
    exported, output = ExportedModel("times", folder), ""
    with serving([exported], Limits(refresh_seconds=0.02)) as client:
        broken = folder / "7" / "saved_model.pb"
        broken.parent.mkdir()
        for number, content in enumerate([b"none", b"another"], start=1):
            broken.write_bytes(content)
            deadline = time.time() + 60
            while output.count(told) < number and time.time() < deadline:
                time.sleep(0.02)
                output += capfd.readouterr().out
            time.sleep(0.2)
            output += capfd.readouterr().out
            assert output.count(told) == number
        assert predict(client, "times", {"inputs": [1.0]})[1] == {"outputs": [2.0]}


def of_many_pixels(side):
    """Returns a small PNG file whose header claims a square of this size."""
    encoded = image_bytes(np.zeros((8, 8), "uint8"))
    head = b"IHDR" + struct.pack(">II", side, side) + encoded[24:29]
    return encoded[:12] + head + struct.pack(">I", zlib.crc32(head)) + encoded[33:]


class Foreign(tf.Module):
    """Functions whose inputs and outputs this package does not write."""

    def signatures(self):
        row, scalar = tf.TensorSpec([None], name="x"), tf.TensorSpec([], name="t")
        flags, anything = tf.TensorSpec([None], tf.bool, "x"), tf.TensorSpec(None, name="x")
        functions = {
            "total": (lambda x: {"y": tf.reduce_sum(x)}, [row]),
            "scaled": (lambda x, t: {"y": x * t}, [row, scalar]),
            "not": (lambda x: {"y": tf.logical_not(x)}, [flags]),
            "same": (lambda x: {"y": x + 0.0}, [anything]),
            "none": (lambda: {"y": tf.constant([1.0])}, []),
        }
        return {
            name: tf.function(function, signature)
            for name, (function, signature) in functions.items()
        }


def test_signatures_that_other_programs_wrote(tmp_path):
    module = Foreign()
    tf.saved_model.save(module, str(tmp_path / "own" / "0001"), module.signatures())
    own = ExportedModel("own", tmp_path / "own")
    with serving([own]) as client:

        def ask(signature, **content):
            status, answer, _ = predict(client, "own", {"signature_name": signature, **content})
            return status, answer.get("outputs", answer.get("predictions"))

        status, told, _ = client("/v1/models/own/metadata")
        same = told["metadata"]["signature_def"]["signature_def"]["same"]["inputs"]["x"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            totals = list(pool.map(lambda n: ask("total", inputs=[n, 1]), range(16)))
        assert ask("total", instances=[1, 2]) == (400, None)
        assert ask("scaled", inputs={"x": [1, 2], "t": 3}) == (400, None)
        assert ask("not", instances=[True, False]) == (200, [False, True])
        assert ask("not", instances=[1, 0]) == (400, None)
        assert ask("same", instances=[1, 2]) == (200, [1.0, 2.0])
        assert ask("same", inputs=3) == (400, None)
        assert ask("none", inputs={}) == (400, None)
    assert own.version == 1
    assert (status, same["tensor_shape"]) == (200, {"dim": [], "unknown_rank": True})
    assert totals == [(200, number + 1.0) for number in range(16)]


def test_images_come_as_base64(model, served):
    with serving([served("show_attend_tell")], Limits(picture_pixels=10_000)) as client:
        content = [{"b64": base64.b64encode(image_bytes(each)).decode()} for each in IMAGES[:2]]
        content.append({"b64": ""})
        _, answer, _ = predict(client, "show_attend_tell", {"instances": content})
        for encoded in (image_bytes(np.zeros((101, 100), "uint8")), of_many_pixels(60_000)):
            large = base64.b64encode(encoded).decode()
            for status, told, _ in (
                predict(client, "show_attend_tell", {"instances": [{"b64": large}]}),
                client("/page/show_attend_tell", {"picture": large}),
            ):
                assert (status, "at most 10000 pixels" in told["error"]) == (400, True)
    texts = [row["text"] for row in answer["predictions"]]
    assert texts == [*model("show_attend_tell").caption(IMAGES[:2]), ""]


def test_classifiers_are_served():
    options = {"patch_size": 8, "num_layers": 1, "size": 8, "num_heads": 2, "hidden": 8}
    reader, labels = zoo.ImageReader(size=16), ["cat", "dog"]
    task = zoo.load("vit", weights=None, reader=reader, labels=labels, **options)
    with serving([LoadedModel("vit", task)]) as client:
        content = [{"b64": base64.b64encode(image_bytes(each)).decode()} for each in IMAGES[:2]]
        _, answer, _ = predict(client, "vit", {"instances": content})
        status, page, _ = client("/")
    assert [row["label"] for row in answer["predictions"]] == task.classify(list(IMAGES[:2]))
    assert status == 200
    assert '"models": []' in page


def test_a_folder_without_versions_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no exported version"):
        ExportedModel("x", tmp_path)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("vit_mnist", "vit_mnist"),
        ("hf://user/bert-base@v1.0", "bert-base"),
        ("https://a.org/b/toy.zip#sha256=00", "toy"),
    ],
)
def test_names_of_models_have_a_place_in_addresses(monkeypatch, asked, name):
    task = types.SimpleNamespace(endpoints=dict)
    monkeypatch.setattr(server_models.loading, "load", lambda _: task)
    monkeypatch.setattr(server_models, "LoadedModel", lambda name, *_: name)
    assert server_models.model_of(asked) == name
