"""OpenAI's protocol of transcriptions, for models that turn speech into text.

https://platform.openai.com/docs/api-reference/audio
"""

from typing import Any, NamedTuple

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse

from zoo.readers.wav import read_wav
from zoo.server.bodies import model_of
from zoo.server.errors import Refused
from zoo.tasks.subtitles import subtitles

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
TIMED = FORMATS[2:]
KNOWN = ("file", "language", "model", "response_format")
# Options that only have their default here, which some clients send.
FIXED = {
    "prompt": ("",),
    "stream": ("false", "False"),
    "temperature": ("0", "0.0"),
    "timestamp_granularities[]": ("segment",),
}
MOST_FIELDS = 16


class Wanted(NamedTuple):
    """A request of a client for the text of a sound."""

    model: Any
    sound: bytes
    task: str
    language: str | None
    form: str


async def request_of(request, body, models, task):
    """Reads a request.

    Args:
        request: The `starlette.requests.Request`, for its headers.
        body: `bytes`, the form.
        models: Dictionary of names to models.
        task: `"transcribe"`, or `"translate"` into English.

    Returns:
        A `Wanted`.

    Raises:
        Refused: If something is missing, unknown or out of range.
    """
    fields = await _fields_of(request, body)
    unknown = {name for name, value in fields if value not in FIXED.get(name, (value,))}
    unknown |= {name for name, _ in fields} - {*KNOWN, *FIXED}
    if unknown:
        raise Refused(400, f"These options are not supported: {', '.join(sorted(unknown))}.")
    content = dict(fields)
    model = model_of(content, models, _transcribes, "model that turns speech into text")
    form, language = content.get("response_format", "json"), content.get("language")
    if form not in FORMATS:
        raise Refused(400, f"'response_format' must be one of {', '.join(FORMATS)}.")
    hears_one_language = not hasattr(model.task, "languages")
    if hears_one_language and (task == "translate" or language is not None or form in TIMED):
        raise Refused(400, f"{model.name} returns the text alone, of one language.")
    sound = content.get("file")
    if not isinstance(sound, bytes):
        raise Refused(400, "'file' must be a WAV file, sent with its file name.")
    return Wanted(model, sound, task, language, form)


def answer_of(wanted):
    """Returns the `starlette.responses.Response` to a request.

    Raises:
        Refused: If the sound cannot be read, or the model does not know the language or the task.
    """
    model, is_timed = wanted.model.task, wanted.form in TIMED
    options = {}
    if hasattr(model, "languages"):
        task = wanted.task if model.tasks or wanted.task == "translate" else None
        options = {"language": wanted.language, "task": task, "return_timestamps": is_timed}
    try:
        found = model.transcribe([wanted.sound], **options)
    except ValueError as error:
        raise Refused(400, str(error)) from error
    if not is_timed:
        (text,) = found
        return JSONResponse({"text": text}) if wanted.form == "json" else PlainTextResponse(text)
    (text,), (segments,) = found
    if wanted.form != "verbose_json":
        return PlainTextResponse(subtitles(segments, f".{wanted.form}"))
    wave, rate = read_wav(wanted.sound)
    return JSONResponse(
        {
            "task": wanted.task,
            "language": wanted.language or model.language,
            "duration": round(len(wave) / int(rate), 3),
            "text": text,
            "segments": [
                {"id": number, **segment._asdict()} for number, segment in enumerate(segments)
            ],
        }
    )


async def _fields_of(request, body):
    """Returns the fields of a form, pairs of a name and a text, or the `bytes` of a file."""
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        raise Refused(400, f"The body must be multipart form data. Received: {kind or 'no type'}.")

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    whole = Request(request.scope, receive)
    try:
        async with whole.form(max_files=1, max_fields=MOST_FIELDS) as form:
            return [
                (name, await value.read() if isinstance(value, UploadFile) else value)
                for name, value in form.multi_items()
            ]
    except HTTPException as error:
        raise Refused(400, f"The body must be multipart form data. {error.detail}") from error


def _transcribes(model):
    return hasattr(model.task, "transcribe")
