"""Speech recognition by CTC: the loss over all paths, the best path, sounds to texts and back."""

import itertools

import click.testing
import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.cli import main
from zoo.losses import CTC
from zoo.metrics import TokenErrorRate, word_error_rate
from zoo.metrics.token_errors import best_path
from zoo.models.conformer_ctc import ConformerCTC
from zoo.readers.wav import write_wav
from zoo.tasks.sound_results import Recognition

RATE, PITCHES = 8000, {"low": 0.3, "high": 1.5}
OPTIONS = {
    "num_layers": 1,
    "size": 16,
    "num_heads": 2,
    "hidden": 32,
    "kernel_size": 3,
    "channels": 4,
    "convolution_norm": "layer",
    "dropout": 0.0,
}
TEXTS = ["low", "high", "low high", "high low", "low low", "high high low", "low high high"]


def sound_of(text, generator):
    """Returns tones in noise with silence between them, one for each word."""
    parts = []
    for word in text.split():
        length = generator.integers(1200, 1800)
        parts += [np.zeros(700), 0.3 * np.sin(np.arange(length) * PITCHES[word]), np.zeros(700)]
    wave = np.concatenate(parts)
    return (wave + 0.01 * generator.normal(size=len(wave))).astype("float32"), RATE


@pytest.fixture(scope="module")
def spoken():
    generator = np.random.default_rng(0)
    return [sound_of(text, generator) for text in TEXTS], TEXTS


@pytest.fixture(scope="module")
def tokenizer():
    return zoo.ByteBPETokenizer.train(TEXTS * 9, vocabulary_size=270)  # a token for each word


@pytest.fixture(scope="module")
def model(spoken, tokenizer):
    keras.utils.set_random_seed(1)
    parts = {"tokenizer": tokenizer, "reader": zoo.SoundReader(rate=RATE, bands=16)}
    model = zoo.load("conformer_ctc", weights=None, **parts, **OPTIONS)
    model.compile(keras.optimizers.Adam(0.02))
    batches = model.batches(*spoken, batch_size=7).cache().repeat(36)
    model.history = model.fit(batches, epochs=5, verbose=0)
    return model


# ------------------------------------------------------------------------------------ the numbers


def read_off(labels):
    return [label for label, _ in itertools.groupby(labels) if label != 0]


def test_the_loss_is_the_sum_over_all_paths():
    core = ConformerCTC(4, bands=8, **OPTIONS | {"strides": (2, 2)})
    generator = np.random.default_rng(0)
    lengths, texts = [20, 9], [[1, 3, 3], [2, 0, 0]]
    frames = generator.normal(size=(2, 20, 8)).astype("float32")
    logits = core({"frames": frames, "lengths": np.array(lengths)}).numpy().astype("float64")
    logits[:, :5] *= 3.0
    expected = []
    for row, length, text in zip(logits, lengths, texts, strict=True):
        row = row[: -(-length // 4)]
        shares = np.exp(row) / np.exp(row).sum(-1, keepdims=True)
        paths = itertools.product(range(4), repeat=len(row))
        told = [path for path in paths if read_off(path) == [x for x in text if x]]
        chances = [np.prod(shares[range(len(row)), list(path)]) for path in told]
        expected.append(-np.log(sum(chances)))
    loss = keras.losses.CTC(reduction="none")(np.array(texts), logits.astype("float32"))
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


def test_the_loss_of_a_silence(model, spoken):
    inputs, labels, _ = next(iter(model.batches(spoken[0][:2], ["", ""])))
    shares = tf.nn.log_softmax(model(inputs)).numpy().astype("float64")[..., 0]
    times = model.core.subsampling.tokens_of(inputs["lengths"])
    expected = [-row[:length].sum() for row, length in zip(shares, times, strict=True)]
    loss = keras.losses.CTC(reduction="none")(labels, model(inputs))
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


def test_the_loss_of_nothing_as_a_device_may_get():
    signature = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None, 4])]

    @tf.function(input_signature=signature)
    def loss_and_gradient(texts, logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = CTC()(texts, logits)
        return loss, tape.gradient(loss, logits)

    loss, gradient = loss_and_gradient(tf.zeros([0, 2], tf.int32), tf.zeros([0, 3, 4]))
    assert float(loss) == 0.0
    assert gradient.shape == (0, 3, 4)


def test_the_best_path_and_its_errors():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, (20, 9))
    truth = generator.integers(1, 3, (20, 6)) * (np.arange(6) < generator.integers(1, 7, (20, 1)))
    logits = np.eye(3)[labels] + 0.1 * generator.random((20, 9, 3))
    tokens, times = best_path(tf.constant(logits))
    assert tokens.to_list() == [read_off(row) for row in labels]
    for row, found, places in zip(labels, tokens.to_list(), times.to_list(), strict=True):
        assert row[places].tolist() == found
        assert places == sorted({*places})
        assert all(place == 0 or row[place - 1] != row[place] for place in places)
    metric = TokenErrorRate()
    metric.update_state(truth[:7], logits[:7])
    metric.update_state(truth[7:], logits[7:], np.ones(13))

    def written(rows):
        return [" ".join(str(token) for token in row if token) for row in rows]

    expected = word_error_rate(written(tokens.to_list()), written(truth))
    assert float(metric.result()) == pytest.approx(expected)


