"""The tokenizer against the `tokenizers` library, as the oracle, and on its own promises."""

import copy
import gzip
import itertools
import json
import os
import pathlib
import pickle
import random
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from zoo.readers.text import ByteBPETokenizer
from zoo.readers.text.pieces import BYTE_ALPHABET
from zoo.readers.text.words import split_words

TRAINING_TEXTS = [
    "A man in a blue shirt is standing on a ladder cleaning a window.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
    "Two young, white males are outside near many bushes; it's 12:45, or 1,000 km away!",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche (naïve Größe).",
    "Несколько мужчин в касках управляют приводом.  ===== ----- aaaa aaaaaaa \t\n\n x",
    "नमस्ते दुनिया 你好世界 こんにちは ❤️ 👩‍👩‍👧 cafe\u0301",
] * 3

TRICKY_TEXTS = [
    "",
    " ",
    "  two  spaces   three",
    " leading and trailing ",
    "tabs\tand\r\nnew\n\n\nlines\x0b\x0c",
    "no\u00a0break\u2003em\u3000wide\u0085next\u2028line",
    "nul\x00inside\x00\x00 and \x01\x1f\x7f controls",
    "a" * 33 + " " + "=" * 34 + " " + "ab" * 20,
    "1234567890 ½ ² ٣ Ⅷ 3.14e-10 1️⃣",
    "don't can't l'été O'Neill state-of-the-art e.g. (yes)",
    "cafe\u0301 a\u0300\u0301\u0302b \u0301alone 1\u0301 नमस्ते",
    "❤️ 👩‍👩‍👧‍👦 🇩🇪 👍🏽 x👍y",
    "\ufeffbyte order mark, \ufffd replaced, \ufffe \uffff \U0010ffff",
    "<pad> <start> <end> ▁ Ġ \\1 \\0",
]


@pytest.fixture(scope="module")
def tokenizer():
    return ByteBPETokenizer.train(TRAINING_TEXTS, vocabulary_size=700, num_words=100)


def random_texts(count, characters, seed):
    """Texts that mix random characters with parts of words that the tokenizer knows."""
    generator = random.Random(seed)
    known = "".join(TRAINING_TEXTS)
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(generator.randrange(12)):
            start, length = generator.randrange(len(known)), generator.randrange(9)
            parts.append(known[start : start + length])
            parts.append("".join(generator.choices(characters, k=generator.randrange(4))))
        texts.append("".join(parts))
    return texts


def every_character():
    return [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]


def long_assigned_characters():
    """Those of Unicode 3.2: the two regex engines know different versions of the newest."""
    return [c for c in every_character() if unicodedata.ucd_3_2_0.category(c) != "Cn"]


def library_ids(tokenizer, texts):
    return [encoding.ids for encoding in tokenizer.to_library().encode_batch(texts)]


def in_byte_alphabet(word):
    return "".join(BYTE_ALPHABET[byte] for byte in word)


def decoded(texts):
    return [text.decode("utf-8") for text in texts.numpy()]


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


# Dropout


def test_dropout_of_zero_changes_nothing(tokenizer):
    plain = tokenizer.tokenize(TRAINING_TEXTS)
    assert tokenizer.tokenize(TRAINING_TEXTS, dropout=0.0, seed=[1, 2]).to_list() == plain.to_list()


def test_dropout_of_one_gives_bytes(tokenizer):
    tokens = tokenizer.tokenize(["A mäñ"], dropout=1.0, seed=[1, 2])
    assert tokens.to_list() == [[3 + byte for byte in " A mäñ".encode()]]


def test_dropout_depends_on_the_seed_alone(tokenizer):
    def split(seed):
        return tokenizer.tokenize(TRAINING_TEXTS, dropout=0.3, seed=tf.constant(seed)).to_list()

    assert split([1, 2]) == split([1, 2])
    assert split([1, 2]) != split([1, 3])
    assert split([1, 2])[:6] != split([1, 2])[6:12]  # equal sentences, other draws


def test_dropout_round_trips(tokenizer):
    texts = TRICKY_TEXTS + random_texts(200, every_character(), seed=4)
    tokens = tokenizer.tokenize(texts, dropout=0.2, seed=tf.constant([5, 6], tf.int64))
    assert decoded(tokenizer.detokenize(tokens)) == texts


def paper_bpe_dropout(word, ranks, dropout, generator):
    """Algorithm 1 of Provilkov et al. 2020, as in their code: all places of the best survivor."""
    symbols = list(word)
    while True:
        pairs = enumerate(itertools.pairwise(symbols))
        survivors = [
            (ranks[pair], place)
            for place, pair in pairs
            if pair in ranks and generator.random() >= dropout
        ]
        if not survivors:
            return symbols
        best = min(survivors)[0]
        next_free = 0
        merged = []
        for place, symbol in enumerate(symbols):
            if place < next_free:
                continue
            is_merged = (best, place) in survivors
            merged.append(symbol + symbols[place + 1] if is_merged else symbol)
            next_free = place + (2 if is_merged else 1)
        symbols = merged


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_splits_as_much_as_the_paper(tokenizer, dropout):
    repeats = 40
    ranks = {tuple(pair): rank for rank, pair in enumerate(tokenizer._merges)}
    words = [in_byte_alphabet(word) for word in split_words(TRAINING_TEXTS).flat_values.numpy()]
    generator = random.Random(0)
    expected = np.mean(
        [
            sum(len(paper_bpe_dropout(word, ranks, dropout, generator)) for word in words)
            for _ in range(repeats)
        ]
    )
    texts = TRAINING_TEXTS * repeats
    tokens = tokenizer.tokenize(texts, dropout=dropout, seed=[0, 1])
    assert tokens.flat_values.shape[0] / repeats == pytest.approx(expected, rel=0.01)


