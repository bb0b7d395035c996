"""Gemma checkpoints, and others with windows in some layers: the numbers of transformers."""

import json
import re

import numpy as np
import pytest

import zoo
from zoo.checkpoints.loading import read_checkpoint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import continuations, tiny  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402


def rounded(folder, family, **settings):
    """Like `tiny.save`, with weights to which 1 can be added without rounding."""
    theirs, pieces = tiny.save(folder, family, "ForCausalLM", **settings)
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(weight.bfloat16())
    theirs.save_pretrained(folder)
    return theirs, pieces


@pytest.mark.few(1)
@pytest.mark.parametrize("family", ["Gemma", "Gemma3Text", "Gemma2"])
def test_numbers_are_those_of_transformers_also_saved_and_back(tmp_path, family):
    theirs, pieces = rounded(tmp_path / "theirs", family)
    model = zoo.load(tmp_path / "theirs")
    continuations.check_numbers(model, theirs, pieces)
    again, _ = check_saved_and_back(model, theirs, tmp_path)
    ids = np.arange(3, 12)[None]
    np.testing.assert_array_equal(again.core(ids), model.core(ids))


def changed(checkpoint, folder, **settings):
    """Writes the config of a checkpoint with other settings, and returns its folder."""
    config = json.loads((checkpoint[0] / "config.json").read_text())
    config = {name: value for name, value in {**config, **settings}.items() if value is not ...}
    for file in checkpoint[0].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def third(tmp_path_factory):
    folder = tmp_path_factory.mktemp("third")
    return folder, *rounded(folder, "Gemma3Text")


def test_older_files_name_a_pattern_and_two_wavelengths(third, tmp_path):
    """As in the first files of Gemma 3, such as gemma-3-1b-it."""
    older = {
        "rope_parameters": ...,
        "rope_theta": 500.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "rope_local_base_freq": 50.0,
        "layer_types": ...,
        "sliding_window_pattern": 2,
        "cache_implementation": "hybrid",
    }
    folder = changed(third, tmp_path, **older)
    options = [
        re.sub(r"(rotary|scaled_dot)_\d+", r"\1", json.dumps(read_checkpoint(each)[0].options))
        for each in (folder, third[0])
    ]
    assert options[0] == options[1]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["full_attention", "sliding_attention"])
def test_the_positions_are_those_of_the_kind_of_all_layers(third, tmp_path, kind):
    folder = changed(third, tmp_path, layer_types=[kind] * 3)
    theirs = transformers.Gemma3ForCausalLM.from_pretrained(folder)
    ids = np.arange(3, 15)[None]
    with torch.no_grad():
        expected = theirs(torch.tensor(ids)).logits
    np.testing.assert_allclose(zoo.load(folder).core(ids), expected, atol=1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize("cap", [..., None, 7.0])
def test_caps_are_usual_where_a_file_has_none_and_absent_where_it_has_null(third, tmp_path, cap):
    caps = {"attn_logit_softcapping": cap, "final_logit_softcapping": cap}
    second = {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2"}
    folder = changed(third, tmp_path, **second, rope_parameters=..., **caps)
    options = read_checkpoint(folder)[0].options
    theirs = transformers.Gemma2Config.from_pretrained(folder)
    assert options["soft_cap"] == theirs.attn_logit_softcapping
    assert options["output_soft_cap"] == theirs.final_logit_softcapping


def test_a_token_of_images_without_a_row_is_left_out(third, tmp_path):
    """As in the files of gemma-3-1b-it; to transformers it is an id that the table lacks."""
    folder = changed(third, tmp_path)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    token = {**tokenizer["added_tokens"][0], "content": "<image_soft_token>"}
    token["id"] = third[1].config.vocab_size
    tokenizer["added_tokens"].append(token)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert read_checkpoint(folder)[1].vocabulary_size == third[1].config.vocab_size


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping=50.0, which is not implemented"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention=True, which is not"),
        ({"layer_types": ["chunked_attention"] * 3}, "layers of the kinds .*chunked_attention"),
        (
            {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]},
            "sliding_window_pattern=3, which is not implemented: it should be 2",
        ),
        ({"layer_types": ["full_attention"]}, r"kinds \['full_attention'\].*there should be 3"),
    ],
)
def test_what_is_not_implemented_is_told(third, tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        read_checkpoint(changed(third, tmp_path, **{"sliding_window_pattern": 3} | settings))


@pytest.mark.few(1)
@pytest.mark.parametrize("family", ["Qwen2", "Qwen3"])
def test_a_qwen_has_a_window_in_some_layers(tmp_path, family):
    windows = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    theirs, pieces = tiny.save(tmp_path, family, "ForCausalLM", **windows)
    model = zoo.load(tmp_path)
    assert model.core.config.global_layers == [0]
    continuations.check_numbers(model, theirs, pieces)


@pytest.mark.full
def test_a_mistral_may_have_a_window_in_some_layers(tmp_path):
    """As those of the family Ministral, as which transformers loads them."""
    given = tiny.save(tmp_path, "Mistral", "ForCausalLM", sliding_window=4)
    config = json.loads((tmp_path / "config.json").read_text())
    config["layer_types"] = ["sliding_attention", "full_attention"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, attn_implementation="eager"
    )
    continuations.check_numbers(zoo.load(tmp_path), theirs, given[1])
