"""Tagging, filling masks and embedding: what they learn, and how words map to tokens."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.tasks.tagging import Tag, entities

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny  # noqa: E402
from tests.checkpoints.signatures import default_signature  # noqa: E402

LABELS = ["O", "B-PLACE", "I-PLACE"]


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagger")
    settings = {"id2label": dict(enumerate(LABELS)), "num_hidden_layers": 1}
    theirs, pieces = tiny.save(folder, "Bert", "ForTokenClassification", **settings)
    return zoo.load(str(folder), dropout=0.0, attention_dropout=0.0), theirs, pieces


@pytest.mark.usefixtures("eagerly")
def test_a_word_has_the_label_of_its_first_token(tagger):
    model, theirs, pieces = tagger
    texts = [*tiny.TEXTS, "Rome, for  Naïve-owners\u2003you!", ""]
    for text, tags in zip(texts, model.tag(texts), strict=True):
        words = [each.word for each in tags]
        assert "".join(words) == "".join(text.split())
        if not words:
            continue
        inputs = pieces(words, is_split_into_words=True, return_tensors="pt")
        logits = theirs(**inputs).logits[0].detach().softmax(-1).numpy()
        owners = inputs.word_ids()
        first = [owners.index(place) for place in range(len(words))]
        assert [each.label for each in tags] == [LABELS[x] for x in logits[first].argmax(-1)]
        np.testing.assert_allclose(
            [each.probability for each in tags], logits[first].max(-1), atol=1e-5
        )
    assert model.tag([["The cats", "sat"]])[0][0].word == "The cats"


@pytest.mark.full
def test_long_texts_are_read_in_parts(tagger):
    model, *_ = tagger
    text = " ".join(["cats", "mat", "trains"] * 40)
    token_ids, words, places = model.reader.read_words([model.reader.words_of([text])[0]])
    assert token_ids.shape[1] > 1
    flat = token_ids.numpy().reshape(-1)
    firsts = [model.tokenizer.tokenize([word])[0, 0].numpy() for word in words.numpy()[0]]
    assert flat[places.numpy()[0]].tolist() == firsts
    assert len(model.tag(text)) == 120


@pytest.mark.full
def test_it_learns_words(request, tagger, tmp_path):
    model, *_ = tagger
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    words = [["cats", "in", "Rome"], ["Paris", "sat"]] * 40
    labels = [["O", "O", "B-PLACE"], ["B-PLACE", "O"]] * 40
    history = model.fit(words, labels, batch_size=4, epochs=2, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    assert [each.label for each in model.tag([["cats", "in", "Rome"]])[0]] == labels[0]
    served = default_signature(request, model, tmp_path / "exported")
    found = served(text=tf.constant(["cats in Rome"]))["labels"]
    assert [label.decode() for label in found.numpy()[0]] == labels[0]


def test_words_and_labels_that_do_not_match_are_told(tagger):
    model, *_ = tagger
    words = [["cats", "in", "Rome"]]
    with pytest.raises(ValueError, match=r"Received: \['O', 'O'\] for 3 words at position 0"):
        model.batches(words, [["O", "O"]])
    with pytest.raises(ValueError, match="one of.*Received: PLACE"):
        model.batches(words, [["O", "O", "PLACE"]])
    with pytest.raises(ValueError, match="Received: 1 texts and labels for 0"):
        model.batches(words)
    with pytest.raises(ValueError, match="Received: 0 texts and labels for 0"):
        model.batches([], [])
    dataset = tf.data.Dataset.from_tensor_slices((words, [["O"] * 3]))
    with pytest.raises(ValueError, match=r"two vectors, not batched.*dataset\.unbatch"):
        model.batches(dataset.batch(1))
    for wrong in (dataset.map(lambda x, y: x), dataset.map(lambda x, y: (x, [0.0] * 3))):
        with pytest.raises(ValueError, match="two vectors, not batched.*Received: a data set"):
            model.batches(wrong)
    with pytest.raises(ValueError, match="must be a finite data set.*Leave out repeat"):
        model.batches(dataset.repeat())
    with pytest.raises(ValueError, match=r"Received: \['O', 'O', 'O'\] for 2 words at position 0"):
        model.batches(dataset.map(lambda x, y: (x[:2], y)))


@pytest.mark.usefixtures("eagerly")
def test_a_tagger_reads_data_sets_like_lists(tagger):
    model, *_ = tagger
    words = [["cats", "in", "Rome"], ["Naïve", ""], ["", "Paris"]]
    labels = [["O", "O", "B-PLACE"], ["O", "I-PLACE"], ["O", "B-PLACE"]]
    numbers = [[LABELS.index(each) for each in row] for row in labels]
    rows = tf.ragged.constant(words), tf.ragged.constant(numbers)
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    (found,), (expected,) = model.batches(dataset), model.batches(words, labels)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    requests, _ = model.reader.requests([*words, [""], []])
    found = model.reader.read_words(requests).words
    assert [len(row[row != b""]) for row in found.numpy()] == [3, 2, 2, 1, 0]


@pytest.mark.full
def test_a_new_head_for_words(tmp_path):
    tiny.save(tmp_path / "masked", "DistilBert", "ForMaskedLM", n_layers=1)
    model = zoo.load(tmp_path / "masked", labels=LABELS, problem_type="token_classification")
    assert isinstance(model, zoo.Tagger)
    assert [each.word for each in model.tag("In Rome")] == ["In", "Rome"]
    with pytest.raises(ValueError, match=r"no head for the labels of words.* pass labels=\['O'"):
        zoo.load(tmp_path / "masked", problem_type="token_classification")
    settings = {"id2label": dict(enumerate(LABELS)), "num_hidden_layers": 1}
    tiny.save(tmp_path / "tags", "Bert", "ForTokenClassification", **settings)
    for options in ({}, {"labels": LABELS}):
        model = zoo.load(tmp_path / "tags", problem_type="token_classification", **options)
        assert isinstance(model, zoo.Tagger)
    single = {"labels": ["no", "yes"], "problem_type": "single_label_classification"}
    assert isinstance(zoo.load(tmp_path / "tags", **single), zoo.Classifier)
    with pytest.raises(ValueError, match=r"does not become one with .* alone: pass labels="):
        zoo.load(tmp_path / "tags", problem_type="multi_label_classification")


def test_words_are_the_same_with_a_tokenizer_that_adds_spaces():
    from zoo.readers.text.word_reader import WordReader

    tokenizer = zoo.ByteBPETokenizer([], prefix_space=True)
    reader = WordReader(tokenizer, max_length=20)
    ids = reader.read_words(reader.words_of(["ab c."])).token_ids
    assert tokenizer.detokenize(ids[:, 0]).numpy()[0].decode() == "ab c ."


def test_entities_are_joined():
    def tags(text):
        return [Tag(*each.split("/"), 0.5) for each in text.split()]

    found = entities(tags("A/B-X b/I-X c/O d/B-X e/B-X f/I-Y g/I-Y h/Z i/Z"))
    assert [(each.word, each.label) for each in found] == [
        ("A b", "X"),
        ("d", "X"),
        ("e", "X"),
        ("f g", "Y"),
        ("h i", "Z"),
    ]
    found = entities(tags("a/person-actor b/film-actor c/film-actor d/O e/B-x-y f/B-x-y g/I-x-y"))
    assert [(each.word, each.label) for each in found] == [
        ("a", "person-actor"),
        ("b c", "film-actor"),
        ("e", "x-y"),
        ("f g", "x-y"),
    ]
    for scheme in ("a/B-X b/I-X c/L-X d/U-X e/U-X", "a/B-X b/I-X c/E-X d/S-X e/S-X"):
        assert [each.word for each in entities(tags(scheme))] == ["a b c", "d", "e"]


def test_masks_are_drawn_as_the_paper_says(tmp_path):
    tiny.save(tmp_path, "Bert", "ForMaskedLM", num_hidden_layers=1)
    model = zoo.load(str(tmp_path))
    tokenizer = model.tokenizer
    special = [tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id]
    ids = tf.tile(tf.range(100)[None], (400, 1))
    inputs, labels, weights = (x.numpy() for x in model.hidden(ids, [1, 2]))
    assert (labels == ids.numpy()).all()
    assert weights[:, special].sum() == 0
    told = weights > 0
    assert told.mean() == pytest.approx(0.15 * 97 / 100, abs=0.01)
    assert (inputs[~told] == labels[~told]).all()
    assert (inputs[told] == tokenizer.mask_id).mean() == pytest.approx(0.8, abs=0.02)
    assert (inputs[told] == labels[told]).mean() == pytest.approx(0.1, abs=0.02)


@pytest.mark.full
def test_it_learns_what_is_hidden(tmp_path):
    tiny.save(tmp_path, "Bert", "ForMaskedLM", num_hidden_layers=1)
    model = zoo.load(str(tmp_path))
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    history = model.fit(tiny.TEXTS * 12, epochs=2, batch_size=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    same = [model.evaluate(tiny.TEXTS, verbose=0)[0] for _ in range(2)]
    assert same[0] == same[1]


@pytest.mark.full
def test_the_loss_of_pairs(request, tmp_path):
    """With `--full`, training brings the texts of a pair close to each other."""
    tiny.save(tmp_path, "Bert", "Model", num_hidden_layers=1)
    model = zoo.load(str(tmp_path), dropout=0.0, attention_dropout=0.0)
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    texts, others = tiny.TEXTS[:3], tiny.GERMAN
    pairs = tf.data.Dataset.from_tensor_slices((texts, others)).repeat(20)
    is_full = request.config.getoption("--full")
    if is_full:
        model.fit(pairs, batch_size=3, verbose=0)
    first, second = np.split(model.embed(texts + others).astype("float64"), 2)
    cosines = 20 * first @ second.T
    assert not is_full or cosines.argmax(1).tolist() == [0, 1, 2]
    expected = np.mean(np.log(np.exp(cosines).sum(1)) - np.diag(cosines))
    loss = model.evaluate(texts, others, batch_size=3, verbose=0)[0]
    assert loss == pytest.approx(expected, abs=1e-4)
    with pytest.raises(ValueError, match="learns from pairs of texts"):
        model.fit(texts)
