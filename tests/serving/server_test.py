"""The server over a real socket: TF Serving's protocol, the page, limits, tokens."""

import base64
import concurrent.futures
import gzip
import http.client
import json
import random
import re
import socket
import threading
import time
import types

import pytest

from tests.serving.client import Client, predict, serving
from zoo.server import Limits, make_app

TEXTS = ["a man sleeps", "der hund", "two women ride bikes", "", "a dog"]


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


def test_the_server_answers_while_signatures_are_traced():
    tracing, go_on = threading.Event(), threading.Event()

    class Signature:
        inputs = ()

        @property
        def outputs(self):
            tracing.set()
            assert go_on.wait(10)
            return {}

    traced = types.SimpleNamespace(name="traced", version=1, task=None, refresh=list)
    traced.signatures = {"serving_default": Signature()}
    with serving([traced]) as client, concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(client, "/v1/models/traced/metadata")
        assert tracing.wait(10)
        assert client("/v2/health/live")[0] == 200
        assert not asked.done()
        go_on.set()
        assert asked.result()[0] == 200


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
        ({"instances": [1.5]}, 400, "Expected a string. Received: float"),
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
        ({"text": ["a"], "seed": [True, 1]}, "the same number of rows"),
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


def test_a_compressed_body_is_refused_by_its_name(client):
    body = gzip.compress(json.dumps({"instances": ["a man"]}).encode())
    status, answer, _ = predict(client, "luong_nmt", body, **{"Content-Encoding": "gzip"})
    assert (status, answer["error"]) == (
        415,
        "Send the body as it is, without Content-Encoding: gzip.",
    )


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
    assert all(0 <= time.time() - each["created"] < 3600 for each in listed["data"])


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


HEAD = b"POST /v1/models/waiting:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n"


def connected(client):
    return socket.create_connection(("127.0.0.1", client.port), timeout=30)


def answer_on(connection):
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, response.read().decode()


@pytest.mark.parametrize("beginning", [HEAD + b"{", HEAD[:20], b""])
def test_a_request_that_does_not_arrive_is_given_up(waiting, beginning):
    with serving([waiting], Limits(seconds=0.1)) as client, connected(client) as connection:
        connection.sendall(beginning)
        status, told = answer_on(connection)
    assert status == 408
    assert "did not arrive within 0.1 seconds" in told


@pytest.mark.parametrize("beginning", [b"GET /?", b"GET / HTTP/1.1\r\nHost: x\r\nCookie: "])
def test_a_long_head_is_refused_before_it_ends(waiting, beginning):
    with serving([waiting], Limits(head_bytes=1000)) as client, connected(client) as connection:
        connection.sendall(beginning + 900 * b"a")
        time.sleep(0.1)  # so that it arrives in two pieces
        connection.sendall(900 * b"a")
        status, told = answer_on(connection)
        assert status == 431
        assert "at most 1000 bytes" in told
        assert client("/v2/health/live")[0] == 200


@pytest.mark.parametrize("rest", [b"\r\n", HEAD[:20]])
def test_a_next_request_that_does_not_arrive_is_given_up(waiting, rest):
    with serving([waiting], Limits(seconds=0.3)) as client, connected(client) as connection:
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer_on(connection)[0] == 200
        connection.sendall(rest)
        assert answer_on(connection)[0] == 408


def test_the_rest_of_a_refused_body_is_no_head(waiting):
    limits = Limits(body_bytes=100, head_bytes=1000)
    with serving([waiting], limits) as client, connected(client) as connection:
        connection.sendall(HEAD.replace(b" 20", b" 5000") + 1000 * b"a")
        assert answer_on(connection)[0] == 413
        connection.sendall(2000 * b"a")
        time.sleep(0.1)
        connection.sendall(2000 * b"a" + b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer_on(connection)[0] == 200


def test_bodies_that_arrive_count_as_requests_in_progress(waiting):
    with serving([waiting], Limits(waiting=1)) as client:
        with connected(client) as connection:
            connection.sendall(HEAD + b"{")
            time.sleep(0.1)
            assert predict(client, "waiting", {"instances": ["a"]})[0] == 503
        waiting.go_on.set()
        deadline, status = time.time() + 30, 503
        while status == 503 and time.time() < deadline:
            status, *_ = predict(client, "waiting", {"instances": ["a"]})
        assert status == 200


def test_a_client_that_hangs_up_is_no_fault_of_the_server(waiting, capfd):
    with serving([waiting]) as client:
        with connected(client) as connection:
            connection.sendall(HEAD + b"{")
        deadline, counted = time.time() + 30, ""
        while 'model="waiting",status=' not in counted and time.time() < deadline:
            counted = client("/metrics")[1]
    assert 'zoo_requests_total{model="waiting",status="400"} 1.0' in counted
    assert capfd.readouterr().err == ""


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
        ("/v1/models/luong_nmt:classify", {}, 404, "to :predict, not to :classify"),
        ("/v1/models/luong_nmt:classify", None, 404, "to :predict, not to :classify"),
        ("/v1/models/luong_nmt/versions/1:regress", {}, 404, "to :predict, not to :regress"),
        ("/v1/models/luong_nmt/versions/1:regress", None, 404, "to :predict, not to :regress"),
        ("/v1/models/luong_nmt", {}, 405, "/v1/models/luong_nmt does not take POST: use GET"),
        ("/v3", None, 404, "There is nothing at /v3"),
    ],
)
def test_other_addresses_and_methods_are_told_in_json(client, path, content, status, message):
    found, answer, response = client(path, content)
    assert (found, response.getheader("allow") is not None) == (status, status == 405)
    assert message in answer["error"]


@pytest.mark.parametrize(
    ("path", "content", "status", "message"),
    [
        ("/v1/embeddings", None, 405, "/v1/embeddings does not take GET: use POST."),
        ("/v1/models", {}, 405, "/v1/models does not take POST: use GET."),
        ("/v1/responses", {}, 404, "There is nothing at /v1/responses."),
        ("/v1/completions", {"\ud800": 1}, 400, "These options are not supported: ?."),
    ],
)
def test_refusals_at_openais_addresses_have_its_form(client, path, content, status, message):
    found, answer, _ = client(path, content)
    told = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    assert (found, answer) == (status, {"error": told})


def test_a_token_is_asked_for(served):
    with serving([served("luong_nmt")], token="ß secret") as client:
        status, _, response = client("/v1/models/luong_nmt")
        assert (status, response.getheader("www-authenticate")) == (401, "Bearer")
        assert client("/v1/models/luong_nmt", Authorization="Bearer other")[0] == 401
        token = "ß secret".encode().decode("latin-1")
        for scheme, expected in (("Basic", 401), ("Bearer", 200), ("bearer", 200)):
            sent = f"{scheme} {token}"
            assert client("/v1/models/luong_nmt", Authorization=sent)[0] == expected
        assert client("/v2/health/live")[0] == 200


def test_names_must_differ(served):
    with pytest.raises(ValueError, match="names of their own. Received: luong_nmt, luong_nmt"):
        make_app([served("luong_nmt")] * 2)
