"""Presets of strangers: what is damaged is named, and nothing in them runs code."""

import json

import h5py
import keras
import pytest

import zoo
from zoo.storage import CARD, CONFIG, FILES, WEIGHTS, presets


@pytest.fixture(scope="module")
def saved(fresh_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "toy"
    fresh_model("luong_nmt").save_to_preset(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """A preset that a test may change."""
    for name in FILES:
        (tmp_path / name).write_bytes((saved / name).read_bytes())
    return tmp_path


def change_card(folder, change):
    card = json.loads((folder / CARD).read_text())
    card = change(card) or card
    (folder / CARD).write_text(json.dumps(card))


def sign(folder):
    """Writes the hashes of changed files into the card, as whoever forges them would."""
    change_card(
        folder,
        lambda card: card.update(
            files={name: presets.fingerprint(folder / name) for name in card["files"]}
        ),
    )


def forge(folder, change):
    config = json.loads((folder / CONFIG).read_text())
    config = change(config) or config
    (folder / CONFIG).write_text(json.dumps(config))
    sign(folder)


# ---------------------------------------------------------------------------------------- the card


@pytest.mark.parametrize(
    "key", ["name", "task", "description", "data", "quality", "parameters", "files"]
)
@pytest.mark.parametrize("function", [zoo.load, zoo.info])
def test_what_a_card_lacks_is_named(folder, key, function):
    change_card(folder, lambda card: card.pop(key) and None)
    with pytest.raises(ValueError, match=rf"{CARD} is damaged.*'{key}' should be .*missing"):
        function(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda card: ["toy"], "no dictionary"),
        (lambda card: {**card, "data": {}}, "'data' has no 'name'"),
        (lambda card: {**card, "quality": [{"metric": "BLEU"}]}, "no metric with a value"),
        (lambda card: {**card, "files": {}}, "'files' should be config.json, .*, and is "),
        (lambda card: {**card, "files": {**card["files"], "../x": {}}}, "'files' should be"),
        (lambda card: {**card, "files": dict.fromkeys(card["files"], {})}, "no 'sha256'"),
        (lambda card: {**card, "format": 2}, "of format 2.*pip install --upgrade"),
    ],
)
def test_a_card_of_another_kind_is_named(folder, change, message):
    change_card(folder, change)
    with pytest.raises(ValueError, match=f"{CARD} .*{message}"):
        zoo.info(folder)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_named(folder, content):
    (folder / CARD).write_bytes(content)
    with pytest.raises(ValueError, match=f"{CARD} is damaged: it is no JSON"):
        zoo.info(folder)


def test_a_card_without_a_format_is_of_the_first(folder):
    change_card(folder, lambda card: card.pop("format") and None)
    assert zoo.info(folder).name == "toy"


# -------------------------------------------------------------------------------------- the config

BEAM = "zoo>BeamSampler"
OBJECTS = {
    "a class of Keras": {"module": "keras", "class_name": "Sequential", "registered_name": None},
    "a class of another library": {"module": "keras_hub.layers", "class_name": "AnchorGenerator"},
    "a class of Python": {"module": "subprocess", "class_name": "Popen"},
    "a class that is not there": {"registered_name": "mine>Sampler", "class_name": "Sampler"},
    "a lambda": {"class_name": "__lambda__", "registered_name": BEAM, "config": {"value": "4wAA"}},
    "a lambda of an initializer": {"class_name": "__lambda__", "module": "keras.initializers"},
    "a type": {"class_name": "__typespec__", "registered_name": BEAM, "spec_name": "Popen"},
    "a function": {"class_name": "function", "config": "get_file", "registered_name": BEAM},
    "a name that is none": {"class_name": ["BeamSampler"], "registered_name": {}},
}


@pytest.mark.parametrize("content", OBJECTS.values(), ids=OBJECTS)
@pytest.mark.parametrize("place", ["sampler", "deep"])
def test_no_code_is_imported_for_a_config(folder, content, place, monkeypatch):
    def deserialize(*args, **kwargs):
        raise AssertionError("the config should not come so far")

    content = {"config": {}, **content}

    def change(config):
        if place == "sampler":
            config["sampler"] = content
        else:
            config["options"]["score"] = {"list": [1, {"one": content}]}

    forge(folder, change)
    monkeypatch.setattr(keras.saving, "deserialize_keras_object", deserialize)
    with pytest.raises(ValueError, match="asks for .*, which this program does not know"):
        zoo.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda config: {**config, "architecture": "os"}, "Unknown architecture 'os'"),
        (lambda config: {**config, "architecture": ["os"]}, "'architecture' is"),
        (lambda config: config.pop("options") and None, "KeyError: 'options'"),
        (lambda config: {**config, "options": 3}, f"{CONFIG} is damaged"),
        (lambda config: [config], f"{CONFIG} is damaged"),
        *(
            (lambda config, key=key: {**config, key: "x"}, f"Unknown option of luong_nmt '{key}'")
            for key in ("name", "tokenizer", "dtype", "core", "weights", "vocabulary_size")
        ),
    ],
)
def test_a_config_of_another_kind_is_named(folder, change, message):
    forge(folder, change)
    with pytest.raises(ValueError, match=message):
        zoo.load(folder)


# ------------------------------------------------------------------------------------- the weights


def test_weights_must_not_be_somewhere_else(folder):
    elsewhere = folder / "elsewhere.h5"
    with h5py.File(elsewhere, "w") as file:
        file["secret"] = [1.0]
    with h5py.File(folder / WEIGHTS, "r+") as file:
        names = []
        file.visit(lambda name: names.append(name) if name.endswith("vars/0") else None)
        for name in names:
            del file[name]
            file[name] = h5py.ExternalLink(str(elsewhere), "secret")
    sign(folder)
    with pytest.raises(ValueError, match="ExternalLink"):
        zoo.load(folder)


def test_weights_of_another_model_are_refused(folder, fresh_model, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "toy"
    fresh_model("luong_nmt", decoder_units=8).save_to_preset(other)
    (folder / WEIGHTS).write_bytes((other / WEIGHTS).read_bytes())
    sign(folder)
    with pytest.raises(ValueError, match="could not be loaded"):
        zoo.load(folder)
