"""Longformer: the windows and global tokens of transformers, and which tokens those are."""

import json

import numpy as np
import pytest
import tensorflow as tf

import zoo
from keras_attention.compute import windows
from zoo.checkpoints.loading import read_checkpoint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402
from tests.checkpoints.signatures import default_signature  # noqa: E402
from tests.conftest import without_graphs  # noqa: E402

FAMILY = "Longformer"
LABELS = ["bad", "fair", "good"]
WINDOWS = [4, 8]
PAIRS = [
    ("Who sat on the mat?", tiny.TEXTS[0]),
    ("a", "the dogs"),
    ("Where to?", " ".join(tiny.TEXTS * 2)),  # several windows of 64 tokens
]


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Blocks as short as half of a window, so that short texts have several."""
    monkeypatch.setattr(windows, "SHORTEST_BLOCK", 1)


@pytest.fixture(scope="module")
def masked(request, tmp_path_factory):
    """The model for masked tokens: its folder, and those of transformers and of the zoo."""
    folder = tmp_path_factory.mktemp("masked")
    theirs, pieces = tiny.save(folder, FAMILY, "ForMaskedLM", attention_window=WINDOWS)
    with without_graphs(request.config):
        yield folder, theirs, pieces, zoo.load(folder)


def assert_same(found, expected, mask, tolerance=1e-5):
    """Compares what belongs to tokens that are no padding."""
    np.testing.assert_allclose(np.asarray(found)[mask], np.asarray(expected)[mask], atol=tolerance)


def assert_same_weights(weights, expected, mask):
    for ours, others in zip(weights, expected, strict=True):
        assert_same(np.swapaxes(ours, 1, 2), others.transpose(1, 2), mask)


@pytest.mark.usefixtures("eagerly")
def test_tokens_without_global_ones(masked):
    _, theirs, pieces, model = masked
    expected, inputs = tiny.outputs(theirs, pieces)
    mask = inputs["attention_mask"].numpy() > 0
    ids, _ = model.reader.read(tiny.TEXTS)
    assert ids[:, 0].numpy().tolist() == inputs["input_ids"].tolist()
    found, weights = model.core(ids, return_attention_scores=True)
    assert mask.sum(1).min() < 4 < 8 < mask.sum(1).max()  # texts in and beyond the windows
    assert_same(found, expected.logits, mask)
    assert_same_weights(weights, expected.attentions, mask)
    assert [block.attention.window for block in model.core.blocks] == WINDOWS


@pytest.mark.usefixtures("eagerly")
def test_labels_read_the_first_token_which_is_global(request, tmp_path):
    settings = {"id2label": dict(enumerate(LABELS)), "attention_window": WINDOWS}
    theirs, pieces = tiny.save(tmp_path / "hf", FAMILY, "ForSequenceClassification", **settings)
    expected, inputs = tiny.outputs(theirs, pieces)
    mask = inputs["attention_mask"].numpy() > 0
    model = zoo.load(tmp_path / "hf")
    ids, _ = model.reader.read(tiny.TEXTS)
    found, weights = model.core(ids, return_attention_scores=True)
    np.testing.assert_allclose(found, expected.logits, atol=1e-5)
    assert_same_weights(weights, expected.attentions, mask)
    assert np.all(weights[0].numpy()[-1, :, 0] > 0)  # at every position of the longest text
    probabilities = expected.logits.softmax(-1).numpy()
    again, _ = check_saved_and_back(model, theirs, tmp_path)
    served = default_signature(request, again, tmp_path / "exported")
    found = served(text=tf.constant(tiny.TEXTS))
    np.testing.assert_allclose(found["probabilities"], probabilities, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_the_tokens_of_a_question_are_global(tmp_path):
    theirs, _ = tiny.save(tmp_path, FAMILY, "ForQuestionAnswering", attention_window=WINDOWS)
    model = zoo.load(tmp_path, attention_dropout=0.0, dropout=0.0)
    inputs = model.reader.read(tf.constant(PAIRS)).inputs
    ids = inputs["token_ids"].numpy()
    mask = ids != model.core.config.pad_id
    separator = model.core.config.separator_id
    ends = (ids == separator).argmax(1)
    assert len(ids) > len(PAIRS)
    assert len(set(ends)) == 3
    given = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    with torch.no_grad():
        expected = theirs(**given, output_attentions=True)
    is_global = np.arange(ids.shape[1]) < ends[:, None]
    expected = tiny.with_square_attentions(theirs, expected, is_global)
    logits, weights = model.core(inputs, return_attention_scores=True)
    assert_same(logits[..., 0], expected.start_logits, mask)
    assert_same(logits[..., 1], expected.end_logits, mask)
    assert_same_weights(weights, expected.attentions, mask)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ForQuestionAnswering", "ForTokenClassification"])
def test_it_is_trained_in_graphs(tmp_path, kind):
    tiny.save(tmp_path, FAMILY, kind)
    model = zoo.load(tmp_path)
    before = model.core.get_weights()
    model.compile("adam")
    if kind == "ForQuestionAnswering":
        model.fit(PAIRS[:2], ["the mat", "dogs"], verbose=0)
    else:
        model.fit([["The", "cats"]], [["LABEL_0", "LABEL_1"]], verbose=0)
    changed = [
        np.abs(weight - other).max() > 0
        for weight, other in zip(model.core.get_weights(), before, strict=True)
    ]
    assert np.mean(changed) > 0.9


def states_with_global_tokens(folder, ids, mask):
    """Returns the last states of transformers' base model if the first token is global."""
    base = transformers.LongformerModel.from_pretrained(folder).eval()
    first = (np.arange(ids.shape[1]) < 1) * np.ones_like(ids)
    with torch.no_grad():
        return base(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            global_attention_mask=torch.tensor(first),
        ).last_hidden_state


