"""OpenAI's protocol of completions over a real socket."""

import asyncio
import http.client
import itertools
import json
import math
import time
import types

import pytest

import zoo
from tests.serving.client import serving
from zoo.server import Limits, completions, make_app
from zoo.tasks.written_tokens import WrittenToken


@pytest.fixture(scope="module")
def client(named):
    models = [named("luong_nmt"), named("transformer_lm")]
    with serving(models, Limits(body_bytes=10_000, text_bytes=2_000)) as found:
        yield found


def test_completions_are_those_of_generate(client, model):
    task = model("transformer_lm")
    content = {"model": "transformer_lm", "prompt": ["a", "b"], "max_tokens": 9, "seed": 3}
    status, answer, _ = client("/v1/completions", content)
    assert status == 200
    expected = task.generate(["a", "b"], 9, "random", temperature=1.0, seed=3)
    assert [choice["text"] for choice in answer["choices"]] == expected
    assert answer["usage"]["prompt_tokens"] == 2
    several = client("/v1/completions", {**content, "n": 2})[1]
    expected = task.generate(["a", "a", "b", "b"], 9, "random", temperature=1.0, seed=3)
    assert [choice["text"] for choice in several["choices"]] == expected
    assert several["usage"]["prompt_tokens"] == 2
    greedy = {**content, "prompt": "a", "temperature": 0, "stop": "e"}
    defaults = {"n": 1, "best_of": 1, "echo": False, "presence_penalty": 0.0, "suffix": None}
    defaults["logit_bias"] = {}
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


@pytest.mark.few(1)
@pytest.mark.parametrize("options", [{}, {"logprobs": 2}], ids=["texts", "log-probabilities"])
def test_streamed_events_put_together_are_the_completion(client, options):
    content = {"model": "transformer_lm", "prompt": "a", "max_tokens": 12, "top_p": 0.9, "seed": 9}
    content |= options
    free = client("/v1/completions", content)[1]["choices"][0]["text"]
    # One stop string occurs; another only begins to, and its text is held back for a while.
    for stops in [[], [free[7:9], free[4] + "nowhere"]]:
        answer = client("/v1/completions", {**content, "stop": stops})[1]
        (whole,) = answer["choices"]
        asked = {**content, "stop": stops, "stream": True}
        asked["stream_options"] = {"include_usage": True}
        status, text, response = client("/v1/completions", asked)
        assert status == 200
        assert response.getheader("content-type").startswith("text/event-stream")
        assert response.getheader("x-accel-buffering") == "no"
        *events, last = [event.removeprefix("data: ") for event in text.strip().split("\n\n")]
        assert last == "[DONE]"
        *parts, of_all = map(json.loads, events)
        assert of_all["choices"] == []
        assert of_all["usage"] == answer["usage"]
        assert {each["usage"] for each in parts} == {None}
        choices = [each["choices"][0] for each in parts]
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
        ({"stop": ["a"] * 17}, 400),
        ({"stop": "b" * 2001}, 400),
        ({"logit_bias": {"5": 1}}, 400),
        ({"n": 0}, 400),
        ({"n": 17, "prompt": ["a", "b"]}, 400),
        ({"n": 2, "stream": True}, 400),
        ({"n": 2, "logprobs": 1}, 400),
        ({"best_of": 2}, 400),
        ({"echo": True}, 400),
        ({"logprobs": 6}, 400),
        ({"logprobs": True}, 400),
        ({"logprobs": 1, "prompt": ["a", "b"]}, 400),
        ({"top_k": 7}, 400),
        ({"stream_options": {"include_usage": True}}, 400),
        ({"stream": True, "stream_options": True}, 400),
        ({"stream": True, "stream_options": {"include_usage": 1}}, 400),
    ],
)
def test_completions_that_are_not_offered(client, options, status):
    content = {"model": "transformer_lm", "prompt": "a", **options}
    found, answer, _ = client("/v1/completions", content)
    assert found == status
    assert answer["error"]["message"]


