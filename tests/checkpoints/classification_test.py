"""Pairs of texts, multiple labels and regression: the same results as transformers."""

import json

import click.testing
import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints.loading import read_checkpoint
from zoo.cli import main
from zoo.data.labels import multi_labelled
from zoo.readers.text.pair_reader import PairReader
from zoo.readers.text.tokenizer import Tokenizer
from zoo.tasks import entailment

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny  # noqa: E402

KIND = "ForSequenceClassification"
LABELS = ["angry", "happy", "long"]
PAIRS = [(tiny.TEXTS[0], "The mat."), ("a", tiny.TEXTS[1]), ("", "Trains"), (tiny.TEXTS[3], "")]
MULTI, REGRESSION = "multi_label_classification", "regression"
HALF = [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]


def expected_of(theirs, pieces, pairs, max_length=64, **labels):
    """Returns what transformers computes for truncated pairs, and their encoded inputs."""
    texts, others = map(list, zip(*pairs, strict=True))
    cut = {"truncation": True, "max_length": max_length}
    inputs = pieces(texts, others, padding=True, return_tensors="pt", **cut)
    with torch.no_grad():
        found = theirs(**inputs, **labels, output_attentions=True)
    return tiny.with_square_attentions(theirs, found), inputs


def test_pairs_end_where_the_tokenizer_says(tmp_path):
    tiny.save(tmp_path, "Bert", KIND)
    assert read_checkpoint(tmp_path)[1].longest_pair is None  # the file says 10**30
    pieces = transformers.AutoTokenizer.from_pretrained(tmp_path, model_max_length=16)
    pieces.save_pretrained(tmp_path)
    texts, others = [tiny.TEXTS[3], "a"], [tiny.TEXTS[0], "b"]
    expected = pieces(texts, others, truncation=True, padding=True)
    read_checkpoint(tmp_path)[1].save(tmp_path / "saved.json")
    tokenizer = Tokenizer.load(tmp_path / "saved.json")
    assert tokenizer.get_config()["longest_pair"] == 16
    found, _ = PairReader(tokenizer, 64).read(list(zip(texts, others, strict=True)))
    assert found["token_ids"][:, 0].numpy().tolist() == expected["input_ids"]
    assert found["segment_ids"][:, 0].numpy().tolist() == expected["token_type_ids"]
    assert PairReader(tokenizer, 8).read([(texts[0], others[0])])[0]["token_ids"].shape[-1] == 8


NLI = ["contradiction", "neutral", "entailment"]
TOPICS = ["travel", "cats and dogs", "a"]


