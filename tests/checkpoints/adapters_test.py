"""Adapters of PEFT, merged into their base, and their heads."""

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


def save(folder, family, kind, layers, head=None, outputs=3, **settings):
    """Writes a base and an adapter for some of its layers.

    Args:
        folder: A folder.
        family, kind: As for `tiny.save`, of the base.
        layers: Ends of the names of the layers with updates.
        head: Class of transformers with the head of the adapter, `None` for that of the base.
        outputs: Number of outputs of the head.
        **settings: Of the adapter.

    Returns:
        The folder of the adapter, and the base with the adapter merged into it, of transformers.
    """
    theirs, pieces = tiny.save(folder / "base", family, kind)
    settings = {**SETTINGS, "base_model_name_or_path": str(folder / "base"), **settings}
    tensors = {}
    if head is not None:
        theirs = head.from_pretrained(folder / "base", num_labels=outputs).eval()
    for name, weight in theirs.named_parameters():
        outer = f"base_model.model.{name}"
        if any(f"{layer}." in name for layer in settings["modules_to_save"] or ()):
            tensors[outer] = weight.detach()
        if not any(name.endswith(f"{layer}.weight") for layer in layers):
            continue
        layer, outer = name.removesuffix(".weight"), outer.removesuffix(".weight")
        rank, alpha = settings["r"], settings["lora_alpha"]
        for end in settings["rank_pattern"]:
            rank = settings["rank_pattern"][end] if layer.endswith(end) else rank
            alpha = settings["alpha_pattern"][end] if layer.endswith(end) else alpha
        matrix = weight.detach().T if settings["fan_in_fan_out"] else weight.detach()
        down, up = torch.randn(rank, matrix.shape[1]), 0.1 * torch.randn(matrix.shape[0], rank)
        matrix = matrix + alpha / rank ** (0.5 if settings["use_rslora"] else 1.0) * up @ down
        if settings["use_dora"]:
            lengths = 1.0 + torch.rand(len(matrix))
            matrix = matrix / matrix.norm(dim=1, keepdim=True) * lengths[:, None]
            tensors[f"{outer}.lora_magnitude_vector"] = lengths
        with torch.no_grad():
            weight.copy_(matrix.T if settings["fan_in_fan_out"] else matrix)
        tensors |= {f"{outer}.lora_A.weight": down, f"{outer}.lora_B.weight": up}
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
        ("GPT2", "LMHeadModel", ["c_attn"], {"fan_in_fan_out": True, "use_dora": True}),
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


HEADS = {  # class of the base, class with the head, settings, arguments of `zoo.load`, labels
    "Roberta": (
        "ForMaskedLM",
        "RobertaForTokenClassification",
        {
            "task_type": "TOKEN_CLS",
            "modules_to_save": ["classifier", "score"],
            "target_modules": ["query", "key"],
            "rank_pattern": {"key": 2},
            "alpha_pattern": {"key": 5},
        },
        {"labels": ["O", "B", "I"]},
        ["O", "B", "I"],
    ),
    "DistilBert": (
        "ForMaskedLM",
        "DistilBertForSequenceClassification",  # PEFT saves its `pre_classifier`, too
        {
            "task_type": "SEQ_CLS",
            "modules_to_save": ["classifier", "score"],
            "target_modules": ["q_lin"],
        },
        {"problem_type": "multi_label_classification"},
        ["LABEL_0", "LABEL_1", "LABEL_2"],
    ),
    "Llama": (
        "ForCausalLM",
        "LlamaForSequenceClassification",
        {"task_type": "SEQ_CLS", "modules_to_save": ["classifier", "score"], "use_dora": True},
        {},
        ["LABEL_0", "LABEL_1", "LABEL_2"],
    ),
}


