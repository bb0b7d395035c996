"""`save_to_preset`: what is loaded equals what was saved, and so do the contents of the card."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from keras_attention import scores
from tests.zoo.pictures import CAPTIONS, CHANNELS, IMAGES, MeanColors
from zoo import decoding
from zoo.readers.images import image_bytes
from zoo.storage import FILES, WEIGHTS
from zoo.storage.presets import fingerprint

TELLER = {"channels": CHANNELS, "size": 24, "units": 24, "backbone": MeanColors(0.5)}


IDS = np.array([[4, 5, 6], [7, 8, 0]])
PAIRS = {"source_ids": IDS, "target_ids": IDS}


@pytest.fixture(scope="module")
def make(fresh_model, byte_tokenizer):
    """Makes a task with random weights."""

    def make(architecture, **options):
        if architecture == "transformer_lm":
            return fresh_model(architecture, tokenizer=byte_tokenizer, opening="\n", **options)
        if architecture == "show_attend_tell":
            tokenizer = zoo.ByteBPETokenizer.train(CAPTIONS, vocabulary_size=280)
            return zoo.load(architecture, weights=None, tokenizer=tokenizer, **TELLER)
        return fresh_model(architecture, **options)

    return make


def logits(model):
    if isinstance(model, zoo.TextGenerator):
        return model.core(IDS)
    if isinstance(model, zoo.Captioner):
        annotations = model.annotate(tf.constant([image_bytes(image) for image in IMAGES[:2]]))
        return model.core({"annotations": annotations, "target_ids": IDS})["logits"]
    return model.core(PAIRS)


@pytest.fixture(scope="module")
def model(fresh_model):
    return fresh_model("luong_nmt")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "architecture",
    ["bahdanau_nmt", "luong_nmt", "transformer_nmt", "transformer_lm", "show_attend_tell"],
)
def test_loaded_equals_saved(make, architecture, tmp_path):
    model = make(architecture)
    model.default_sampler = decoding.get("top_k", k=3)
    loaded = zoo.load(model.save_to_preset(tmp_path / "toy"))
    assert type(loaded) is type(model)
    assert loaded.core.config == model.core.config
    assert loaded.default_sampler == model.default_sampler
    assert loaded.tokenizer.get_config() == model.tokenizer.get_config()
    assert getattr(loaded, "opening", None) == getattr(model, "opening", None)
    for found, saved in zip(loaded.core.weights, model.core.weights, strict=True):
        np.testing.assert_array_equal(found, saved)
    np.testing.assert_array_equal(logits(loaded), logits(model))


def test_the_architecture_is_a_fact_whatever_the_options(fresh_model, tmp_path):
    model = fresh_model("luong_nmt", score="dot", cell="gru", decoder_units=32)
    loaded = zoo.load(model.save_to_preset(tmp_path / "toy"))
    assert zoo.info(tmp_path / "toy").card["architecture"] == "luong_nmt"
    assert loaded.core.architecture == "luong_nmt"
    assert loaded.core.config == model.core.config


def test_an_archive_holds_the_same(model, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    model.save_to_preset(tmp_path / "toy", data="pairs")
    name = model.save_to_preset(tmp_path / "toy.zip", data="pairs")
    assert name == f"{tmp_path}/toy.zip#sha256={fingerprint(tmp_path / 'toy.zip')['sha256']}"
    for each in (name, tmp_path / "toy.zip"):
        assert zoo.info(each) == zoo.info(tmp_path / "toy")
    np.testing.assert_array_equal(logits(zoo.load(name)), logits(model))
    assert {path.name for path in tmp_path.iterdir()} == {"toy", "toy.zip", "keras"}


def test_the_backbone_stays_outside_but_is_checked(make, tmp_path):
    make("show_attend_tell").save_to_preset(tmp_path / "toy")
    assert {path.name for path in (tmp_path / "toy").iterdir()} == {*FILES, "README.md"}
    assert json.loads((tmp_path / "toy" / "card.json").read_text())["fingerprint"] == [0.5]


def test_a_bfloat16_model_comes_back(fresh_model, tmp_path):
    model = fresh_model("transformer_nmt", dtype="bfloat16")
    loaded = zoo.load(model.save_to_preset(tmp_path / "toy"), dtype="bfloat16")
    for found, saved in zip(loaded.core.weights, model.core.weights, strict=True):
        np.testing.assert_array_equal(found, saved)


def test_a_score_of_ones_own_comes_back(fresh_model, tmp_path):
    model = fresh_model("luong_nmt", score=scores.Additive(units=8, normalized=True))
    loaded = zoo.load(model.save_to_preset(tmp_path / "toy"))
    assert loaded.core.config == model.core.config
    np.testing.assert_array_equal(logits(loaded), logits(model))


def test_a_function_of_ones_own_comes_back(fresh_model, tmp_path):
    @keras.saving.register_keras_serializable(package="save_to_preset_test")
    def twice_dot(query, key):
        return 2.0 * keras.ops.matmul(query, keras.ops.swapaxes(key, -1, -2))

    model = fresh_model("luong_nmt", score=twice_dot, encoder_units=8)
    loaded = zoo.load(model.save_to_preset(tmp_path / "toy"))
    np.testing.assert_array_equal(logits(loaded), logits(model))


# ---------------------------------------------------------------------------------------- the card


def test_the_card_says_what_was_told(model, tmp_path):
    quality = {"BLEU, test split": np.float32(38.5), "perplexity": 5}
    model.save_to_preset(tmp_path / "toy", "A toy", "eight pairs", quality, license="CC0-1.0")
    info = zoo.info(tmp_path / "toy")
    assert (info.name, info.task, info.description) == ("toy", "translation", "A toy")
    assert (info.data, info.quality) == ("eight pairs", {"BLEU, test split": 38.5, "perplexity": 5})
    assert info.parameters == model.core.count_params()
    assert info.card["architecture"] == "luong_nmt"
    for line in ["translation, trained on eight pairs", "license: CC0-1.0", "perplexity: 5.0"]:
        assert line in str(info)


def test_nothing_needs_to_be_told(model, tmp_path):
    model.save_to_preset(tmp_path / "toy")
    info = zoo.info(tmp_path / "toy")
    assert info.description == zoo.info("luong_nmt").description
    assert (info.data, info.quality, "license" in info.card) == ("", {}, False)
    assert "trained on" not in str(info)


# --------------------------------------------------------------------------------------- precision


def test_half_precision_is_asked_for(model, tmp_path):
    model.save_to_preset(tmp_path / "whole")
    model.save_to_preset(tmp_path / "half", dtype="float16")
    loaded = zoo.load(tmp_path / "half")
    for found, saved in zip(loaded.core.weights, model.core.weights, strict=True):
        np.testing.assert_array_equal(found, saved.numpy().astype("float16"))
    whole, half = ((tmp_path / name / WEIGHTS).stat().st_size for name in ("whole", "half"))
    assert half < 0.9 * whole


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (1e6, "float16", "1e[+]06, which is beyond float16. Save it with dtype=None"),
        (np.nan, None, "not finite, in .*output_bias"),
        (np.inf, "float16", "not finite, in .*output_bias"),
        (0.0, "int8", "`dtype` must be None.*Received: 'int8'"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(fresh_model, tmp_path, value, dtype, message):
    model = fresh_model("luong_nmt")
    model.core.output_bias.assign(np.full(model.core.output_bias.shape, value))
    for name in ("toy", "toy.zip"):
        with pytest.raises(ValueError, match=message):
            model.save_to_preset(tmp_path / name, dtype=dtype)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [{"description": 5}, {"data": None}, {"license": b"MIT"}, {"quality": {1: 3.0}}]
    + [{"quality": [("BLEU", 3.0)]}, {"quality": {"BLEU": "3"}}],
    ids=str,
)
def test_a_card_of_other_types_is_not_saved(model, tmp_path, wrong):
    (argument,) = wrong
    with pytest.raises(ValueError, match=f"`{argument}` must be .* Received: {argument}="):
        model.save_to_preset(tmp_path / "toy", **wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["luong_nmt", "luong_nmt_multi30k_en_de"])
def test_a_preset_may_have_the_name_of_a_model(model, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = model.save_to_preset(name)
    np.testing.assert_array_equal(logits(zoo.load(path)), logits(model))
    message = f"The folder of that name is another one: '{path}'"
    if name == "luong_nmt":
        with pytest.raises(ValueError, match=message):
            zoo.load(name)
    else:
        with pytest.warns(UserWarning, match=message):
            assert zoo.info(name).parameters > model.core.count_params()


def test_an_archive_may_have_any_name(model, tmp_path):
    assert zoo.info(model.save_to_preset(tmp_path / "run 12:30 \\ 1.zip")).task == "translation"


def test_an_archive_replaces_nothing(model, tmp_path):
    path = tmp_path / "toy.zip"
    path.write_text("mine")
    with pytest.raises(ValueError, match="toy.zip exists already"):
        model.save_to_preset(path)
    assert path.read_text() == "mine"


def test_a_model_of_no_architecture_is_named(model, tmp_path):
    class Mine(zoo.Translator):
        pass

    with pytest.raises(ValueError, match=r"Mine around .* is not an architecture of the zoo"):
        Mine(model.core, model.tokenizer).save_to_preset(tmp_path / "toy")
