"""Checkpoints are written so that transformers reads them."""

import numpy as np
import pytest

import zoo

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_translators  # noqa: E402

KINDS = [
    ("Bert", "Model"),
    ("MPNet", "ForMaskedLM"),
    ("Albert", "ForMaskedLM"),
    ("GPT2", "LMHeadModel"),
    ("Qwen3", "ForCausalLM"),
    ("ModernBert", "ForMaskedLM"),
    ("DebertaV2", "ForMaskedLM"),
]


def changed(model):
    """Changes every weight, and returns the model."""
    for weight in model.core.trainable_variables:
        weight.assign(weight * 1.01 + 0.01)
    return model


@pytest.mark.few(1)
@pytest.mark.parametrize(("family", "kind"), KINDS)
def test_transformers_reads_what_is_written(tmp_path, family, kind):
    theirs, pieces = tiny.save(tmp_path / "theirs", family, kind)
    model = changed(zoo.load(str(tmp_path / "theirs")))
    path = zoo.save_checkpoint(model, tmp_path / "ours")
    again, told = type(theirs).from_pretrained(path, output_loading_info=True)
    assert not told["unexpected_keys"]
    assert not told["missing_keys"]
    if kind == "Model":  # which does not use it
        torch.testing.assert_close(again.pooler.dense.weight, theirs.pooler.dense.weight)
    inputs = pieces(tiny.TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        expected = again(**inputs)[0]
    ids = inputs["input_ids"].numpy()
    found = model.core.encode(ids)[0] if kind == "Model" else model.core(ids)
    np.testing.assert_allclose(found, expected, atol=2e-4)
    for ours, others in zip(
        zoo.load(path).core.get_weights(), model.core.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, others)


def test_only_files_of_the_model_are_copied(tmp_path):
    """Trainer leaves the state of its optimizer beside the weights; both are of another model."""
    tiny.save(tmp_path / "theirs", "Bert", "Model")
    model = zoo.load(tmp_path / "theirs")
    for name in ("optimizer.pt", "rng_state.pth", "training_args.bin", "rust_model.ot"):
        (tmp_path / "theirs" / name).write_bytes(b"")
    path = zoo.save_checkpoint(model, tmp_path / "ours")
    assert sorted(each.name for each in path.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_weights_of_half_precision_are_written_whole(tmp_path):
    """transformers would round them again if the config still named the former type."""
    theirs, _ = tiny.save(tmp_path / "theirs", "GPT2", "LMHeadModel", n_layer=1)
    theirs.to(torch.bfloat16).save_pretrained(tmp_path / "theirs")
    model = changed(zoo.load(tmp_path / "theirs"))
    path = zoo.save_checkpoint(model, tmp_path / "ours")
    again = transformers.AutoModelForCausalLM.from_pretrained(path)
    found = again.transformer.wte.weight.detach()
    np.testing.assert_array_equal(found, model.core.embedding.table)


@pytest.mark.parametrize("at_load", [True, False])
def test_settings_that_a_checkpoint_does_not_hold_are_told(tmp_path, at_load):
    tiny.save(tmp_path / "theirs", "GPT2", "LMHeadModel", n_layer=1)
    model = zoo.load(tmp_path / "theirs", **({"sampler": "top_k"} if at_load else {}))
    if not at_load:
        model.default_sampler = "top_k"
    with pytest.warns(UserWarning, match="not hold what was set in Python: sampler. Set it again"):
        path = zoo.save_checkpoint(model, tmp_path / "ours")
    assert zoo.load(path).default_sampler != model.default_sampler


def test_a_translator_comes_back(tmp_path):
    (tmp_path / "marian").mkdir()
    tiny_translators.save_marian(tmp_path / "marian")
    model = changed(zoo.load(str(tmp_path / "marian")))
    path = zoo.save_checkpoint(model, tmp_path / "again")
    assert transformers.MarianMTModel.from_pretrained(path).lm_head.weight.isfinite().all()
    for ours, others in zip(
        zoo.load(path).core.get_weights(), model.core.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, others)
    with pytest.raises(ValueError, match="exists already"):
        zoo.save_checkpoint(model, path)


HEADS = [  # the class of a new head, and what asks for it
    ("ForSequenceClassification", {"labels": ["no", "yes", "maybe"]}),
    ("ForTokenClassification", {"labels": ["O", "A"], "problem_type": "token_classification"}),
    ("ForQuestionAnswering", {"problem_type": "question_answering"}),
    ("ForSequenceClassification", {"problem_type": "regression"}),
]
BEFORE = [
    ("DistilBert", "ForMaskedLM"),
    ("Bert", "Model"),
    ("Electra", "ForPreTraining"),
    ("Albert", "ForPreTraining"),
    ("Roberta", "ForSequenceClassification"),
    ("MPNet", "ForMaskedLM"),
    ("ModernBert", "ForMaskedLM"),
    ("ModernBert", "Model"),
    ("DebertaV2", "ForMaskedLM"),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("family", "kind"), BEFORE)
@pytest.mark.parametrize(("head", "options"), HEADS)
def test_transformers_reads_a_new_head(tmp_path, family, kind, head, options):
    _, pieces = tiny.save(tmp_path / "theirs", family, kind, num_hidden_layers=1)
    model = changed(zoo.load(tmp_path / "theirs", **options))
    path = zoo.save_checkpoint(model, tmp_path / "ours")
    theirs = getattr(transformers, family + head)
    again, told = theirs.from_pretrained(path, output_loading_info=True)
    assert not told["unexpected_keys"]
    assert not told["missing_keys"]
    assert not told["mismatched_keys"]
    inputs = pieces(tiny.TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        outputs = again(**inputs)
    if head == "ForQuestionAnswering":
        expected = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
    else:
        expected = outputs.logits
    np.testing.assert_allclose(model.core(inputs["input_ids"].numpy()), expected, atol=2e-4)
    loaded = zoo.load(path)
    assert type(loaded) is type(model)
    assert getattr(loaded, "labels", None) == options.get("labels")
    for ours, others in zip(loaded.core.get_weights(), model.core.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, others)


def test_what_did_not_come_from_a_checkpoint(tmp_path):
    tiny.save(tmp_path / "theirs", "Bert", "ForMaskedLM", num_hidden_layers=1)
    zoo.load(str(tmp_path / "theirs")).save_to_preset(tmp_path / "preset")
    with pytest.raises(ValueError, match="from elsewhere"):
        zoo.save_checkpoint(zoo.load(tmp_path / "preset"), tmp_path / "ours")


def test_large_tables_are_read_in_parts(tmp_path, monkeypatch):
    tiny.save(tmp_path, "GPT2", "LMHeadModel", n_layer=1)
    whole = zoo.load(str(tmp_path)).core.get_weights()
    monkeypatch.setattr("zoo.checkpoints.names.LARGE", 40)
    for ours, others in zip(zoo.load(str(tmp_path)).core.get_weights(), whole, strict=True):
        assert np.any(ours)
        np.testing.assert_array_equal(ours, others)
