"""OpenAI's protocol of transcriptions over a real socket."""

import numpy as np
import pytest

import zoo
from tests.serving.client import serving
from zoo.readers.wav import write_wav
from zoo.server import LoadedModel
from zoo.tasks.subtitles import subtitles

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.checkpoints import tiny  # noqa: E402

RATE = 16000
WAVE = np.random.default_rng(0).uniform(-0.5, 0.5, size=2 * RATE).astype("float32")
SOUND = write_wav(WAVE, RATE)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    """A model that writes timestamps."""
    folder = tmp_path_factory.mktemp("whisper")
    pieces = tiny.tokenizer("WhisperTokenizer", timestamps=101)
    first, last = map(pieces.convert_tokens_to_ids, ("<|startoftranscript|>", "<|notimestamps|>"))
    suppressed = [*range(first, last)]
    tiny.save_whisper(
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
def client(whisper, digits, served):
    models = [LoadedModel("whisper", whisper), LoadedModel("digits", digits), served("luong_nmt")]
    with serving(models) as found:
        yield found


def ask(client, kind="transcriptions", file=SOUND, **fields):
    """Sends a form, without the fields that are `None`."""
    parts = [b'name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n' + file]
    fields = {"model": "whisper", **fields}
    parts += [f'name="{x}"\r\n\r\n{y}'.encode() for x, y in fields.items() if y is not None]
    body = b"".join(
        b"--limit\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts
    )
    headers = {"Content-Type": "multipart/form-data; boundary=limit"}
    return client(f"/v1/audio/{kind}", body + b"--limit--\r\n", **headers)


def test_texts_are_those_of_transcribe(client, whisper, digits):
    expected = whisper.transcribe(SOUND, "en", "transcribe")
    assert ask(client, language="en")[:2] == (200, {"text": expected})
    assert ask(client, language="en", response_format="text")[1] == expected
    expected = whisper.transcribe(SOUND, "de", "translate")
    assert ask(client, "translations", language="de")[1] == {"text": expected}
    found = ask(client, model="digits", temperature="0", stream="false", prompt="")
    assert found[:2] == (200, {"text": digits.transcribe(SOUND)})


def test_texts_with_times(client, whisper):
    result = whisper.transcribe([SOUND], "en", "transcribe", return_timestamps=True)
    (text,), (segments,) = result
    assert len(segments) > 1
    for form in ("srt", "vtt"):
        status, answer, response = ask(client, language="en", response_format=form)
        assert (status, answer) == (200, subtitles(segments, f".{form}"))
        assert response.getheader("content-type").startswith("text/plain")
    granular = {"timestamp_granularities[]": "segment", "response_format": "verbose_json"}
    answer = ask(client, language="en", **granular)[1]
    parts = answer.pop("segments")
    assert answer == {"task": "transcribe", "language": "en", "duration": 2.0, "text": text}
    assert [(part["start"], part["end"], part["text"]) for part in parts] == segments
    assert [part["id"] for part in parts] == list(range(len(segments)))


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"model": "luong_nmt"}, 404, "'model' must be one of whisper, digits."),
        ({"model": None}, 404, "'model' must be one of whisper, digits."),
        ({"file": b"no sound"}, 400, "A sound of 8 bytes"),
        ({"language": "xx"}, 400, "Unknown language 'xx'"),
        ({"response_format": "xml"}, 400, "must be one of json, text, srt, verbose_json, vtt"),
        ({"temperature": "0.7", "speed": "2"}, 400, "not supported: speed, temperature."),
        ({"timestamp_granularities[]": "word"}, 400, "not supported: timestamp_granularities[]."),
        ({"model": "digits", "language": "en"}, 400, "digits returns the text alone"),
        ({"model": "digits", "response_format": "srt"}, 400, "digits returns the text alone"),
        ({"kind": "translations", "model": "digits"}, 400, "digits returns the text alone"),
    ],
)
def test_what_cannot_be_answered_is_told(client, fields, status, message):
    found, answer, _ = ask(client, **fields)
    assert (found, answer["error"]["type"]) == (status, "invalid_request_error")
    assert message in answer["error"]["message"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"),
        (b"", "multipart/form-data; boundary=limit"),
        (b"--limit\r\nContent", "multipart/form-data; boundary=limit"),
        (b"\xff" * 99, "multipart/form-data"),
        (b"--limit\r\n\xff: \xff\r\n\r\na\r\n--limit--", "multipart/form-data; boundary=limit"),
        (b"file=a&model=whisper", "application/x-www-form-urlencoded"),
    ],
)
def test_bodies_that_are_no_form(client, body, kind):
    status, answer, _ = client("/v1/audio/transcriptions", body, **{"Content-Type": kind})
    assert (400 <= status < 500, answer["error"]["type"]) == (True, "invalid_request_error")


def test_a_server_without_such_a_model(served):
    with serving([served("luong_nmt")]) as other:
        assert "no model that turns speech into text" in ask(other)[1]["error"]["message"]