def test_tokens_are_those_that_were_generated():
    """The text is a single token for the tokenizer, but was generated letter by letter."""
    tokenizer = zoo.ByteBPETokenizer.train(["aaaa"] * 9, vocabulary_size=261, prefix_space=False)
    ((_,), (letter,)) = tokenizer.tokenize(["aaaa", "a"]).to_list()
    options = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32, "context_length": 32}
    task = zoo.load("transformer_lm", weights=None, tokenizer=tokenizer, **options)
    others = [[each] for each in range(tokenizer.vocabulary_size) if each != letter]
    task.default_sampler = task.sampler("greedy", bad_words=others)

    def wanted(**options):
        content = {"model": "lm", "prompt": "", "max_tokens": 4, "temperature": 0, **options}
        models = {"lm": types.SimpleNamespace(name="lm", task=task)}
        return completions.request_of(json.dumps(content).encode(), models, Limits())

    for options in ({}, {"logprobs": 0}):
        told = []
        for stop in ("b", "aaa"):
            answer = completions.answer_of(wanted(**options, stop=stop))
            (choice,) = answer["choices"]
            number = answer["usage"]["completion_tokens"]
            told.append((choice["text"], choice["finish_reason"], number))
            *_, event, _ = completions.events_of(wanted(**options, stop=stop, stream=True))
            (last,) = json.loads(event.removeprefix("data: "))["choices"]
            assert last["finish_reason"] == choice["finish_reason"]
        assert told == [("aaaa", "length", 4), ("", "stop", 0)]


def test_half_a_character_before_the_end_is_told():
    tokens = [
        WrittenToken("bytes:\\xc3", b"\xc3", False, -1.0, {}),
        WrittenToken("<end>", b"", True, -1.0, {}),
    ]
    task = types.SimpleNamespace(stream_tokens=lambda *_: iter(tokens))
    served = types.SimpleNamespace(name="lm", task=task)
    wanted = completions.Completion(served, [""], [], 9, None, 0, True, None)
    *events, _ = completions.events_of(wanted)
    choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    assert "".join(choice["text"] for choice in choices) == "\ufffd"
    assert choices[-1]["finish_reason"] == "stop"


def writer_of(model, pieces):
    """Returns a language model that generates given pieces of text."""

    class Writer:
        tokenizer, sampler, stream = model.tokenizer, model.sampler, None

        @staticmethod
        def stream_tokens(*arguments):
            for piece in pieces:
                yield WrittenToken(piece, piece.encode(), False, 0.0, {})

    return types.SimpleNamespace(name="lm", task=Writer, refresh=list)


def test_a_client_that_reads_nothing_gives_up_its_place(model):
    """More is sent than what the buffers of sockets hold."""
    lm = writer_of(model("transformer_lm"), itertools.repeat("x" * 1_000_000, 1000))
    with serving([lm], Limits(seconds=0.2)) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port)
        content = {"model": "lm", "prompt": "a", "stream": True, "max_tokens": 1000}
        connection.request("POST", "/v1/completions", json.dumps(content))
        deadline = time.time() + 30
        while 'zoo_waiting{model="lm"} 0.0' not in client("/metrics")[1]:
            assert time.time() < deadline
            time.sleep(0.02)
        connection.close()


def test_streams_that_begin_together_are_both_answered(model):
    """Each of them finds the room for one: none is refused when its status was sent already."""
    app = make_app([writer_of(model("transformer_lm"), ["x"])], Limits(waiting=1))
    content = {"model": "lm", "prompt": "a", "stream": True, "max_tokens": 1}
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": []}

    async def ask(at_status):
        received, sent = iter([json.dumps(content).encode()]), []

        async def receive():
            body = next(received, None)
            if body is None:
                await asyncio.Event().wait()  # the client stays
            return {"type": "http.request", "body": body}

        async def send(message):
            if message["type"] == "http.response.start":
                await at_status()
            sent.append(message.get("body", b""))

        await app({**scope}, receive, send)
        return b"".join(sent)

    async def ask_twice():
        both, others = asyncio.Event(), []

        async def begin_another():
            others.append(asyncio.create_task(ask(go_on)))
            await both.wait()

        async def go_on():
            both.set()

        async with asyncio.timeout(60):
            return await ask(begin_another), await others[0]

    for answer in asyncio.run(ask_twice()):
        assert answer.endswith(b"data: [DONE]\n\n")


def test_a_client_that_hangs_up_stops_the_stream(model):
    asked = []

    def slow():
        for number in range(1000):
            asked.append(number)
            time.sleep(0.01)
            yield "x"

    with serving([writer_of(model("transformer_lm"), slow())]) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port)
        content = {"model": "lm", "prompt": "a", "stream": True, "max_tokens": 1000}
        connection.request("POST", "/v1/completions", json.dumps(content))
        connection.getresponse().read(400)
        connection.close()
        time.sleep(0.5)
        seen = len(asked)
        time.sleep(0.3)
        assert len(asked) == seen < 500


def test_a_server_without_language_models_says_so(named):
    with serving([named("luong_nmt")]) as client:
        status, answer, _ = client("/v1/completions", {"model": "luong_nmt", "prompt": "a"})
    assert status == 404
    message = "This server has no language model. Send requests to :predict."
    kind = "invalid_request_error"
    assert answer["error"] == {"message": message, "type": kind, "param": None, "code": None}
