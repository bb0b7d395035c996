"""Whisper checkpoints: the same spectrograms, numbers and texts as transformers."""

import json
import pathlib
import shutil

import click.testing
import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints.settings import Settings
from zoo.checkpoints.whisper import _prompt
from zoo.cli import main
from zoo.decoding import Progress, Timestamps
from zoo.readers.text.languages import code_of
from zoo.readers.wav import read_wav, write_wav
from zoo.tasks.timed_texts import Segment, TimedTranscription, segments_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_sounds  # noqa: E402

RATE = 16000
LENGTHS = {16000: 0.3, 9000: 0.05, 32000: 0.11, 20000: 1.0}  # samples: frequency


def wave(samples, frequency):
    noise = np.random.default_rng(samples).normal(size=samples)
    return np.clip(0.3 * noise * np.sin(np.arange(samples) * frequency), -1, 1).astype("float32")


WAVES = [wave(*each) for each in LENGTHS.items()]
SOUNDS = [(each, RATE) for each in WAVES]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    return folder, *tiny_sounds.save_whisper(folder)


@pytest.fixture(scope="module")
def model(checkpoint):
    return zoo.load(str(checkpoint[0]))


@pytest.fixture(scope="module")
def features(checkpoint):
    return checkpoint[-1](WAVES, sampling_rate=RATE, return_tensors="pt").input_features


@pytest.mark.few(1)
@pytest.mark.parametrize("bands", [80, 128])
def test_it_hears_what_transformers_hears(bands):
    reader = zoo.SpeechReader(bands=bands)
    processor = transformers.WhisperFeatureExtractor(feature_size=bands)
    expected = processor(WAVES[:2], sampling_rate=RATE, return_tensors="np").input_features
    found, is_sound = reader.read([*reader.requests(SOUNDS[:2])[0], b"no sound"])
    np.testing.assert_allclose(found["frames"][:2], expected.transpose(0, 2, 1), atol=1e-5)
    assert found["frames"].shape == (3, 3000, bands)
    assert found["lengths"].numpy().tolist() == [100, 57, 0]
    assert is_sound.numpy().tolist() == [True, True, False]


def test_numbers_are_those_of_transformers(checkpoint, model, features):
    _, theirs, *_ = checkpoint
    frames = features.numpy().transpose(0, 2, 1)
    heard, _ = model.reader.read(model.reader.requests(SOUNDS)[0])
    np.testing.assert_allclose(heard["frames"], frames, atol=1e-5)
    targets = np.random.default_rng(1).integers(3, 300, (4, 9))
    with torch.no_grad():
        expected = theirs(features, decoder_input_ids=torch.tensor(targets), output_attentions=True)
    encoded, *_ = model.core._encode(tf.constant(frames), training=False)
    np.testing.assert_allclose(encoded, expected.encoder_last_hidden_state, atol=1e-4)
    inputs = {"frames": frames, "target_ids": targets}
    logits, weights = model.core(inputs, return_attention_scores=True)
    np.testing.assert_allclose(logits, expected.logits, atol=1e-4)
    pairs = {
        "encoder": expected.encoder_attentions,
        "decoder": expected.decoder_attentions,
        "cross": expected.cross_attentions,
    }
    for name, others in pairs.items():
        for ours, each in zip(weights[name], others, strict=True):
            np.testing.assert_allclose(ours, each, atol=1e-4)
    context, state = model.core.start(tf.constant(frames), 2)
    for place in range(2):
        tokens = tf.constant(targets[:, place])
        step, state, looked = model.core.step(tokens, state, context)
        np.testing.assert_allclose(step, logits[:, place], atol=1e-4)
        chosen = weights["cross"][0][:, 1, place], weights["cross"][1][:, 0, place]
        np.testing.assert_allclose(looked, np.mean(chosen, axis=0), atol=1e-5)


def expected_texts(checkpoint, model, features, **options):
    """Returns the texts that transformers writes."""
    written = checkpoint[1].generate(features, **options)
    texts = model.tokenizer.detokenize(written.numpy()).numpy()
    return [text.decode().strip() for text in texts]


