"""M2M100 and NLLB checkpoints: the same numbers, tokens and translations as transformers."""

import json
import shutil

import click.testing
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints.loading import read_checkpoint
from zoo.cli import main
from zoo.decoding import BeamSampler, GreedySampler

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_translators  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

NLLB = {"source_language": "eng_Latn", "target_language": "deu_Latn"}
M2M100 = {"source_language": "en", "target_language": "de"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nllb")
    return folder, *tiny_translators.save_m2m_100(folder)


@pytest.fixture(scope="module")
def model(checkpoint):
    return zoo.load(str(checkpoint[0]), **NLLB)


def check_numbers(model, theirs, pieces):
    texts, targets = tiny.TEXTS, [*tiny.GERMAN, "a"]
    inputs = pieces(texts, text_target=targets, padding=True, return_tensors="pt")
    labels = inputs.pop("labels")
    start = torch.full((len(labels), 1), pieces.eos_token_id)
    written = torch.cat([start, labels], dim=1)
    with torch.no_grad():
        expected = theirs(**inputs, decoder_input_ids=written).logits.numpy()
    source = model.source_tokens(tf.constant(texts)).to_tensor(pieces.pad_token_id)
    np.testing.assert_array_equal(source, inputs["input_ids"])
    ours = [[*row, pieces.eos_token_id] for row in model.tokenizer.tokenize(targets).to_list()]
    assert ours == [[x for x in row if x != pieces.pad_token_id] for row in labels.tolist()]
    found = model.core({"source_ids": source, "target_ids": written.numpy()}).numpy()
    kept = written.numpy() != pieces.pad_token_id
    np.testing.assert_allclose(found[kept], expected[kept], atol=1e-4)


def test_numbers_are_those_of_transformers(checkpoint, model):
    _, theirs, pieces = checkpoint
    check_numbers(model, theirs, pieces)


@pytest.mark.usefixtures("eagerly")
def test_m2m100(tmp_path):
    theirs, pieces = tiny_translators.save_m2m_100(tmp_path, "M2M100")
    check_numbers(zoo.load(str(tmp_path), **M2M100), theirs, pieces)


def written(checkpoint, language, **options):
    """Returns the translations that transformers writes, each text by itself."""
    _, theirs, pieces = checkpoint
    found = []
    for text in tiny.TEXTS:
        inputs = pieces(text, return_tensors="pt")
        first = pieces.convert_tokens_to_ids(language)
        ids = theirs.generate(**inputs, forced_bos_token_id=first, max_new_tokens=12, **options)
        found += pieces.batch_decode(ids, skip_special_tokens=True)
    return found


@pytest.mark.full
def test_translations_are_those_of_transformers(checkpoint, model):
    expected = written(checkpoint, "deu_Latn", num_beams=1)
    assert model.translate(tiny.TEXTS, "greedy", max_length=12) == expected
    # Samplers that know nothing of languages begin with that of the model, too.
    assert model.translate(tiny.TEXTS, GreedySampler(), max_length=12) == expected
    beams = {"num_beams": 3, "early_stopping": "never", "forced_eos_token_id": None}
    sampler = BeamSampler(num_beams=3, exact=True)
    found = model.translate(tiny.TEXTS, sampler, max_length=12)
    assert found == written(checkpoint, "deu_Latn", **beams)


@pytest.mark.full
def test_another_pair_of_languages_shares_the_weights(checkpoint, model):
    other = model.between("eng_Latn", "fra_Latn")
    assert other.core is model.core
    found = other.translate(tiny.TEXTS, "greedy", max_length=12)
    assert found == written(checkpoint, "fra_Latn", num_beams=1)
    assert found != model.translate(tiny.TEXTS, "greedy", max_length=12)
    back = model.between("deu_Latn", "eng_Latn")
    first, *_ = back.source_tokens(tf.constant(["a"])).to_list()[0]
    assert back.tokenizer.pieces([[first]]) == model.tokenizer.pieces(
        [[model.tokenizer.language_id]]
    )


@pytest.mark.full
def test_saved_and_back(checkpoint, model, tmp_path):
    again, _ = check_saved_and_back(model, checkpoint[1], tmp_path)
    text = tiny.TEXTS[0]
    found = again.translate(text, "greedy", max_length=12)
    assert found == model.translate(text, "greedy", max_length=12)
    with pytest.raises(ValueError, match=r"Received: source_language, .* model\.between\("):
        zoo.load(tmp_path / "preset", **NLLB)


@pytest.mark.full
def test_translated_on_the_command_line(checkpoint, model):
    options = [f"--{name.replace('_', '-')}={code}" for name, code in NLLB.items()]
    options += ["--max-length=12", "--sampler=greedy"]
    found = click.testing.CliRunner().invoke(
        main, ["translate", str(checkpoint[0]), *options, *tiny.TEXTS]
    )
    expected = model.translate(tiny.TEXTS, "greedy", max_length=12)
    assert found.stdout.splitlines() == expected


@pytest.mark.full
def test_learned_and_exported(checkpoint, tmp_path):
    tuned = zoo.load(str(checkpoint[0]), **NLLB)
    tuned.compile("adam")
    pairs = tiny.TEXTS[:3] * 8, tiny.GERMAN * 8
    history = tuned.fit(*pairs, batch_size=4, epochs=4, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    exported = tf.saved_model.load(tuned.export(tmp_path / "exported", jit_compile=False))
    found = exported.signatures["serving_default"](text=tf.constant(tiny.TEXTS))["text"]
    assert [each.decode() for each in found.numpy()] == tuned.translate(tiny.TEXTS)


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        ({}, "needs `source_language` and `target_language`, two of ace_Arab, .*=None"),
        ({**NLLB, "target_language": "deu_Latin"}, "target_language 'deu_Latin'.*'deu_Latn'"),
        ({"source_language": "eng_Latn"}, "Received: source_language='eng_Latn', target_lang"),
    ],
)
def test_languages_that_are_not_there(checkpoint, languages, message):
    with pytest.raises(ValueError, match=message):
        zoo.load(str(checkpoint[0]), **languages)


def test_models_of_two_languages_have_no_choice(tmp_path):
    tiny_translators.save_marian(tmp_path)
    with pytest.raises(ValueError, match="not a model of many languages.*source_language='en'"):
        read_checkpoint(tmp_path, **M2M100)
    with pytest.raises(ValueError, match=r"Only a model of many languages.*source_language='en'"):
        zoo.load(str(tmp_path)).between(*M2M100.values())


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"decoder_start_token_id": 0}, "a token other than the end token"),
        ("config.json", {"model_type": "nllb-moe"}, "of a 'nllb-moe', which is not implemented"),
        ("tokenizer_config.json", {"legacy_behaviour": True}, "legacy_behaviour=true"),
    ],
)
def test_settings_that_do_not_fit(checkpoint, tmp_path, file, change, message):
    shutil.copytree(checkpoint[0], tmp_path, dirs_exist_ok=True)
    path = tmp_path / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        read_checkpoint(tmp_path, **NLLB)
