"""wav2vec 2.0 and HuBERT: the same numbers, texts and labels as transformers."""

import json
import shutil
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import zoo
from zoo.checkpoints.loading import read_checkpoint
from zoo.data.pairs import spoken_texts
from zoo.losses import CTC
from zoo.metrics import TokenErrorRate
from zoo.readers.wav import write_wav
from zoo.tasks.sound_results import Recognition, Transcription

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny_sounds  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

RATE, STEP = 16000, 20  # samples: in a second, and from token to token
BASE = {"blank": "[PAD]", "do_lower_case": True, "clean_up_tokenization_spaces": True}
LARGE = {
    "feat_extract_norm": "layer",
    "conv_bias": True,
    "do_stable_layer_norm": True,
    "return_attention_mask": True,
}
KINDS = {
    "base": BASE,
    "large": {**LARGE, "family": "Hubert", "num_conv_pos_embeddings": 5},
    "group_pre": {**BASE, "do_stable_layer_norm": True},
    "layer_post": {**LARGE, "do_stable_layer_norm": False, "do_normalize": False},
}
USUAL = "base", "large"


def wave(samples, seed):
    """Returns noise whose pitch rises, float32 from -1 to 1."""
    rng = np.random.default_rng(seed)
    tone = np.sin(np.linspace(0.0, 60.0 + 100.0 * seed, samples) ** 1.2)
    noise = 0.1 * rng.normal(size=samples) + 0.05
    return (0.5 * tone + noise).clip(-1.0, 1.0).astype("float32")


WAVES = [wave(samples, seed) for seed, samples in enumerate((2000, 1111, 1503))]
SOUNDS = [(each, RATE) for each in WAVES]
LENGTHS = np.array([*map(len, WAVES)])


def spoken(text):
    """Returns a tone for each letter, with silence between them."""
    silence, pitches = np.zeros(300), {"t": 0.3, "a": 1.2}
    tones = [[0.4 * np.sin(np.arange(600) * pitches[letter]), silence] for letter in text]
    whole = np.concatenate([silence, *(part for tone in tones for part in tone)])
    return (whole + 0.01 * np.random.default_rng(0).normal(size=len(whole))).astype("float32")


