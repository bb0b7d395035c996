"""The tokenizer against the `tokenizers` library, as the oracle, and on its own promises."""

import copy
import gzip
import os
import pathlib
import pickle
import random
import sys
import unicodedata

import pytest
import tensorflow as tf

from tests.readers.text.byte_bpe_texts import (
    TRAINING_TEXTS,
    TRICKY_TEXTS,
    every_character,
    in_byte_alphabet,
    library_ids,
    random_texts,
)
from tests.readers.text.comparison import decoded
from zoo.readers.text import ByteBPETokenizer
from zoo.readers.text.words import split_words


def long_assigned_characters():
    """Those of Unicode 3.2: the two regex engines know different versions of the newest."""
    return [c for c in every_character() if unicodedata.ucd_3_2_0.category(c) != "Cn"]


# Equality with the library


def test_tricky_texts_equal_library(tokenizer):
    texts = TRAINING_TEXTS + TRICKY_TEXTS
    assert tokenizer.tokenize(texts).to_list() == library_ids(tokenizer, texts)


def test_without_a_space_in_front_texts_can_be_taken_apart_and_joined(tmp_path):
    bare = ByteBPETokenizer.train(TRAINING_TEXTS, vocabulary_size=400, prefix_space=False)
    texts = TRAINING_TEXTS + TRICKY_TEXTS
    ids = bare.tokenize(texts)
    assert ids.to_list() == library_ids(bare, texts)
    assert decoded(bare.detokenize(ids)) == decoded(
        tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    )
    assert decoded(bare.detokenize(bare.tokenize([" a", "a"]))) == [" a", "a"]
    bare.save(tmp_path / "bare.json")
    loaded = ByteBPETokenizer.load(tmp_path / "bare.json")
    assert loaded.tokenize(texts).to_list() == ids.to_list()
    copies = pickle.loads(pickle.dumps(bare)), copy.deepcopy(bare)
    for each in (ByteBPETokenizer.from_config(bare.get_config()), *copies):
        assert each.tokenize(texts).to_list() == ids.to_list()


def test_random_texts_equal_library(tokenizer):
    texts = random_texts(1500, long_assigned_characters(), seed=0)
    assert tokenizer.tokenize(texts).to_list() == library_ids(tokenizer, texts)


@pytest.mark.full
def test_every_long_assigned_character_splits_like_library(tokenizer):
    characters = long_assigned_characters()
    texts = ["".join(f"a{c}1{c}+{c} {c}" for c in characters[i::256]) for i in range(256)]
    split = tokenizer.to_library().pre_tokenizer.pre_tokenize_str
    expected = [[word for word, _ in split(" " + text)] for text in texts]
    words = [row[:-1] for row in split_words(texts).to_list()]
    assert [[in_byte_alphabet(word) for word in row] for row in words] == expected


@pytest.mark.parametrize("alphabet", ["a", "aab", "ab", "abc ="])
def test_repeated_symbols_equal_library(alphabet):
    generator = random.Random(3)
    texts = ["".join(generator.choices(alphabet, k=generator.randrange(70))) for _ in range(300)]
    tokenizer = ByteBPETokenizer.train(texts, vocabulary_size=600, num_words=0)
    assert tokenizer.tokenize(texts).to_list() == library_ids(tokenizer, texts)


def test_overlapping_pairs_merge_from_the_left():
    tokenizer = ByteBPETokenizer([("a", "a"), ("aa", "aa")])
    pieces = tokenizer.pieces(tokenizer.tokenize(["a" * 7]))
    assert pieces == [["▁", "·aaaa", "·aa", "·a"]]


def test_pair_learned_first_wins_over_a_neighbour_that_no_better_pair_touches():
    """Merging every local minimum would join (c, d), which must wait for (ab, c)."""
    tokenizer = ByteBPETokenizer([("a", "b"), ("ab", "c"), ("c", "d"), ("b", "c")])
    pieces = tokenizer.pieces(tokenizer.tokenize(["abcd"]))
    assert pieces == [["▁", "·abc", "·d"]]
    assert tokenizer.tokenize(["abcd"]).to_list() == library_ids(tokenizer, ["abcd"])


