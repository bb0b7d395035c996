"""ONNX and LiteRT files of text encoders: token ids in, the numbers of the model out."""

import json

import numpy as np
import pytest
import tokenizers

import zoo

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_translators  # noqa: E402

KINDS = {
    "ForSequenceClassification": ["logits"],
    "ForTokenClassification": ["logits"],
    "ForMaskedLM": ["logits"],
    "Model": ["embedding"],
    "ForQuestionAnswering": ["end_logits", "start_logits"],
}
LABELS = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}}
INPUTS = "token_ids", "attention_mask", "segment_ids"


def encoded(folder, texts, length):
    """Returns padded texts, encoded by the tokenizer of an export, as arrays by name."""
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = [(each.ids, each.attention_mask, each.type_ids) for each in library.encode_batch(texts)]
    return {
        name: np.array([row[place] + [0] * (length - len(row[place])) for row in rows], "int32")
        for place, name in enumerate(INPUTS)
    }


def check(found, expected, mask):
    for name, value in expected.items():
        theirs = found[name]
        if theirs.shape[:2] == mask.shape:
            theirs, value = theirs[mask], value[:, : mask.shape[1]][mask]
        np.testing.assert_allclose(theirs, value, atol=1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_graphs_equal_the_model(tmp_path, family, kind):
    pytest.importorskip("tf2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    if family in tiny.WITHOUT_ANSWERS and kind == "ForQuestionAnswering":
        pytest.skip("transformers has no such class")
    settings = LABELS if "Classification" in kind else {}
    tiny.save(tmp_path / "hf", family, kind, num_hidden_layers=1, **settings)
    model = zoo.load(str(tmp_path / "hf"))
    length = model.core.config.max_length
    onnx, lite = (model.export(tmp_path / name, format=name) for name in ("onnx", "litert"))
    session = onnxruntime.InferenceSession(onnx / "model.onnx")
    outputs = [each.name for each in session.get_outputs()]
    assert outputs == KINDS[kind]
    names = [each.name for each in session.get_inputs()]
    lite = interpreter.Interpreter(str(lite / "model.tflite")).get_signature_runner("model")
    assert set(names) == set(lite.get_input_details())
    for texts in (tiny.TEXTS, [("The cats", "on the mat"), ("a", "")]):
        inputs = encoded(onnx, texts, length)
        mask = inputs["attention_mask"] > 0
        asked = {name: inputs[name] for name in names}
        ids = np.where(mask, inputs["token_ids"], model.core.config.pad_id)
        core = {**inputs, "token_ids": ids}
        expected = {name: x.numpy() for name, x in model.named(model.core(core)).items()}
        check(dict(zip(outputs, session.run(None, asked), strict=True)), expected, mask)
        rows = [lite(**{k: x[row : row + 1] for k, x in asked.items()}) for row in range(len(ids))]
        check({name: np.concatenate([x[name] for x in rows]) for name in outputs}, expected, mask)
        width = mask.sum(1).max()
        asked = {name: x[:, :width] for name, x in asked.items()}
        check(dict(zip(outputs, session.run(None, asked), strict=True)), expected, mask[:, :width])
        if texts is tiny.TEXTS and kind not in ("ForTokenClassification", "ForQuestionAnswering"):
            read, _ = model.reader.read(texts)
            assert read[:, 0].numpy().tolist() == ids[:, :width].tolist()
    names = onnx / "labels.json"
    assert names.exists() == bool(settings)
    if settings:
        assert json.loads(names.read_text()) == ["no", "perhaps", "yes"]


@pytest.mark.parametrize("family", ["Bert", "Roberta", "MPNet"])
def test_older_files_become_a_tokenizer_of_the_library(tmp_path, family):
    _, pieces = tiny.save(tmp_path, family, "Model", num_hidden_layers=1)
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    (tmp_path / "tokenizer.json").unlink()
    if family == "Roberta":
        (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
        (tmp_path / "merges.txt").write_text("\n".join(map(" ".join, model["merges"])))
    else:
        words = sorted(model["vocab"], key=model["vocab"].get)
        (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    texts = [*tiny.TEXTS, f"  the {pieces.mask_token}, café\n\n😀"]
    tokenizer = zoo.load(str(tmp_path)).tokenizer
    expected = tokenizer.encode(texts, dense=False).token_ids.to_list()
    assert [each.ids for each in tokenizer.to_library().encode_batch(texts)] == expected


@pytest.mark.full
def test_tokenizers_that_the_library_has_not(tmp_path):
    (tmp_path / "marian").mkdir()
    tiny_translators.save_marian(tmp_path / "marian")
    translator = zoo.load(str(tmp_path / "marian"))
    with pytest.raises(ValueError, match=r"no tokenizer of two sides.*source\.spm"):
        translator.export(tmp_path / "graphs", format="onnx")
    with pytest.raises(ValueError, match="has no SentencePieceUnigram.*`sentencepiece` library"):
        translator.tokenizer.source.to_library()