@pytest.mark.usefixtures("eagerly")
def test_new_labels_use_the_global_projections_of_the_file(masked):
    folder, _, _, model = masked
    classifier = zoo.load(folder, labels=LABELS)
    ids = model.reader.read(tiny.TEXTS)[0][:, 0].numpy()
    mask = ids != model.core.config.pad_id
    expected = states_with_global_tokens(folder, ids, mask)
    assert_same(classifier.core.encode(ids)[0], expected, mask)


@pytest.mark.usefixtures("eagerly")
def test_unused_projections_are_written_back(masked, tmp_path):
    folder, theirs, _, model = masked
    check_saved_and_back(model, theirs, tmp_path)
    tagger = zoo.load(folder, labels=["O", "A"], problem_type="token_classification")
    path = zoo.save_checkpoint(tagger, tmp_path / "tagger")
    kind = transformers.LongformerForTokenClassification
    again, told = kind.from_pretrained(path, output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    name = "longformer.encoder.layer.1.attention.self.value_global.bias"
    np.testing.assert_array_equal(again.state_dict()[name], theirs.state_dict()[name])


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_in_a_preset_without_them_they_begin_as_the_others(masked, tmp_path):
    _, _, _, model = masked
    model.save_to_preset(tmp_path / "preset")
    classifier = zoo.load(tmp_path / "preset", labels=LABELS)
    for block, other in zip(classifier.core.blocks, model.core.blocks, strict=True):
        for name in ("query", "key", "value"):
            for kind in ("", "global_"):
                found = getattr(block.attention, f"{kind}{name}_projection")
                expected = getattr(other.attention, f"{name}_projection")
                np.testing.assert_array_equal(found.kernel, expected.kernel)
        np.testing.assert_array_equal(
            block.feed_forward.outer.kernel, other.feed_forward.outer.kernel
        )
    classifier.save_to_preset(tmp_path / "labels")
    again = zoo.load(tmp_path / "labels", labels=["other", "ones"])
    found = again.core.blocks[0].attention.global_key_projection.bias
    expected = classifier.core.blocks[0].attention.global_key_projection.bias
    np.testing.assert_array_equal(found, expected)
    classifier.enable_lora(2)
    assert classifier.core.blocks[0].attention.global_key_projection.lora_enabled


def test_files_that_name_no_class(masked, tmp_path):
    """As those of AllenAI: the tensors tell whether there is a head."""
    folder, _, _, _ = masked
    config = json.loads((folder / "config.json").read_text())
    del config["architectures"]
    for name in ("tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "tokenizer_config.json").unlink()  # nor do they have one
    older = {"attention_mode": "longformer", "ignore_attention_mask": False, "onnx_export": False}
    (tmp_path / "config.json").write_text(json.dumps({**config, **older}))
    assert read_checkpoint(tmp_path)[0].architecture == "text_encoder_masked"
    (tmp_path / "config.json").write_text(json.dumps({**config, "attention_window": 6}))
    assert read_checkpoint(tmp_path)[0].options["windows"] == [6, 6]
    for change, message in (
        ({"attention_mode": "tvm"}, "attention_mode='tvm', which is not implemented"),
        ({"ignore_attention_mask": True}, "ignore_attention_mask=True, which is not implemented"),
        ({"attention_window": [4]}, r"one for each of the 2 blocks\. Received: windows=\[4\]"),
        ({"attention_window": 5}, r"positive even integers.*Received: windows=\[5, 5\]"),
        ({"attention_dilation": [2]}, "attention_dilation"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(ValueError, match=message):
            zoo.load(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "span"}, r"need the `separator_id`.*separator_id=None"),
        ({"window": 2}, "exclude these options: window=2"),
        ({"position": "rotary"}, "exclude these options: position='rotary'"),
        ({"use_bias": ["query"]}, r"exclude these options: use_bias=\['query'\]"),
        ({"windows": "4"}, "must be a list of positive even integers.*windows='4'"),
    ],
)
def test_options_that_do_not_fit(options, message):
    from zoo.models.text_encoder import TextEncoder

    sizes = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 8, "head": "masked"}
    with pytest.raises(ValueError, match=message):
        TextEncoder(20, **{**sizes, "windows": [4], **options})
