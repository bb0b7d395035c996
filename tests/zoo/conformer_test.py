"""The Conformer: its size, padding, sounds to labels: fit, presets, files, the command line."""

import click.testing
import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.cli import main
from zoo.models.conformer import Conformer, ConformerConfig, Subsampling
from zoo.readers.images import image_bytes
from zoo.readers.wav import write_wav

RATE, LABELS = 8000, ["low", "high"]
OPTIONS = {
    "num_layers": 1,
    "size": 8,
    "num_heads": 2,
    "hidden": 16,
    "kernel_size": 3,
    "channels": 4,
}


def sounds(count):
    """Returns tones of several lengths in noise, half of them high, and their labels."""
    generator = np.random.default_rng(1)
    found = []
    for number in range(count):
        length = generator.integers(1000, 2500)
        tone = np.sin(np.arange(length) * (0.3, 1.5)[number % 2])
        found.append((0.3 * tone + 0.02 * generator.normal(size=length)).astype("float32"))
    return [(each, RATE) for each in found], LABELS * (count // 2)


@pytest.fixture(scope="module")
def model():
    reader = zoo.SoundReader(rate=RATE, bands=16)
    keras.utils.set_random_seed(1)
    model = zoo.load("conformer", weights=None, reader=reader, labels=LABELS, **OPTIONS)
    model.compile(keras.optimizers.Adam(0.03), run_eagerly=True)
    model.fit(*sounds(32), batch_size=32, epochs=5, verbose=0)
    return model


def test_the_smallest_model_of_the_paper_has_its_size():
    """Conformer (S) has 10.3 M with its decoder, a layer of 320 units; this is its encoder."""
    one, two = (Conformer(10, num_layers=layers) for layers in (1, 2))
    for core in (one, two):
        core.build()
    block = two.count_params() - one.count_params()
    assert 8e6 < one.count_params() + 15 * block < 10.3e6


@pytest.mark.parametrize("strides", [(2, 1), pytest.param((2, 2), marks=pytest.mark.full)])
def test_padding_changes_nothing(strides):
    core = Conformer(3, bands=6, strides=strides, **OPTIONS)
    frames = np.random.default_rng(0).normal(size=(2, 23, 6)).astype("float32")
    sounds = {"frames": frames, "lengths": np.array([23, 14], "int32")}
    logits, weights = core(sounds, return_attention_scores=True)
    short = {"frames": frames[1:, :14], "lengths": np.array([14], "int32")}
    alone, alone_weights = core(short, return_attention_scores=True)
    np.testing.assert_allclose(logits[1:], alone, atol=1e-5)
    told, told_alone = core.told(sounds, weights), core.told(short, alone_weights)
    tokens = int(told_alone["tokens"][0])
    assert tokens == -(-14 // np.prod(strides))
    for name in ("attention", "heads"):
        found = told[name][1:, ..., :tokens]
        np.testing.assert_allclose(found, told_alone[name], atol=1e-5)
        np.testing.assert_allclose(np.sum(told[name], axis=-1), 1.0, atol=1e-5)


def test_nothing_is_finite():
    core = Conformer(3, bands=6, **OPTIONS)
    empty = {"frames": np.zeros((1, 4, 6), "float32"), "lengths": np.zeros(1, "int32")}
    logits, weights = core(empty, return_attention_scores=True)
    assert np.isfinite(logits).all()
    assert np.asarray(core.told(empty, weights)["attention"]).tolist() == [[0.0]]


def test_subsampling_equals_its_convolutions():
    layer = Subsampling(size=5, channels=2, strides=(2,))
    frames = np.random.default_rng(0).normal(size=(1, 5, 4)).astype("float32")
    found = layer(frames, np.array([5]))
    (kernel, bias), (matrix, vector) = (
        [weight.numpy() for weight in part.weights]
        for part in (layer.convolutions[0], layer.projection)
    )
    padded = np.pad(frames[0], 1)
    rows = np.zeros((3, 2, 2))
    for row, band in np.ndindex(3, 2):
        window = padded[2 * row : 2 * row + 3, 2 * band : 2 * band + 3]
        rows[row, band] = np.maximum(np.einsum("ij,ijc->c", window, kernel[:, :, 0]) + bias, 0)
    np.testing.assert_allclose(found[0], rows.reshape(3, 4) @ matrix + vector, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strides": (3,)}, r"`strides` must be 1 or 2.*strides=\(3,\)"),
        ({"convolution_norm": "bach"}, "Did you mean 'batch'"),
        ({"position": "rotery"}, "Did you mean 'rotary'"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ConformerConfig(num_labels=3, **options)


def test_what_are_no_spectrograms_is_named():
    core = Conformer(3, bands=6, **OPTIONS)
    with pytest.raises(ValueError, match=r"dictionary of `frames` \(batch, frames, 6\).*Tensor"):
        core(np.zeros((1, 20, 6), "float32"))
    wide = {"frames": np.zeros((1, 20, 7), "float32"), "lengths": np.array([20])}
    with pytest.raises(ValueError, match=r"shape \(1, 20, 7\).*as many bands"):
        core(wide)


def test_learns_from_lists(model):
    inputs, labels = sounds(8)
    assert model.classify(inputs) == labels
    assert model.classify(inputs[1]) == "high"
    assert model.evaluate(inputs, labels, return_dict=True, verbose=0)["accuracy"] == 1.0


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["samples", "int16", "encoded"])
def test_data_sets_are_as_lists(model, kind):
    inputs, labels = sounds(4)
    waves = [np.round(wave * 32768).astype("int16") for wave, _ in inputs]
    if kind == "samples":
        waves = [(wave / 32768).astype("float32") for wave in waves]
    raw = [write_wav(wave, RATE) for wave in waves] if kind == "encoded" else waves
    numbers = [LABELS.index(each) for each in labels]
    spec = tf.TensorSpec([None], raw[0].dtype) if kind != "encoded" else tf.TensorSpec([], "string")
    pairs = tf.data.Dataset.from_generator(
        lambda: zip(raw, numbers, strict=True), output_signature=(spec, tf.TensorSpec([], "int32"))
    )
    (found, found_numbers, _), *_ = model.batches(pairs, batch_size=4)
    (expected, *_), *_ = model.batches([(wave, RATE) for wave in waves], labels, batch_size=4)
    np.testing.assert_allclose(found["frames"], expected["frames"], atol=1e-4)
    assert found["lengths"].numpy().tolist() == expected["lengths"].numpy().tolist()
    assert found_numbers.numpy().tolist() == numbers


@pytest.mark.full
def test_attention_is_told_and_drawn(model):
    inputs, labels = sounds(3 * 2)
    result = model.classify(inputs, return_attention=True)
    assert result.labels == labels
    for (wave, _), attention, heads in zip(inputs, result.attention, result.heads, strict=True):
        tokens = -(-(1 + len(wave) // 80) // 4)
        assert attention.shape == (tokens,)
        assert heads.shape == (1, 2, tokens)
        np.testing.assert_allclose(attention.sum(), 1.0, atol=1e-5)
    assert result.spectrogram(1).shape == (1 + len(inputs[1][0]) // 80, 16)
    spectrogram, curve = result.plot(1).axes
    assert spectrogram.get_title().startswith("high, ")
    assert curve.get_xlabel() == "seconds"
    ticks = result.plot(0, layer=-1).axes[1].get_yticklabels()
    assert [each.get_text() for each in ticks] == ["head 0", "head 1"]
    with pytest.raises(ValueError, match="a layer from 0 to 0"):
        result.plot(0, layer=1)


@pytest.mark.full
def test_a_file_computes_the_same(model, tmp_path):
    inputs, _ = sounds(4)
    model.save(tmp_path / "toy.keras")
    loaded = keras.models.load_model(tmp_path / "toy.keras")
    assert (loaded.labels, loaded.reader.get_config()) == (LABELS, model.reader.get_config())
    found, expected = (
        each.classify(inputs, return_probabilities=True).probabilities for each in (loaded, model)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.full  # `recognition_test` exports sounds, `classification_test` labels
def test_the_exported_model_takes_files(model, tmp_path):
    inputs, _ = sounds(4)
    result = model.classify(inputs, return_attention=True)
    encoded = [write_wav(*each) for each in inputs]
    signatures = tf.saved_model.load(str(model.export(tmp_path / "served"))).signatures
    served = signatures["serving_default"](sound_bytes=tf.constant([*encoded, b"none"]))
    assert served["label"].numpy().tolist() == [b"low", b"high", b"low", b"high", b""]
    np.testing.assert_allclose(served["probabilities"][:4], result.probabilities, atol=1e-5)
    assert served["probabilities"][4].numpy().tolist() == [0.0, 0.0]
    explained = signatures["explain"](sound_bytes=tf.constant(encoded[:1]))
    np.testing.assert_allclose(explained["attention"][0], result.attention[0], atol=1e-5)


def test_a_preset_holds_the_reader_and_the_weights(model, tmp_path):
    loaded = zoo.load(model.save_to_preset(tmp_path / "toy"))
    assert (loaded.labels, loaded.reader.get_config()) == (LABELS, model.reader.get_config())
    assert loaded.core.config == model.core.config
    for found, weight in zip(loaded.core.get_weights(), model.core.get_weights(), strict=True):
        np.testing.assert_array_equal(found, weight)


def test_the_command_line_names_labels(model, tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "load", lambda name: model)
    for name, (wave, rate) in zip(("a.wav", "b.wav"), sounds(2)[0], strict=True):
        (tmp_path / name).write_bytes(write_wav(wave, rate))
    (tmp_path / "c.png").write_bytes(image_bytes(np.zeros((8, 8))))

    def classify(*names):
        paths = [each if each.startswith("--") else str(tmp_path / each) for each in names]
        return click.testing.CliRunner().invoke(main, ["classify", "toy", *paths])

    result = classify("a.wav", "b.wav")
    assert result.exit_code == 0, result.output
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == LABELS
    assert (
        "c.png' cannot be read as a sound: it must be a complete WAV file"
        in classify("c.png").output
    )
    assert "There is no sound" in classify("a text").output
    output = tmp_path / "out.tsv"
    assert classify("--input", "", "--output", "out.tsv").exit_code == 0
    lines = [line.split("\t")[:2] for line in output.read_text().splitlines()]
    assert lines == [["a.wav", LABELS[0]], ["b.wav", LABELS[1]]]


def test_a_model_of_pictures_takes_no_sounds():
    with pytest.raises(ValueError, match="cannot be read as an image"):
        zoo.load("vit_mnist").classify(write_wav(np.zeros(80), RATE))


def test_fresh_weights_need_a_reader():
    with pytest.raises(ValueError, match=r"reader=zoo.SoundReader\(\), labels="):
        zoo.load("conformer", weights=None)
