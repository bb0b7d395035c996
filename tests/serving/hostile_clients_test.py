"""What clients may do to a server: bodies of any shape, and hanging up."""

import concurrent.futures
import json
import socket
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serving.client import predict, serving
from zoo.server import Limits, LoadedModel

NAMES = ("luong_nmt", "transformer_lm")
PREDICT, COMPLETIONS = "/v1/models/{}:predict", "/v1/completions"
TEXTS = ["a man sleeps", "der hund", "two women ride bikes", ""]
MANY = 20  # examples of each kind of request

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just("\ud800")
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["b64", "text", "seed", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
texts = st.text(max_size=20) | st.builds(dict, b64=st.sampled_from(["YQ==", "?", "/w=="]))
seeds = st.integers(-(2**33), 2**33)
rows = texts | st.fixed_dictionaries({"text": texts}, optional={"seed": seeds, "x": anything})
requests = st.fixed_dictionaries(
    {},
    optional={
        "instances": st.lists(rows, max_size=5) | anything,
        "inputs": anything | st.builds(dict, text=st.lists(texts), seed=st.lists(seeds)),
        "signature_name": st.sampled_from(["serving_default", "explain", "none"]) | scalars,
    },
)
completions = st.fixed_dictionaries(
    {"model": st.sampled_from(NAMES) | scalars},
    optional={
        "prompt": st.text(max_size=20) | anything,
        "max_tokens": st.integers(-1, 3) | scalars,
        "temperature": st.floats() | scalars,
        "top_p": st.floats(-1, 2) | scalars,
        "seed": seeds | scalars,
        "stop": st.text(max_size=3) | anything,
        "stream": st.booleans(),
        "n": st.just(1) | scalars,
        "logprobs": st.integers(-1, 6) | scalars,
        "top_k": st.sampled_from([5, 7]) | anything,
        "user": scalars,
        "echo": scalars,
    },
)
quick = settings(
    max_examples=MANY,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def served(request, model):
    """Both models with `--full`, otherwise only the one that all requests but completions use."""
    names = NAMES if request.config.getoption("--full") else NAMES[:1]
    return [LoadedModel(name, model(name)) for name in names]


@pytest.fixture(scope="module")
def client(served):
    with serving(served, Limits(body_bytes=10_000, new_tokens=3)) as found:
        yield found


def require_no_fault(client, path, body):
    status, answer, _ = client(path, body)
    assert status < 500, (path, body, answer)


@given(request=requests, name=st.sampled_from(NAMES))
@quick
def test_no_request_is_a_fault_of_the_server(client, request, name):
    require_no_fault(client, PREDICT.format(name), json.dumps(request).encode())


@pytest.mark.full
@given(request=completions)
@quick
def test_no_completion_is_a_fault_of_the_server(client, request):
    require_no_fault(client, COMPLETIONS, json.dumps(request).encode())


@given(
    path=st.sampled_from([PREDICT.format(NAMES[0]), COMPLETIONS]),
    body=st.binary(max_size=50) | anything.map(lambda x: json.dumps(x).encode()),
)
@quick
def test_no_body_is_a_fault_of_the_server(client, path, body):
    require_no_fault(client, path, body)


def hang_up(port, name):
    """Sends a request, or half of one, and does not wait for the answer."""
    body = json.dumps({"instances": TEXTS})
    head = f"POST {PREDICT.format(name)} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    for part in (head + body, head + body[:9], head[:20]):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(part.encode())


def test_clients_that_hang_up_disturb_no_other(client, model):
    expected = model("luong_nmt").translate(TEXTS)
    for _ in range(5):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            leaving = [pool.submit(hang_up, client.port, "luong_nmt") for _ in range(4)]
            content = {"instances": TEXTS}
            staying = [pool.submit(predict, client, "luong_nmt", content) for _ in range(4)]
        for each in leaving:
            each.result()
        for each in staying:
            status, answer, _ = each.result()
            assert (status, [row["text"] for row in answer["predictions"]]) == (200, expected)
    deadline = time.time() + 30
    while 'zoo_waiting{model="luong_nmt"} 0.0' not in client("/metrics")[1]:
        assert time.time() < deadline
        time.sleep(0.02)