def test_texts_are_those_of_transformers(checkpoint, model, features, tmp_path, monkeypatch):
    texts = {}
    for language, task in ((None, None), ("fr", "translate")):
        told = {"language": language, "task": task or "transcribe"}
        told = {name: value for name, value in told.items() if value}  # with `None`, it is detected
        texts[language] = model.transcribe(SOUNDS, language=language, task=task)
        assert texts[language] == expected_texts(checkpoint, model, features, **told)
        assert len(set(texts[language])) > 1
    german = model.transcribe(SOUNDS, "<|de|>")
    assert german == expected_texts(checkpoint, model, features, language="de", task="transcribe")
    assert german != texts["fr"]
    assert min(map(len, texts[None])) < model.longest / 2  # it ended by itself
    paths = [str(tmp_path / f"{number}.wav") for number in range(2)]
    for path, sound in zip(paths, SOUNDS, strict=False):
        pathlib.Path(path).write_bytes(write_wav(*sound))
    monkeypatch.setattr(zoo, "load", lambda name: model)
    result = click.testing.CliRunner().invoke(
        main, ["transcribe", "toy", *paths, "--language", "German"]
    )
    expected = [f"{path}\t{text}\n" for path, text in zip(paths, german, strict=False)]
    assert result.stdout == "".join(expected)


@pytest.mark.full  # `marian_test` always uses beam search
def test_beams_are_those_of_transformers(checkpoint, model, features):
    told = {"language": "fr", "task": "translate", "num_beams": 4}
    expected = expected_texts(checkpoint, model, features, early_stopping="never", **told)
    assert model.transcribe(SOUNDS, sampler="beam", **told) == expected
    assert len(set(expected)) > 1


@pytest.mark.full
def test_longer_sounds_are_heard_in_windows(model):
    long = np.concatenate([WAVES[2], WAVES[0]])
    result = model.transcribe([(long, RATE), SOUNDS[1]], return_attention=True)
    first, second, other = model.transcribe([(WAVES[2], RATE), SOUNDS[0], SOUNDS[1]])
    assert result.texts == [f"{first} {second}", other]
    assert [len(each) for each in result.sounds] == [2, 1]
    for tokens, attention, times in zip(result.tokens, result.attention, [150, 29], strict=True):
        assert attention.shape == (len(tokens), times)
        assert np.all(attention.sum(axis=1) < 1.001)
    np.testing.assert_allclose(result.attention[0][0, :100].sum(), 1, atol=1e-5)
    assert result.spectrogram(0).shape == (300, 8)
    figure = result.plot(0)
    assert len(figure.axes[1].get_yticklabels()) == len(result.tokens[0])


@pytest.mark.full  # `export_test` exports text output, `conformer_test` sound input
def test_exported(model, tmp_path):
    served = tf.saved_model.load(model.export(tmp_path / "exported", jit_compile=False)).signatures
    sounds = [*model.reader.requests(SOUNDS)[0], b"no sound"]
    found = served["serving_default"](sound_bytes=tf.constant(sounds))["text"].numpy()
    assert [text.decode() for text in found] == [*model.transcribe(SOUNDS), ""]


def test_saved_and_back(checkpoint, model, features, tmp_path):
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    assert again.settings == model.settings
    for ours, saved in zip(model.core.get_weights(), again.core.get_weights(), strict=True):
        np.testing.assert_array_equal(saved, ours)
    path = zoo.save_checkpoint(model, tmp_path / "again")
    kind = transformers.WhisperForConditionalGeneration
    back, told = kind.from_pretrained(path, output_loading_info=True)
    assert not told["unexpected_keys"]
    assert not told["missing_keys"]
    target = torch.tensor([[3, 9]] * 4)
    with torch.no_grad():
        both = [each(features, decoder_input_ids=target).logits for each in (checkpoint[1], back)]
    np.testing.assert_allclose(*both, atol=1e-5)


