"""OpenAI's protocol of chat completions over a real socket."""

import concurrent.futures
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zoo
from tests.serving.client import serving
from tests.serving.conftest import TINY_TRANSFORMER
from tests.serving.hostile_clients_test import anything, completions, quick, scalars
from zoo.server import Limits, LoadedModel

ADDRESS = "/v1/chat/completions"
TEMPLATE = (
    "{% for each in messages %}{% if each.role == 'tool' %}{{ raise_exception('No tools.') }}"
    "{% endif %}{{ each.role[0] }}: {{ each.content }}\n{% endfor %}a: "
)
TALK = [{"role": "user", "content": "Hi!"}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}


@pytest.fixture(scope="module")
def task(model):
    options = {"context_length": 64, **TINY_TRANSFORMER}
    tokenizer = model("transformer_lm").tokenizer
    return zoo.load(
        "transformer_lm",
        weights=None,
        tokenizer=tokenizer,
        chat={"template": TEMPLATE},
        **options,
    )


@pytest.fixture(scope="module")
def client(task, named):
    models = [LoadedModel("talker", task), named("transformer_lm")]
    with serving(models, Limits(text_bytes=500, new_tokens=20)) as found:
        yield found


def test_answers_are_those_of_generate(client, task):
    content = {"model": "talker", "messages": TALK, "max_tokens": 9, "seed": 3, "logprobs": False}
    status, answer, _ = client(ADDRESS, content)
    assert status == 200
    expected = task.generate(TALK, 9, "random", temperature=1.0, seed=3)
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": expected}
    assert answer["object"] == "chat.completion"
    assert answer["usage"]["prompt_tokens"] == len("u: Hi!\na: ")
    several = client(ADDRESS, {**content, "n": 2})[1]
    texts = [choice["message"]["content"] for choice in several["choices"]]
    assert texts == task.generate([TALK, TALK], 9, "random", temperature=1.0, seed=3)
    assert several["usage"]["prompt_tokens"] == answer["usage"]["prompt_tokens"]
    longest = {"model": "talker", "messages": TALK, "temperature": 0}
    for sent, number in ((longest, 20), ({**longest, "max_completion_tokens": 7}, 7)):
        answer = client(ADDRESS, sent)[1]
        assert answer["choices"][0]["message"]["content"] == task.generate(TALK, number, "greedy")


def test_an_answer_ends_where_the_context_is_full(client):
    messages = [{"role": "user", "content": "b" * 51}]  # which are 58 tokens
    content = {"model": "talker", "messages": messages, "temperature": 0}
    answer = client(ADDRESS, content)[1]
    assert answer["usage"]["completion_tokens"] == 64 + 1 - 58
    assert answer["choices"][0]["finish_reason"] == "length"
    *events, _ = client(ADDRESS, {**content, "stream": True})[1].strip().split("\n\n")
    last = json.loads(events[-1].removeprefix("data: "))
    assert last["choices"][0]["finish_reason"] == "length"


def test_parts_of_text_are_lines(client):
    parts = [{"type": "text", "text": text} for text in ("Hi!", "You?")]
    talks = [[{"role": "user", "content": content}] for content in (parts, "Hi!\nYou?")]
    asked = {"model": "talker", "max_tokens": 9, "seed": 3}
    answers = [client(ADDRESS, {**asked, "messages": talk})[1] for talk in talks]
    assert answers[0]["choices"] == answers[1]["choices"]
    assert answers[0]["usage"] == answers[1]["usage"]


def test_streamed_events_put_together_are_the_answer(client):
    content = {"model": "talker", "messages": TALK, "max_tokens": 12, "seed": 9}
    (whole,) = client(ADDRESS, content)[1]["choices"]
    asked = {**content, "stream": True, "stream_options": {"include_usage": True}}
    _, text, _ = client(ADDRESS, asked)
    *events, last = [event.removeprefix("data: ") for event in text.strip().split("\n\n")]
    assert last == "[DONE]"
    *parts, of_all = map(json.loads, events)
    assert of_all["usage"]["completion_tokens"] == 12
    assert {each["object"] for each in parts} == {"chat.completion.chunk"}
    choices = [each["choices"][0] for each in parts]
    assert "".join(each["delta"]["content"] for each in choices) == whole["message"]["content"]
    roles = [each["delta"].get("role") for each in choices]
    assert roles == ["assistant", *[None] * (len(choices) - 1)]
    assert choices[-1]["finish_reason"] == whole["finish_reason"] == "length"


def test_others_are_answered_while_a_conversation_is_read(client, task, monkeypatch):
    is_read, go_on, read = threading.Event(), threading.Event(), task.conversation_ids

    def slowly(messages):
        is_read.set()
        assert go_on.wait(9)
        return read(messages)

    monkeypatch.setattr(task, "conversation_ids", slowly)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        content = {"model": "talker", "messages": TALK, "max_tokens": 1}
        running = pool.submit(client, ADDRESS, content)
        assert is_read.wait(9)
        assert client("/v2/health/live")[0] == 200
        assert 'zoo_waiting{model=""} 1.0' in client("/metrics")[1]
        go_on.set()
        assert running.result()[0] == 200


messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool"]) | scalars},
        optional={"content": st.text(max_size=20) | anything, "name": scalars},
    ),
    max_size=4,
)


@pytest.mark.full
@given(options=completions, talk=messages | anything, longest=st.integers(-1, 3) | scalars)
@quick
def test_no_conversation_is_a_fault_of_the_server(client, options, talk, longest):
    content = {**options, "model": "talker", "messages": talk, "max_completion_tokens": longest}
    status, answer, _ = client(ADDRESS, json.dumps(content).encode())
    assert status < 500, (content, answer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"messages": None}, "'messages' must be a list"),
        ({"messages": []}, "'messages' must be a list"),
        ({"messages": ["Hi!"]}, "a 'role' and a 'content'"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "parts of text only"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "parts of text only"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "both strings"),
        ({"messages": [{"role": "tool", "content": "1"}]}, "No tools."),
        ({"messages": [{"role": "user", "content": "b" * 100}]}, "at most 63 tokens"),
        ({"messages": [{"role": "user", "content": "b" * 501}]}, "500"),
        ({"model": "transformer_lm"}, "without a chat template"),
        ({"prompt": "a"}, "'prompt' is for"),
        ({"logprobs": True}, "'logprobs' are for"),
        ({"tools": [{}]}, "not supported: tools"),
        ({"max_tokens": 21}, "from 1 to 20"),
    ],
)
def test_what_is_not_offered(client, options, message):
    status, answer, _ = client(ADDRESS, {"model": "talker", "messages": TALK, **options})
    assert status in (400, 413)
    assert message in answer["error"]["message"]
