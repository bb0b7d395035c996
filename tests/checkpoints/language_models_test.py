"""Checkpoints of BLOOM, Granite, OLMo, OPT, Phi and other writers: the numbers of transformers."""

import json

import numpy as np
import pytest

import zoo
from zoo.checkpoints import gpt_neo
from zoo.checkpoints.loading import read_checkpoint
from zoo.checkpoints.settings import Settings

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from tests.checkpoints import continuations, tiny  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 50.0,
    "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 7.0],
}
CASES = {
    "heads share keys": ("GPTBigCode", {}),
    "heads have their keys": ("GPTBigCode", {"multi_query": False}),
    "linear biases": ("Bloom", {}),
    "neo": ("GPTNeo", {}),
    "one after the other, tied": (
        "GPTNeoX",
        {"use_parallel_residual": False, "attention_bias": False, "tie_word_embeddings": True},
    ),
    "parallel": ("GPTNeoX", {}),
    "factors": ("Granite", {}),
    "joined projections": ("Phi3", {}),
    "frequencies of short texts": (
        "Phi3",
        {"rope_parameters": LONGROPE, "original_max_position_embeddings": 48},
    ),
    "frequencies of long texts": (
        "Phi3",
        {"rope_parameters": LONGROPE, "original_max_position_embeddings": 16},
    ),
    "layers without positions": ("SmolLM3", {}),
    "layers without positions have a window": (
        "SmolLM3",
        {"use_sliding_window": True, "sliding_window": 5},
    ),
    "layer norms of a gated network": ("StableLm", {}),
    "norms of outputs": ("Olmo2", {}),
    "norms of outputs, windows": ("Olmo3", {}),
    "one norm of two parts, an output bias": ("Phi", {}),
    "one norm of two gated parts": ("StableLm", {"use_parallel_residual": True}),
    "biases and a window": ("Starcoder2", {}),
    "positions from 2": ("OPT", {}),
    "without biases": ("OPT", {"enable_bias": False, "tie_word_embeddings": False}),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_transformers_also_saved_and_back(tmp_path, case):
    family, settings = CASES[case]
    theirs, pieces = tiny.save(tmp_path / "theirs", family, "ForCausalLM", **settings)
    model = zoo.load(tmp_path / "theirs")
    continuations.check_numbers(model, theirs, pieces)
    again, _ = check_saved_and_back(model, theirs, tmp_path)
    ids = np.arange(3, 12)[None]
    np.testing.assert_array_equal(again.core(ids), model.core(ids))


def test_files_of_opt_in_the_hub(tmp_path):
    """They have no `tokenizer.json`, and start each text."""
    theirs, pieces = tiny.save(tmp_path, "OPT", "ForCausalLM")
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = map(" ".join, model["merges"])
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    (tmp_path / "tokenizer.json").unlink()
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["add_bos_token"] = True
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert again("a")["input_ids"] == pieces("a")["input_ids"]
    model = zoo.load(tmp_path)
    continuations.check_numbers(model, theirs, pieces)


def test_config_of_bloom_in_the_hub(tmp_path):
    """It has older names, and settings of the training."""
    theirs, _ = tiny.save(tmp_path, "Bloom", "ForCausalLM")
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"num_attention_heads": config.pop("n_head"), "n_embed": config.pop("hidden_size")}
    config |= {"attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "n_inner": None}
    config |= {"masked_softmax_fusion": True, "offset_alibi": 100, "unk_token_id": 0}
    config |= {"seq_length": 32, "skip_bias_add": True, "skip_bias_add_qkv": False}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model, ids = zoo.load(tmp_path), torch.arange(3, 30)[None]
    assert model.core.context_length == 32
    np.testing.assert_allclose(model.core(ids.numpy()), theirs(ids).logits.detach(), atol=1e-4)


def test_older_files_of_pythia(tmp_path):
    """They hold masks, and have other names for the settings of rotary positions."""
    theirs, _ = tiny.save(tmp_path, "GPTNeoX", "ForCausalLM", rotary_emb_base=500)
    ids = torch.arange(3, 30)[None]
    expected = theirs(ids).logits.detach()
    config = json.loads((tmp_path / "config.json").read_text())
    del config["rope_parameters"]
    config |= {"rotary_pct": 0.5, "rotary_emb_base": 500}
    config |= {"partial_rotary_factor": 0.5, "rope_theta": 500}  # since transformers 4.46
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = load_file(tmp_path / "model.safetensors")
    for layer in range(2):
        attention = f"gpt_neox.layers.{layer}.attention."
        tensors[attention + "bias"] = torch.ones(1, 1, 4, 4, dtype=torch.bool)
        tensors[attention + "masked_bias"] = torch.tensor(-1e9)
        tensors[attention + "rotary_emb.inv_freq"] = torch.ones(2)
    save_file(tensors, tmp_path / "model.safetensors")
    np.testing.assert_allclose(zoo.load(tmp_path).core(ids.numpy()), expected, atol=1e-4)


@pytest.mark.parametrize("settings", [{"attention_layers": ["local", "global", "global"]}, {}])
def test_a_list_of_kinds_of_layers_counts_before_types(tmp_path, settings):
    config = {"model_type": "gpt_neo", "architectures": ["GPTNeoForCausalLM"], **settings}
    config |= {**tiny.WRITERS["GPTNeo"], "vocab_size": 9, "activation_function": "gelu_new"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    theirs = transformers.GPTNeoConfig.from_pretrained(tmp_path).attention_layers
    options = gpt_neo.plan(Settings.read(tmp_path / "config.json"), tmp_path).options
    expected = [place for place, kind in enumerate(theirs) if kind == "global"]
    assert options["global_layers"] == expected


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("GPTNeo", {"attention_types": [[["global", "strided"], 1]]}, "kinds .*'strided'.* be 3"),
        ("GPTNeo", {"tie_word_embeddings": False}, "tie_word_embeddings=False, which is not"),
        ("GPTNeoX", {"rope_theta": 7}, "rope_theta=7, which is not .*: it should be 10000"),
        ("GPTNeoX", {"partial_rotary_factor": 0.2}, "partial_rotary_factor=0.2, .* should be 0.5"),
        ("GPTNeoX", {"hidden_act": "mish"}, "activation 'mish', which is not implemented"),
        ("GPTNeoX", {"rope_parameters": {"rope_type": "spiral"}}, "by 'spiral', which is not"),
        ("OPT", {"word_embed_proj_dim": 8}, "word_embed_proj_dim=8, .*: it should be 16"),
        ("OPT", {"do_layer_norm_before": False}, "do_layer_norm_before=False, which is not"),
        ("Phi3", {"rope_scaling": {"type": "su"}}, "by 'longrope', which needs a 'short_factor'"),
    ],
)
def test_what_is_not_implemented_is_told(tmp_path, family, settings, message):
    config = {"model_type": family.lower().replace("gptneo", "gpt_neo"), **tiny.WRITERS[family]}
    del config["tokenizer"]
    config |= {"architectures": [f"{family}ForCausalLM"], "vocab_size": 9, **settings}
    config.setdefault("activation_function", "gelu_new")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        read_checkpoint(tmp_path)
