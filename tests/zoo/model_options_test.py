"""Options of models of another type than expected, and numbers that are too small."""

import dataclasses
import json

import numpy as np
import pytest

import zoo
from keras_attention import positions, scores
from zoo.architectures import ARCHITECTURES

# What configs need; by default, the head of a text encoder is one of labels, which it then needs.
REQUIRED = {"vocabulary_size": 50, "num_labels": 3, "head": "embedding"}


def config_of(architecture, **options):
    config = architecture.core.Config
    names = [field.name for field in dataclasses.fields(config)]
    given = {**REQUIRED, **architecture.defaults}
    return config(**{name: given[name] for name in names if name in given} | options)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_numbers_and_flags_of_other_types_are_named(name):
    architecture = ARCHITECTURES[name]
    wrong = {
        int: ["7", 2.5, True, -2, None],
        float: ["a", None, float("nan")],
        bool: ["no", 1, None],
    }
    asked = 0
    for field in dataclasses.fields(architecture.core.Config):
        is_any = field.name.endswith("_id")
        for value in wrong.get(field.type, ()):
            if is_any and value == -2:
                continue
            asked += 1
            with pytest.raises(ValueError, match=f"^`{field.name}` of .* must be") as caught:
                config_of(architecture, **{field.name: value})
            assert str(caught.value).endswith(f"Received: {field.name}={value!r}.")
    assert asked > 10


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_numbers_of_numpy_can_be_stored(name):
    plain = dataclasses.asdict(config_of(ARCHITECTURES[name]))
    given = {
        field.name: np.int64(plain[field.name])
        for field in dataclasses.fields(ARCHITECTURES[name].core.Config)
        if type(plain[field.name]) is int
    }
    stored = dataclasses.asdict(config_of(ARCHITECTURES[name], **given))
    assert given
    assert json.dumps(stored) == json.dumps(plain)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("vit", {"registers": -1}, "`registers` of ViT must be an integer of at least 0"),
        ("vit", {"num_layers": -3}, "`num_layers` of ViT must be an integer of at least 0"),
        ("vit", {"layer_scale": "1"}, "`layer_scale` of ViT must be a finite number or None"),
        ("transformer_lm", {"size": 0}, "`size` of TransformerLM must be an integer of at least 1"),
        ("transformer_lm", {"hidden": 0}, "must be an integer of at least 1 or None. .* hidden=0"),
        ("transformer_lm", {"tied": "no"}, "`tied` of TransformerLM must be True or False"),
        (
            "transformer_lm",
            {"window": 4, "global_layers": [0, 6]},
            r"`global_layers` .* from 0 to 5. Received: global_layers=\[0, 6\]",
        ),
        ("transformer_lm", {"window": 4, "global_layers": [True, False]}, r"\[True, False\]"),
        ("transformer_lm", {"global_layers": [0]}, r"without the `window` of .*\[0\], window=None"),
        ("transformer_lm", {"layers_without_position": [6]}, r"from 0 to 5. Received: .*=\[6\]"),
        ("transformer_lm", {"scaled": "no"}, "True or False or a finite number"),
        ("transformer_lm", {"global_position": "learned"}, "global_position 'learned'.*rotary"),
        ("transformer_lm", {"global_position": "t5"}, "'t5', global_layers=None. Pass `global_lay"),
        ("transformer_lm", {"score": "dots"}, "Unknown score 'dots'. Did you mean 'dot'"),
        (
            "transformer_lm",
            {"score": scores.Dot()},
            r"`score` of TransformerLM must be a name or a config.*serialize_keras_object\(score\)",
        ),
        (
            "transformer_lm",
            {"position": positions.Rotary()},
            r"`position` .* a name or a config.*serialize_keras_object\(position\)",
        ),
        ("transformer_lm", {"output_soft_cap": 0.0}, "`output_soft_cap` of .* must be above 0"),
        ("luong_nmt", {"coverage": "yes"}, "`coverage` of RecurrentNMT must be True or False"),
        ("clip", {"text": {"size": 8.0}}, "`size` of Tower must be an integer of at least 1"),
        ("show_attend_tell", {"dropout": None}, "`dropout` of ShowAttendTell must be a finite"),
    ],
)
def test_messages(name, options, message):
    with pytest.raises(ValueError, match=message):
        config_of(ARCHITECTURES[name], **options)


def test_a_model_is_not_made_of_them(tokenizer):
    with pytest.raises(ValueError, match=r"`num_layers` of TransformerLM .*num_layers=-1"):
        zoo.load("transformer_lm", weights=None, tokenizer=tokenizer, num_layers=-1)


def test_what_means_none_is_taken():
    assert config_of(ARCHITECTURES["vit"], num_layers=0, registers=0).num_layers == 0
    assert config_of(ARCHITECTURES["blip"], pad_id=-1).pad_id == -1
    assert config_of(ARCHITECTURES["show_attend_tell"], seed=-5).seed == -5
