"""Presets on disk: round trips, changed files that are refused, mistakes that are named."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest

import zoo
from tests import imagenet_weights
from zoo import catalog
from zoo.architectures import ARCHITECTURES
from zoo.decoding import BeamSampler
from zoo.storage import CARD, HASHED, TOKENIZER, WEIGHTS, presets
from zoo.training import spoken_numbers

SHIPPED = sorted(card.parent.name for card in catalog.PRESETS.glob(f"*/{CARD}"))


@pytest.fixture(scope="module")
def loaded(preset):
    return zoo.load(str(preset))


@pytest.fixture
def copy(preset, tmp_path):
    """A preset that a test may damage."""
    return shutil.copytree(preset, tmp_path / "toy")


# ------------------------------------------------------------------------------------ round trip


@pytest.mark.usefixtures("eagerly")
def test_loaded_translates_as_saved(loaded, bahdanau, sources):
    texts = [*sources, "unseen words"]
    assert loaded.translate(texts, "greedy") == bahdanau.translate(texts, "greedy")


def test_weights_come_back_in_half_precision(loaded, bahdanau):
    for found, saved in zip(loaded.weights, bahdanau.weights, strict=True):
        np.testing.assert_array_equal(found, saved.numpy().astype("float16"))


def test_what_is_not_a_default_is_saved(fresh_model, card, tmp_path):
    model = fresh_model("luong_nmt", score="additive", dropout=0.25)
    presets.save(model, tmp_path / "toy", card)
    assert zoo.load(tmp_path / "toy").core.config == model.core.config


def test_the_sampler_is_saved(fresh_model, card, tmp_path):
    model = fresh_model()
    assert model.default_sampler == zoo.Translator.usual_sampler
    model.default_sampler = BeamSampler(num_beams=3, length_penalty=1.8)
    presets.save(model, tmp_path / "toy", card)
    assert zoo.load(tmp_path / "toy").default_sampler == model.default_sampler
    model.save(tmp_path / "toy.keras")
    assert keras.models.load_model(tmp_path / "toy.keras").default_sampler == model.default_sampler


def test_dtype_is_the_one_of_the_computation(preset):
    core = zoo.load(preset, dtype="mixed_bfloat16").core
    assert core.compute_dtype == "bfloat16"
    assert core.embedding.dtype_policy.name == "mixed_bfloat16"


def test_a_preset_can_be_had_with_fresh_weights(preset, loaded):
    fresh = zoo.load(preset, weights=None, dropout=0.5)
    assert fresh.core.config == dataclasses.replace(loaded.core.config, dropout=0.5)
    assert not np.array_equal(fresh.core.embedding.embeddings, loaded.core.embedding.embeddings)


def test_weights_may_be_a_path(fresh_model, bahdanau, preset, tokenizer, tmp_path):
    options = {"tokenizer": tokenizer, "dtype": "float32", "embedding_dim": 16}
    options |= {"encoder_units": 16, "decoder_units": 16}
    of_preset = zoo.load("bahdanau_nmt", weights=preset / WEIGHTS, **options)
    half = bahdanau.core.output_bias.numpy().astype("float16")
    np.testing.assert_array_equal(of_preset.core.output_bias, half)
    bahdanau.save_weights(tmp_path / "mine.weights.h5")
    mine = zoo.load("bahdanau_nmt", weights=tmp_path / "mine.weights.h5", **options)
    np.testing.assert_array_equal(mine.core.output_bias, bahdanau.core.output_bias)


# --------------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize("name", HASHED)
def test_a_file_that_was_changed_is_refused(copy, name):
    path = copy / name
    path.write_bytes(path.read_bytes() + b" ")
    expected = json.loads((copy / CARD).read_text())["files"][name]["sha256"]
    found = presets.fingerprint(path)["sha256"]
    with pytest.raises(ValueError, match=f"{name}.*{expected}.*{found}"):
        zoo.load(copy)


@pytest.mark.parametrize("name", HASHED)
def test_a_file_that_is_missing_is_named(copy, name):
    (copy / name).unlink()
    with pytest.raises(ValueError, match=f"{name}.*no such file"):
        zoo.load(copy)


def test_a_damaged_card_is_named(copy):
    (copy / CARD).write_text("{")
    with pytest.raises(ValueError, match=CARD):
        zoo.load(copy)


# -------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("function", [zoo.load, zoo.info])
def test_an_unknown_name_gets_the_nearest(function):
    with pytest.raises(ValueError, match="Did you mean 'luong_nmt'"):
        function("luong_nmd")


@pytest.mark.parametrize("function", [zoo.load, zoo.info])
def test_a_text_is_no_name(function):
    with pytest.raises(ValueError, match="Unknown model 'A man rides a bike. A man"):
        function("A man rides a bike. " * 20)


@pytest.mark.parametrize("function", [zoo.load, zoo.info])
def test_a_folder_without_a_model_is_named(function, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"')  # broken off
    with pytest.raises(ValueError, match=f"folder {tmp_path} holds neither a preset nor a check"):
        function(tmp_path)


def test_an_architecture_has_no_weights(tokenizer):
    with pytest.raises(ValueError, match="weights=None"):
        zoo.load("luong_nmt", tokenizer=tokenizer)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("luong_nmt", r"needs tokenizer\. .*ByteBPETokenizer\.train\(sources \+ targets"),
        ("transformer_lm", r"ByteBPETokenizer\.train\(texts.*prefix_space=False"),
        ("text_encoder", r"needs tokenizer and labels\. .*train\(texts.*\), labels=\['one', "),
        ("vit", r"needs reader and labels\. .*reader=zoo\.ImageReader\(\), labels=\['one', "),
        (
            "conformer_ctc",
            r"needs reader and tokenizer\. .*reader=zoo\.SoundReader\(\), tokenizer=",
        ),
    ],
)
def test_fresh_weights_name_what_they_need(name, message):
    with pytest.raises(ValueError, match=message):
        zoo.load(name, weights=None)


QUICK = "conformer_ctc", "text_encoder_masked", "transformer_lm", "vit"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.full) for name in ARCHITECTURES],
)
def test_what_fresh_weights_need_is_told_and_works(name):
    info = zoo.info(name)
    texts = sources = targets = ["a cat runs", "ein Hund rennt"]
    names = {"zoo": zoo, "texts": texts, "sources": sources, "targets": targets}
    needs = {
        need: eval(example.replace("8000", "270"), names) for need, example in info.needs.items()
    }
    for need, example in info.needs.items():
        assert f"    {need}={example}\n" in str(info)
    tiny = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 16}
    options = {
        each.name: (tiny[each.name],) if isinstance(each.default, tuple) else tiny[each.name]
        for each in info.options
        if each.name in tiny
    }
    assert zoo.load(name, weights=None, **needs, **options).core.built


def test_a_tokenizer_is_no_path():
    with pytest.raises(ValueError, match=r"ByteBPETokenizer\.load\(path\).*tokenizer='words.json'"):
        zoo.load("luong_nmt", weights=None, tokenizer="words.json")


def test_an_unknown_option_gets_the_nearest(tokenizer):
    with pytest.raises(ValueError, match="Did you mean 'dropout'"):
        zoo.load("luong_nmt", weights=None, tokenizer=tokenizer, dropuot=0.1)


def test_trained_weights_fit_their_own_architecture_only(preset, tokenizer):
    with pytest.raises(ValueError, match="Received: dropout, tokenizer.*weights=None"):
        zoo.load(preset, dropout=0.1, tokenizer=tokenizer)


def test_weights_of_another_model_name_the_file(tmp_path):
    path = catalog.PRESETS / "luong_nmt_multi30k_en_de" / WEIGHTS
    with pytest.raises(ValueError, match=f"{WEIGHTS} does not hold the weights of this .* a ViT"):
        zoo.load("vit_mnist", weights=path)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("best.keras", r"keras\.saving\.load_model\('best\.keras'\)"),
        ("best.weights.h5", r"zoo\.load\(name, weights='best\.weights\.h5'\)"),
    ],
)
@pytest.mark.parametrize("function", [zoo.load, zoo.info])
def test_a_file_of_keras_is_no_model(function, file, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).touch()
    with pytest.raises(ValueError, match=message):
        function(file)


def test_weights_at_no_path(preset, tmp_path):
    with pytest.raises(ValueError, match="no weights file.*missing"):
        zoo.load(preset, weights=tmp_path / "missing.weights.h5")


# ------------------------------------------------------------------------------------------ save


def test_save_replaces_nothing(bahdanau, card, copy):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(ValueError, match="exists already"):
        presets.save(bahdanau, copy, card)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
    assert list(copy.parent.iterdir()) == [copy]


def test_a_save_that_fails_leaves_nothing(bahdanau, card, tmp_path, monkeypatch):
    def fail(path):
        path.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(bahdanau.tokenizer, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        presets.save(bahdanau, tmp_path / "toy", card)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------ what is there


def test_architectures_are_listed_last():
    names = [model.name for model in zoo.list_models()]
    assert names[: len(SHIPPED)] == SHIPPED
    assert names[len(SHIPPED) :] == [
        "bahdanau_nmt",
        "bart",
        "bart_classifier",
        "blip",
        "clip",
        "conformer",
        "conformer_ctc",
        "luong_nmt",
        "mbart",
        "pegasus",
        "show_attend_tell",
        "siglip",
        "spectrogram_transformer",
        "swin",
        "swin_embedding",
        "t5",
        "text_encoder",
        "text_encoder_embedding",
        "text_encoder_masked",
        "text_encoder_score",
        "text_encoder_span",
        "text_encoder_tags",
        "transformer_lm",
        "transformer_lm_embedding",
        "transformer_lm_labels",
        "transformer_lm_score",
        "transformer_nmt",
        "vision_encoder_decoder",
        "vit",
        "vit_embedding",
        "wav2vec2",
        "wav2vec2_ctc",
        "whisper",
    ]


def test_info_of_an_architecture():
    model = zoo.info("luong_nmt")
    assert model.task == "translation"
    assert "Luong et al. 2015" in model.description
    assert (model.parameters, model.megabytes, model.quality, model.card) == (None, None, {}, {})


def test_info_of_a_preset(preset, bahdanau):
    model = zoo.info(preset)
    size = sum((preset / name).stat().st_size for name in HASHED)
    assert model.name == "toy"
    assert model.data == "Toy en-de"
    assert model.parameters == sum(np.size(weight) for weight in bahdanau.get_weights())
    assert model.megabytes == size / 1e6
    assert model.quality == {"BLEU, test": 99.5}
    assert "BLEU, test: 99.5" in str(model)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_card_is_complete(name):
    card = zoo.info(name).card
    assert card["name"] == name
    assert card["data"].keys() >= {"name", "source", "terms", "citation"}
    assert card["training"]["recipe"].keys() >= {"architecture", "epochs", "seed"}
    assert card["training"]["command"] == f"python -m zoo train {name}"
    assert card["parameters"] > 0
    assert card["files"].keys() | {TOKENIZER} == set(HASHED)
    protocols = {entry["metric"]: entry["protocol"] for entry in card["quality"]}
    signed = {"translation": "version:", "captioning": "pycocoevalcap:", "language model": "nats"}
    signed |= {"classification": "each input once", "matching": "each image seen once"}
    signed["masked language model"] = "hidden tokens"
    signed["speech recognition"] = "by the number of words"
    measured = [protocols[each] for each in protocols if each != "perplexity"]
    assert measured
    assert all(signed[card["task"]] in protocol for protocol in measured)


# The shipped picture classifiers are tested in a file of their own.
AT_ONCE = [
    "conformer_spoken_digit",
    "luong_nmt_multi30k_en_de",
    "transformer_lm_shakespeare",
]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in AT_ONCE else pytest.mark.full) for name in SHIPPED],
)
@pytest.mark.usefixtures("eagerly")
def test_a_shipped_model_is_small_and_works(name):
    info = zoo.info(name)
    assert info.megabytes < 20
    if info.task in ("captioning", "matching") and not imagenet_weights.ARE_HERE:
        pytest.skip(imagenet_weights.REASON)
    model = zoo.load(name)
    if info.task == "translation":
        assert "Mann" in model.translate("A man rides a bike.", "greedy")
    elif info.task == "language model":
        assert model.score("ROMEO:\nWhat, ho!").perplexity < 4  # a random guess has 65
    elif info.task == "speech recognition":
        words = model.transcribe((np.sin(np.arange(4000) / 4), 8000)).split()
        assert set(words) <= set(spoken_numbers.WORDS)
    elif "conformer" in name:
        tone = np.sin(np.arange(4000) / 4)
        assert model.classify((tone, 8000)) in model.labels
    elif name == "text_encoder_imdb":
        found = model.classify(["A wonderful film!", "Dull and badly acted."])
        assert found == ["positive", "negative"]
    elif info.task == "masked language model":
        best, *_ = model.fill_mask("This was a great [MASK].")
        assert best.token in ("film", "movie")
    elif info.task == "classification":
        one = np.zeros((28, 28), "uint8")
        one[4:24, 13:15] = 255
        assert model.classify(one) == "1"
    elif info.task == "matching":
        grass = np.full((90, 60, 3), (60, 160, 40), "uint8")
        assert model.match(grass, ["grass", "snow"]).shape == (1, 2)
    else:
        assert model.caption(np.zeros((90, 60, 3), "uint8"))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_card_says_what_a_model_is_for_and_on_which_terms(name):
    model = zoo.info(name)
    output = " ".join(str(model).split())
    facts = [
        *(model.card[key] for key in ("use", "limits", "license")),
        *model.card["data"].values(),
    ]
    for fact in [*facts, model.card["example"]["call"]]:
        assert fact in output or fact == model.card["data"].get("pair")
    assert {"name", "source", "terms", "citation"} <= model.card["data"].keys()


# ----------------------------------------------------- what is known without importing the classes


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_entry_says_what_its_classes_say(name, fresh_model):
    entry = ARCHITECTURES[name]
    assert entry.task_name == entry.task.task_name
    fields = {each.name: each.default for each in dataclasses.fields(entry.core.Config)}
    of_task = {"vocabulary_size": 300, "num_labels": 3}  # set by tokenizers and labels
    needed = {key: of_task[key] for key in of_task if key in fields}
    core = entry.core(**needed | entry.defaults)
    assert entry.description == core.description
    found = {each.name: each.default for each in zoo.info(name).options}
    chosen = {key: value for key, value in fields.items() if value is not dataclasses.MISSING}
    assert found == chosen | entry.defaults
    assert all(each.description for each in zoo.info(name).options)


def test_rules_for_tokens_are_saved(fresh_model, card, tmp_path):
    sampler = zoo.decoding.get("beam", bad_words=[[7, 8]], repetition_penalty=1.2, end_ids=[5])
    presets.save(fresh_model(sampler=sampler), tmp_path / "toy", card)
    assert zoo.load(tmp_path / "toy").default_sampler == sampler
