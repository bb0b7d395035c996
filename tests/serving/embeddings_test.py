"""OpenAI's protocol of embeddings over a real socket."""

import base64
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zoo
from tests.serving.client import serving
from zoo.server import Limits, LoadedModel

TEXTS = ["a man sleeps", "", "zwei Frauen fahren Rad", "a man sleeps"]
SIZES = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32, "max_length": 16}


@pytest.fixture(scope="module")
def embedder():
    tokenizer = zoo.ByteBPETokenizer.train(TEXTS, vocabulary_size=300)
    return zoo.load("text_encoder_embedding", weights=None, tokenizer=tokenizer, **SIZES)


@pytest.fixture(scope="module")
def client(embedder, named):
    models = [LoadedModel("embedder", embedder), named("luong_nmt")]
    with serving(models, Limits(text_bytes=50)) as found:
        yield found


def ask(client, **content):
    return client("/v1/embeddings", {"model": "embedder", "input": TEXTS, **content})


def test_vectors_are_those_of_embed(client, embedder):
    status, answer, _ = ask(client)
    assert (status, answer["object"], answer["model"]) == (200, "list", "embedder")
    assert [each["index"] for each in answer["data"]] == [0, 1, 2, 3]
    assert {each["object"] for each in answer["data"]} == {"embedding"}
    found = [each["embedding"] for each in answer["data"]]
    np.testing.assert_allclose(found, embedder.embed(TEXTS), atol=1e-6)
    number = sum(map(len, embedder.tokenizer.tokenize(TEXTS).to_list()))
    assert answer["usage"] == {"prompt_tokens": number, "total_tokens": number}

    asked = {"encoding_format": "base64", "dimensions": 16, "user": "me"}
    for each, row in zip(ask(client, **asked)[1]["data"], found, strict=True):
        numbers = np.frombuffer(base64.b64decode(each["embedding"]), "<f4")
        np.testing.assert_allclose(numbers, row, atol=1e-6)
    (one,) = ask(client, input=TEXTS[2], encoding_format=None)[1]["data"]
    np.testing.assert_allclose(one["embedding"], found[2], atol=1e-6)


def test_more_texts_than_a_batch_holds(client, embedder):
    texts = [f"a man sleeps {number}" for number in range(70)]
    data = ask(client, input=texts)[1]["data"]
    found = [each["embedding"] for each in data]
    np.testing.assert_allclose(found, embedder.embed(texts), atol=1e-5)
    assert [each["index"] for each in data] == list(range(70))


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ({"model": "luong_nmt"}, 404, "'model' must be one of embedder."),
        ({"model": None}, 404, "'model' must be one of embedder."),
        ({"input": []}, 400, "at least one string"),
        ({"input": None}, 400, "at least one string"),
        ({"input": [[15, 496]]}, 400, "'input' must be a string or a list of strings"),
        ({"input": ["a"] * 2049}, 400, "at most 2048 strings, this one 2049"),
        ({"input": "a" * 51}, 400, "at most 50 bytes"),
        ({"encoding_format": "hex"}, 400, "must be one of float, base64"),
        ({"dimensions": 8}, 400, "must be 16, the size of the vectors of embedder"),
        ({"prompt": "a", "stop": "b"}, 400, "not supported: prompt, stop"),
    ],
)
def test_what_cannot_be_answered_is_told(client, content, status, message):
    found, answer, _ = ask(client, **content)
    assert (found, answer["error"]["type"]) == (status, "invalid_request_error")
    assert message in answer["error"]["message"]


def test_a_server_without_such_a_model(named):
    with serving([named("luong_nmt")]) as other:
        assert "no model that embeds texts" in ask(other)[1]["error"]["message"]


@given(
    st.dictionaries(
        st.sampled_from(["model", "input", "encoding_format", "dimensions", "user"]),
        st.sampled_from(["embedder", "float", "base64", 16, True, -1.5, None, [], ["a"], {}]),
    )
)
@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_is_a_fault_of_the_server(client, content):
    body = json.dumps({"model": "embedder", **content}).encode()
    assert client("/v1/embeddings", body)[0] < 500