# ----------------------------------------------------------------------------------- sounds, texts


def test_learns_from_lists(model, spoken):
    sounds, texts = spoken
    assert model.transcribe(sounds) == texts
    assert model.transcribe(sounds[2]) == texts[2]
    losses = model.history.history["loss"]
    assert losses[-1] < 0.1 * losses[0]
    assert model.evaluate(sounds, texts, return_dict=True, verbose=0)["token_error_rate"] == 0.0


@pytest.mark.full
@pytest.mark.parametrize("kind", [tuple, np.array, iter])
def test_texts_in_any_sequence(model, spoken, kind):
    sounds, texts = spoken
    _, expected, _ = next(iter(model.batches(sounds, texts)))
    _, labels, _ = next(iter(model.batches(sounds, kind(texts))))
    np.testing.assert_array_equal(labels, expected)


def test_when_it_was_heard(model, spoken):
    sounds, texts = spoken
    result = model.transcribe(sounds, return_attention=True)
    assert result.texts == texts
    for (wave, _), tokens, seconds, attention in zip(
        sounds, result.tokens, result.seconds, result.attention, strict=True
    ):
        assert len(tokens) == len(seconds) == len(attention)
        assert np.all(np.diff(seconds) > 0)
        assert seconds[-1] < len(wave) / RATE <= 0.04 * attention.shape[1] + 0.04
        np.testing.assert_allclose(attention.sum(-1), 1.0, atol=1e-5)
    # Words are where the tones are, give or take a tenth of a second.
    starts = [0.0875, 0.0875 + (len(sounds[2][0]) - 1400 - 1400) / 2 / RATE + 0.175]
    np.testing.assert_allclose(result.seconds[2][[0, -1]], starts, atol=0.15)
    assert len(result.plot(2).axes[1].get_yticklabels()) == len(result.tokens[2])


def test_dollar_signs_are_drawn_as_they_are():
    sound, reader = write_wav(np.zeros(800, "float32"), RATE), zoo.SoundReader(rate=RATE, bands=16)
    told = [["$_$"], [["$_$"]], [np.zeros(1)], [np.ones((1, 4))], [sound]]
    figure = Recognition(*told, reader).plot()
    figure.draw_without_rendering()  # would raise an error for a broken formula
    assert figure.axes[0].get_title() == figure.axes[1].get_yticklabels()[0].get_text() == "$_$"


def test_padding_and_other_sounds_change_nothing(model, spoken):
    sounds, texts = spoken
    encoded = [write_wav(*each) for each in sounds[:3]]
    together = model.respond(tf.constant([*encoded, b"no sound"]))
    assert [text.decode() for text in together["text"].numpy()] == [*texts[:3], ""]
    heard, _ = model.reader.read(tf.constant(encoded))
    logits = model.core(heard).numpy()
    for row, each in zip(logits, encoded, strict=True):
        alone = model.core(model.reader.read(tf.constant([each]))[0]).numpy()[0]
        np.testing.assert_allclose(row[: len(alone)], alone, atol=1e-4)
        assert np.all(row[len(alone) :].argmax(-1) == 0)


