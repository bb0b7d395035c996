"""Marian translators: the same numbers and texts as transformers."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo import decoding
from zoo.checkpoints.loading import read_checkpoint
from zoo.tasks.passages import passages_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_translators  # noqa: E402

SENTENCES = ["The cats sat on the mat.", "Trains and boats, for you!", "a"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian")
    theirs, pieces = tiny_translators.save_marian(folder)
    theirs.final_logits_bias[0, pieces.eos_token_id] = 3.0  # so that texts end by themselves
    theirs.save_pretrained(folder)
    return folder, theirs, pieces


@pytest.fixture(scope="module")
def model(checkpoint):
    return zoo.load(str(checkpoint[0]))


def test_numbers_are_those_of_transformers(checkpoint, model):
    _, theirs, pieces = checkpoint
    inputs = pieces(SENTENCES, text_target=tiny.GERMAN, padding=True, return_tensors="pt")
    labels = inputs.pop("labels")
    start = torch.full((len(labels), 1), pieces.pad_token_id)
    targets = torch.cat([start, labels], dim=1)
    expected = theirs(**inputs, decoder_input_ids=targets, output_attentions=True)
    source = model.source_tokens(tf.constant(SENTENCES)).to_tensor(pieces.pad_token_id)
    assert source.numpy().tolist() == inputs["input_ids"].tolist()
    ours = model.tokenizer.tokenize(tiny.GERMAN).to_list()
    assert [[*row, 0] for row in ours] == [
        [token for token in row if token != pieces.pad_token_id] for row in labels.tolist()
    ]
    found, weights = model.core(
        {"source_ids": source, "target_ids": targets.numpy()}, return_attention_scores=True
    )
    kept = targets.numpy() != pieces.pad_token_id
    kept[:, 0] = True
    np.testing.assert_allclose(
        found.numpy()[kept], expected.logits.detach().numpy()[kept], atol=1e-4
    )
    pairs = {"encoder": "encoder_attentions", "cross": "cross_attentions"}
    for ours, theirs in pairs.items():
        for each, other in zip(weights[ours], expected[theirs], strict=True):
            rows = kept if ours == "cross" else source.numpy() != pieces.pad_token_id
            seen = rows[:, None, :, None]
            np.testing.assert_allclose(each * seen, other.detach().numpy() * seen, atol=1e-4)


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        ("beam", {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True}),
        # `t5_test` always decodes greedily
        pytest.param("greedy", {"num_beams": 1}, marks=pytest.mark.full),
    ],
)
def test_translations_are_those_of_transformers(checkpoint, model, sampler, options):
    _, theirs, pieces = checkpoint
    assert repr(model.default_sampler).startswith("BeamSampler(num_beams=4")
    named, rules = model.sampler("greedy", min_length=2), model.default_sampler.processors
    assert named.processors == (*rules, decoding.MinimumLength(2))  # the file's rules stay in place
    assert model.sampler("greedy", processors=[]).processors == ()
    for text in SENTENCES:
        inputs = pieces(text, return_tensors="pt")
        # By default, where transformers cuts a text off, it replaces the last token with the end.
        written = theirs.generate(**inputs, max_new_tokens=20, forced_eos_token_id=None, **options)
        expected = model.tokenizer.detokenize(written.numpy()).numpy()[0].decode()
        more = {"num_beams": 4, "length_penalty": 2.0, "patience": 1.0, "only_best_end": True}
        more = more if sampler == "beam" else {}
        assert model.translate(text, sampler=sampler, max_length=20, **more) == expected


def test_settings_of_the_converter_change_nothing(checkpoint, tmp_path):
    """Most models of OPUS-MT have as many `extra_pos_embeddings` as tokens."""
    shutil.copytree(checkpoint[0], tmp_path, dirs_exist_ok=True)
    path = tmp_path / "config.json"
    more = {"extra_pos_embeddings": 58101, "force_bos_token_to_be_generated": False}
    more |= {"encoder_layerdrop": 0.1}
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    assert read_checkpoint(tmp_path)[0] == read_checkpoint(checkpoint[0])[0]


def test_an_unknown_language_code_is_told(model, monkeypatch):
    monkeypatch.setattr(model.tokenizer.source, "language_codes", (">>de<<", ">>fr<<"))
    with pytest.raises(ValueError, match="Unknown language code '>>fra<<'. Did you mean '>>fr<<'"):
        model.translate(["a", ">>fra<< The cats."])


@pytest.mark.full
def test_a_language_code_holds_for_all_sentences_of_a_text(checkpoint, tmp_path):
    """transformers, which does not split texts, reads a single code as well."""
    shutil.copytree(checkpoint[0], tmp_path, dirs_exist_ok=True)
    path = tmp_path / "vocab.json"
    ids = json.loads(path.read_text())
    *pieces, _, pad = ids
    path.write_text(json.dumps(dict(zip([*pieces, ">>fr<<", pad], ids.values(), strict=True))))
    theirs, tokens = checkpoint[1], transformers.MarianTokenizer.from_pretrained(tmp_path)
    model = zoo.load(tmp_path)
    assert model.tokenizer.source.language_codes == (">>fr<<",)
    written, beams = [], {"num_beams": 4, "early_stopping": "never", "forced_eos_token_id": None}
    for text in SENTENCES[:2]:
        inputs = tokens(f">>fr<< {text}", return_tensors="pt")
        ids = theirs.generate(**inputs, max_new_tokens=20, **beams)
        written.append(model.tokenizer.detokenize(ids.numpy()).numpy()[0].decode())
    text = " ".join(SENTENCES[:2])
    found = model.translate([f">>fr<< {text}", text], max_length=20)
    assert found[0] == " ".join(written)
    assert found[1] != found[0]


def test_a_language_code_holds_for_all_parts_of_a_long_sentence():
    def count(texts):
        return [len(text.split()) for text in texts]

    texts = [">>fr<< one two, three four. Five", "six >>fr<<", ">>fr<<", ">>> one"]
    with pytest.warns(UserWarning, match="The text at position 0 has a sentence of more than 3"):
        found = passages_of(texts, 3, count, [">>fr<<"])
    assert [(each.text, each.place, each.offset) for each in found] == [
        (">>fr<< one two,", 0, 7),
        (">>fr<< three four.", 0, 16),
        (">>fr<< Five", 0, 28),
        ("six >>fr<<", 1, 0),
        (">>fr<<", 2, 6),
        (">>> one", 3, 0),
    ]


@pytest.mark.full
def test_trained(checkpoint):
    tuned = zoo.load(str(checkpoint[0]), dropout=0.0)
    tuned.compile(optimizer=keras.optimizers.Adam(0.02))
    history = tuned.fit(SENTENCES * 16, tiny.GERMAN * 16, epochs=2, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.9 * history["loss"][0]


@pytest.mark.full
def test_saved(model, tmp_path):
    texts = SENTENCES[::2]
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    assert again.default_sampler == model.default_sampler
    assert again.tokenizer.tokenize(texts).to_list() == model.tokenizer.tokenize(texts).to_list()
    for ours, saved in zip(model.core.get_weights(), again.core.get_weights(), strict=True):
        np.testing.assert_array_equal(saved, ours)


@pytest.mark.full
def test_exported(model, tmp_path):
    texts = SENTENCES[::2]
    expected = model.translate(texts)
    served = tf.saved_model.load(model.export(tmp_path / "exported", jit_compile=False)).signatures
    found = served["serving_default"](text=tf.constant(texts))["text"].numpy()
    assert [text.decode() for text in found] == expected
