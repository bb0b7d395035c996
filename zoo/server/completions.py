"""OpenAI's protocol of completions, for language models.

https://platform.openai.com/docs/api-reference/completions
"""

import codecs
import itertools
import json
import time
import uuid
from typing import Any, NamedTuple

import tensorflow as tf

from zoo.readers.text import stopping
from zoo.readers.text.chat import is_conversation
from zoo.server.batches import LARGEST
from zoo.server.bodies import model_of, object_of, require_seed, texts_of
from zoo.server.errors import Refused

TYPES = {
    "max_tokens": (int, 16),
    "temperature": ((int, float), 1.0),
    "top_p": ((int, float), 1.0),
    "seed": (int, 0),
    "stream": (bool, False),
    "n": (int, 1),
}
NAMES = {int: "an integer", (int, float): "a number", bool: "true or false"}
OTHERS = ("model", "prompt", "stop", "user", "logprobs", "top_k", "stream_options")
# Options that only have their default here, which some clients send.
FIXED = {
    "best_of": 1,
    "echo": False,
    "frequency_penalty": 0,
    "logit_bias": {},
    "presence_penalty": 0,
}
MOST_STOPS = 16  # each is looked for after every token
MOST_LIKELY = 5  # tokens of which log-probabilities are told, as in OpenAI's API
TOP_K = (5, 10, 20, 50, 100)  # each is compiled, so there are few
LAST_EVENT = "data: [DONE]\n\n"
LEAST_LOG_PROB = -9999.0  # JSON has no infinity


class Completion(NamedTuple):
    """A completion request of a client."""

    model: Any
    prompts: list  # texts, or one conversation
    stops: list
    max_tokens: int
    sampler: Any
    seed: int
    stream: bool
    logprobs: int | None
    number: int = 1  # of answers to each prompt
    tells_usage: bool = False


def request_of(body, models, limits):
    """Reads the body of a request.

    Args:
        body: `bytes`.
        models, limits: As for `completion_of`.
    """
    return completion_of(object_of(body), models, limits)


def completion_of(content, models, limits):
    """Returns what a client asks for.

    Args:
        content: Dictionary, the content of the body.
        models: Dictionary of names to models.
        limits: A `Limits`, of texts and of `max_tokens`.

    Returns:
        A `Completion`.

    Raises:
        Refused: If something is missing, unknown or out of range.
    """
    _require_supported(content)
    model = model_of(content, models, lambda each: hasattr(each.task, "stream"), "language model")
    values = _values_of(content, limits)
    prompts = texts_of(content, "prompt", LARGEST, limits)
    stops = texts_of(content, "stop", MOST_STOPS, limits)
    if not all(stops):
        raise Refused(400, "'stop' must not be empty.")
    prompts = prompts or [""]
    _require_number(values["n"], len(prompts))
    is_one = len(prompts) == values["n"] == 1
    if values["stream"] and not is_one:
        raise Refused(400, "Only one answer to one prompt can be streamed at a time.")
    logprobs = _logprobs(content, is_one)
    top_k = _top_k(content)
    try:
        sampler = _sampler(model.task, values["temperature"], values["top_p"], top_k)
    except (ValueError, OverflowError) as error:
        raise Refused(400, str(error)) from error
    return Completion(
        model,
        prompts,
        stops,
        values["max_tokens"],
        sampler,
        values["seed"],
        values["stream"],
        logprobs,
        values["n"],
        _tells_usage(content, values["stream"]),
    )


def answer_of(wanted):
    """Returns the JSON of an answer, as a Python object."""
    task = wanted.model.task
    if wanted.logprobs is None:
        prompts = [prompt for prompt in wanted.prompts for _ in range(wanted.number)]
        found = task.continuations(
            prompts, wanted.max_tokens, wanted.sampler, wanted.seed, wanted.stops
        )
        choices = [
            _choice(number, each.text, "stop" if each.is_ended else "length")
            for number, each in enumerate(found)
        ]
        written = sum(each.num_tokens for each in found)
    else:
        texts, parts, (*_, reason) = zip(*_pieces(wanted), strict=True)
        tokens = list(itertools.chain(*parts))
        choices = [_choice(0, "".join(texts), reason, _logprobs_of(tokens))]
        written = _number_written(tokens)
    return {**_head(wanted), "choices": choices, "usage": _usage(wanted, written)}


