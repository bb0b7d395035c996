"""OpenAI's protocol of transcriptions over a real socket."""

import numpy as np
import pytest

import zoo
from tests.serving.client import serving
from zoo.readers.wav import write_wav
from zoo.server import LoadedModel
from zoo.tasks.subtitles import subtitles

RATE = 16000
WAVE = np.random.default_rng(0).uniform(-0.5, 0.5, size=2 * RATE).astype("float32")
SOUND = write_wav(WAVE, RATE)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    """A model of many languages that writes timestamps."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.checkpoints import tiny, tiny_sounds

    folder = tmp_path_factory.mktemp("whisper")
    pieces = tiny.tokenizer("WhisperTokenizer", timestamps=101)
    first, last = map(pieces.convert_tokens_to_ids, ("<|startoftranscript|>", "<|notimestamps|>"))
    suppressed = [*range(first, last)]
    tiny_sounds.save_whisper(
        folder, timestamps=101, suppress_tokens=suppressed, max_initial_timestamp_index=50
    )
    return zoo.load(str(folder))


@pytest.fixture(scope="module")
def digits():
    tokenizer = zoo.ByteBPETokenizer([])
    sizes = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32, "channels": 4}
    parts = {"tokenizer": tokenizer, "reader": zoo.SoundReader()}
    return zoo.load("conformer_ctc", weights=None, **parts, **sizes)


@pytest.fixture(scope="module")
def client(digits, named):
    with serving([LoadedModel("digits", digits), named("luong_nmt")]) as found:
        yield found


@pytest.fixture(scope="module")
def other(whisper):
    with serving([LoadedModel("whisper", whisper)]) as found:
        yield found


def ask(client, kind="transcriptions", file=SOUND, **fields):
    """Sends a form, without the fields that are `None`."""
    parts = [b'name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n' + file]
    fields = {"model": "digits", **fields}
    parts += [f'name="{x}"\r\n\r\n{y}'.encode() for x, y in fields.items() if y is not None]
    body = b"".join(
        b"--limit\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts
    )
    headers = {"Content-Type": "multipart/form-data; boundary=limit"}
    return client(f"/v1/audio/{kind}", body + b"--limit--\r\n", **headers)


def test_a_text_is_that_of_transcribe(client, digits):
    expected = digits.transcribe(SOUND)
    assert ask(client)[:2] == (200, {"text": expected})
    assert ask(client, response_format="text")[1] == expected
    usual = {"temperature": "0", "stream": "false", "prompt": "", "response_format": "json"}
    assert ask(client, **usual)[1] == {"text": expected}


@pytest.mark.full
def test_texts_of_a_language(other, whisper):
    english = {"model": "whisper", "language": "en"}
    expected = whisper.transcribe(SOUND, "en", "transcribe")
    assert ask(other, **english)[:2] == (200, {"text": expected})
    german = {**english, "language": "de"}
    expected = whisper.transcribe(SOUND, "de", "translate")
    assert ask(other, "translations", **german)[1] == {"text": expected}
    status, answer, _ = ask(other, **{**english, "language": "xx"})
    assert (status, "Unknown language 'xx'" in answer["error"]["message"]) == (400, True)


@pytest.mark.full
def test_texts_with_times(other, whisper):
    english = {"model": "whisper", "language": "en"}
    result = whisper.transcribe([SOUND], "en", "transcribe", return_timestamps=True)
    (text,), (segments,) = result
    assert len(segments) > 1
    for form in ("srt", "vtt"):
        status, answer, response = ask(other, **english, response_format=form)
        assert (status, answer) == (200, subtitles(segments, f".{form}"))
        assert response.getheader("content-type").startswith("text/plain")
    granular = {"timestamp_granularities[]": "segment", "response_format": "verbose_json"}
    answer = ask(other, **english, **granular)[1]
    parts = answer.pop("segments")
    assert answer == {"task": "transcribe", "language": "en", "duration": 2.0, "text": text}
    assert [(part["start"], part["end"], part["text"]) for part in parts] == segments
    assert [part["id"] for part in parts] == list(range(len(segments)))


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"model": "luong_nmt"}, 404, "'model' must be one of digits."),
        ({"model": None}, 404, "'model' must be one of digits."),
        ({"file": b"no sound"}, 400, "A sound of 8 bytes"),
        ({"response_format": "xml"}, 400, "must be one of json, text, srt, verbose_json, vtt"),
        ({"temperature": "0.7", "speed": "2"}, 400, "not supported: speed, temperature."),
        ({"timestamp_granularities[]": "word"}, 400, "not supported: timestamp_granularities[]."),
        ({"language": "en"}, 400, "digits returns the text alone"),
        ({"response_format": "srt"}, 400, "digits returns the text alone"),
        ({"kind": "translations"}, 400, "digits returns the text alone"),
    ],
)
def test_what_cannot_be_answered_is_told(client, fields, status, message):
    found, answer, _ = ask(client, **fields)
    assert (found, answer["error"]["type"]) == (status, "invalid_request_error")
    assert message in answer["error"]["message"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"model": "digits"}', "application/json"),
        (b"", "multipart/form-data; boundary=limit"),
        (b"--limit\r\nContent", "multipart/form-data; boundary=limit"),
        (b"\xff" * 99, "multipart/form-data"),
        (b"--limit\r\n\xff: \xff\r\n\r\na\r\n--limit--", "multipart/form-data; boundary=limit"),
        (b"file=a&model=digits", "application/x-www-form-urlencoded"),
        (b"RIFF", "audio/wav"),
    ],
)
def test_bodies_that_are_no_form(client, body, kind):
    status, answer, _ = client("/v1/audio/transcriptions", body, **{"Content-Type": kind})
    assert (400 <= status < 500, answer["error"]["type"]) == (True, "invalid_request_error")
    if not kind.startswith("multipart"):
        told = f"The body must be multipart form data. Received: {kind}."
        assert answer["error"]["message"] == told


def test_a_server_without_such_a_model(named):
    with serving([named("luong_nmt")]) as deaf:
        assert "no model that turns speech into text" in ask(deaf)[1]["error"]["message"]