def test_saved_and_exported(model, spoken, tmp_path):
    sounds, texts = spoken
    loaded = zoo.load(model.save_to_preset(tmp_path / "toy"))
    assert loaded.core.config == model.core.config
    for found, weight in zip(loaded.core.get_weights(), model.core.get_weights(), strict=True):
        np.testing.assert_array_equal(found, weight)
    encoded = tf.constant([*(write_wav(*each) for each in sounds[:2]), b"none"])
    signatures = tf.saved_model.load(str(loaded.export(tmp_path / "served"))).signatures
    expected = model.respond(encoded, return_attention=True)
    assert [text.decode() for text in expected["text"].numpy()] == [*texts[:2], ""]
    explained = signatures["explain"](sound_bytes=encoded)
    assert explained.keys() == {*expected, "tokens"}
    for name, value in expected.items():
        if value.dtype == tf.float32:
            np.testing.assert_allclose(explained[name], value, atol=1e-5)
        else:
            np.testing.assert_array_equal(explained[name], value)
    with pytest.raises(ValueError, match="Export this one of sounds as a SavedModel"):
        model.export(tmp_path / "graph", format="onnx")


def test_the_command_line(model, spoken, tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "load", lambda name: model)
    sounds, texts = spoken
    for number, sound in enumerate(sounds[:2]):
        (tmp_path / f"{number}.wav").write_bytes(write_wav(*sound))

    def transcribe(*arguments):
        command = ["transcribe", "toy", *map(str, arguments)]
        return click.testing.CliRunner().invoke(main, command)

    result = transcribe(tmp_path)
    assert result.exit_code == 0, result.output
    found = [line.split("\t")[1] for line in result.stdout.splitlines()]
    assert found == texts[:2]
    rate = sounds[0][1]
    long = np.zeros(round(rate * (model.reader.seconds + 1)), "int16")
    (tmp_path / "long.wav").write_bytes(write_wav(long, rate))
    result = transcribe(tmp_path)
    assert [line.split("\t")[1] for line in result.stdout.splitlines()] == texts[:2]
    assert "long.wav' is " in result.stderr
    assert result.exit_code == 1
    (tmp_path / "long.wav").unlink()
    result = transcribe("--input", tmp_path, "--output", tmp_path / "texts.tsv")
    assert result.exit_code == 0, result.output
    lines = (tmp_path / "texts.tsv").read_text().splitlines()
    assert [line.split("\t")[-1] for line in lines] == texts[:2]
    result = transcribe(tmp_path / "0.wav", "--language", "de")
    assert result.exit_code == 1
    assert "has no option language" in result.output


def test_mistakes(model, spoken, tokenizer):
    with pytest.raises(ValueError, match="takes what zoo.SoundReader makes.*reader=None"):
        zoo.Recognizer(model.core, tokenizer, None)
    with pytest.raises(ValueError, match="padding has the id 0.*Received: None"):
        zoo.Recognizer(model.core, None, model.reader)
    short = [(np.zeros(800, "float32"), RATE)]
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"more time steps than .* \[Received\] \[low low low low\] \[needs\] \[\d+\] \[its",
    ):
        list(model.batches(2 * short, ["", "low low low low"]))
    for texts in ("low", ["low", "low"], []):
        with pytest.raises(ValueError, match="a list of `str` with one for each. Received: 1"):
            model.batches(short, texts)
    with pytest.raises(ValueError, match="learns from sounds and their texts. .* at position 0"):
        model.batches(short, [3])
    with pytest.raises(ValueError, match="one sound"):
        model.batches(short[0], ["low"])
    with pytest.raises(ValueError, match=r"sounds, texts = zip\(\*pairs\)"):
        model.batches([(short[0], "low")])
    with pytest.raises(ValueError, match=r"a data set of .*dataset\.unbatch\(\)"):
        model.batches(tf.data.Dataset.from_tensors((["RIFF"], ["low"])))