@pytest.mark.usefixtures("eagerly")
def test_new_labels_by_entailment(tmp_path):
    theirs, pieces = tiny.save(tmp_path, "Bert", KIND, id2label=dict(enumerate(NLI)))
    theirs.config.label2id = {name: place for place, name in enumerate(NLI)}
    model = zoo.load(tmp_path)
    kind = "zero-shot-classification"
    pipeline = transformers.pipeline(kind, model=theirs, tokenizer=pieces)

    def check(labels, **options):
        names = {"hypothesis": "hypothesis_template", "multi_label": "multi_label"}
        renamed = {names[name]: value for name, value in options.items()}
        expected = pipeline(tiny.TEXTS, candidate_labels=labels, **renamed)
        found = model.classify(tiny.TEXTS, return_probabilities=True, labels=labels, **options)
        for each, row in zip(expected, found.probabilities, strict=True):
            scores = dict(zip(each["labels"], each["scores"], strict=True))
            np.testing.assert_allclose(row, [scores[label] for label in labels], atol=1e-5)
        if not options.get("multi_label"):
            assert found.labels == [each["labels"][0] for each in expected]
            return
        for names, row in zip(found.labels, found.probabilities, strict=True):
            assert names == [label for label, x in zip(labels, row, strict=True) if x > 0.5]

    check(TOPICS)
    check(TOPICS[:1])
    check(TOPICS, hypothesis="It is about {}.", multi_label=True)
    assert model.classify(tiny.TEXTS[0], labels=TOPICS) in TOPICS
    assert model.classify([], labels=TOPICS) == []
    for names, places in {
        ("entailment", "neutral", "contradiction"): (0, 2),
        ("ENTAILMENT", "not_entailment"): (0, 1),
        ("yes", "Entails", "no"): (1, 0),
    }.items():
        assert entailment.places_of_entailment(names) == places
    for arguments, message in (
        ({"labels": "travel"}, "`labels` must be a list of labels"),
        ({"labels": TOPICS, "hypothesis": "None."}, "`hypothesis` must be a sentence with {}"),
        ({"labels": TOPICS, "return_attention": True}, "no attention"),
        ({"multi_label": True}, "go with `labels`"),
    ):
        with pytest.raises(ValueError, match=message):
            model.classify(tiny.TEXTS, **arguments)
    with pytest.raises(ValueError, match="pairs of texts"):
        model.classify(PAIRS, labels=TOPICS)
    model.labels = ["good", "bad", "ugly"]
    with pytest.raises(ValueError, match="one of whose labels is 'entailment'.*'ugly'"):
        model.classify(tiny.TEXTS, labels=TOPICS)


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_commands_for_new_labels(tmp_path, monkeypatch):
    tiny.save(tmp_path, "Bert", KIND, id2label=dict(enumerate(NLI)), num_hidden_layers=1)
    model = zoo.load(tmp_path)
    monkeypatch.setattr(zoo, "load", lambda name: model)
    labels = [part for topic in TOPICS for part in ("--label", topic)]

    def run(*arguments):
        arguments = ["classify", str(tmp_path), *arguments]
        return click.testing.CliRunner().invoke(main, arguments)

    found = model.classify([tiny.TEXTS[0]], return_probabilities=True, labels=TOPICS)
    line = run(tiny.TEXTS[0], *labels).stdout
    assert line == f"{found.labels[0]}\t{found.probabilities.max():.4f}\n"
    options = {"labels": TOPICS, "hypothesis": "About {}.", "multi_label": True}
    (names,) = model.classify([tiny.TEXTS[0]], **options)
    line = run(tiny.TEXTS[0], *labels, "--hypothesis", "About {}.", "--multi-label").stdout
    assert line.partition("\t")[0] == ", ".join(names)
    path = tmp_path / "out.jsonl"
    (tmp_path / "in.txt").write_text(tiny.TEXTS[0])
    run("--input", str(tmp_path / "in.txt"), "--output", str(path), *labels)
    assert json.loads(path.read_text())["label"] == found.labels[0]
    assert "are for texts with --label" in run("a", "--multi-label").stderr
    assert "a sentence with {}" in run("a", *labels, "--hypothesis", "None.").stderr
    assert "does not go with --label" in run("a", *labels, "--show-attention", "a.png").stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.usefixtures("eagerly")
def test_pairs_of_every_family(tmp_path, family):
    theirs, pieces = tiny.save(tmp_path, family, KIND, id2label=dict(enumerate(LABELS)))
    pairs = [*PAIRS, (tiny.TEXTS[3] * 3, tiny.TEXTS[0] * 2), ("a", tiny.TEXTS[3] * 9)]
    model = zoo.load(str(tmp_path))
    expected, inputs = expected_of(theirs, pieces, pairs, model.core.config.max_length)
    found, _ = model.reader.read(tf.constant(pairs))
    assert found["token_ids"][:, 0].numpy().tolist() == inputs["input_ids"].tolist()
    if "token_type_ids" in inputs and model.core.config.num_segments > 1:
        assert found["segment_ids"][:, 0].numpy().tolist() == inputs["token_type_ids"].tolist()
    logits, weights = model.core(found, return_attention_scores=True)
    np.testing.assert_allclose(logits, expected.logits, atol=1e-4)
    mask = inputs["attention_mask"].numpy()[:, None, :, None]
    for ours, others in zip(weights, expected.attentions, strict=True):
        np.testing.assert_allclose(ours * mask, others.numpy() * mask, atol=1e-4)
    found = model.respond(tf.constant(pairs))["probabilities"]
    np.testing.assert_allclose(found, expected.logits.softmax(-1), atol=1e-5)


@pytest.fixture(scope="module")
def multi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("multi")
    settings = {"id2label": dict(enumerate(LABELS)), "problem_type": MULTI}
    theirs, pieces = tiny.save(folder, "Bert", KIND, **settings)
    return folder, theirs, pieces, zoo.load(str(folder), dropout=0.0, attention_dropout=0.0)


