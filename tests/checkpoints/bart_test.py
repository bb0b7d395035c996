"""BART checkpoints: the same numbers and texts as transformers."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints import bart
from zoo.checkpoints.loading import read_checkpoint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_translators  # noqa: E402

TARGETS = ["The cats did not mind.", "a trip to Paris", "Rome", "Trains and boats"]
SUMMARY = {"no_repeat_ngram_size": 2, "min_length": 9, "num_beams": 3, "early_stopping": "never"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bart")
    begin = tiny.tokenizer("RobertaTokenizer").bos_token_id
    theirs, pieces = tiny_translators.save_bart(folder, **SUMMARY, forced_bos_token_id=begin)
    return folder, theirs, pieces, zoo.load(folder)


@pytest.mark.usefixtures("eagerly")
def test_numbers_are_those_of_transformers(checkpoint):
    _, theirs, pieces, model = checkpoint
    inputs = pieces(tiny.TEXTS, text_target=TARGETS, padding=True, return_tensors="pt")
    labels = inputs.pop("labels")
    start = torch.full((len(labels), 1), pieces.eos_token_id)
    shown = torch.cat([start, labels[:, :-1]], dim=1)
    rows = {name: [] for name in ("source_ids", "target_ids", "labels")}
    for found, targets, _ in model.batches(tiny.TEXTS, TARGETS):
        for name, ids in (found | {"labels": targets}).items():
            rows[name] += [row[row != pieces.pad_token_id].tolist() for row in ids.numpy()]
    texts = [row[row != pieces.pad_token_id].tolist() for row in labels]
    assert sorted(rows["labels"]) == sorted(texts)
    assert sorted(rows["target_ids"]) == sorted([pieces.eos_token_id, *row[:-1]] for row in texts)
    assert sorted(rows["source_ids"]) == sorted(pieces(tiny.TEXTS)["input_ids"])
    with torch.no_grad():
        expected = theirs(**inputs, decoder_input_ids=shown, output_attentions=True)
    tensors = {"source_ids": inputs["input_ids"].numpy(), "target_ids": shown.numpy()}
    logits, weights = model.core(tensors, return_attention_scores=True)
    np.testing.assert_allclose(logits, expected.logits, atol=1e-4)
    for ours, others in zip(weights["cross"], expected.cross_attentions, strict=True):
        np.testing.assert_allclose(ours, others, atol=1e-4)


def test_a_mask_without_a_row_is_left_out(checkpoint, tmp_path):
    """As in bart-large-cnn, whose tables have a row less than its tokenizer has tokens."""
    folder, _, pieces, _ = checkpoint
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary, size = tokenizer["model"]["vocab"], len(pieces) - 1
    last = next(token for token, number in vocabulary.items() if number == size)
    vocabulary["<mask>"], vocabulary[last] = size, vocabulary["<mask>"]
    for token in tokenizer["added_tokens"]:
        token["id"] = vocabulary[token["content"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (tmp_path / "tokenizer_config.json").write_bytes(
        (folder / "tokenizer_config.json").read_bytes()
    )
    (tmp_path / "config.json").write_text('{"model_type": "bart"}')
    found = bart.tokenizer(tmp_path, size)
    assert (found.vocabulary_size, found.mask_id) == (size, None)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    expected = theirs(tiny.TEXTS, add_special_tokens=False)["input_ids"]
    assert found.tokenize(tiny.TEXTS).to_list() == expected
    assert bart.tokenizer(tmp_path, size + 1).mask_id == size


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_summaries_are_those_of_transformers(checkpoint):
    _, theirs, pieces, model = checkpoint
    inputs = pieces(tiny.TEXTS, padding=True, return_tensors="pt")
    written = theirs.generate(**inputs, max_new_tokens=20)
    expected = pieces.batch_decode(written, skip_special_tokens=True)
    assert model.generate(tiny.TEXTS, max_length=20) == expected
    assert len(set(expected)) > 1
    assert model.generate(["", " "]) == ["", ""]
    greedy = theirs.generate(**inputs, max_new_tokens=20, num_beams=1)
    found = model.generate(tiny.TEXTS, sampler="greedy", max_length=20)
    assert found == pieces.batch_decode(greedy, skip_special_tokens=True)


def test_long_texts_are_truncated_as_the_tokenizer_does(checkpoint):
    _, _, pieces, model = checkpoint
    texts = [tiny.TEXTS[3] * 3, "a"]
    expected = pieces(texts, truncation=True, max_length=64)["input_ids"]
    found, _ = model.read(tf.constant(texts))
    assert found[0].numpy().tolist() == expected[0]
    assert found[1, : len(expected[1])].numpy().tolist() == expected[1]


@pytest.mark.full
def test_saved_and_back(checkpoint, tmp_path):
    folder, _, pieces, model = checkpoint
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    assert again.settings == model.settings
    for ours, saved in zip(model.core.get_weights(), again.core.get_weights(), strict=True):
        np.testing.assert_array_equal(saved, ours)
    path = zoo.save_checkpoint(model, tmp_path / "again")
    kind = transformers.BartForConditionalGeneration
    back, told = kind.from_pretrained(path, output_loading_info=True)
    assert not told["unexpected_keys"]
    assert not told["missing_keys"]
    ids = pieces(tiny.TEXTS[:1], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = back(input_ids=ids, decoder_input_ids=ids).logits
    tensors = {"source_ids": ids.numpy(), "target_ids": ids.numpy()}
    np.testing.assert_allclose(model.core(tensors), expected, atol=1e-4)


@pytest.mark.full
def test_learned_exported_and_as_a_graph(checkpoint, tmp_path):
    folder, _, _, model = checkpoint
    served = tf.saved_model.load(model.export(tmp_path / "exported", jit_compile=False))
    found = served.signatures["serving_default"](text=tf.constant(tiny.TEXTS))["text"].numpy()
    assert [text.decode() for text in found] == model.generate(tiny.TEXTS)
    assert model.generate(tiny.TEXTS, jit_compile=True) == model.generate(tiny.TEXTS)
    tuned = zoo.load(folder, dropout=0.0)
    tuned.compile(keras.optimizers.Adam(0.01))
    history = tuned.fit(tiny.TEXTS, TARGETS, epochs=20, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]


def test_older_files_name_no_class_of_their_tokenizer(checkpoint, tmp_path):
    folder, _, pieces, model = checkpoint
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    definition = json.loads((folder / "tokenizer.json").read_text())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(definition["vocab"]))
    merges = [" ".join(each) for each in definition["merges"]]
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    _, tokenizer = read_checkpoint(tmp_path)
    assert tokenizer.tokenize(tiny.TEXTS).to_list() == [
        row[1:-1] for row in pieces(tiny.TEXTS)["input_ids"]
    ]
    assert (tokenizer.start_id, tokenizer.end_id) == (pieces.eos_token_id,) * 2
    assert tokenizer.pad_id == pieces.pad_token_id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder_start_token_id": 0}, "begins answers with another token"),
        ({"architectures": ["BartForQuestionAnswering"]}, "BartForQuestionAnswering"),
        ({"normalize_before": True}, "normalize_before=True"),
    ],
)
def test_settings_that_do_not_fit(checkpoint, tmp_path, change, message):
    for path in checkpoint[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        zoo.load(tmp_path)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bart_classifier")
    labels = dict(enumerate(["contradiction", "neutral", "entailment"]))
    theirs, pieces = tiny_translators.save_bart(
        folder, "ForSequenceClassification", id2label=labels, layers=1
    )
    return folder, theirs, pieces, zoo.load(folder)


@pytest.mark.usefixtures("eagerly")
def test_labels_are_those_of_transformers(classifier):
    _, theirs, pieces, model = classifier
    pairs = [(tiny.TEXTS[0], "The mat."), (tiny.TEXTS[3], "a"), ("", "Trains")]
    assert model.labels == ["contradiction", "neutral", "entailment"]
    for texts in (tiny.TEXTS, pairs):
        split = zip(*texts, strict=True) if texts is pairs else [texts]
        inputs = pieces(*map(list, split), padding=True, return_tensors="pt")
        with torch.no_grad():
            expected = theirs(**inputs).logits
        found, _ = model.reader.read(tf.constant(texts))
        np.testing.assert_allclose(model.core(found), expected, atol=1e-4)
        probabilities = model.classify(texts, return_probabilities=True).probabilities
        np.testing.assert_allclose(probabilities, expected.softmax(-1), atol=1e-5)
    told = model.classify(tiny.TEXTS, return_attention=True)
    np.testing.assert_allclose([row.sum() for row in told.attention], 1.0, atol=1e-5)
    assert [len(row) for row in told.tokens] == [
        len(ids) for ids in pieces(tiny.TEXTS)["input_ids"]
    ]


@pytest.mark.full  # `classification_test` always has new labels by entailment
def test_new_labels_are_those_of_transformers(classifier):
    _, theirs, pieces, model = classifier
    theirs.config.label2id = {label: place for place, label in enumerate(model.labels)}
    kind = "zero-shot-classification"
    pipeline = transformers.pipeline(kind, model=theirs, tokenizer=pieces)
    expected = pipeline(tiny.TEXTS[0], candidate_labels=["cats", "trips"])
    found = model.classify(tiny.TEXTS[:1], return_probabilities=True, labels=["cats", "trips"])
    assert found.labels == expected["labels"][:1]
    np.testing.assert_allclose(found.probabilities.max(), expected["scores"][0], atol=1e-5)
    long = model.classify(tiny.TEXTS[3] * 4, return_attention=True)  # read in chunks
    np.testing.assert_allclose(long.attention[0].sum(), 1.0, atol=1e-5)


@pytest.mark.full  # `encoders_test` always makes new heads
def test_classifiers_saved_and_with_new_labels(classifier, tmp_path):
    folder, _, pieces, model = classifier
    model.save_to_preset(tmp_path / "preset")
    np.testing.assert_array_equal(
        zoo.load(tmp_path / "preset").core.get_weights()[-1], model.core.get_weights()[-1]
    )
    new = zoo.load(folder, labels=["no", "yes"])
    np.testing.assert_array_equal(new.core.pooler.kernel, model.core.pooler.kernel)
    kind = transformers.BartForSequenceClassification
    for each, path in ((model, tmp_path / "same"), (new, tmp_path / "new")):
        zoo.save_checkpoint(each, path)
        again, told = kind.from_pretrained(path, output_loading_info=True)
        assert not told["unexpected_keys"] | told["missing_keys"] | told["mismatched_keys"]
        ids = pieces(tiny.TEXTS[:1], return_tensors="pt")["input_ids"]
        with torch.no_grad():
            expected = again(ids).logits
        np.testing.assert_allclose(each.core(ids.numpy()), expected, atol=1e-4)
    new.compile("adam")
    new.fit(tiny.TEXTS, ["yes", "no"] * 2, verbose=0)
    new.export(tmp_path / "exported")


@pytest.mark.full
def test_fresh_classifier():
    tokenizer = zoo.readers.text.Tokenizer.train(tiny.TEXTS, vocabulary_size=300)
    sizes = {"size": 8, "num_heads": 2, "hidden": 16, "num_layers": 1}
    options = {"tokenizer": tokenizer, "labels": ["no", "yes"], "pad_id": tokenizer.pad_id}
    model = zoo.load("bart_classifier", weights=None, **options, **sizes)
    model.compile("adam")
    model.fit(tiny.TEXTS, ["yes", "no"] * 2, verbose=0)
    assert model.classify(tiny.TEXTS[0]) in model.labels