@pytest.mark.full
def test_learned_compiled_and_as_graphs(checkpoint, model, tmp_path):
    assert model.transcribe(SOUNDS, jit_compile=True) == model.transcribe(SOUNDS)
    long = [(np.concatenate([WAVES[2], WAVES[0]]), RATE)]
    several = model.transcribe(long, sampler="beam", num_return_sequences=2)
    assert [len(texts) for texts in several] == [2]
    for form, files in (("onnx", 3), ("litert", 2)):
        path = model.export(tmp_path / form, format=form)
        assert len(list(path.iterdir())) == files
    tuned = zoo.load(str(checkpoint[0]), language="en")
    tuned.compile(keras.optimizers.Adam(0.01))
    texts = ["The cats sat.", "Trains and boats", "a trip", "Rome"]
    history = tuned.fit(SOUNDS * 4, texts * 4, epochs=3, batch_size=4, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    data = tf.data.Dataset.from_tensor_slices((tuned.reader.requests(SOUNDS)[0], texts))
    np.testing.assert_allclose(
        tuned.evaluate(data, verbose=0), tuned.evaluate(SOUNDS, texts, verbose=0), rtol=1e-5
    )


@pytest.mark.full
def test_what_it_learns_from(model):
    with pytest.raises(ValueError, match="set model.language"):
        model.batches(SOUNDS, ["a"] * 4)
    model.language = "en"
    try:
        ((inputs, labels, weights),) = model.batches(SOUNDS[:2], ["The cats", "a"])
        with pytest.raises(ValueError, match="4 sounds and .*'a'"):
            model.batches(SOUNDS, ["a"])
        with pytest.raises(ValueError, match="a tf.data.Dataset of"):
            model.batches(tf.data.Dataset.range(3))
    finally:
        model.language = None
    ids = model.tokenizer.tokenize([" The cats", " a"]).to_list()
    start, end = model.tokenizer.start_id, model.tokenizer.end_id
    opening = [model.languages["en"], model.tasks["transcribe"], model.prompt[-1]]
    shown = [[start, *opening, *row] for row in ids]
    kept = weights.numpy() > 0
    for row, expected in enumerate(shown):
        assert inputs["target_ids"][row].numpy()[kept[row]].tolist() == expected
        assert labels[row].numpy()[kept[row]].tolist() == [*expected[1:], end]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "danish"}, "language.*'danish'"),
        ({"task": "sing"}, "task.*'sing'.*transcribe, translate"),
        ({"sampler": "greedy", "num_beams": 2}, "num_beams"),
    ],
)
def test_arguments_that_do_not_fit(model, options, message):
    with pytest.raises(ValueError, match=message):
        model.transcribe(SOUNDS, **options)


# ------------------------------------------------------------------------------------- timestamps


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    """A checkpoint that writes timestamps, and what transformers loads from it."""
    folder = tmp_path_factory.mktemp("timed")
    pieces = tiny.tokenizer("WhisperTokenizer", timestamps=101)
    first, last = map(pieces.convert_tokens_to_ids, ("<|startoftranscript|>", "<|notimestamps|>"))
    suppressed = [7, 9, *range(first, last)]
    settings = {"suppress_tokens": suppressed, "max_initial_timestamp_index": 50}
    theirs, *_, processor = tiny_sounds.save_whisper(folder, timestamps=101, **settings)
    with torch.no_grad():
        for name, weight in theirs.model.decoder.named_parameters():
            weight.mul_(4.0 if "encoder_attn" in name else 1.0)
        theirs.model.decoder.embed_tokens.weight[last + 1 :] *= 0.8
    theirs.save_pretrained(folder)
    return zoo.load(folder), theirs, processor


@pytest.mark.parametrize("latest_start", [None, 3])
def test_rules_of_timestamps_are_those_of_transformers(latest_start):
    first, end, width = 30, 20, 5
    config = transformers.GenerationConfig(no_timestamps_token_id=first - 1, eos_token_id=end)
    config.max_initial_timestamp_index = latest_start
    theirs = transformers.WhisperTimeStampLogitsProcessor(config, begin_index=1)
    random = np.random.default_rng(1)
    for step in range(width):
        scores = random.normal(size=(300, 40)).astype("float32")
        scores[:100, first:] += 3.0
        times = np.sort(random.integers(first, 37, (300, step)), axis=1)  # they never decrease
        ids = np.where(
            random.random((300, step)) < 0.5, random.integers(0, end, (300, step)), times
        )
        history = np.full((300, width + 1), -1, "int32")
        history[:, 0], history[:, 1 : step + 1] = 25, ids
        progress = Progress(tf.constant(history), tf.constant(step + 1), tf.constant(step), (end,))
        found = Timestamps(first, latest_start)(tf.constant(scores), progress)
        expected = theirs(torch.tensor(history[:, : step + 1]), torch.tensor(scores))
        np.testing.assert_array_equal(found, expected)


