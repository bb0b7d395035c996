"""PEGASUS checkpoints: the same numbers and texts as transformers."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints.loading import read_checkpoint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_translators  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

TARGETS = ["The cats did not mind.", "a trip to Paris", "Rome", "Trains and boats"]
SUMMARY = {"no_repeat_ngram_size": 2, "min_length": 5, "num_beams": 3, "early_stopping": "never"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pegasus")
    theirs, pieces = tiny_translators.save_pegasus(folder, **SUMMARY)
    return folder, theirs, pieces, zoo.load(folder)


def test_numbers_are_those_of_transformers(checkpoint):
    _, theirs, pieces, model = checkpoint
    inputs = pieces(tiny.TEXTS, text_target=TARGETS, padding=True, return_tensors="pt")
    labels = inputs.pop("labels")
    shown = torch.cat([torch.full((len(labels), 1), 0), labels], dim=1)
    with torch.no_grad():
        expected = theirs(**inputs, decoder_input_ids=shown, output_attentions=True)
    source = model.source_tokens(tf.constant(tiny.TEXTS)).to_tensor()
    np.testing.assert_array_equal(source, inputs["input_ids"])
    found, weights = model.core(
        {"source_ids": source, "target_ids": shown.numpy()}, return_attention_scores=True
    )
    np.testing.assert_allclose(found, expected.logits, atol=1e-4)
    for ours, others in zip(weights["cross"], expected.cross_attentions, strict=True):
        np.testing.assert_allclose(ours, others, atol=1e-4)


@pytest.mark.full  # `bart_test` always compares texts
@pytest.mark.usefixtures("eagerly")
def test_summaries_are_those_of_transformers(checkpoint):
    _, theirs, pieces, model = checkpoint
    texts, expected = tiny.TEXTS[:2], []
    for text in texts:
        written = theirs.generate(
            **pieces(text, return_tensors="pt"), max_new_tokens=9, forced_eos_token_id=None
        )
        expected += pieces.batch_decode(written, skip_special_tokens=True)
    assert model.generate(texts, max_length=9) == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize("text", ["a", tiny.TEXTS[3] * 3])
def test_the_beginning_of_a_long_text_is_read(checkpoint, text):
    """As in the pipeline of transformers, which has positions for no more."""
    _, _, pieces, model = checkpoint
    expected = pieces([text], truncation=True, max_length=64)["input_ids"]
    assert model.read(tf.constant([text]))[0].numpy().tolist() == expected


def test_the_tokenizer_may_be_that_of_the_library(checkpoint, tmp_path):
    folder, _, pieces, model = checkpoint
    shutil.copy(folder / "config.json", tmp_path)
    pieces.save_pretrained(tmp_path)  # as tokenizer.json
    _, tokenizer = read_checkpoint(tmp_path)
    texts = [*tiny.TEXTS, "<mask_1> <unk_5>dogs", "日"]
    expected = pieces(texts, add_special_tokens=False)["input_ids"]
    assert tokenizer.tokenize(texts).to_list() == expected
    plain = [*tiny.TEXTS, "<unk_5>dogs", "日"]
    expected = tokenizer.tokenize(plain).to_list()
    assert model.tokenizer.tokenize(plain).to_list() == expected
    for name in ("pad_id", "start_id", "end_id", "unknown_id", "mask_id", "vocabulary_size"):
        assert getattr(tokenizer, name) == getattr(model.tokenizer, name)


@pytest.mark.full
def test_saved_and_back(checkpoint, tmp_path):
    _, theirs, _, model = checkpoint
    again, _ = check_saved_and_back(model, theirs, tmp_path)
    assert again.generate(tiny.TEXTS, max_length=9) == model.generate(tiny.TEXTS, max_length=9)


@pytest.mark.full
def test_learned_and_exported(checkpoint, tmp_path):
    folder, _, _, model = checkpoint
    served = tf.saved_model.load(model.export(tmp_path / "exported", jit_compile=False))
    found = served.signatures["serving_default"](text=tf.constant(tiny.TEXTS))["text"].numpy()
    assert [text.decode() for text in found] == model.generate(tiny.TEXTS)
    tuned = zoo.load(folder, dropout=0.0)
    tuned.compile(keras.optimizers.Adam(0.01))
    history = tuned.fit(tiny.TEXTS, TARGETS, epochs=8, verbose=0).history
    assert history["loss"][-1] < 0.9 * history["loss"][0]


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"decoder_start_token_id": 1}, "begins answers with another token"),
        ("config.json", {"normalize_before": False}, "normalize_before=False"),
        ("tokenizer_config.json", {"offset": 0}, "offset=0 is not implemented"),
    ],
)
def test_settings_that_do_not_fit(checkpoint, tmp_path, file, change, message):
    shutil.copytree(checkpoint[0], tmp_path, dirs_exist_ok=True)
    path = tmp_path / file
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**content, **change}))
    with pytest.raises(ValueError, match=message):
        read_checkpoint(tmp_path)