def _pieces(wanted):
    """Yields text as soon as no stop string can remove it, with its tokens.

    Yields:
        `(text, tokens, finish reason)`: the tokens, pairs of a `WrittenToken` and of where it
        begins in the whole text, the end token included; the reason is `None` until the last one.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text, num_sent, waiting = "", 0, []
    tokens = wanted.model.task.stream_tokens(
        wanted.prompts[0], wanted.max_tokens, wanted.sampler, wanted.seed, wanted.logprobs or 0
    )
    for number, token in enumerate(tokens, 1):
        waiting.append((token, len(text)))
        is_last = number == wanted.max_tokens
        text += decoder.decode(token.content, final=token.is_end or is_last)
        text, is_stopped = stopping.cut(text, wanted.stops)
        reason = "length" if is_last else None
        reason = "stop" if is_stopped or token.is_end else reason
        ready = text if reason else stopping.certain(text, wanted.stops)
        told = [each for each in waiting if each[0].is_end or each[1] < len(ready)]
        if told or reason or len(ready) > num_sent:
            yield ready[num_sent:], told, reason
        if reason:
            return
        num_sent, waiting = len(ready), waiting[len(told) :]


def _logprobs_of(tokens):
    """Returns what the protocol tells of tokens, as `_pieces` yields them."""
    chosen = [max(token.log_prob, LEAST_LOG_PROB) for token, _ in tokens]
    return {
        "tokens": [token.text for token, _ in tokens],
        "token_logprobs": chosen,
        "top_logprobs": [
            {**token.likely, token.text: log_prob}
            for (token, _), log_prob in zip(tokens, chosen, strict=True)
        ],
        "text_offset": [offset for _, offset in tokens],
    }


def events_of(wanted):
    """Yields the server-sent events of a stream."""
    yield from map(event_of, chunks_of(wanted))
    yield LAST_EVENT


def chunks_of(wanted):
    """Yields the JSON of the parts of a streamed answer, as Python objects."""
    head, written = _head(wanted), 0
    no_usage = {"usage": None} if wanted.tells_usage else {}
    for text, tokens, reason in _pieces(wanted):
        written += _number_written(tokens)
        logprobs = None if wanted.logprobs is None else _logprobs_of(tokens)
        if text or reason or logprobs:
            yield {**head, "choices": [_choice(0, text, reason, logprobs)], **no_usage}
    if wanted.tells_usage:
        yield {**head, "choices": [], "usage": _usage(wanted, written)}


def _number_written(tokens):
    """Returns the number of tokens, as `_pieces` yields them, without the end token."""
    return sum(not token.is_end for token, _ in tokens)


def _usage(wanted, written):
    task = wanted.model.task
    if is_conversation(wanted.prompts[0]):
        read = len(task.conversation_ids(wanted.prompts[0]))
    else:
        read = int(tf.size(task.tokenizer.tokenize(wanted.prompts).values))
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }


def listing(models, created):
    """Returns the list of all models, with the second since 1970 that they are there from."""
    data = [
        {"id": model.name, "object": "model", "created": created, "owned_by": "zoo"}
        for model in models
    ]
    return {"object": "list", "data": data}


def error_of(status, message):
    """Returns the JSON of an error, as a Python object."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"message": message, "type": kind, "param": None, "code": None}


def _head(wanted):
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": wanted.model.name,
    }


def event_of(content):
    """Returns a server-sent event with JSON."""
    return f"data: {json.dumps(content)}\n\n"


def _choice(number, text, reason, logprobs=None):
    return {"index": number, "text": text, "logprobs": logprobs, "finish_reason": reason}


def _require_supported(content):
    given = {name: value for name, value in content.items() if value is not None}
    unknown = given.keys() - {*TYPES, *OTHERS, *FIXED}
    unknown |= {name for name, default in FIXED.items() if given.get(name, default) != default}
    if unknown:
        raise Refused(400, f"These options are not supported: {', '.join(sorted(unknown))}.")


def _values_of(content, limits):
    """Returns a dictionary of the options in `TYPES`, checked, with their defaults."""
    values = {}
    for name, (kind, default) in TYPES.items():
        value = content.get(name)
        value = default if value is None else value
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise Refused(400, f"{name!r} must be {NAMES[kind]}.")
        values[name] = value
    require_seed(values["seed"])
    if not 1 <= values["max_tokens"] <= limits.new_tokens:
        raise Refused(400, f"'max_tokens' must be from 1 to {limits.new_tokens}.")
    return values


def _require_number(number, prompts):
    if not 1 <= number <= LARGEST // prompts:
        raise Refused(
            400,
            f"'n' must be at least 1, and the number of prompts times 'n' at most {LARGEST}. "
            f"Received: {prompts} prompts, n={number}.",
        )


def _logprobs(content, is_one):
    """Returns the number of likely tokens that a client requests at each position, or `None`."""
    number = content.get("logprobs")
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MOST_LIKELY:
        raise Refused(400, f"'logprobs' must be an integer from 0 to {MOST_LIKELY}.")
    if not is_one:
        raise Refused(400, "'logprobs' are for one answer to one prompt at a time.")
    return number


def _tells_usage(content, stream):
    """Returns whether a client requests the numbers of tokens at the end of a stream."""
    options = content.get("stream_options")
    if options is None:
        return False
    if not stream:
        raise Refused(400, "'stream_options' are for \"stream\": true.")
    if not isinstance(options, dict) or options.keys() - {"include_usage"}:
        raise Refused(400, "'stream_options' must be an object, with 'include_usage' only.")
    tells_usage = options.get("include_usage", False)
    if not isinstance(tells_usage, bool):
        raise Refused(400, "'include_usage' must be true or false.")
    return tells_usage


def _top_k(content):
    number = content.get("top_k")
    if number is not None and (type(number) is not int or number not in TOP_K):
        raise Refused(400, f"'top_k' must be one of {', '.join(map(str, TOP_K))}.")
    return number


def _sampler(task, temperature, top_p, top_k):
    if temperature == 0:
        return task.sampler("greedy")
    if top_p != 1:
        return task.sampler("top_p", p=top_p, k=top_k, temperature=temperature)
    if top_k is not None:
        return task.sampler("top_k", k=top_k, temperature=temperature)
    return task.sampler("random", temperature=temperature)