@pytest.mark.few(2)
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("family", HEADS)
def test_the_head_is_that_of_the_adapter(family, tmp_path):
    kind, name, settings, arguments, labels = HEADS[family]
    layers = settings.get("target_modules", SETTINGS["target_modules"])
    head = getattr(transformers, name)
    adapter, theirs, pieces = save(tmp_path, family, kind, layers, head, **settings)
    model = zoo.load(adapter, **arguments)
    ids = torch.tensor([pieces(tiny.TEXTS[0])["input_ids"]])
    with torch.no_grad():
        expected = theirs(ids).logits.numpy()
    np.testing.assert_allclose(model.core(ids.numpy()), expected, atol=1e-4)
    assert list(model.settings["labels"]) == labels
    zoo.save_checkpoint(model, tmp_path / "merged")
    again = head.from_pretrained(tmp_path / "merged")
    with torch.no_grad():
        np.testing.assert_allclose(again(ids).logits.numpy(), expected, atol=1e-4)
    assert again.config.id2label == dict(enumerate(labels))


@pytest.mark.few(1)
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("name", "layer", "task", "outputs", "kind"),
    [
        ("RobertaForSequenceClassification", "classifier", "SEQ_CLS", 1, zoo.Scorer),
        ("RobertaForQuestionAnswering", "qa_outputs", "QUESTION_ANS", 2, zoo.Answerer),
    ],
)
def test_heads_without_labels(name, layer, task, outputs, kind, tmp_path):
    settings = {"task_type": task, "modules_to_save": [layer], "target_modules": ["query"]}
    head = getattr(transformers, name)
    arguments = "Roberta", "ForMaskedLM", ["query"], head, outputs
    adapter, theirs, pieces = save(tmp_path, *arguments, **settings)
    model = zoo.load(adapter)
    assert isinstance(model, kind)
    ids = torch.tensor([pieces(tiny.TEXTS[0])["input_ids"]])
    with torch.no_grad():
        expected = theirs(ids)
    logits = expected.logits if outputs == 1 else expected.start_logits
    result = np.asarray(model.core(ids.numpy()))
    result = result if outputs == 1 else result[..., 0]
    np.testing.assert_allclose(result, logits.numpy(), atol=1e-4)


def test_a_wrong_number_of_labels_is_told(tmp_path):
    settings = {"modules_to_save": ["score"]}
    head = transformers.LlamaForSequenceClassification
    adapter, *_ = save(tmp_path, "Llama", "ForCausalLM", ["q_proj"], head, **settings)
    with pytest.raises(ValueError, match=r"has 3 labels. Received: labels=\['bad', 'good'\]"):
        zoo.load(adapter, labels=["bad", "good"])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"peft_type": "IA3"}, "says peft_type='IA3', which is not implemented"),
        ({"init_lora_weights": "pissa"}, "says init_lora_weights='pissa', which is not"),
        ({"bias": "all"}, "says bias='all', which is not implemented"),
        ({"base_model_name_or_path": "/gone/base"}, "'/gone/base', which is no folder here"),
        ({"unheard_of": 1}, "settings that are not implemented: unheard_of=1"),
    ],
)
def test_other_adapters_are_told(settings, told, tmp_path):
    adapter, *_ = save(tmp_path, "Llama", "ForCausalLM", ["q_proj"], **settings)
    with pytest.raises(ValueError, match=told):
        zoo.load(adapter)


def test_a_new_table_that_was_the_output_layer_is_told(tmp_path):
    """PEFT unties the two."""
    settings = {"modules_to_save": ["embed_tokens"]}
    adapter, *_ = save(tmp_path, "Qwen2", "ForCausalLM", ["q_proj"], **settings)
    with pytest.raises(ValueError, match="model.embed_tokens.weight, which in its base is also lm"):
        zoo.load(adapter)


def test_lengths_that_are_missing_are_told(tmp_path):
    adapter, *_ = save(tmp_path, "Llama", "ForCausalLM", ["q_proj"])
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"use_dora": True}))
    with pytest.raises(ValueError, match="there should be A, B, magnitude_vector"):
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