def kinds(names=KINDS, quick=USUAL):
    return [pytest.param(x, marks=[] if x in quick else pytest.mark.full) for x in names]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    made = {}

    def of(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            theirs = tiny_sounds.save_wav2vec2(folder, **KINDS[kind])
            made[kind] = folder, *theirs, zoo.load(str(folder))
        return made[kind]

    return of


def heard(extractor, waves, **options):
    return extractor(waves, sampling_rate=RATE, padding=True, return_tensors="pt", **options)


def read(model, sounds=SOUNDS):
    return model.reader.read(model.reader.requests(sounds)[0])[0]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", kinds())
@pytest.mark.usefixtures("eagerly")
def test_numbers_are_those_of_each_sound_alone(kind, checkpoints):
    _, theirs, _, extractor, model = checkpoints(kind)
    sounds = read(model)
    found, weights = model.core(sounds, return_attention_scores=True)
    numbers = model.core.subsampling.tokens_of(LENGTHS).numpy()
    for row, (each, number) in enumerate(zip(WAVES, numbers, strict=True)):
        inputs = heard(extractor, each)
        with torch.no_grad():
            expected = theirs(**inputs, output_attentions=True)
        np.testing.assert_allclose(
            sounds["samples"][row, : len(each)], inputs["input_values"][0], atol=1e-6
        )
        assert expected.logits.shape[1] == number
        np.testing.assert_allclose(found[row, :number], expected.logits[0], atol=2e-5)
        blank = model.tokenizer.pad_id
        certain = tf.nn.softmax(found[row, number:])[:, blank]
        np.testing.assert_allclose(certain, 1.0, atol=1e-6)
        for ours, other in zip(weights, expected.attentions, strict=True):
            np.testing.assert_allclose(ours[row, :, :number, :number], other[0], atol=2e-6)


@pytest.mark.parametrize("kind", kinds(["large", "layer_post"]))
def test_numbers_are_those_of_a_batch_with_a_mask(kind, checkpoints):
    _, theirs, _, extractor, model = checkpoints(kind)
    inputs = heard(extractor, WAVES)
    with torch.no_grad():
        expected = theirs(**inputs).logits
    sounds = read(model)
    np.testing.assert_allclose(sounds["samples"], inputs["input_values"], atol=1e-6)
    found = model.core(sounds)
    for row, number in enumerate(model.core.subsampling.tokens_of(LENGTHS).numpy()):
        np.testing.assert_allclose(found[row, :number], expected[row, :number], atol=1e-5)


@pytest.mark.parametrize("kind", kinds(["base", "layer_post"]))
def test_numbers_are_those_of_a_batch_without_a_mask(kind, checkpoints):
    folder, theirs, _, extractor, _ = checkpoints(kind)
    model = zoo.load(str(folder), mask_padding=False)
    waves = heard(extractor, WAVES, return_attention_mask=False)["input_values"]
    with torch.no_grad():
        expected = theirs(waves).logits
    found = model.core({"samples": waves.numpy(), "lengths": LENGTHS})
    for row, number in enumerate(model.core.subsampling.tokens_of(LENGTHS).numpy()):
        np.testing.assert_allclose(found[row, :number], expected[row, :number], atol=2e-5)


@pytest.mark.parametrize("kind", kinds(quick=["base"]))
@pytest.mark.usefixtures("eagerly")
def test_texts_are_those_of_transformers(kind, checkpoints):
    _, theirs, pieces, extractor, model = checkpoints(kind)
    expected, offsets = [], []
    for each in WAVES:
        with torch.no_grad():
            tokens = theirs(**heard(extractor, each)).logits.argmax(-1)[0]
        told = pieces.decode(tokens, output_char_offsets=True)
        expected.append(told.text)
        offsets.append([entry["start_offset"] for entry in told.char_offsets])
    result = model.transcribe(SOUNDS, return_attention=True)
    assert (result.texts, len({*expected}) > 1) == (expected, True)
    for seconds, places, attention in zip(result.seconds, offsets, result.attention, strict=True):
        np.testing.assert_allclose(seconds, np.array(places) * STEP / RATE, rtol=1e-5)
        np.testing.assert_allclose(attention.sum(-1), 1.0, atol=1e-5)
    assert result.spectrogram(1).shape == (1 + len(WAVES[1]) // 160, 80)
    result.plot(1)


@pytest.mark.parametrize("kind", kinds(USUAL))
def test_tokens_are_those_of_transformers(kind, checkpoints):
    _, _, pieces, _, model = checkpoints(kind)
    texts = ["TEA 'N TOAST", "Tea,  and", " A.", "", "naïve ſ <unk> ẞ"]
    found = model.tokenizer.tokenize(texts).to_list()
    assert found == [pieces(text).input_ids for text in texts]
    delimiter = pieces.word_delimiter_token_id
    rng = np.random.default_rng(0)
    rows = rng.choice([delimiter, *range(model.tokenizer.vocabulary_size)], (40, 12))
    rows = [[x for x in row if x != pieces.pad_token_id] for row in rows.tolist()]
    expected = [pieces.decode(row, group_tokens=False) for row in rows]
    written = model.tokenizer.detokenize(tf.ragged.constant(rows)).numpy()
    assert [text.decode() for text in written] == expected


def test_the_loss_is_that_of_transformers(checkpoints):
    _, theirs, _, extractor, model = checkpoints("base")
    texts = ["TEA AT TEN", "TOTS", "NO"]
    inputs, labels, _ = model.teach(read(model), tf.constant(texts))
    losses = CTC(model.tokenizer.pad_id, reduction="none")(labels, model.core(inputs)).numpy()
    for each, row, found in zip(WAVES, labels.numpy(), losses, strict=True):
        row = torch.tensor(row[row != model.tokenizer.pad_id])[None]
        with torch.no_grad():
            expected = theirs(**heard(extractor, each), labels=row.long()).loss
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_errors_are_counted_whichever_label_is_the_blank():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (20, 9))
    truth = rng.integers(1, 3, (20, 6)) * (np.arange(6) < rng.integers(1, 7, (20, 1)))
    expected = TokenErrorRate()
    expected.update_state(truth, np.eye(3)[labels])
    metric = TokenErrorRate.from_config(TokenErrorRate(2).get_config())
    metric.update_state((truth - 1) % 3, np.eye(3)[(labels - 1) % 3])
    assert float(metric.result()) == float(expected.result()) > 0.0


@pytest.mark.full
def test_it_learns(checkpoints):
    keras.utils.set_random_seed(0)
    parts = {"reader": zoo.WaveReader(), "tokenizer": checkpoints("base")[-1].tokenizer}
    sizes = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32, "normalize": "pre"}
    places = {"position_groups": 2, "position_kernel_size": 8, "dropout": 0.0}
    front = {"filters": (16, 16), "kernel_sizes": (20, 8), "strides": (10, 5)}
    model = zoo.load("wav2vec2_ctc", weights=None, **parts, **sizes, **places, **front)
    assert model.core.blank_id == 12
    texts = ["t", "a", "ta", "at"]
    sounds = [(spoken(text), RATE) for text in texts]
    model.compile(keras.optimizers.Adam(0.01))
    batches = model.batches(sounds, texts).cache().repeat(50)
    history = model.fit(batches, epochs=7, verbose=0).history
    assert history["loss"][-1] < 0.2 * history["loss"][0]
    assert model.transcribe(sounds) == texts
    assert model.evaluate(sounds, texts, return_dict=True, verbose=0)["token_error_rate"] == 0.0


