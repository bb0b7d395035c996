"""Presets from strangers: errors name what is damaged, and nothing in a preset runs code."""

import json
import random

import h5py
import keras
import pytest

import zoo
from keras_attention import scores
from tests.zoo import mutations
from tests.zoo.mutations import sign
from zoo.storage import CARD, CONFIG, FILES, LARGEST, TOKENIZER, WEIGHTS


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
        (lambda card: ["toy"], "not a dictionary"),
        (lambda card: {**card, "data": {}}, "'data' has no 'name'"),
        (lambda card: {**card, "quality": [{"metric": "BLEU"}]}, "not a metric with a value"),
        (lambda card: {**card, "files": {}}, "'files' should be config.json, .*, and is "),
        (lambda card: {**card, "files": {**card["files"], "../x": {}}}, "'files' should be"),
        (lambda card: {**card, "files": dict.fromkeys(card["files"], {})}, "no 'sha256'"),
        (lambda card: {**card, "format": 2}, "of format 2.*pip install --upgrade"),
        (lambda card: {**card, "format": "2"}, "'format' should be 1, and is '2'"),
        (lambda card: {**card, "format": -1}, "'format' should be 1, and is -1"),
        (lambda card: {**card, "training": 3}, "'training' should be a dict, and is 3"),
        (lambda card: {**card, "remarks": mutations.nested(900)}, "more than 32 deep"),
    ],
)
def test_a_card_of_another_kind_is_named(folder, change, message):
    change_card(folder, change)
    with pytest.raises(ValueError, match=f"{CARD} .*{message}"):
        zoo.info(folder)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_named(folder, content):
    (folder / CARD).write_bytes(content)
    with pytest.raises(ValueError, match=f"{CARD} is damaged: it is not JSON"):
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


class MySampler(zoo.decoding.GreedySampler):
    """A sampler that was not registered when a model with it was saved."""


def test_a_class_that_was_not_registered_is_loaded_within_a_scope(folder):
    told = {**keras.saving.serialize_keras_object(MySampler()), "module": "__main__"}
    forge(folder, lambda config: {**config, "sampler": told})
    with pytest.raises(ValueError, match=r"within .*scope\(\{'MySampler': MySampler\}\)"):
        zoo.load(folder)
    with keras.saving.custom_object_scope({"MySampler": MySampler}):
        assert type(zoo.load(folder).default_sampler) is MySampler


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda config: {**config, "architecture": "os"}, "Unknown architecture 'os'"),
        (lambda config: {**config, "architecture": ["os"]}, "'architecture' is"),
        (lambda config: config.pop("options") and None, "KeyError: 'options'"),
        (lambda config: {**config, "options": 3}, f"{CONFIG} is damaged"),
        (lambda config: [config], f"{CONFIG} is damaged"),
        (lambda config: {**config, "opening": mutations.nested(900)}, "more than 32 deep"),
        (lambda config: {**config, "sampler": {"a": config["sampler"]}}, "'sampler' cannot be"),
        (lambda config: {**config, "sampler": mutations.OBJECTS[0]}, "'sampler' cannot be"),
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

HARMLESS = {"dtype f8", "many", "transposed"}  # a transposed vector is the same


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
    with pytest.raises(ValueError, match=rf"{WEIGHTS} does not fit {CONFIG}: .* shape \(32, 16\)"):
        zoo.load(folder)


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", [kind for kind in mutations.ARRAYS if kind not in HARMLESS])
def test_arrays_that_no_model_has_are_refused(folder, kind):
    mutations.change_weights(folder / WEIGHTS, random.Random(5), kind)
    sign(folder)
    with pytest.raises(ValueError, match=f"{WEIGHTS} (is damaged|does not fit|holds numbers)"):
        zoo.load(folder)


# --------------------------------------------------------------------------------------- the sizes


@pytest.mark.few(3)
@pytest.mark.parametrize("weights", ["pretrained", None])
@pytest.mark.parametrize("option", ["embedding_dim", "encoder_units", "decoder_units"])
def test_a_model_is_made_as_far_as_the_file_has_weights(folder, option, weights):
    forge(folder, lambda config: config["options"].update({option: 10**9}))
    with pytest.raises(ValueError, match=f"{WEIGHTS} does not fit {CONFIG}: .*0000000.*none of"):
        zoo.load(folder, weights=weights)


def test_as_many_layers_are_made_as_there_may_be(fresh_model, tmp_path):
    folder = tmp_path / "toy"
    fresh_model("transformer_nmt").save_to_preset(folder)
    forge(folder, lambda config: config["options"].update(num_layers=10**9))
    with pytest.raises(ValueError, match=f"{CONFIG} asks for 1000000000 layers, and .*{WEIGHTS}"):
        zoo.load(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_a_largest_size(folder, name, monkeypatch):
    monkeypatch.setitem(LARGEST, name, 50)
    with pytest.raises(ValueError, match=rf"{name} (is damaged: it )?has \d+ bytes, and .*50"):
        zoo.load(folder)


def test_what_could_not_be_loaded_is_not_saved(fresh_model, tmp_path, monkeypatch):
    monkeypatch.setitem(LARGEST, TOKENIZER, 50)
    with pytest.raises(ValueError, match=rf"{TOKENIZER} has \d+ bytes, and .*50"):
        fresh_model("luong_nmt").save_to_preset(tmp_path / "toy")
    assert list(tmp_path.iterdir()) == []


def load_mutations(run_python, folder, first, count):
    """Loads changed presets in a process with little memory: see `mutations`."""
    result = run_python("-m", "tests.zoo.mutations", folder, first, count)
    assert result.returncode == 0, result.stderr[-3000:]
    found = json.loads(result.stdout)
    assert found["wrong"] == []
    assert found["refused"] > count / 2
    assert found["megabytes"] < 300


@pytest.mark.full
def test_whatever_is_changed_costs_an_error_at_most(saved, run_python):
    load_mutations(run_python, saved, 0, 12)


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 300, 100))
@pytest.mark.parametrize("architecture", ["luong_nmt", "transformer_nmt", "transformer_lm"])
def test_many_changes(fresh_model, byte_tokenizer, run_python, tmp_path, architecture, first):
    options = {"luong_nmt": {"score": scores.Additive(units=8)}}.get(architecture, {})
    if architecture == "transformer_lm":
        options = {"tokenizer": byte_tokenizer, "position": "alibi"}
    fresh_model(architecture, **options).save_to_preset(tmp_path / "toy")
    load_mutations(run_python, tmp_path / "toy", 1000 + first, 100)
