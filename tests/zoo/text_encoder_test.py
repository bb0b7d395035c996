"""The text encoder: published sizes, chunks of long texts, labels of texts."""

import random
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.models.text_encoder import TextEncoder
from zoo.readers.text import Tokenizer
from zoo.readers.text.pair_reader import PairReader
from zoo.readers.text.templates import around
from zoo.readers.text.text_reader import TextReader
from zoo.readers.text.word_reader import WordReader
from zoo.tasks.text_results import TextClasses

TINY = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32, "max_length": 16, "dropout": 0.0}
LABELS = ["bad", "good"]


@pytest.mark.parametrize(
    ("layers", "size", "published"),
    [(12, 768, 109_482_240), pytest.param(24, 1024, 335_141_888, marks=pytest.mark.full)],
)
def test_bert_has_the_published_sizes(layers, size, published):
    """Sizes of the uncased models with poolers, from those of one block and of everything else."""
    options = {"size": size, "num_heads": size // 64, "hidden": 4 * size, "num_segments": 2}
    one, two = (
        TextEncoder(1000, num_layers=number, head="embedding", **options) for number in (1, 2)
    )
    for core in (one, two):
        core.build()
    block = two.count_params() - one.count_params()
    assert one.count_params() + (30522 - 1000) * size + (layers - 1) * block == published


def test_a_shared_block_is_that_of_albert():
    """Its published size, with the pooler, and the numbers of equal blocks."""
    options = {"num_segments": 2, "embedding_size": 128, "head": "embedding"}
    core = TextEncoder(1000, shared_block=True, **options)
    core.build()
    assert core.count_params() + (30000 - 1000) * 128 == 11_683_584

    options = {**TINY, "num_layers": 3, "head": "span"}
    one, three = (TextEncoder(30, shared_block=shared, **options) for shared in (True, False))
    for each in (one, three):
        each.build()
    for block in three.blocks:
        block.set_weights(one.blocks[0].get_weights())
    for ours, others in ((three.embedding, one.embedding), (three.output_layer, one.output_layer)):
        ours.set_weights(others.get_weights())
    ids = np.array([[1, 5, 6, 2], [1, 7, 2, 0]])
    np.testing.assert_allclose(one(ids), three(ids), atol=1e-6)
    with pytest.raises(ValueError, match=r"blocks that are alike.* first_norm=False\.$"):
        TextEncoder(30, shared_block=True, first_norm=False, **options)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_logits_of_tokens_are_in_float32(dtype):
    core, other = (TextEncoder(30, head="masked", dtype=each, **TINY) for each in (None, dtype))
    for each in (core, other):
        each.build()
    other.set_weights(core.get_weights())
    ids = np.array([[1, 5, 6, 2], [1, 7, 2, 0]])
    logits = other(ids)
    assert logits.dtype == "float32"
    np.testing.assert_allclose(logits, core(ids), atol=0.1)


@pytest.fixture(scope="module")
def model(byte_tokenizer):
    random.seed(1)
    options = {**TINY, "pooling": "mean", "attention_dropout": 0.0}
    model = zoo.load(
        "text_encoder",
        weights=None,
        tokenizer=byte_tokenizer,
        labels=LABELS,
        dtype="float32",
        **options,
    )
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(["aaaa", "zzzz"] * 32, ["bad", "good"] * 32, batch_size=8, epochs=3, verbose=0)
    return model


def test_learns_labels_of_texts(model):
    assert model.classify(["zzzz", "aaaa"]) == ["good", "bad"]
    assert model.classify("aaa") == "bad"


def test_what_comes_after_the_first_chunk_counts(model):
    """A text of three chunks is the mean of its chunks' vectors, weighted by their lengths."""
    text = "a" * 14 + "z" * 20
    found = model.classify([text], return_probabilities=True).probabilities[0]
    ids, _ = model.reader.read([text])
    assert tuple(ids.shape) == (1, 3, 16)
    chunks = [ids[0, number : number + 1] for number in range(3)]
    lengths = [16, 16, 8]
    vectors = [
        length * model.core.pooler(model.core._pool(model.core.encode(chunk)[0], chunk)).numpy()
        for chunk, length in zip(chunks, lengths, strict=True)
    ]
    logits = model.core.output_layer(sum(vectors) / 40).numpy()[0]
    np.testing.assert_allclose(found, np.exp(logits) / np.exp(logits).sum(), atol=1e-5)


def test_padding_changes_nothing(model):
    alone = model.classify(["az"], return_probabilities=True).probabilities[0]
    beside = model.classify(["az", "z" * 40], return_probabilities=True, batch_size=2)
    np.testing.assert_allclose(beside.probabilities[0], alone, atol=1e-5)


def test_attention_tells_tokens(model):
    result = model.classify(["az", "z" * 20], return_attention=True)
    assert result.tokens[0] == ["<start>", "·a", "·z", "<end>"]
    assert [len(each) for each in result.attention] == [4, 24]
    np.testing.assert_allclose([each.sum() for each in result.attention], 1.0, atol=1e-5)


def test_the_plot_shows_which_token_of_a_long_text_contributes_most():
    attention = np.array([0.01] * 98 + [0.02], "float32")
    result = TextClasses(["good"], np.ones((1, 1)), [["token"] * 99], [attention])
    assert result.plot(0).axes[0].images[0].get_clim() == (0.0, attention.max())


def test_many_labels_of_a_text_are_plotted_in_lines():
    labels = ["complaint", "question about a delivery", "request for a refund"]
    result = TextClasses([labels], np.ones((1, 3)), [["a"]], [np.ones(1)])
    (label,) = result.plot().axes[0].get_yticklabels()
    assert label.get_text() == "complaint, question about a\ndelivery, request for a refund"


@pytest.mark.usefixtures("eagerly")
def test_a_preset_computes_the_same(model, tmp_path):
    model.save_to_preset(tmp_path / "toy")
    texts = ["aazz", "", "z" * 30]
    found = zoo.load(tmp_path / "toy").classify(texts, return_probabilities=True)
    expected = model.classify(texts, return_probabilities=True)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-6)


