"""OpenAI's protocol of chat completions, for language models with a chat template.

https://platform.openai.com/docs/api-reference/chat
"""

from zoo.server import completions
from zoo.server.bodies import is_unicode, object_of
from zoo.server.errors import Refused

MOST_MESSAGES = 256
WRONG_MESSAGE = "A message must have a 'role' and a 'content', both strings."
WRONG_PARTS = "A 'content' may be a list of parts of text only: {'type': 'text', 'text': '...'}."


def request_of(body, models, limits):
    """Reads the body of a request; arguments and result as for `completions.request_of`."""
    content = object_of(body)
    messages = _messages(content.pop("messages", None), limits)
    if content.pop("prompt", None) is not None:
        raise Refused(400, "'prompt' is for /v1/completions.")
    if content.pop("logprobs", None):
        raise Refused(400, "'logprobs' are for /v1/completions.")
    longest = content.pop("max_completion_tokens", None), content.get("max_tokens")
    content["max_tokens"] = next((x for x in longest if x is not None), limits.new_tokens)
    wanted = completions.completion_of(content, models, limits)
    task = wanted.model.task
    try:
        ids = task.conversation_ids(messages)
    except ValueError as error:
        raise Refused(400, str(error)) from error
    left = task.core.context_length + 1 - len(ids)  # nothing reads the last token of an answer
    return wanted._replace(prompts=[messages], max_tokens=min(wanted.max_tokens, left))


def answer_of(wanted):
    """Returns the JSON of an answer, as a Python object."""
    role = {"role": "assistant"}
    return _of_chat(completions.answer_of(wanted), "chat.completion", "message", role)


def events_of(wanted):
    """Yields the server-sent events of a stream."""
    role = {"role": "assistant"}  # told once: clients append each part to those before
    for chunk in completions.chunks_of(wanted):
        yield completions.event_of(_of_chat(chunk, "chat.completion.chunk", "delta", role))
        role = {}
    yield completions.LAST_EVENT


def _of_chat(answer, kind, name, role):
    """Returns a completion, or a chunk of one, as the protocol of chats has it."""
    choices = []
    for choice in answer["choices"]:
        text = choice.pop("text")
        choices.append({**choice, name: {**role, "content": text}})
    identity = answer["id"].replace("cmpl", "chatcmpl")
    return {**answer, "id": identity, "object": kind, "choices": choices}


def _messages(messages, limits):
    """Returns the messages of a request, each with its content as one text.

    Raises:
        Refused: If they are not messages of text, or one is too long.
    """
    if not isinstance(messages, list) or not 1 <= len(messages) <= MOST_MESSAGES:
        raise Refused(400, f"'messages' must be a list of 1 to {MOST_MESSAGES} messages.")
    if not all(isinstance(message, dict) for message in messages):
        raise Refused(400, WRONG_MESSAGE)
    messages = [{**each, "content": _text_of(each.get("content"))} for each in messages]
    for message in messages:
        texts = message.get("role"), message["content"]
        if not all(isinstance(each, str) and is_unicode(each) for each in texts):
            raise Refused(400, WRONG_MESSAGE)
        limits.require_text(message["content"].encode())
    return messages


def _text_of(content):
    """Returns a content with its parts of text, if it is a list of them, joined as lines."""
    if not isinstance(content, list):
        return content
    is_text = (isinstance(part, dict) and part.get("type") == "text" for part in content)
    texts = [part.get("text") for part in content] if all(is_text) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise Refused(400, WRONG_PARTS)
    return "\n".join(texts)