def test_segments_are_those_of_transformers():
    retrieve = transformers.WhisperForConditionalGeneration._retrieve_segment
    random, first, several = np.random.default_rng(2), 100, 0
    for _ in range(300):
        time, ids = 0, []
        for _ in range(random.integers(1, 4)):
            start, end = time + np.sort(random.integers(0, 20, 2))
            ids += [first + start, *random.integers(0, 9, random.integers(1, 3)), first + end + 1]
            time = end + 1
        ids = np.array(ids[: random.integers(1, len(ids) + 1)], "int32")
        numbers = torch.tensor([100]), 0.02, 0.01, 2, 0, 0, False, torch.zeros(1, 1)
        expected, frames = retrieve(
            torch.tensor(ids), [{}], torch.zeros(1, dtype=torch.float64), first, *numbers
        )
        found, seconds = segments_of(ids, first, seconds=1.0, step=0.02)
        several += len(found) > 1
        for (start, end, part), each in zip(found, expected, strict=True):
            assert (start, end) == pytest.approx((each["start"].item(), each["end"].item()))
            assert part.tolist() == [token for token in each["tokens"].tolist() if token < first]
        assert seconds == pytest.approx(int(frames) * 0.01)
    assert several > 50


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_timestamps_are_those_of_transformers(timed):
    model, theirs, processor = timed
    lengths = [32000, 31900, 31500]
    waves = [wave(*each) for each in zip(lengths, (0.11, 0.3, 0.02), strict=True)]
    features = processor(waves, sampling_rate=RATE, return_tensors="pt").input_features
    options = {"language": "de", "task": "transcribe", "return_timestamps": True}
    expected = theirs.generate(features, return_segments=True, **options)["segments"]
    result = model.transcribe([(each, RATE) for each in waves], **options)
    for found, others, length in zip(result.segments, expected, lengths, strict=True):
        ends = [min(each["end"].item(), length / RATE) for each in others]
        assert [each.end for each in found] == pytest.approx(ends, abs=1e-3)
        assert [each.start for each in found] == pytest.approx(
            [each["start"].item() for each in others]
        )
        ids = tf.ragged.constant([each["tokens"].tolist() for each in others])
        assert [each.text for each in found] == [
            text.decode() for text in model.texts_of(ids).numpy()
        ]
    assert len(set(map(len, result.segments))) > 1
    assert result.texts[0] == " ".join(each.text for each in result.segments[0])


@pytest.mark.full
def test_timestamps_compiled(timed):
    model, *_ = timed
    options = {"language": "de", "return_timestamps": True}
    result = model.transcribe(SOUNDS, **options)
    assert model.transcribe(SOUNDS, jit_compile=True, **options) == result
    assert model.transcribe(SOUNDS, sampler="beam", num_beams=1, **options) == result


def test_the_next_window_starts_where_a_segment_ended(timed, monkeypatch):
    model, *_ = timed
    first, a = model.first_timestamp, int(model.tokenizer.tokenize(["a"]).values[0])
    written = [[0, a, 25, 25, a], [10, a, 50], [], [0, a, 90], []]
    ids = [[each if each == a else first + each for each in row] for row in written]
    heard = []

    def answers(requests, sampler, **options):
        heard.extend(read_wav(tf.constant(request[0]))[0] for request in requests)
        return [{"token_ids": np.array([ids.pop(0)], "int32")}]

    monkeypatch.setattr(model, "_answers", answers)
    long = np.concatenate([WAVES[2]] * 4)
    result = model.transcribe((long, RATE), return_timestamps=True)
    assert result.segments == [
        [Segment(0.0, 0.5, "a"), Segment(0.5, 1.5, "a"), Segment(4.5, 6.3, "a")]
    ]
    starts = [0, 8000, 40000, 72000, 104000]
    for found, start in zip(heard, starts, strict=True):
        np.testing.assert_allclose(found, long[start : start + 32000], atol=1e-4)


def test_subtitles(tmp_path):
    segments = [Segment(0.0, 1.5, "Cats & dogs"), Segment(3599.99, 3600.0, "ß")]
    result = TimedTranscription(["Cats & dogs ß"], [segments])
    assert result.save_subtitles(tmp_path / "a.srt").read_text(encoding="utf-8") == (
        "1\n00:00:00,000 --> 00:00:01,500\nCats & dogs\n\n2\n00:59:59,990 --> 01:00:00,000\nß\n"
    )
    assert result.save_subtitles(tmp_path / "a.VTT").read_text(encoding="utf-8") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nCats &amp; dogs\n\n"
        "00:59:59.990 --> 01:00:00.000\nß\n"
    )
    with pytest.raises(ValueError, match="ends with .srt or .vtt. Received"):
        result.save_subtitles(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="position"):
        result.save_subtitles(tmp_path / "a.srt", position=1)


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_the_command_writes_subtitles(timed, tmp_path, monkeypatch):
    model, *_ = timed
    monkeypatch.setattr(zoo, "load", lambda name: model)
    path, subtitles = tmp_path / "talk.wav", tmp_path / "talk.srt"
    path.write_bytes(write_wav(*SOUNDS[2]))
    run = click.testing.CliRunner().invoke
    asked = ["transcribe", "toy", str(path), "--language", "de", "--subtitles", str(subtitles)]
    expected = model.transcribe(str(path), "de", return_timestamps=True)
    assert run(main, asked).stdout == f"{expected.texts[0]}\n"
    written = subtitles.read_text(encoding="utf-8")
    assert written.count("-->") == len(expected.segments[0]) > 0
    assert "one sound" in run(main, [*asked, str(path)]).output
    assert "ends with .srt or .vtt" in run(main, [*asked, "--subtitles", "talk.txt"]).output