def test_the_last_chunk_is_padded_as_the_tokenizer_pads(byte_tokenizer):
    """The ids of RoBERTa, whose 0 is a start token: three tokens to a chunk."""
    tokenizer = types.SimpleNamespace(
        tokenize=byte_tokenizer.tokenize, start_id=0, pad_id=1, end_id=2
    )
    (tokens,) = byte_tokenizer.tokenize(["abcd"]).numpy().tolist()
    ids, _ = TextReader(tokenizer, max_length=5).read(["abcd"])
    assert ids.numpy().tolist() == [[[0, *tokens[:3], 2], [0, *tokens[3:], 2, 1, 1]]]


# -------------------------------------------------------------------------------------- mistakes

ENCODER = "text_encoder_masked_imdb"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Folder of a preset of an encoder that was not trained."""
    tokenizer = Tokenizer.train(["who is it"], vocabulary_size=30)
    model = zoo.load("text_encoder_masked", weights=None, tokenizer=tokenizer, **TINY)
    return model.save_to_preset(tmp_path_factory.mktemp("presets") / "masked")


def test_a_chunk_has_room_for_a_token(byte_tokenizer):
    with pytest.raises(ValueError, match="`max_length` must be at least 3.*max_length=2"):
        TextReader(byte_tokenizer, max_length=2)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": LABELS}, "Unknown option .*'label'. Did you mean 'labels'"),
        ({"labels": 3}, "must be a list of different names, each a str.* Received: labels=3"),
        ({"labels": [0, 1]}, r"each a str .* Received: labels=\[0, 1\]"),
        ({"labels": "ab"}, "Received: labels='ab'"),
        ({"labels": {"bad", "good"}}, r"A set has no order: pass sorted\(labels\)"),
        ({"labels": {"good": 1, "bad": 0}}, r"dictionary .*pass sorted\(labels, key=labels\.get\)"),
        ({"labels": ["bad"]}, "at least two labels.*problem_type='multi_label_classification'"),
        ({"problem_type": "regression"}, r"new head: labels=\[.*'regression' without labels"),
        ({"labels": LABELS, "problem_type": "regression"}, "Unknown problem_type 'regression'"),
        ({"labels": LABELS, "weights": "nope.h5"}, r"no weights file nope\.h5"),
        ({"labels": LABELS, "shared_block": True}, "shared_block must be False, as in .*=True"),
        ({"labels": LABELS, "max_length": 9}, r"weights do not fit .*left out.* max_length=9\."),
    ],
)
def test_what_an_encoder_cannot_take_is_named(encoder, options, message):
    with pytest.raises(ValueError, match=message):
        zoo.load(encoder, **options)


@pytest.mark.few(1)
@pytest.mark.parametrize("dataset", [(["a", "b"], [0, 1]), [["a", "b"]], [1, 2]])
def test_data_sets_of_anything_but_texts_are_told(encoder, dataset):
    model = zoo.load(encoder)
    dataset = tf.data.Dataset.from_tensor_slices(dataset)
    with pytest.raises(ValueError, match=r"Dataset of scalar strings.*dataset\.unbatch\(\)"):
        model.fit(dataset)


def test_a_learned_tokenizer_puts_special_tokens_around_texts_and_pairs():
    tokenizer = Tokenizer.train(["who is it"], vocabulary_size=30)
    reader = PairReader(tokenizer, max_length=16)
    ids = reader.read(tf.constant([["who", "is it"]]))[0]["token_ids"][0]
    assert tokenizer.pieces(ids.numpy())[0][0] == "[CLS]"
    assert tokenizer.pieces(ids.numpy())[0].count("[SEP]") == 2
    library = tokenizer.to_library()
    assert library.encode("who", "is it").ids == ids[0].numpy().tolist()
    assert library.encode("who").ids == reader.read(tf.constant(["who"]))[0][0, 0].numpy().tolist()


def test_the_exported_file_of_a_byte_tokenizer_puts_special_tokens_around_texts(
    byte_tokenizer, monkeypatch, tmp_path
):
    """It is the model of an encoder there; that of a translator leaves them to the caller."""
    model = zoo.load("text_encoder_score", weights=None, tokenizer=byte_tokenizer, **TINY)
    monkeypatch.setattr("zoo.serving.write_graphs", lambda *arguments: arguments[4])
    library = model.export(tmp_path / "graphs", format="onnx")
    pairs = [("who", "is it"), ("", "a"), ("Né\n<start>", "<end>")]
    for pair in [*pairs, *(pair[:1] for pair in pairs)]:
        expected = byte_tokenizer.encode(*tf.constant(pair)[:, None])
        found = library.encode(*pair)
        assert found.ids == expected.token_ids[0].numpy().tolist()
        assert found.type_ids == expected.segment_ids[0].numpy().tolist()
    assert library.encode("").ids == [byte_tokenizer.start_id, byte_tokenizer.end_id]
    bare = byte_tokenizer.to_library()
    assert bare.encode("who").ids == byte_tokenizer.tokenize(["who"]).to_list()[0]


def test_a_shipped_encoder_puts_special_tokens_around_pairs():
    for name in (ENCODER, "text_encoder_imdb"):
        tokenizer = zoo.load(name).tokenizer
        assert tokenizer.templates == around(tokenizer.start_id, tokenizer.end_id)


def test_a_question_without_a_context_is_not_answered():
    tokenizer = Tokenizer.train(["who is it"], vocabulary_size=30)
    model = zoo.load("text_encoder_span", weights=None, tokenizer=tokenizer, **TINY)
    assert model.answer("", "") == ("", 0.0, 0, 0)


@pytest.mark.parametrize("pairs", [[], ["qc"], [("q", "c", "d")], [1]])
def test_questions_come_with_contexts(byte_tokenizer, pairs):
    model = zoo.load("text_encoder_span", weights=None, tokenizer=byte_tokenizer, **TINY)
    with pytest.raises(ValueError, match=r"a list of pairs \(question, context\). Received"):
        model.batches(pairs, ["c"] * len(pairs))


def test_lists_and_batches_of_questions_are_told_the_way_out(byte_tokenizer):
    model = zoo.load("text_encoder_span", weights=None, tokenizer=byte_tokenizer, **TINY)
    examples = [(("q", "c"), "c")]
    with pytest.raises(ValueError, match=r"x, y = zip\(\*pairs\)"):
        model.batches(examples)
    with pytest.raises(ValueError, match=r"a data set of .*dataset\.unbatch\(\)"):
        model.batches(tf.data.Dataset.from_tensors((("q", "c"), "c")).batch(1))
    for x, y in (None, ["c"]), ([("q", "c")], 1):
        with pytest.raises(ValueError, match="Expected a list. Received: .* of type"):
            model.batches(x, y)


def test_labels_of_words_may_be_arrays_and_the_text_without_them_is_named(byte_tokenizer):
    options = {"tokenizer": byte_tokenizer, "labels": ["O", "P"], **TINY}
    model = zoo.load("text_encoder_tags", weights=None, **options)
    texts, labels = [["Bob", "is"], ["red"]], [["P", "O"], ["O"]]
    arrays = np.array([np.array(each) for each in labels], object)
    found, expected = (next(iter(model.batches(texts, each)))[1] for each in (arrays, labels))
    np.testing.assert_array_equal(found, expected)
    for wrong, position in ([["P"], ["O"]], 0), ([["P", "O"], None], 1):
        with pytest.raises(ValueError, match=f"a label for each word.* at position {position}"):
            model.batches(texts, wrong)
    with pytest.raises(ValueError, match="Received: 2 texts and labels for 0"):
        model.batches(texts)
    with pytest.raises(ValueError, match=r"Every label must be one of .* Received: \[1\]\."):
        model.batches(texts, [["P", [1]], ["O"]])
    for x, y in (None, labels), (texts, 1.0):
        with pytest.raises(ValueError, match="Expected a list. Received: .* of type"):
            model.batches(x, y)


def test_what_is_frozen_stays_frozen_in_a_file_of_keras(byte_tokenizer, tmp_path):
    options = {"tokenizer": byte_tokenizer, "labels": ["O", "P"], **TINY}
    model = zoo.load("text_encoder_tags", weights=None, **options)
    model.core.trainable = False
    model.core.layers[-1].trainable = True
    model.compile()
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "tagger.keras")
    loaded = keras.saving.load_model(tmp_path / "tagger.keras")
    of_head, of_optimizer = len(model.trainable_weights), len(model.optimizer.variables)
    assert 0 < of_head < len(model.weights)
    assert len(loaded.trainable_weights) == of_head
    assert len(loaded.optimizer.variables) == of_optimizer
    loaded.core.layers[0].trainable = True
    assert len(loaded.trainable_weights) == of_head + len(loaded.core.layers[0].weights)


@pytest.mark.full
def test_each_word_counts_once_in_the_accuracy_whatever_the_batches(byte_tokenizer):
    options = {"tokenizer": byte_tokenizer, "labels": ["O", "P"], **TINY}
    model = zoo.load("text_encoder_tags", weights=None, **options)
    model.compile(run_eagerly=True)
    texts, labels = [["Bob"], ["a", "b", "c", "d"], ["e"]], [["P"], ["O"] * 4, ["P"]]
    tagged = [[tag.label for tag in tags] for tags in model.tag(texts)]
    expected = np.mean(np.array(sum(tagged, [])) == np.array(sum(labels, [])))
    for batch_size in (1, 3):
        options = {"batch_size": batch_size, "return_dict": True, "verbose": 0}
        assert model.evaluate(texts, labels, **options)["accuracy"] == pytest.approx(expected)


@pytest.mark.full
def test_numbers_of_candidates_are_integers_of_any_kind():
    model = zoo.load(ENCODER)
    assert len(model.fill_mask("a [MASK] film", num_candidates=np.int64(2))) == 2
    with pytest.raises(ValueError, match="an integer from 1 to .* num_candidates=2.5"):
        model.fill_mask("a [MASK] film", num_candidates=2.5)


@pytest.mark.full
def test_a_shipped_encoder_becomes_a_tagger():
    problem = {"labels": ["O", "P"], "problem_type": "token_classification"}
    model = zoo.load(ENCODER, **problem)
    assert isinstance(model, zoo.Tagger)
    table = zoo.load(ENCODER).core.embedding.tokens
    np.testing.assert_array_equal(model.core.embedding.tokens, table)
    assert [each.word for each in model.tag("a film")] == ["a", "film"]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["labels", "several labels", "numbers"])
def test_texts_keep_their_weights(byte_tokenizer, kind):
    texts = ["a" * length for length in (1, 30, 3, 12)]
    weights = [0.5, 2.0, 0.0, 1.0]
    options = {"labels": ["O", "P"], "tokenizer": byte_tokenizer, "weights": None, **TINY}
    targets = {"labels": ["O", "P"] * 2, "several labels": [["O", "P"], []] * 2}
    if kind == "numbers":
        options.pop("labels")
        model = zoo.load("text_encoder_score", **options)
    else:
        several = {"problem_type": "multi_label_classification"} if "several" in kind else {}
        model = zoo.load("text_encoder", **several, **options)
    given = targets.get(kind, [1.0, 2.0, 3.0, 4.0])
    letter, found = int(byte_tokenizer.tokenize(["a"]).values[0]), {}
    rows = tf.ragged.constant(given) if "several" in kind else given
    examples = tf.data.Dataset.from_tensor_slices((texts, rows, weights))
    examples = examples.map(lambda each, row, weight: (each, tf.identity(row), weight))
    for batches in (
        model.batches(texts, given, shuffle=True, sample_weight=weights),
        model.batches([(each, "b") for each in texts], given, sample_weight=weights),
        model.batches(examples),
    ):
        for inputs, _, each in batches:
            ids = inputs["token_ids"] if isinstance(inputs, dict) else inputs
            for row, weight in zip(ids.numpy(), each.numpy(), strict=True):
                found[np.count_nonzero(row == letter)] = float(weight)
        assert [found[len(text)] for text in texts] == weights


def test_pairs_and_words_may_be_arrays(byte_tokenizer):
    pairs, words = PairReader(byte_tokenizer, 16), WordReader(byte_tokenizer, 16)
    given = [("a", "b"), ("c", "d")]
    for array in (np.array(given), np.array(given, object)):
        assert pairs.requests(array) == (given, False)
        assert words.requests(array) == words.requests([list(each) for each in given])
    with pytest.raises(ValueError, match="Expected a list of texts, or one of pairs"):
        pairs.requests(np.array([["a"], ["b"]]))


def test_texts_are_not_padded_to_one_that_is_far_longer(model):
    texts = ["zzzz"] * 7 + ["a" * 4000]
    shapes = []

    def respond(requests):
        shapes.append(tuple(model.reader.read(requests)[0].shape))
        return type(model).respond(model, requests)

    compiled, model._compiled = model._compiled, lambda *_, **__: respond
    assert model.classify(texts, batch_size=8) == ["good"] * 7 + ["bad"]
    model._compiled = compiled
    assert sorted(shape[:2] for shape in shapes) == [(1, 286), (7, 1)]


def test_pairs_may_come_from_generators(byte_tokenizer):
    model = zoo.load("text_encoder_embedding", weights=None, tokenizer=byte_tokenizer, **TINY)
    texts, others = ["a", "b"], ["c", "d"]
    (inputs, _, _) = next(iter(model.batches(iter(texts), iter(others), shuffle=True)))
    assert inputs["first"].shape[0] == 2


def test_weights_of_a_new_head_come_back(encoder, tmp_path):
    model = zoo.load(encoder, labels=LABELS)
    path = tmp_path / "mine.weights.h5"
    model.save_weights(path)
    again = zoo.load(encoder, weights=path, labels=LABELS)
    for found, weight in zip(again.core.get_weights(), model.core.get_weights(), strict=True):
        np.testing.assert_array_equal(found, weight)