@pytest.mark.parametrize("kind", kinds(USUAL, quick=["base"]))
@pytest.mark.usefixtures("eagerly")
def test_saved_and_back(kind, checkpoints, tmp_path):
    _, theirs, _, _, model = checkpoints(kind)
    again, _ = check_saved_and_back(model, theirs, tmp_path)
    contents = tf.constant([write_wav(each, RATE) for each in WAVES])
    found, expected = (each.respond(contents)["text"] for each in (again, model))
    np.testing.assert_array_equal(found, expected)


def test_kernels_of_older_files(checkpoints, tmp_path):
    folder, *_, model = checkpoints("base")
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    tensors = load_file(folder / "model.safetensors")
    named = {"parametrizations.weight.original0": "weight_g"}
    named |= {"parametrizations.weight.original1": "weight_v"}
    for new, old in named.items():
        name = next(each for each in tensors if each.endswith(new))
        tensors[name.replace(new, old)] = tensors.pop(name)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "added_tokens.json").write_text('{"<s>": 15, "</s>": 16}')  # beyond the head
    again = zoo.load(str(tmp_path))
    for ours, other in zip(again.core.get_weights(), model.core.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, other)
    assert again.tokenizer.vocabulary_size == model.tokenizer.vocabulary_size


@pytest.mark.full
@pytest.mark.parametrize("kind", USUAL)
def test_exported(kind, checkpoints, tmp_path):
    model = checkpoints(kind)[-1]
    exported = tf.saved_model.load(str(model.export(tmp_path / "exported")))
    contents = [write_wav(each, RATE) for each in WAVES]
    found = exported.signatures["serving_default"](sound_bytes=tf.constant([*contents, b"none"]))
    expected = [*model.transcribe(SOUNDS), ""]
    assert [text.decode() for text in found["text"].numpy()] == expected
    alone = exported.signatures["serving_default"](sound_bytes=tf.constant([b"none"]))
    assert alone["text"].numpy().tolist() == [b""]


def test_sounds_that_are_too_short(checkpoints):
    model = checkpoints("base")[-1]
    assert model.core.subsampling.reach == 10 + 2 * 5 + 10
    tokens = model.core.subsampling.tokens_of([1, 29, 30, 49, 50])
    assert tokens.numpy().tolist() == [0, 0, 1, 1, 2]
    contents = [write_wav(WAVES[0][:number], RATE) for number in (1, 29, 30)]
    assert model.respond(tf.constant(contents[:2]))["text"].numpy().tolist() == [b"", b""]
    together = model.respond(tf.constant(contents))["text"].numpy().tolist()
    assert together == [b"", b"", *model.respond(tf.constant(contents[2:]))["text"].numpy()]


# ------------------------------------------------------------------------------------------ labels


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    settings = {"family": "Hubert", "use_weighted_layer_sum": True, "num_labels": 3}
    theirs, _, extractor = tiny_sounds.save_wav2vec2(
        folder, "ForSequenceClassification", **settings
    )
    return folder, theirs, extractor, zoo.load(str(folder))


def logits_of(theirs, extractor, waves=WAVES):
    with torch.no_grad():
        return torch.cat([theirs(**heard(extractor, each)).logits for each in waves])