def test_timestamps_that_are_not_to_be_had(timed, tmp_path):
    model, *_ = timed
    for options, message in (
        ({"return_attention": True}, "`return_attention` must be False together with timestamps"),
        ({"sampler": "beam", "num_return_sequences": 2}, "must be 1 with timestamps"),
    ):
        with pytest.raises(ValueError, match=message):
            model.transcribe(SOUNDS, return_timestamps=True, **options)
    tiny_sounds.save_whisper(tmp_path, no_timestamps_token_id=None)
    with pytest.raises(ValueError, match="a model without timestamps"):
        zoo.load(tmp_path).transcribe(SOUNDS, return_timestamps=True)


LANGUAGES = {
    "lang_to_id": {"<|en|>": 7, "<|de|>": 8},
    "task_to_id": {"transcribe": 4, "translate": 5},
}
TIMES = {"no_timestamps_token_id": 9}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({**LANGUAGES, **TIMES}, (["language", "task", 9], None, None)),
        (
            {**LANGUAGES, "forced_decoder_ids": [[1, None], [2, 5]]},
            (["language", "task"], None, "translate"),
        ),
        (
            {**LANGUAGES, "forced_decoder_ids": [[1, 8], [2, 4]]},
            (["language", "task"], "de", "transcribe"),
        ),
        (
            {**LANGUAGES, "language": "German", "forced_decoder_ids": [[1, 7]]},
            (["language", "task"], "de", None),
        ),
        ({**TIMES, "is_multilingual": False, "forced_decoder_ids": [[1, 9]]}, ([9], None, None)),
        ({**TIMES, "forced_decoder_ids": [[1, 7], [2, 4]]}, ([7, 4, 9], None, None)),
    ],
)
def test_what_texts_begin_with(content, expected):
    options = _prompt(Settings("config.json", {}), Settings("generation_config.json", content))
    assert (options["prompt"], options["language"], options["task"]) == expected


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"encoder_ffn_dim": 48}, "encoder_ffn_dim=48 and decoder_ffn_dim=24"),
        ("config.json", {"scale_embedding": True}, "scale_embedding=True, which is not impl"),
        ("config.json", {"decoder_start_token_id": 3}, "begins texts with the token 3"),
        ("config.json", {"architectures": ["WhisperForCausalLM"]}, "WhisperForCausalLM"),
        ("config.json", {"num_mel_bins": 80}, "bands=80, and the reader 8"),
        ("config.json", {"experts": 2}, "not implemented: experts=2"),
        ("generation_config.json", {"return_timestamps": True}, "return_timestamps=True"),
        ("generation_config.json", {"forced_decoder_ids": [[2, 5]]}, r"at the places \[2\]"),
        ("preprocessor_config.json", {"sampling_rate": 8000}, "sampling_rate=8000"),
    ],
)
def test_settings_that_do_not_fit(checkpoint, tmp_path, file, change, message):
    shutil.copytree(checkpoint[0], tmp_path, dirs_exist_ok=True)
    path = tmp_path / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        zoo.load(str(tmp_path))


def test_names_of_languages_are_those_of_transformers():
    from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

    assert {name: code_of(name) for name in TO_LANGUAGE_CODE} == TO_LANGUAGE_CODE


def test_a_model_of_one_language(tmp_path):
    tiny_sounds.save_whisper(tmp_path, is_multilingual=False, forced_decoder_ids=[[1, 306]])
    model = zoo.load(str(tmp_path))
    assert model.prompt == [306]
    with pytest.raises(ValueError, match="a single language"):
        model.transcribe(SOUNDS[0], language="en")
    with pytest.raises(ValueError, match="one task, to transcribe"):
        model.transcribe(SOUNDS[0], task="translate")