@pytest.mark.full
def test_several_labels_an_input(multi, monkeypatch):
    _, theirs, pieces, model = multi
    expected, _ = expected_of(theirs, pieces, PAIRS, labels=torch.tensor(HALF))
    probabilities = expected.logits.sigmoid().numpy()
    result = model.classify(PAIRS, return_probabilities=True)
    np.testing.assert_allclose(result.probabilities, probabilities, atol=1e-5)
    rows = [[LABELS[place] for place in np.flatnonzero(row > 0.5)] for row in probabilities]
    assert result.labels == model.classify(PAIRS) == rows
    assert 0 < sum(map(len, rows)) < 12
    names = [[LABELS[place] for place in np.flatnonzero(row)] for row in HALF]
    model.compile()
    found = model.evaluate(PAIRS, names, return_dict=True, verbose=0)
    assert found["loss"] == pytest.approx(expected.loss.item(), abs=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean((probabilities > 0.5) == HALF))
    monkeypatch.setattr(zoo, "load", lambda name: model)
    asked = ["classify", "toy", "--pair", *(text for pair in PAIRS for text in pair)]
    lines = click.testing.CliRunner().invoke(main, asked).stdout.splitlines()
    assert [line.partition("\t")[0] for line in lines] == [", ".join(row) for row in rows]
    texts, others = map(list, zip(*PAIRS, strict=True))
    found = model.endpoints()["pairs"].function(tf.constant(texts), tf.constant(others))
    np.testing.assert_allclose(found["probabilities"], probabilities, atol=1e-5)
    labels = [[each.decode() for each in row if each] for row in found["label"].numpy()]
    assert labels == rows


@pytest.mark.full
def test_several_labels_saved_and_exported(multi, tmp_path):
    *_, model = multi
    expected = model.classify(PAIRS, return_probabilities=True)
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset").classify(PAIRS, return_probabilities=True)
    assert again.labels == expected.labels
    np.testing.assert_array_equal(again.probabilities, expected.probabilities)
    served = tf.saved_model.load(model.export(tmp_path / "exported")).signatures
    texts, others = map(list, zip(*PAIRS, strict=True))
    found = served["pairs"](text=tf.constant(texts), text_pair=tf.constant(others))
    np.testing.assert_allclose(found["probabilities"], expected.probabilities, atol=1e-5)


@pytest.mark.full
def test_several_labels_are_told_and_drawn(multi):
    folder, *_, model = multi
    told = model.classify(tiny.TEXTS, return_attention=True)
    rows = [", ".join(each) for each in told.labels]
    assert told.plot().axes[0].get_yticklabels()[0].get_text() == rows[0]
    result = click.testing.CliRunner().invoke(main, ["classify", str(folder), *tiny.TEXTS])
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == rows


