"""Adapters of PEFT, merged into their base."""

import json

import numpy as np
import pytest

import zoo

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import safetensors.torch  # noqa: E402

from tests.checkpoints import tiny  # noqa: E402

SETTINGS = {  # as PEFT writes them
    "alpha_pattern": {},
    "auto_mapping": None,
    "bias": "none",
    "ensure_weight_tying": False,
    "fan_in_fan_out": False,
    "inference_mode": True,
    "init_lora_weights": True,
    "layers_pattern": None,
    "layers_to_transform": None,
    "loftq_config": {},
    "lora_alpha": 6,
    "lora_dropout": 0.05,
    "megatron_config": None,
    "modules_to_save": None,
    "peft_type": "LORA",
    "r": 4,
    "rank_pattern": {},
    "revision": None,
    "target_modules": ["q_proj", "down_proj"],
    "task_type": "CAUSAL_LM",
    "use_dora": False,
    "use_rslora": False,
}


def save(folder, family, kind, layers, **settings):
    """Writes a base and an adapter for some of its layers.

    Returns:
        The folder of the adapter, and the base with the adapter merged into it, of transformers.
    """
    theirs, pieces = tiny.save(folder / "base", family, kind)
    settings = {**SETTINGS, "base_model_name_or_path": str(folder / "base"), **settings}
    factor = settings["lora_alpha"] / settings["r"] ** (0.5 if settings["use_rslora"] else 1.0)
    tensors = {}
    for name, weight in theirs.named_parameters():
        if not any(name.endswith(f"{layer}.weight") for layer in layers):
            continue
        upright = settings["fan_in_fan_out"]
        outputs, inputs = reversed(weight.shape) if upright else weight.shape
        down, up = torch.randn(settings["r"], inputs), 0.1 * torch.randn(outputs, settings["r"])
        with torch.no_grad():
            weight += factor * ((up @ down).T if upright else up @ down)
        layer = f"base_model.model.{name.removesuffix('.weight')}"
        tensors |= {f"{layer}.lora_A.weight": down, f"{layer}.lora_B.weight": up}
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(settings))
    safetensors.torch.save_file(tensors, folder / "adapter" / "adapter_model.safetensors")
    return folder / "adapter", theirs, pieces


@pytest.mark.few(1)
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("family", "kind", "layers", "settings"),
    [
        ("Llama", "ForCausalLM", ["q_proj", "down_proj"], {"use_rslora": True}),
        ("GPT2", "LMHeadModel", ["c_attn"], {"fan_in_fan_out": True}),
    ],
)
def test_the_model_is_the_merged_one(family, kind, layers, settings, tmp_path):
    adapter, theirs, pieces = save(tmp_path, family, kind, layers, **settings)
    model, base = zoo.load(adapter), zoo.load(tmp_path / "base")
    ids = torch.tensor([pieces(tiny.TEXTS[0])["input_ids"]])
    with torch.no_grad():
        expected = theirs(ids).logits.numpy()
    np.testing.assert_allclose(model.core(ids.numpy()), expected, atol=1e-4)
    assert np.abs(base.core(ids.numpy()) - expected).max() > 0.01
    zoo.save_checkpoint(model, tmp_path / "merged")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    with torch.no_grad():
        np.testing.assert_allclose(again(ids).logits.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"use_dora": True}, "adapter_config.json says use_dora=True, which is not implemented"),
        ({"peft_type": "IA3"}, "says peft_type='IA3', which is not implemented"),
        ({"init_lora_weights": "pissa"}, "says init_lora_weights='pissa', which is not"),
        ({"modules_to_save": ["lm_head"]}, "says modules_to_save=.*lm_head.*not implemented"),
        ({"rank_pattern": {"q_proj": 2}}, "says rank_pattern=.*not implemented"),
        ({"base_model_name_or_path": "/gone/base"}, "'/gone/base', which is no folder here"),
        ({"unheard_of": 1}, "settings that are not implemented: unheard_of=1"),
    ],
)
def test_other_adapters_are_told(settings, told, tmp_path):
    adapter, *_ = save(tmp_path, "Llama", "ForCausalLM", ["q_proj"], **settings)
    with pytest.raises(ValueError, match=told):
        zoo.load(adapter)


def test_an_adapter_of_another_model_is_told(tmp_path):
    adapter, *_ = save(tmp_path, "Llama", "ForCausalLM", ["q_proj"])
    path = adapter / "adapter_model.safetensors"
    tensors = safetensors.torch.load_file(path)
    renamed = {name.replace("layers.0", "layers.7"): x for name, x in tensors.items()}
    safetensors.torch.save_file(renamed, path)
    with pytest.raises(ValueError, match="changes model.layers.7.self_attn.q_proj.weight, which"):
        zoo.load(adapter)
    tensors["base_model.model.lm_head.weight"] = torch.zeros(2, 2)
    safetensors.torch.save_file(tensors, path)
    with pytest.raises(ValueError, match="holds base_model.model.lm_head.weight, which is not"):
        zoo.load(adapter)
