"""mBART checkpoints: the same numbers, tokens and translations as transformers."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo import decoding
from zoo.checkpoints.loading import read_checkpoint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_translators  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

LANGUAGES = {"source_language": "en_XX", "target_language": "de_DE"}


@pytest.fixture(scope="module", params=["MBart50", "MBart"])
def checkpoint(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mbart")
    return (
        folder,
        *tiny_translators.save_mbart(folder, request.param),
        zoo.load(str(folder), **LANGUAGES),
    )


@pytest.mark.few(1)
def test_numbers_are_those_of_transformers(checkpoint):
    _, theirs, pieces, model = checkpoint
    texts, targets = tiny.TEXTS, [*tiny.GERMAN, "a"]
    inputs = pieces(texts, text_target=targets, padding=True, return_tensors="pt")
    labels = inputs.pop("labels")
    if model.tokenizer.language_last:  # behind the end, where models read it as the start
        labels[labels == pieces.convert_tokens_to_ids("de_DE")] = pieces.pad_token_id
    start = pieces.convert_tokens_to_ids("de_DE" if model.tokenizer.language_last else "</s>")
    written = torch.cat([torch.full((len(labels), 1), start), labels], dim=1)
    with torch.no_grad():
        expected = theirs(**inputs, decoder_input_ids=written, output_attentions=True)
    source = model.source_tokens(tf.constant(texts)).to_tensor(pieces.pad_token_id)
    np.testing.assert_array_equal(source, inputs["input_ids"])
    ours = [[*row, pieces.eos_token_id] for row in model.tokenizer.tokenize(targets).to_list()]
    assert ours == [[x for x in row if x != pieces.pad_token_id] for row in labels.tolist()]
    found, weights = model.core(
        {"source_ids": source, "target_ids": written.numpy()}, return_attention_scores=True
    )
    np.testing.assert_allclose(found, expected.logits, atol=1e-4)
    for ours, others in zip(weights["cross"], expected.cross_attentions, strict=True):
        np.testing.assert_allclose(ours, others, atol=1e-4)


@pytest.mark.few(1)
@pytest.mark.usefixtures("eagerly")
def test_translations_are_those_of_transformers(checkpoint):
    _, theirs, pieces, model = checkpoint
    text, found = tiny.TEXTS[0], set()
    for language in ("de_DE", "fr_XX"):
        role = "decoder_start" if model.tokenizer.language_last else "forced_bos"
        written = theirs.generate(
            **pieces(text, return_tensors="pt"),
            **{f"{role}_token_id": pieces.convert_tokens_to_ids(language)},
            forced_eos_token_id=None,
            max_new_tokens=6,
        )
        translated = model.between("en_XX", language).translate(text, "greedy", max_length=6)
        assert [translated] == pieces.batch_decode(written, skip_special_tokens=True)
        found.add(translated)
    assert len(found) == 2


def test_a_forced_language_is_that_of_the_target(checkpoint, tmp_path):
    """Files of models that were trained for one language force it, whichever is asked for."""
    folder, _, pieces, model = checkpoint
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    path, german = tmp_path / "generation_config.json", pieces.convert_tokens_to_ids("de_DE")
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "forced_bos_token_id": german}))
    forced = zoo.load(tmp_path, **LANGUAGES)
    french = forced.between("en_XX", "fr_XX")
    for translator, language in ((forced, "de_DE"), (french, "fr_XX")):
        number = pieces.convert_tokens_to_ids(language)
        assert translator.sampler() == decoding.get("greedy", forced_first_token=number)
        assert translator.sampler("beam").processors == translator.sampler().processors
    is_forced = not model.tokenizer.language_last
    assert bool(model.sampler().processors) == is_forced


def test_the_tokenizer_may_be_that_of_the_library(checkpoint, tmp_path):
    folder, _, pieces, model = checkpoint
    shutil.copy(folder / "config.json", tmp_path)
    pieces.save_pretrained(tmp_path)  # as tokenizer.json
    _, tokenizer = read_checkpoint(tmp_path, **LANGUAGES)
    texts = [*tiny.TEXTS, *tiny.GERMAN, "fr_XX dogs", "日"]
    expected = pieces(texts)["input_ids"]
    for source in (tokenizer.source, model.tokenizer.source):
        end = [2, *source.tail_ids]
        assert [[*row, *end] for row in source.tokenize(texts).to_list()] == expected
    assert sorted(tokenizer.languages) == sorted(pieces.lang_code_to_id)
    assert tokenizer.languages == model.tokenizer.languages
    for name in ("pad_id", "start_id", "end_id", "unknown_id", "mask_id", "vocabulary_size"):
        assert getattr(tokenizer, name) == getattr(model.tokenizer, name)


@pytest.mark.full
def test_saved_and_back(checkpoint, tmp_path):
    _, theirs, _, model = checkpoint
    again, _ = check_saved_and_back(model, theirs, tmp_path)
    text = tiny.TEXTS[0]
    expected = model.translate(text, "greedy", max_length=9)
    assert again.translate(text, "greedy", max_length=9) == expected


@pytest.mark.full
def test_learned_and_exported(checkpoint, tmp_path):
    tuned = zoo.load(str(checkpoint[0]), **LANGUAGES, sampler="greedy")
    tuned.compile("adam")
    pairs = tiny.TEXTS[:3] * 8, tiny.GERMAN * 8
    history = tuned.fit(*pairs, batch_size=4, epochs=4, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    exported = tf.saved_model.load(tuned.export(tmp_path / "exported", jit_compile=False))
    found = exported.signatures["serving_default"](text=tf.constant(tiny.TEXTS))["text"]
    assert [each.decode() for each in found.numpy()] == tuned.translate(tiny.TEXTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder_start_token_id": 9}, "decoder_start_token_id=9 for 52 languages"),
        ({"normalize_embedding": False}, "normalize_embedding=False"),
        ({"architectures": ["MBartForSequenceClassification"]}, "MBartForSequenceClassification"),
    ],
)
def test_settings_that_do_not_fit(tmp_path, change, message):
    tiny_translators.save_mbart(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        read_checkpoint(tmp_path, **LANGUAGES)
