"""Audio Spectrogram Transformers: the same numbers and labels as transformers."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints.loading import read_checkpoint
from zoo.readers.log_mel import kaldi_log_mel
from zoo.readers.wav import write_wav

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny_sounds  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

RATE = 16000


def noise(samples, seed):
    """Returns noise whose pitch rises, float32 from -1 to 1."""
    rng = np.random.default_rng(seed)
    wave = np.sin(np.linspace(0.0, 300.0 + 100.0 * seed, samples) ** 1.2)
    return (0.5 * wave + 0.1 * rng.normal(size=samples)).clip(-1.0, 1.0).astype("float32")


WAVES = [noise(samples, seed) for seed, samples in enumerate((16000, 9000, 20000, 300))]
SOUNDS = [(wave, RATE) for wave in WAVES[:3]]  # the last one is too short for the model


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ast")
    return folder, *tiny_sounds.save_spectrogram_transformer(folder)


@pytest.fixture(scope="module")
def model(checkpoint):
    return zoo.load(str(checkpoint[0]))


def heard(extractor, waves):
    return extractor(waves, sampling_rate=RATE, return_tensors="pt")["input_values"]


@pytest.mark.usefixtures("eagerly")
def test_spectrograms_are_those_of_transformers(checkpoint, model):
    *_, extractor = checkpoint
    expected = heard(extractor, WAVES[:3])
    sounds, is_sound = model.reader.read([write_wav(wave, RATE) for wave in WAVES[:3]])
    assert is_sound.numpy().all()
    # A WAV file has 16 bits; in a band without power, they are what there is.
    np.testing.assert_allclose(sounds["frames"], expected, atol=0.02)
    exactly = kaldi_log_mel(WAVES[0][None], RATE, 24, 400, 160)
    np.testing.assert_allclose((exactly[0] + 5.0) / 6.0, expected[0, :98], atol=1e-3)
    short, is_sound = model.reader.read([write_wav(WAVES[3], RATE)])  # not a single frame
    assert not is_sound.numpy().any()
    np.testing.assert_allclose(short["frames"], np.full((1, 100, 24), 5.0 / 6.0), rtol=1e-6)


def test_numbers_are_those_of_transformers(checkpoint, model):
    _, theirs, extractor = checkpoint
    frames = heard(extractor, WAVES[:3])
    with torch.no_grad():
        expected = theirs(frames, output_attentions=True)
    found, weights = model.core({"frames": frames.numpy()}, return_attention_scores=True)
    np.testing.assert_allclose(found, expected.logits, atol=1e-4)
    for ours, others in zip(weights, expected.attentions, strict=True):
        np.testing.assert_allclose(ours, others, atol=1e-5)


def test_labels_and_attention(checkpoint, model):
    _, theirs, extractor = checkpoint
    result = model.classify(SOUNDS, return_attention=True)
    with torch.no_grad():
        logits = theirs(heard(extractor, WAVES[:3])).logits
    np.testing.assert_allclose(result.probabilities, torch.softmax(logits, dim=1), atol=0.01)
    assert result.labels == [f"LABEL_{place}" for place in logits.argmax(dim=1)]
    # 100 frames, patches of 8, every 6: 16 steps; the second sound has 54 frames.
    assert [len(each) for each in result.attention] == [16, 8, 16]
    assert [each.shape for each in result.heads] == [(2, 2, 16), (2, 2, 8), (2, 2, 16)]
    for maps in (result.attention, result.heads):
        np.testing.assert_allclose([each.sum(axis=-1).max() for each in maps], 1.0, atol=1e-5)
    result.plot(1, layer=0)


@pytest.mark.full
def test_saved_and_back(checkpoint, model, tmp_path):
    again, _ = check_saved_and_back(model, checkpoint[1], tmp_path)
    assert again.classify(SOUNDS[:2]) == model.classify(SOUNDS[:2])


@pytest.mark.full
def test_exported(model, tmp_path):
    exported = tf.saved_model.load(model.export(tmp_path / "exported"))
    contents = tf.constant([write_wav(*sound) for sound in SOUNDS])
    found = exported.signatures["serving_default"](sound_bytes=contents)
    expected = model.classify(SOUNDS, return_probabilities=True)
    np.testing.assert_allclose(found["probabilities"], expected.probabilities, atol=1e-5)
    assert [each.decode() for each in found["label"].numpy()] == expected.labels


@pytest.mark.full
def test_new_labels(checkpoint, tmp_path):
    tuned = zoo.load(str(checkpoint[0]), labels=["low", "high"])
    tuned.compile("adam")
    labels = ["low", "high", "low"] * 4
    history = tuned.fit(SOUNDS * 4, labels, batch_size=4, epochs=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    path = zoo.save_checkpoint(tuned, tmp_path / "again")
    back = transformers.ASTForAudioClassification.from_pretrained(path)
    with torch.no_grad():
        expected = torch.softmax(back(heard(checkpoint[2], WAVES[:2])).logits, dim=1)
    found = tuned.classify(SOUNDS[:2], return_probabilities=True).probabilities
    np.testing.assert_allclose(found, expected, atol=0.01)
    assert back.config.id2label == {0: "low", 1: "high"}


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"architectures": ["ASTModel"]}, "ASTModel, which is not implemented"),
        ("config.json", {"problem_type": "regression"}, "of a regression model"),
        ("config.json", {"max_length": 90}, "max_length=100, .* it should be 90"),
        ("preprocessor_config.json", {"do_normalize": False}, "do_normalize=False"),
        ("preprocessor_config.json", {"dither": 1.0}, "dither"),
    ],
)
def test_settings_that_do_not_fit(checkpoint, tmp_path, file, change, message):
    shutil.copytree(checkpoint[0], tmp_path, dirs_exist_ok=True)
    path = tmp_path / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        read_checkpoint(tmp_path)


def test_sounds_that_do_not_fit(model):
    with pytest.raises(ValueError, match=r"is 0.0187 seconds long, .* at least 0.025"):
        model.classify((WAVES[3], RATE))
    with pytest.raises(ValueError, match=r"\(batch, 100, 24\). Received: shape \(1, 90, 24\)"):
        model.core({"frames": np.zeros((1, 90, 24), "float32")})
    with pytest.raises(ValueError, match="A patch must fit into the spectrogram"):
        zoo.load(
            "spectrogram_transformer",
            weights=None,
            reader=zoo.SpectrogramReader(bands=8),
            labels=["low", "high"],
        )
    with pytest.raises(ValueError, match="`deviation` above 0. Received: .*deviation=0"):
        zoo.SpectrogramReader(deviation=0)