def test_whole_words_change_no_piece(tokenizer):
    without_words = ByteBPETokenizer(tokenizer._merges)
    texts = TRAINING_TEXTS + TRICKY_TEXTS
    assert without_words.tokenize(texts).to_list() == tokenizer.tokenize(texts).to_list()


@pytest.mark.skipif("MULTI30K_DIR" not in os.environ, reason="MULTI30K_DIR is not set")
@pytest.mark.parametrize("language", ["en", "de"])
def test_all_of_multi30k_equals_library_and_round_trips(language):
    texts = {}
    for path in sorted(pathlib.Path(os.environ["MULTI30K_DIR"]).glob(f"raw/*.{language}.gz")):
        texts[path.name] = gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")
    tokenizer = ByteBPETokenizer.train(texts[f"train.{language}.gz"])
    for part in texts.values():
        tokens = tokenizer.tokenize(part)
        assert tokens.to_list() == library_ids(tokenizer, part)
        assert decoded(tokenizer.detokenize(tokens)) == part


# Lossless


def test_any_unicode_round_trips(tokenizer):
    texts = TRICKY_TEXTS + random_texts(1500, every_character(), seed=1)
    tokens = tokenizer.tokenize(texts)
    assert decoded(tokenizer.detokenize(tokens)) == texts
    assert decoded(tokenizer.detokenize(tokens.to_tensor())) == texts


def test_invalid_utf8_becomes_replacement_characters(tokenizer):
    texts = [b"caf\xe9 ol\xc3", b"\xff\xfe", b"\xed\xa0\x80 surrogate", b"fine"]
    restored = decoded(tokenizer.detokenize(tokenizer.tokenize(texts)))
    assert restored == [text.decode("utf-8", errors="replace") for text in texts]


def test_empty_texts_and_empty_batch(tokenizer):
    assert tokenizer.tokenize(["", "a", ""]).row_lengths().numpy()[[0, 2]].tolist() == [0, 0]
    nothing = tokenizer.tokenize(tf.constant([], tf.string))
    assert nothing.to_list() == []
    assert nothing.dtype == tf.int32
    assert tokenizer.detokenize(nothing).shape == [0]
    assert decoded(tokenizer.detokenize([[], []])) == ["", ""]


def test_very_long_word_beside_others(tokenizer):
    letters = random.Random(2).choices("abcdefghijklmnopqrstuvwxyzß", k=5000)
    texts = ["A man", "".join(letters), "a" * 5000, "in a shirt"]
    assert tokenizer.tokenize(texts).to_list() == library_ids(tokenizer, texts)


def test_detokenize_cuts_at_end_and_drops_special_tokens():
    h, i, space = (3 + byte for byte in b"hi ")
    rows = [[1, space, h, i, 2, h], [0, space, h, 0, i, 0], [2, h, h, h, h, h], [space, space] * 3]
    expected = ["hi", "hi", "", " " * 5]
    tokenizer = ByteBPETokenizer([])
    assert decoded(tokenizer.detokenize(rows)) == expected
    assert decoded(tokenizer.detokenize(tf.constant(rows, tf.int64))) == expected
    assert decoded(tokenizer.detokenize(tf.ragged.constant([[space, h], [], [i]]))) == [
        "h",
        "",
        "i",
    ]


def test_detokenize_replaces_bytes_that_are_no_character():
    tokenizer = ByteBPETokenizer([])
    assert decoded(tokenizer.detokenize([[3 + 0xC3, 3 + ord("a"), 3 + 0xFF]])) == ["\ufffda\ufffd"]


# Training


def test_training_is_deterministic(tmp_path):
    for name in ("first.json", "second.json"):
        ByteBPETokenizer.train(iter(TRAINING_TEXTS), 500, num_words=30).save(tmp_path / name)
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()


