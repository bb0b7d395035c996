"""Tokenizers of known kinds against the libraries that define them, and on their own promises."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.readers.text import small_tokenizers
from tests.readers.text.comparison import check_equal, decoded, full, in_batches, library_and_ours
from tests.readers.text.hostile_texts import BROKEN, PROSE, hostile_texts, long_line
from zoo.readers.text import Tokenizer, read_tokenizer
from zoo.readers.text.charsmap import Charsmap
from zoo.readers.text.sentencepiece_files import read_model

FEW, MANY = 100, 20000
ORDINARY = ("bert_uncased", "gpt2", "llama3", "llama2", "gemma")
SENTENCEPIECE = {
    "unigram": {},
    "unigram_bytes": {"byte_fallback": True, "vocab_size": 900},
    "unigram_folded": {
        "normalization_rule_name": "nmt_nfkc_cf",
        "user_defined_symbols": "<sep>,é",
    },
    "unigram_bare": {
        "normalization_rule_name": "identity",
        "add_dummy_prefix": False,
        "remove_extra_whitespaces": False,
    },
    "bpe": {"model_type": "bpe"},
    "bpe_bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 900},
    "bpe_runs": {
        "model_type": "bpe",
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "runs_of_spaces": True,
    },
}


def check_library(name, count, line):
    library, ours, added = library_and_ours(name)
    texts = [*hostile_texts(count, tokens=(added * 2)[-2:]), long_line(line)]
    expected = [each.ids for each in library.encode_batch(texts, add_special_tokens=False)]
    check_equal(in_batches(ours.tokenize, texts), expected, texts)
    if name != "clip":  # whose library leaves </w> in texts, and transformers takes it out
        ids = expected[:-1]  # a batch with the long line would be dense
        found = decoded(ours.detokenize(tf.ragged.constant(ids, tf.int32)))
        check_equal(found, [library.decode(each) for each in ids], texts[:-1])


@pytest.mark.parametrize("name", full(small_tokenizers.ALL, ORDINARY))
def test_ids_equal_library(name):
    check_library(name, FEW, 1000)


@pytest.mark.full
@pytest.mark.parametrize("name", small_tokenizers.ALL)
def test_many_ids_equal_library(name):
    check_library(name, MANY, 100_000)


def test_a_single_empty_text_is_normalized():
    """A batch without any character."""
    ours = Charsmap({"ﬁ": "fi"}, by_clusters=True)
    assert decoded(ours([""])) == [""]
    assert decoded(ours(["ﬁve", ""])) == ["five", ""]


def check_sentencepiece(options, count, line, path):
    import sentencepiece

    model = small_tokenizers.sentencepiece_model(**options)
    path.write_bytes(model)
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    ours = Tokenizer(*read_model(path))
    assert ours.vocabulary_size == library.get_piece_size()
    texts = [*hostile_texts(count, tokens=("<sep>", "</s>")), long_line(line)]
    check_equal(in_batches(ours.tokenize, texts), library.encode(texts), texts)


@pytest.mark.parametrize("name", full(SENTENCEPIECE, ("unigram_bytes", "bpe_bytes", "bpe_runs")))
def test_ids_equal_sentencepiece(name, tmp_path):
    check_sentencepiece(SENTENCEPIECE[name], FEW, 1000, tmp_path / "small.model")


@pytest.mark.full
@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_many_ids_equal_sentencepiece(name, tmp_path):
    check_sentencepiece(SENTENCEPIECE[name], MANY, 100_000, tmp_path / "small.model")


def test_broken_utf8_counts_as_replaced(bert):
    library, ours = bert
    texts = tf.strings.unicode_transcode(BROKEN, "UTF-8", "UTF-8", errors="replace")
    expected = library.encode_batch(decoded(texts), add_special_tokens=False)
    assert ours.tokenize(BROKEN).to_list() == [each.ids for each in expected]


def test_words_of_up_to_a_hundred_characters_are_split(bert):
    library, ours = bert
    words = ["e" * 100, "e" * 101]
    expected = library.encode_batch(words, add_special_tokens=False)
    assert len(expected[0].ids) > len(expected[1].ids)
    assert ours.tokenize(words).to_list() == [each.ids for each in expected]


@pytest.mark.few(2)
@pytest.mark.parametrize("max_length", [5, 8, 17, 64])
def test_pairs_and_truncation_equal_library(bert, max_length):
    library, ours = bert
    firsts, seconds = PROSE, [*PROSE[3:], "a", "", "x y"]
    library.enable_truncation(max_length)
    library.enable_padding(pad_id=0)
    for texts, pairs in ((firsts, None), (firsts, seconds)):
        rows = firsts if pairs is None else list(zip(firsts, seconds, strict=True))
        expected = library.encode_batch(rows)
        found = ours.encode(texts, pairs, max_length=max_length)
        np.testing.assert_array_equal(found.token_ids, [each.ids for each in expected])
        np.testing.assert_array_equal(found.segment_ids, [each.type_ids for each in expected])
        ragged = ours.encode(texts, pairs, special_tokens=False, dense=False).token_ids
        assert ragged[0].numpy().tolist() == (
            ours.tokenize(texts[:1])[0].numpy().tolist()
            + (ours.tokenize(pairs[:1])[0].numpy().tolist() if pairs else [])
        )
    library.no_truncation()
    library.no_padding()


def test_texts_may_be_truncated_on_the_left(tmp_path, bert):
    library, _ = bert
    firsts, seconds = PROSE, [*PROSE[3:], "a", "", "x y"]
    library.enable_truncation(17, direction="left")
    expected = [each.ids for each in library.encode_batch(list(zip(firsts, seconds, strict=True)))]
    single = [each.ids for each in library.encode_batch(firsts)]
    library.save(str(tmp_path / "tokenizer.json"))
    library.no_truncation()
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    ours = read_tokenizer(tmp_path)
    ours.save(tmp_path / "saved.json")
    copies = Tokenizer(**ours.get_config()), pickle.loads(pickle.dumps(ours))
    for each in (ours, Tokenizer.load(tmp_path / "saved.json"), *copies):
        found = each.encode(firsts, seconds, max_length=17, dense=False).token_ids
        assert found.to_list() == expected
    assert ours.encode(firsts, max_length=17, dense=False).token_ids.to_list() == single
    (tmp_path / "tokenizer_config.json").write_text('{"truncation_side": "right"}')
    found = read_tokenizer(tmp_path).encode(firsts, seconds, max_length=17, dense=False).token_ids
    assert found.to_list() != expected


def test_no_room_for_special_tokens(bert):
    with pytest.raises(ValueError, match="max_length=2 has no room for 1 texts and 2 special"):
        bert[1].encode(["a"], max_length=2)


def test_saved_and_read_again(tmp_path, bert):
    _, ours = bert
    ours.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.get_config() == ours.get_config()
    assert again.tokenize(PROSE).to_list() == ours.tokenize(PROSE).to_list()


def test_pieces_for_people(bert):
    _, ours = bert
    ids = ours.encode(["houses."]).token_ids
    assert ours.pieces(ids) == [["[CLS]", "house", "·s", ".", "[SEP]"]]


# The graph


class Served(tf.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def ids(self, texts):
        encoded = self.tokenizer.encode(texts)
        return {
            "token_ids": encoded.token_ids,
            "text": self.tokenizer.detokenize(encoded.token_ids),
        }


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", full(("bert_uncased", "qwen2", "llama2", "xlm_roberta"), ("bert_uncased", "qwen2"))
)
def test_saved_model_equals_eager_in_a_process_without_the_package(name, tmp_path):
    _, ours, _ = library_and_ours(name)
    ours.pad_id = 0
    texts = hostile_texts(60)
    served = Served(ours)
    tf.saved_model.save(served, tmp_path / "model", signatures=served.ids)
    inputs, outputs = tmp_path / "texts.json", tmp_path / "ids.json"
    inputs.write_text(json.dumps(texts), encoding="utf-8")
    program = """
import sys, json
sys.modules["zoo"] = sys.modules["keras_attention"] = None
import tensorflow as tf
model, texts, ids = sys.argv[1:]
loaded = tf.saved_model.load(model).signatures["serving_default"]
texts = json.load(open(texts, encoding="utf-8"))
found = loaded(texts=tf.constant(texts))["token_ids"].numpy().tolist()
json.dump(found, open(ids, "w"))
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / "model", inputs, outputs], check=True)
    expected = ours.encode(texts).token_ids.numpy().tolist()
    assert json.loads(outputs.read_text()) == expected
    check_core_ops(tmp_path / "model" / "saved_model.pb")


def check_core_ops(path):
    """Every op is registered by a bare TensorFlow, and none calls Python."""
    from tensorflow.python.framework import op_def_registry

    graph = saved_model_pb2.SavedModel.FromString(path.read_bytes()).meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    ops = {node.op for node in nodes}
    assert len(ops) > 20
    assert all(op_def_registry.get(op) is not None for op in ops)
    assert not [op for op in ops if "Py" in op or ">" in op]