# In graphs


def test_function_with_signature_and_dataset_equal_eager(tokenizer):
    expected = tokenizer.tokenize(TRICKY_TEXTS).to_list()
    signature = [tf.TensorSpec([None], tf.string)]
    in_graph = tf.function(tokenizer.tokenize, input_signature=signature)
    assert in_graph(tf.constant(TRICKY_TEXTS)).to_list() == expected
    assert in_graph(tf.constant([], tf.string)).to_list() == []
    batches = tf.data.Dataset.from_tensor_slices(TRICKY_TEXTS).batch(3)
    batches = batches.map(tokenizer.tokenize, num_parallel_calls=2)
    assert [row for batch in batches for row in batch.to_list()] == expected


def test_dataset_with_dropout(tokenizer):
    def split(seed, texts):
        return tokenizer.tokenize(texts, dropout=0.1, seed=seed)

    seeds = tf.data.Dataset.random(seed=1).batch(2)
    batches = tf.data.Dataset.zip(
        seeds, tf.data.Dataset.from_tensor_slices(TRICKY_TEXTS).batch(3)
    ).map(split)
    restored = [text for batch in batches for text in decoded(tokenizer.detokenize(batch))]
    assert restored == TRICKY_TEXTS


def test_built_inside_a_graph(tokenizer):
    made = []

    @tf.function
    def tokenize(texts):
        if not made:
            made.append(ByteBPETokenizer(tokenizer._merges, ["A"]))
        return made[0].tokenize(texts)

    assert tokenize(tf.constant(["A man"])).to_list() == tokenizer.tokenize(["A man"]).to_list()


class RoundTrip(tf.Module):
    """A model around the tokenizer: dense ids of a text, and the text again."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([2], tf.int64)])
    def serve(self, text, seed):
        sampled = self.tokenizer.tokenize(text, dropout=0.1, seed=seed)
        return {
            "token_ids": self.tokenizer.tokenize(text).to_tensor(),
            "text": self.tokenizer.detokenize(sampled),
        }


@pytest.fixture(scope="module")
def saved_model(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved_model")
    model = RoundTrip(tokenizer)
    tf.saved_model.save(model, str(path), signatures=model.serve)
    return path


SERVE_ALONE = """
import json, sys
for package in ("zoo", "keras_attention", "tokenizers"):
    sys.modules[package] = None
import tensorflow as tf

serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
texts = json.loads(sys.argv[2])
outputs = serve(text=tf.constant(texts), seed=tf.constant([1, 2], tf.int64))
restored = [text.decode() for text in outputs["text"].numpy()]
print(json.dumps({"token_ids": outputs["token_ids"].numpy().tolist(), "text": restored}))
"""


@pytest.mark.full  # `saved_model_test` runs an export without Python
def test_saved_model_serves_without_this_package(tokenizer, saved_model):
    arguments = [str(saved_model), json.dumps(TRICKY_TEXTS)]
    command = [sys.executable, "-c", SERVE_ALONE, *arguments]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    outputs = json.loads(printed.splitlines()[-1])
    assert outputs["token_ids"] == tokenizer.tokenize(TRICKY_TEXTS).to_tensor().numpy().tolist()
    assert outputs["text"] == TRICKY_TEXTS


def test_saved_model_holds_core_ops_only(saved_model):
    content = saved_model_pb2.SavedModel.FromString((saved_model / "saved_model.pb").read_bytes())
    graph = content.meta_graphs[0].graph_def
    functions = [node for function in graph.library.function for node in function.node_def]
    ops = {node.op for node in [*graph.node, *functions]}
    assert {"RegexReplace", "StaticRegexReplace"} & ops  # the ops of functions are there
    assert not [op for op in ops if ">" in op or "PyFunc" in op]


# Files


def test_save_and_load(tokenizer, tmp_path):
    path = tmp_path / "vocabulary.json"
    tokenizer.save(path)
    loaded = ByteBPETokenizer.load(path)
    assert loaded.vocabulary_size == tokenizer.vocabulary_size
    assert loaded.tokenize(TRICKY_TEXTS).to_list() == tokenizer.tokenize(TRICKY_TEXTS).to_list()
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert '" Несколько"' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "Expecting"),
        ("[]", '"format" is not'),
        ('{"format": "ByteBPETokenizer 2", "merges": [], "words": []}', '"format" is not'),
        ('{"format": "ByteBPETokenizer 1", "words": []}', '"merges" is not a list of strings'),
        ('{"format": "ByteBPETokenizer 1", "merges": [], "words": [1]}', '"words" is not a list'),
        ('{"format": "ByteBPETokenizer 1", "merges": ["a b c"], "words": []}', "two pieces"),
        ('{"format": "ByteBPETokenizer 1", "merges": ["ab c"], "words": []}', "two pieces"),
    ],
)
def test_load_says_what_is_wrong_with_a_file(tmp_path, content, complaint):
    path = tmp_path / "broken.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=complaint) as error:
        ByteBPETokenizer.load(path)
    assert str(path) in str(error.value)


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