@pytest.mark.usefixtures("eagerly")
def test_labels_are_those_of_transformers(classifier):
    _, theirs, extractor, model = classifier
    expected = logits_of(theirs, extractor)
    np.testing.assert_allclose(model.core(read(model)), expected, atol=2e-5)
    contents = model.reader.requests(SOUNDS)[0]
    told = model.respond(tf.constant(contents), return_attention=True)
    labels = [each.decode() for each in told["label"].numpy()]
    assert labels == [f"LABEL_{place}" for place in expected.argmax(dim=1)]
    numbers = model.core.subsampling.tokens_of(LENGTHS).numpy()
    np.testing.assert_array_equal(told["tokens"], numbers)
    for row, number in enumerate(numbers):
        for name in ("attention", "heads"):
            sums = tf.reduce_sum(told[name][row, ..., :number], axis=-1)
            np.testing.assert_allclose(sums, tf.ones_like(sums), atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_sounds_that_are_too_short_for_labels(classifier):
    *_, model = classifier
    short = WAVES[0][:29]
    contents = [write_wav(each, RATE) for each in (short, WAVES[0])]
    told = model.respond(tf.constant([*contents, b"none"]))
    assert (told["label"].numpy() != b"").tolist() == [False, True, False]
    np.testing.assert_allclose(told["probabilities"].numpy().sum(1), [0.0, 1.0, 0.0], atol=1e-6)
    with pytest.raises(ValueError, match=r"is 0.00181 seconds .* at least 0.00187") as raised:
        model.classify([SOUNDS[0], (short, RATE)])
    assert raised.value.__notes__ == ["This is number 1 of 2 sounds, from 0."]
    label = model.labels[0]
    with pytest.raises(ValueError, match="at least"):
        model.batches([SOUNDS[0], (short, RATE)], [label, label])
    told = {"at least 30 samples": short, "or shorter than 0.00187": contents[0]}
    for message, sound in told.items():
        dataset = tf.data.Dataset.from_tensors((sound, 0))
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            list(model.reader.batched(dataset, 1))
    assert model.classify((WAVES[0][:30], RATE)) in model.labels


@pytest.mark.full
@pytest.mark.parametrize("mask", [False, True])
def test_labels_of_a_batch(mask, tmp_path):
    folder, norm = tmp_path / "large", {**LARGE, "return_attention_mask": mask}
    folder.mkdir()
    theirs, _, extractor = tiny_sounds.save_wav2vec2(folder, "ForSequenceClassification", **norm)
    model = zoo.load(str(folder), mask_padding=mask)
    inputs = heard(extractor, WAVES)
    with torch.no_grad():
        expected = theirs(**inputs).logits
    sounds = {"samples": inputs["input_values"].numpy(), "lengths": LENGTHS}
    np.testing.assert_allclose(model.core(sounds), expected, atol=2e-5)


@pytest.mark.full
def test_a_classifier_is_saved_and_back(classifier, tmp_path):
    _, theirs, _, model = classifier
    again, _ = check_saved_and_back(model, theirs, tmp_path)
    np.testing.assert_array_equal(again.core(read(again)), model.core(read(model)))


NEW = {
    "ForPreTraining": "Wav2Vec2",
    "ForCTC": "Wav2Vec2",
    "Model": "Hubert",
    "ForSequenceClassification": "Hubert",
}


@pytest.mark.parametrize("kind", kinds(NEW, quick=["ForPreTraining"]))
def test_new_labels(kind, tmp_path):
    folder, settings = tmp_path / "old", {"family": NEW[kind], "do_stable_layer_norm": True}
    settings["use_weighted_layer_sum"] = kind == "ForSequenceClassification"
    folder.mkdir()
    _, _, extractor = tiny_sounds.save_wav2vec2(folder, kind, **settings)
    model = zoo.load(str(folder), labels=["low", "high"])
    path = zoo.save_checkpoint(model, tmp_path / "again")
    theirs = getattr(transformers, f"{NEW[kind]}ForSequenceClassification")
    back, told = theirs.from_pretrained(path, output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert back.config.id2label == {0: "low", 1: "high"}
    np.testing.assert_allclose(
        model.core(read(model)), logits_of(back.eval(), extractor), atol=2e-5
    )


# ------------------------------------------------------------------------------- readers, mistakes


def test_waves_are_normalized():
    reader = zoo.WaveReader(rate=8000)
    assert repr(reader) == "WaveReader(rate=8000)"
    contents = [write_wav(each, 8000) for each in WAVES]
    sounds, is_sound = reader.read([*contents, b"none"])
    assert is_sound.numpy().tolist() == [True, True, True, False]
    assert sounds["lengths"].numpy().tolist() == [*LENGTHS, 0]
    for row, each in zip(sounds["samples"].numpy(), WAVES, strict=False):
        each = each.astype("float64")
        expected = (each - each.mean()) / np.sqrt(each.var() + 1e-7)
        np.testing.assert_allclose(row[: len(each)], expected, atol=1e-5)
        assert not np.any(row[len(each) :])
    assert not np.any(sounds["samples"][3])
    plain = zoo.WaveReader(rate=8000, normalize=False).read(contents)[0]["samples"]
    np.testing.assert_array_equal(plain[0], WAVES[0])
    with pytest.raises(ValueError, match="`rate` of WaveReader must be a positive integer"):
        zoo.WaveReader(rate=0)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "config.json",
            {"architectures": ["Wav2Vec2Model"]},
            "no head.*labels=.'one', ",
        ),
        ("config.json", {"architectures": ["Wav2Vec2ForXVector"]}, "ForXVector, which is not impl"),
        ("config.json", {"add_adapter": True}, "add_adapter=True, which is not implemented"),
        ("config.json", {"adapter_attn_dim": 16}, "adapter_attn_dim=16, which is not implemented"),
        ("config.json", {"feat_extract_activation": "relu"}, "feat_extract_activation='relu'"),
        ("config.json", {"conv_pos_batch_norm": True}, "conv_pos_batch_norm=True"),
        ("config.json", {"bells": 3}, "not implemented: bells=3"),
        ("preprocessor_config.json", {"padding_value": 1.0}, "padding_value=1.0"),
        ("preprocessor_config.json", {"whistles": 2}, "not implemented: whistles=2"),
        ("tokenizer_config.json", {"target_lang": "eng"}, "several languages .target_lang"),
        ("tokenizer_config.json", {"pad_token": "<hum>"}, "lacks '<hum>', which should be the bl"),
    ],
)
def test_settings_that_do_not_fit(checkpoints, tmp_path, file, change, message):
    shutil.copytree(checkpoints("base")[0], tmp_path, dirs_exist_ok=True)
    path = tmp_path / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        read_checkpoint(tmp_path)


