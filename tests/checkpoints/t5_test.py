"""T5 checkpoints: the same numbers and texts as transformers."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny_translators  # noqa: E402

TEXTS = ["summarize: The cats sat on the mat.", "Trains and boats, for you! " * 3, "a"]
TARGETS = ["The cats did not mind.", "a trip to Paris", "Rome"]
FIRST = {"feed_forward_proj": "relu"}
OWN_TABLE = {"tie_word_embeddings": False, "untied": True}
KINDS = {
    "mt5": {"family": "MT5", **OWN_TABLE},
    "first": FIRST,
    "second": {"feed_forward_proj": "gated-gelu", **OWN_TABLE},
    "umt5": {"family": "UMT5", **OWN_TABLE},
}


@pytest.fixture(  # an mT5 computes what a second T5 does
    scope="module",
    params=[
        pytest.param("mt5", marks=pytest.mark.full),
        *(kind for kind in KINDS if kind != "mt5"),
    ],
)
def checkpoint(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5")
    theirs, pieces = tiny_translators.save_t5(
        folder, relative_attention_max_distance=10, **KINDS[request.param]
    )
    return folder, theirs, pieces, zoo.load(str(folder))


def test_numbers_are_those_of_transformers(checkpoint):
    _, theirs, pieces, model = checkpoint
    inputs = pieces(TEXTS, text_target=TARGETS, padding=True, return_tensors="pt")
    labels = inputs.pop("labels")
    targets = torch.cat([torch.full((len(labels), 1), 0), labels], dim=1)
    flags = {"output_attentions": True, "output_hidden_states": True}
    with torch.no_grad():
        expected = theirs(**inputs, decoder_input_ids=targets, **flags)
    source = model.source_tokens(tf.constant(TEXTS)).to_tensor()
    assert source.numpy().tolist() == inputs["input_ids"].tolist()
    tensors = {"source_ids": source, "target_ids": targets.numpy()}
    found, weights = model.core(tensors, return_attention_scores=True)
    np.testing.assert_allclose(found, expected.logits, atol=1e-4)
    seen = inputs["attention_mask"].numpy() > 0
    encoded, *_ = model.core._encode(source, training=False)
    states = expected.encoder_last_hidden_state.numpy()
    np.testing.assert_allclose(encoded.numpy()[seen], states[seen], atol=1e-4)
    pairs = {
        "encoder": expected.encoder_attentions,
        "decoder": expected.decoder_attentions,
        "cross": expected.cross_attentions,
    }
    for name, others in pairs.items():
        for ours, each in zip(weights[name], others, strict=True):
            rows = seen[:, None, :, None] if name == "encoder" else np.ones(())
            np.testing.assert_allclose(ours * rows, each.numpy() * rows, atol=1e-4)


@pytest.mark.full  # `marian_test` always compares texts
def test_texts_are_those_of_transformers(request, checkpoint):
    _, theirs, pieces, model = checkpoint
    searches, different = [({}, {})], set()
    if request.config.getoption("--full"):  # `marian_test` always uses beam search
        beams = {"num_beams": 4, "early_stopping": "never"}
        searches.append(({"sampler": "beam", "num_beams": 4}, beams))
    for options, beams in searches:
        expected = []
        for text in TEXTS:
            inputs = pieces(text, return_tensors="pt")
            written = theirs.generate(**inputs, max_new_tokens=15, do_sample=False, **beams)
            expected.append(pieces.decode(written[0], skip_special_tokens=True))
        found = model.generate(TEXTS, max_length=15, **options)
        assert found == expected
        different |= set(found)
    assert len(different) > 1
    assert model.generate([" ", ""]) == ["", ""]


@pytest.mark.few(1)
def test_steps_are_the_whole(checkpoint):
    *_, model = checkpoint
    source = model.source_tokens(tf.constant(TEXTS)).to_tensor()
    targets = np.random.default_rng(0).integers(3, model.core.config.vocabulary_size, (3, 16))
    expected = model.core({"source_ids": source, "target_ids": targets})
    context, state = model.core.start(source, 16)
    for place in range(16):  # past the distance beyond which keys share a bias
        logits, state, _ = model.core.step(tf.constant(targets[:, place]), state, context)
        np.testing.assert_allclose(logits, expected[:, place], atol=1e-4)


@pytest.mark.full
def test_saved_and_back(checkpoint, tmp_path):
    _, theirs, pieces, model = checkpoint
    source = model.source_tokens(tf.constant(TEXTS)).to_tensor()
    inputs = {"source_ids": source, "target_ids": np.array([[0, 9]] * 3)}
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    np.testing.assert_array_equal(again.core(inputs), model.core(inputs))
    path = zoo.save_checkpoint(model, tmp_path / "again")
    back, told = type(theirs).from_pretrained(path, output_loading_info=True)
    assert not told["unexpected_keys"]
    with torch.no_grad():
        ids = pieces(TEXTS[0], return_tensors="pt")["input_ids"]
        target = torch.tensor([[0, 9]])
        expected = theirs(input_ids=ids, decoder_input_ids=target).logits
        found = back.eval()(input_ids=ids, decoder_input_ids=target).logits
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.full
def test_exported_and_trained(checkpoint, tmp_path):
    folder, *_, model = checkpoint
    served = tf.saved_model.load(model.export(tmp_path / "exported", jit_compile=False)).signatures
    found = served["serving_default"](text=tf.constant(TEXTS))["text"].numpy()
    assert [text.decode() for text in found] == model.generate(TEXTS)
    tuned = zoo.load(str(folder), dropout=0.0, attention_dropout=0.0, hidden_dropout=0.0)
    tuned.compile(keras.optimizers.Adam(0.01))
    history = tuned.fit(TEXTS * 8, TARGETS * 8, epochs=4, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]


@pytest.mark.usefixtures("eagerly")
def test_byt5_reads_bytes(tmp_path):
    settings = {"num_layers": 1, "num_decoder_layers": 2, "tokenizer_class": "ByT5Tokenizer"}
    theirs, pieces = tiny_translators.save_t5(
        tmp_path, pieces=transformers.ByT5Tokenizer(), **KINDS["second"], **settings
    )
    model = zoo.load(tmp_path)
    texts = ["Zoë: 8 €", "a <extra_id_1> b<extra_id_124>", "an end </s> c"]
    inputs = pieces(texts, padding=True, return_tensors="pt")
    source = model.source_tokens(tf.constant(texts)).to_tensor()
    assert source.numpy().tolist() == inputs["input_ids"].tolist()
    targets = np.array([[0, 9]] * len(texts))
    with torch.no_grad():
        expected = theirs(**inputs, decoder_input_ids=torch.tensor(targets)).logits
    found = model.core({"source_ids": source, "target_ids": targets})
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert model.tokenizer.detokenize(source[:1]).numpy()[0].decode() == texts[0]
    assert model.settings["max_source_length"] == 1024


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feed_forward_proj": "swiglu-gelu"}, "feed_forward_proj=swiglu-gelu: not implemented"),
        ({"decoder_start_token_id": 2}, "begins answers with another token"),
        (
            {"decoder_start_token_id": 3, "pad_token_id": 3},
            "pad_token_id=3, and the tokenizer pads with 0",
        ),
        ({"architectures": ["T5EncoderModel"]}, "T5EncoderModel, which is not implemented"),
        ({"model_type": "mt5"}, "Implemented classes of mt5: MT5ForConditionalGeneration"),
        ({"sparse_step": 2}, "not implemented: sparse_step=2"),
    ],
)
def test_settings_that_do_not_fit(tmp_path, change, message):
    tiny_translators.save_t5(tmp_path, **FIRST, num_layers=1)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        zoo.load(str(tmp_path))