def test_training_fills_the_vocabulary_with_frequent_pieces():
    tokenizer = ByteBPETokenizer.train(["the cat", "the hat", "on the mat"], vocabulary_size=263)
    assert tokenizer.vocabulary_size == 263
    assert tokenizer.pieces(tokenizer.tokenize(["the mat"])) == [["the", "▁", "·m", "·at"]]
    assert (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id) == (0, 1, 2)


def test_training_on_little_text_fills_fewer_ids():
    assert ByteBPETokenizer.train(["a b"], vocabulary_size=8000).vocabulary_size == 261


@pytest.mark.parametrize(
    ("sentences", "size", "complaint"),
    [
        (["a"], 258, "vocabulary_size must be at least 259"),
        ([], 300, "no text"),
        (["", ""], 300, "no text"),
        ("a text", 300, "Received: a single text, 'a text'. Put it into a list"),
        (__file__, 300, r"byte_bpe_test.py'. Read each file first: path\.read_text\(.*split\("),
        ([__file__] * 2, 300, "Read each file first"),
        ([b"a text"], 300, r"a list of str. Received: b'a text' of type bytes at position 0"),
    ],
)
def test_training_refuses(sentences, size, complaint):
    with pytest.raises(ValueError, match=complaint):
        ByteBPETokenizer.train(sentences, vocabulary_size=size)


def test_missing_library_is_named(monkeypatch, tokenizer):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    install = "pip install tokenizers"
    with pytest.raises(ImportError, match=install):
        ByteBPETokenizer.train(["a text"])
    with pytest.raises(ImportError, match=install):
        tokenizer.to_library()


# Mistakes and pieces


@pytest.mark.parametrize(
    ("merges", "complaint"),
    [
        ([("a", "bc")], "does not join two pieces"),
        ([("ab", "c"), ("a", "b")], "does not join two pieces"),
        ([(" ", "b")], "does not join two pieces"),
        ([("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")], "makes a piece that is made before"),
    ],
)
def test_constructor_refuses_merges_out_of_order(merges, complaint):
    with pytest.raises(ValueError, match=complaint):
        ByteBPETokenizer(merges)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"texts": "a text"}, r"shape \[batch\]"),
        ({"texts": [["a"], ["b"]]}, r"shape \[batch\]"),
        ({"texts": ["a"], "dropout": 0.1}, "needs a seed"),
        ({"texts": ["a"], "dropout": 1.5, "seed": [1, 2]}, "between 0 and 1"),
        ({"texts": ["a"], "dropout": -0.1, "seed": [1, 2]}, "between 0 and 1"),
    ],
)
def test_tokenize_refuses(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        ByteBPETokenizer([]).tokenize(**arguments)


def test_repeated_words_are_one_word():
    tokenizer = ByteBPETokenizer([("Ġ", "a")], words=[" a", " a", ""])
    assert tokenizer.tokenize(["a", ""]).to_list() == [[259], []]


def test_pieces_read_well():
    merges = [("h", "i"), ("Ġ", "hi"), ("Ã", "¼"), ("Ġ", "Ġ"), ("Ġ", "1"), ("h", "Ã")]
    tokenizer = ByteBPETokenizer(merges)
    tokens = tokenizer.tokenize(["hi hihi 11!", "  \nü", "ñ"])
    expected = [
        ["hi", "hi", "·hi", "1", "·1", "!"],
        ["▁▁", "▁", "\\n", "·ü"],
        ["▁", "·<0xC3>", "·<0xB1>"],
    ]
    assert tokenizer.pieces(tokens) == expected
    assert tokenizer.pieces(tokens.to_tensor())[2] == [*expected[2], *["<pad>"] * 3]
    assert tokenizer.pieces([[1, 264, 2, 0]]) == [["<start>", "·h<0xC3>", "<end>", "<pad>"]]