def test_a_language_model_behind_it(checkpoints, tmp_path):
    shutil.copytree(checkpoints("base")[0], tmp_path, dirs_exist_ok=True)
    path, named = tmp_path / "preprocessor_config.json", "Wav2Vec2ProcessorWithLM"
    path.write_text(json.dumps({**json.loads(path.read_text()), "processor_class": named}))
    with pytest.warns(UserWarning, match=f"{named}. A language model is not implemented"):
        read_checkpoint(tmp_path)


def test_texts_in_characters_that_the_tokenizer_does_not_know(checkpoints):
    model = checkpoints("base")[-1]
    message = "2 of 3 texts .* such as 'bad': .* write '<unk>'"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=message):
            model.batches([SOUNDS[0]] * 3, iter(["A TEA", "bad", "É"]))
        spoken_texts(([b"RIFF"] * 3, ["A TEA", "", "SEA"]), model.tokenizer)


def test_a_result_is_told_without_the_sounds(checkpoints):
    model = checkpoints("base")[-1]
    result = Recognition(["A"], [["A"]], [], [], [b"RIFF" * 99], model.reader)
    assert repr(result).endswith(f"sounds=<files: 1>, reader={model.reader!r})")
    windows = Transcription(["A"], [["A"]], [], None, [[b"RIFF"] * 2, [b"RIFF"]], model.reader)
    assert "log_probs=None, sounds=<files: 2>, reader=" in repr(windows)


def test_models_that_do_not_fit(checkpoints):
    model = checkpoints("base")[-1]
    with pytest.raises(ValueError, match=r"`samples` \(batch, samples\).*frames|Received: dict"):
        model.core({"frames": np.zeros((1, 90, 24), "float32")})
    with pytest.raises(ValueError, match="whose padding has the id 12.*with pad_id=0"):
        zoo.Recognizer(model.core, zoo.ByteBPETokenizer([]), model.reader)
    options = {"weights": None, "reader": zoo.WaveReader(), "labels": ["a", "b"]}
    for wrong, message in (
        ({"strides": (2, 2)}, "for each convolution. Received: filters="),
        ({"filters": 8}, "must be lists of an integer.* filters=8, kernel_sizes="),
        ({"position": "learned"}, "Unknown position 'learned'"),
        ({"convolution_norm": "batch"}, "Unknown convolution_norm 'batch'"),
        ({"position_groups": 5}, "size 768, groups=5, which does not divide"),
    ):
        with pytest.raises(ValueError, match=message):
            zoo.load("wav2vec2", **options, **wrong)