@pytest.mark.full
def test_data_sets_of_pairs_with_several_labels(multi):
    *_, model = multi
    sides = tuple(map(list, zip(*PAIRS, strict=True)))
    rows = tf.data.Dataset.from_tensor_slices((sides, HALF))
    names = rows.map(lambda pair, row: (pair, tf.boolean_mask(tf.constant(LABELS), row > 0)))
    given = [labels.numpy().tolist() for _, labels in multi_labelled(rows, LABELS)]
    assert given == HALF
    found = {}
    for inputs, labels, weights in model.batches(names, batch_size=4):
        assert weights.numpy().tolist() == [1.0] * len(labels)
        for ids, row in zip(inputs["token_ids"].numpy(), labels.numpy(), strict=True):
            found[tuple(ids[ids > 0])] = row.tolist()
    expected = model.reader.read(tf.constant(PAIRS))[0]["token_ids"].numpy()
    assert [found[tuple(ids[ids > 0])] for ids in expected] == HALF
    wrong = multi_labelled(tf.data.Dataset.from_tensors(("a", ["sad"])), LABELS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unknown label"):
        next(iter(wrong))


@pytest.mark.full
def test_numbers_of_pairs(tmp_path):
    settings = {"num_labels": 1, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    theirs, pieces = tiny.save(tmp_path / "hf", "Roberta", KIND, **settings)
    numbers = [0.5, -1.0, 2.0, 0.0]
    expected, _ = expected_of(theirs, pieces, PAIRS, labels=torch.tensor(numbers))
    model = zoo.load(str(tmp_path / "hf"))
    scores = model.score(PAIRS)
    np.testing.assert_allclose(scores, expected.logits[:, 0], atol=1e-4)
    model.compile(keras.optimizers.Adam(0.01))
    inputs, _ = model.reader.read(tf.constant(PAIRS))
    loss = model.compute_loss(y=np.array(numbers)[:, None], y_pred=model(inputs))
    assert float(loss) == pytest.approx(expected.loss.item(), rel=1e-4)
    taught = [labels for _, labels, _ in model.batches(PAIRS, numbers)]
    assert sorted(np.concatenate(taught)[:, 0].tolist()) == sorted(numbers)
    with pytest.raises(ValueError, match="finite numbers. Received: nan"):
        model.fit(["a"], [float("nan")])
    with pytest.raises(ValueError, match=r"Dataset of \(input, number\)"):
        model.fit(tf.data.Dataset.from_tensors(("a", [1.0])))


@pytest.mark.full
def test_numbers_saved_and_exported(tmp_path):
    theirs, pieces = tiny.save(tmp_path / "hf", "MPNet", KIND, num_labels=1)
    model = zoo.load(str(tmp_path / "hf"), dropout=0.0, attention_dropout=0.0)
    model.compile(keras.optimizers.Adam(0.01))
    numbers = [0.5, -1.0, 2.0, 0.0] * 4
    history = model.fit(PAIRS * 4, numbers, batch_size=8, epochs=12, verbose=0).history
    assert history["loss"][-1] < 0.2 * history["loss"][0]
    scores = model.score(PAIRS)
    assert model.score(tiny.TEXTS[0]) == pytest.approx(model.score(tiny.TEXTS)[0], abs=1e-5)
    model.save_to_preset(tmp_path / "preset")
    np.testing.assert_array_equal(zoo.load(tmp_path / "preset").score(PAIRS), scores)
    served = tf.saved_model.load(model.export(tmp_path / "exported")).signatures
    texts, others = map(list, zip(*PAIRS, strict=True))
    found = served["pairs"](text=tf.constant(texts), text_pair=tf.constant(others))
    np.testing.assert_allclose(found["score"], scores, atol=1e-5)
    again = type(theirs).from_pretrained(zoo.save_checkpoint(model, tmp_path / "again"))
    np.testing.assert_allclose(expected_of(again, pieces, PAIRS)[0].logits[:, 0], scores, atol=1e-4)


def test_new_heads(tmp_path, monkeypatch):
    tiny.save(tmp_path, "DistilBert", "ForMaskedLM", n_layers=1)
    model = zoo.load(str(tmp_path), problem_type=REGRESSION)
    assert isinstance(model, zoo.Scorer)
    for kind in (zoo.Classifier, keras.Layer):
        monkeypatch.setattr(kind, "__reduce__", lambda *_: pytest.fail("the model is copied"))
    model = zoo.load(str(tmp_path), labels=["loud"], problem_type=MULTI)
    assert (model.problem_type, model.labels) == (MULTI, ["loud"])
    with pytest.raises(ValueError, match="become one with problem_type='multi_label.*labels="):
        zoo.load(str(tmp_path), problem_type=MULTI)
    with pytest.raises(ValueError, match="Regression has no labels"):
        zoo.load(str(tmp_path), labels=["loud"], problem_type=REGRESSION)
    with pytest.raises(ValueError, match="at least two labels.*pass problem_type='regression'"):
        zoo.load(str(tmp_path), labels=["loud"], problem_type="single_label_classification")
    with pytest.raises(ValueError, match="must be one of single_label.*Received: 'multi'"):
        zoo.load(str(tmp_path), labels=["loud"], problem_type="multi")


def test_cross_encoders_tell_what_they_make_of_a_number(tmp_path):
    tiny.save(tmp_path, "Bert", KIND, num_labels=1, num_hidden_layers=1)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    told = {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.0.1"}
    path.write_text(json.dumps({**config, "sentence_transformers": told}))
    assert isinstance(zoo.load(str(tmp_path)), zoo.Scorer)
    sigmoid = "torch.nn.modules.activation.Sigmoid"
    path.write_text(json.dumps({**config, "sbert_ce_default_activation_function": sigmoid}))
    with pytest.raises(ValueError, match="applies .*Sigmoid to the score"):
        zoo.load(str(tmp_path))


def test_the_problem_of_a_file_may_be_told(tmp_path):
    """Many configs do not state it."""
    tiny.save(tmp_path, "Bert", KIND, num_labels=2, num_hidden_layers=1)
    model = zoo.load(str(tmp_path), problem_type=MULTI)
    single = zoo.load(str(tmp_path))
    np.testing.assert_array_equal(model.core.get_weights()[0], single.core.get_weights()[0])
    assert (model.problem_type, single.problem_type) == (MULTI, "single_label_classification")


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (
            [("a", "b", "c")],
            [["angry"]],
            r"one of pairs.*Received: \('a', 'b', 'c'\) at",
        ),
        ([("a", "b"), "c"], [[], []], "Received: 'c' at position 1"),
        ([("a", 3)], [[]], "Received: 3"),
        (["a"], [["sad"]], r"a list of some of \['angry'.*Received: \['sad'\]"),
        (["a"], [[2, 0, 0]], "3 numbers, 1"),
        (["a"], [1], "3 numbers, 1"),
        (["a"], [], "a list of labels for each input. Received: 1 inputs and 0"),
    ],
)
def test_wrong_inputs_are_named(multi, inputs, labels, message):
    with pytest.raises(ValueError, match=message):
        multi[-1].fit(inputs, labels)
