"""Checkpoints of sentence-transformers: the modules after the encoder, prompts, and settings."""

import json

import numpy as np
import pytest

import zoo
from zoo.checkpoints.loading import read_checkpoint

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import safetensors.numpy  # noqa: E402
import safetensors.torch  # noqa: E402

from tests.checkpoints import tiny  # noqa: E402


@pytest.mark.usefixtures("eagerly")
def test_sentence_transformers_pool_and_normalize(tmp_path):
    theirs, pieces = tiny.save(tmp_path, "Bert", "Model", num_hidden_layers=1)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    (tmp_path / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 48}')

    def check(kinds, expected, number=1):
        (tmp_path / "modules.json").write_text(json.dumps(modules[:kinds]))
        model, texts = zoo.load(str(tmp_path)), tiny.TEXTS[:number]
        np.testing.assert_allclose(model.embed(texts), expected[:number], atol=1e-4)
        assert model.max_tokens == 48
        return model

    output, inputs = tiny.outputs(theirs, pieces)
    mask = inputs["attention_mask"].numpy()[..., None]
    mean = (output.last_hidden_state.numpy() * mask).sum(1) / mask.sum(1)
    check(2, mean)
    unit = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    model = check(3, unit, len(unit))
    np.testing.assert_allclose(
        model.match(tiny.TEXTS, tiny.TEXTS[:1]), unit @ unit[:1].T, atol=1e-4
    )
    prompts = tmp_path / "config_sentence_transformers.json"
    prompts.write_text('{"prompts": {"query": "query: "}, "default_prompt_name": "query"}')
    with pytest.raises(ValueError, match="default_prompt_name='query', which is not implemented"):
        zoo.load(str(tmp_path))
    told = {"query": "a mat: ", "passage": "the dogs: ", "other": ""}
    prompts.write_text(json.dumps({"prompts": told, "default_prompt_name": None}))
    model = check(3, unit)
    assert model.prompts == told
    zoo.save_checkpoint(model, tmp_path / "saved")
    assert read_checkpoint(tmp_path / "saved")[0].options["prompts"] == told
    for name, prompt in told.items():
        texts = [prompt + text for text in tiny.TEXTS[:2]]
        output, inputs = tiny.outputs(theirs, pieces, texts)
        mask = inputs["attention_mask"].numpy()[..., None]
        expected = (output.last_hidden_state.numpy() * mask).sum(1) / mask.sum(1)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        found = model.embed(tiny.TEXTS[:2], prompt=name)
        np.testing.assert_allclose(found, expected, atol=1e-4)
    path = tmp_path / "1_Pooling" / "config.json"
    path.write_text(json.dumps({**pooling, "include_prompt": False}))
    with pytest.raises(ValueError, match="include_prompt=false, which is not implemented"):
        zoo.load(tmp_path)
    path.write_text(json.dumps(pooling))
    path = tmp_path / "tokenizer_config.json"
    cased = {"do_lower_case": False, "strip_accents": True}
    path.write_text(json.dumps({**json.loads(path.read_text()), **cased}))
    settings = {"max_seq_length": 48, "do_lower_case": True}
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(settings))
    check(3, unit)
    path = tmp_path / "sentence_bert_config.json"
    path.write_text('{"max_seq_length": 514}')  # some folders count positions that do not exist
    assert read_checkpoint(tmp_path)[0].options["max_tokens"] == 64
    path.write_text('{"max_seq_')
    with pytest.raises(ValueError, match="sentence_bert_config.json is damaged: it is not JSON"):
        read_checkpoint(tmp_path)
    path.unlink()
    pooling = {"pooling_mode_max_tokens": True}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    with pytest.raises(ValueError, match="pooling_mode_max_tokens, which is not implemented"):
        zoo.load(str(tmp_path))


@pytest.mark.full
@pytest.mark.parametrize("is_pickled", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.usefixtures("eagerly")
def test_sentence_transformers_with_a_dense_layer(tmp_path, is_pickled):
    folder, place = tmp_path / "hf", tmp_path / "hf" / "2_Dense"
    theirs, pieces = tiny.save(folder, "Bert", "Model", num_hidden_layers=1)
    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    paths = ["", "1_Pooling", "2_Dense", "3_Normalize"]
    modules = [
        {"path": path, "type": f"sentence_transformers.models.{kind}"}
        for path, kind in zip(paths, kinds, strict=True)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    place.mkdir()
    dense = {"in_features": 16, "out_features": 10, "bias": True}
    dense["activation_function"] = "torch.nn.modules.activation.Tanh"
    (place / "config.json").write_text(json.dumps(dense))
    layer = torch.nn.Linear(16, 10)
    state = {f"linear.{name}": tensor for name, tensor in layer.state_dict().items()}
    if is_pickled:
        torch.save(state, place / "pytorch_model.bin")
    else:
        safetensors.torch.save_file(state, place / "model.safetensors")

    output, _ = tiny.outputs(theirs, pieces)
    with torch.no_grad():
        expected = torch.tanh(layer(output.last_hidden_state[:, 0])).numpy()
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    model = zoo.load(folder)
    np.testing.assert_allclose(model.embed(tiny.TEXTS), expected, atol=1e-5)
    model.save_to_preset(tmp_path / "preset")
    zoo.save_checkpoint(model, tmp_path / "saved")
    for saved in ("preset", "saved"):
        found = zoo.load(tmp_path / saved).embed(tiny.TEXTS[0])
        np.testing.assert_allclose(found, expected[0], atol=1e-5)
    names = safetensors.numpy.load_file(tmp_path / "saved" / "2_Dense" / "model.safetensors")
    assert set(names) == set(state)

    classifier = zoo.load(folder, labels=["a", "b"])
    assert classifier.core.pooler.units == 16  # BERT's own, which is new
    zoo.save_checkpoint(classifier, tmp_path / "classifier")
    assert not (tmp_path / "classifier" / "2_Dense").exists()
    assert zoo.load(tmp_path / "preset", labels=["a", "b"]).core.pooler.units == 16
    (place / "config.json").write_text(json.dumps({**dense, "bias": False}))
    with pytest.raises(ValueError, match="bias=False, which is not implemented"):
        zoo.load(folder)


@pytest.mark.full
def test_sentence_transformers_made_of_a_masked_model(tmp_path):
    """Their configs still name the class that they were trained from."""
    theirs, pieces = tiny.save(tmp_path, "MPNet", "ForMaskedLM")
    kinds = ["Transformer", "Pooling", "Normalize"]
    modules = [{"path": "pool", "type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    inputs = pieces(tiny.TEXTS, padding=True, return_tensors="pt")
    first = theirs.mpnet(**inputs).last_hidden_state.detach().numpy()[:, 0]
    unit = first / np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(zoo.load(str(tmp_path)).embed(tiny.TEXTS), unit, atol=1e-4)
