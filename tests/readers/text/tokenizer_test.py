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
from tests.readers.text.hostile_texts import BROKEN, PROSE, hostile_texts, long_line
from zoo.readers.text import Tokenizer, read_tokenizer
from zoo.readers.text.charsmap import Charsmap
from zoo.readers.text.sentencepiece_files import read_model

FEW, MANY = 300, 20000
ORDINARY = ("bert_uncased", "gpt2", "llama3", "llama2")
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
}


def full(names, ordinary):
    return [
        name if name in ordinary else pytest.param(name, marks=pytest.mark.full) for name in names
    ]


def library_and_ours(name):
    library = small_tokenizers.ALL[name]()
    definition = json.loads(library.to_str())
    return library, Tokenizer(definition), [t["content"] for t in definition["added_tokens"]]


def in_batches(function, texts, size=256):
    function = tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)])
    return [
        row
        for first in range(0, len(texts), size)
        for row in function(tf.constant(texts[first : first + size])).to_list()
    ]


def check_equal(found, expected, texts):
    wrong = [i for i in range(len(texts)) if found[i] != expected[i]]
    assert not wrong, f"{len(wrong)} of {len(texts)}, such as {texts[wrong[0]]!r}"


def decoded(texts):
    return [text.decode() for text in texts.numpy()]


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
    check_library(name, FEW, 2000)


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


@pytest.mark.parametrize("name", full(SENTENCEPIECE, ("unigram_bytes", "bpe_bytes")))
def test_ids_equal_sentencepiece(name, tmp_path):
    check_sentencepiece(SENTENCEPIECE[name], FEW, 2000, tmp_path / "small.model")


@pytest.mark.full
@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_many_ids_equal_sentencepiece(name, tmp_path):
    check_sentencepiece(SENTENCEPIECE[name], MANY, 100_000, tmp_path / "small.model")


@pytest.fixture(scope="module")
def bert():
    library = small_tokenizers.ALL["bert_uncased"]()
    return library, Tokenizer(json.loads(library.to_str()), {"pad": "[PAD]", "mask": "[MASK]"})


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


# Folders


def test_bert_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertTokenizer().train_new_from_iterator(PROSE, 400)
    theirs.save_pretrained(tmp_path)
    ours = read_tokenizer(tmp_path)
    assert (ours.pad_id, ours.start_id, ours.end_id) == (
        theirs.pad_token_id,
        theirs.cls_token_id,
        theirs.sep_token_id,
    )
    assert (ours.mask_id, ours.unknown_id) == (theirs.mask_token_id, theirs.unk_token_id)
    expected = theirs(PROSE, PROSE[::-1])
    found = ours.encode(PROSE, PROSE[::-1], dense=False)
    assert found.token_ids.to_list() == expected["input_ids"]
    assert found.segment_ids.to_list() == expected["token_type_ids"]
    vocabulary = sorted(theirs.get_vocab(), key=theirs.get_vocab().get)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    again = read_tokenizer(tmp_path).encode(PROSE, PROSE[::-1], dense=False)
    assert again.token_ids.to_list() == expected["input_ids"]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["GPT2", "CLIP", "Qwen2"])
def test_vocabulary_and_merges_folder(tmp_path, name):
    pipeline = {"GPT2": "gpt2", "CLIP": "clip", "Qwen2": "qwen2"}[name]
    library = small_tokenizers.ALL[pipeline]()
    library.model.save(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": f"{name}Tokenizer"}), encoding="utf-8"
    )
    read = read_tokenizer(tmp_path)
    texts = hostile_texts(100)
    expected = [each.ids for each in library.encode_batch(texts)]
    assert read.encode(texts, dense=False).token_ids.to_list() == expected


@pytest.mark.parametrize("name", ["Bert", "GPT2"])
def test_added_tokens_of_older_folders(tmp_path, name):
    """Before version 4.34 of transformers, they were in a file of their own."""
    transformers = pytest.importorskip("transformers")
    library = {"Bert": small_tokenizers.bert, "GPT2": small_tokenizers.ALL["gpt2"]}[name]()
    library.model.save(str(tmp_path))
    size = library.get_vocab_size()
    files = {
        "added_tokens.json": {"<User>": size, "[pad]": size + 1},
        "special_tokens_map.json": {"pad_token": "[pad]"},
        "tokenizer_config.json": {"tokenizer_class": f"{name}Tokenizer"},
    }
    for file, content in files.items():
        (tmp_path / file).write_text(json.dumps(content), encoding="utf-8")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = read_tokenizer(tmp_path)
    texts = ["a <User> [pad] says", "<user>A<User>"]
    expected = theirs(texts)["input_ids"]
    assert size in expected[0]
    assert ours.encode(texts, dense=False).token_ids.to_list() == expected
    assert ours.pad_id == theirs.pad_token_id == size + 1


def test_the_number_of_extra_tokens_of_t5(tmp_path):
    model = small_tokenizers.sentencepiece_model()
    (tmp_path / "spiece.model").write_bytes(model)
    config = {"tokenizer_class": "MT5Tokenizer", "extra_ids": 2, "pad_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    ours = read_tokenizer(tmp_path)
    texts = [f"<extra_id_{number}>" for number in range(3)]
    last, first, *others = ours.tokenize(texts).to_list()
    assert (last, first) == ([ours.vocabulary_size - 1], [ours.vocabulary_size - 2])
    assert len(others[0]) > 1


def test_deberta_folder(tmp_path):
    """Pieces are those of SentencePiece; the mask comes after them."""
    import sentencepiece

    special = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
    options = {f"{role}_id": number for number, role in enumerate(special)}
    options |= {f"{role}_piece": piece for role, piece in special.items()}
    model = small_tokenizers.sentencepiece_model(**options)
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    (tmp_path / "spm.model").write_bytes(model)
    (tmp_path / "config.json").write_text('{"model_type": "deberta-v2"}', encoding="utf-8")
    ours = read_tokenizer(tmp_path)
    texts = hostile_texts(100)
    expected = [[1, *library.encode(text), 2] for text in texts]
    check_equal(ours.encode(texts, dense=False).token_ids.to_list(), expected, texts)
    assert (ours.pad_id, ours.mask_id) == (0, library.get_piece_size())
    (tmp_path / "tokenizer_config.json").write_text('{"split_by_punct": true}', encoding="utf-8")
    with pytest.raises(ValueError, match="split_by_punct=true is not implemented"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize("lowercase", full([True, False], [True]))
def test_siglip_folder(tmp_path, lowercase):
    transformers = pytest.importorskip("transformers")
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "required_chars": "<unk>"}
    (tmp_path / "spiece.model").write_bytes(small_tokenizers.sentencepiece_model(**ids))
    config = {"tokenizer_class": "SiglipTokenizer", "do_lower_case": lowercase}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    theirs = transformers.SiglipTokenizer.from_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")  # is not read
    ours = read_tokenizer(tmp_path)
    special = ["a </s> B", "</s>cat", "A cat</s>", "a<unk> cat, <unk>a", "?!", " - A  cat", "ᾼΣ."]
    # Among equal splits of "aaaaaaaa", a rounding error decides.
    others = [text for text in hostile_texts(300) if "a" * 8 not in text]
    texts = [*special, *others, long_line(2000)]
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    check_equal(in_batches(ours.tokenize, texts), expected, texts)
    assert (ours.pad_id, ours.end_id, ours.start_id) == (1, 1, None)
    encoded = ours.encode(["A cat"], dense=False).token_ids.to_list()
    assert encoded == theirs(["A cat"])["input_ids"]


def test_gemma_folder(tmp_path):
    """The tokenizer of SigLIP 2, with the flags of its files."""
    transformers = pytest.importorskip("transformers")
    definition = json.loads(small_tokenizers.llama2().to_str())["model"]
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    words = [word for word in definition["vocab"] if word not in ("<unk>", "<s>", "</s>")]
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    merges = [tuple(merge) for merge in definition["merges"]]
    flags = {"add_bos_token": False, "add_eos_token": True}
    theirs = transformers.GemmaTokenizer(vocabulary, merges, **flags)
    theirs.save_pretrained(tmp_path)
    ours = read_tokenizer(tmp_path)
    texts = [*hostile_texts(200), "a <eos> B", long_line(2000)]
    expected = theirs(texts)["input_ids"]
    check_equal(ours.encode(texts, dense=False).token_ids.to_list(), expected, texts)
    assert (ours.pad_id, ours.end_id, ours.start_id) == (0, 1, 2)


def test_marian_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    import sentencepiece

    model = small_tokenizers.sentencepiece_model()
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    for side in ("source", "target"):
        (tmp_path / f"{side}.spm").write_bytes(model)
    pieces = [library.id_to_piece(number) for number in range(3, library.get_piece_size())][5:]
    names = ["</s>", "<unk>", *reversed(pieces), ">>fr<<", "☕", "🇩🇪", "<pad>"]
    ids = {name: number for number, name in enumerate(names)}
    (tmp_path / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    theirs = transformers.MarianTokenizer(
        *(str(tmp_path / name) for name in ("source.spm", "target.spm", "vocab.json"))
    )
    texts = [*hostile_texts(200), ">>fr<< A man.", "a ☕ 🇩🇪!"]
    ours = read_tokenizer(tmp_path)
    check_equal(
        ours.encode(texts, dense=False).token_ids.to_list(), theirs(texts)["input_ids"], texts
    )
    assert (ours.pad_id, ours.end_id) == (theirs.pad_token_id, theirs.eos_token_id)
    assert list(ours.language_codes) == theirs.supported_language_codes


def test_several_end_tokens(tmp_path):
    library, *_ = library_and_ours("llama3")
    library.save(str(tmp_path / "tokenizer.json"))
    settings = {"eos_token_id": [1, 2]}
    (tmp_path / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    ours = read_tokenizer(tmp_path, start="<|begin_of_text|>")
    assert (ours.end_ids, ours.end_id, ours.start_id) == ((1, 2), 1, 0)


def test_the_end_token_of_the_generation_settings(tmp_path):
    library, *_ = library_and_ours("llama3")
    library.save(str(tmp_path / "tokenizer.json"))
    named = {"eos_token": "<|end_of_text|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named), encoding="utf-8")
    assert read_tokenizer(tmp_path).end_ids == (1,)
    settings = {"eos_token_id": 2}
    (tmp_path / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert read_tokenizer(tmp_path).end_ids == (2,)


@pytest.mark.parametrize(("kind", "end"), [("LlamaForCausalLM", 2), ("LlamaModel", 1)])
def test_the_end_token_of_the_config(tmp_path, kind, end):
    """Older folders have no file for generation settings."""
    library, *_ = library_and_ours("llama3")
    library.save(str(tmp_path / "tokenizer.json"))
    named = {"eos_token": "<|end_of_text|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named), encoding="utf-8")
    config = {"model_type": "llama", "architectures": [kind], "eos_token_id": 2}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert read_tokenizer(tmp_path).end_ids == (end,)


@pytest.mark.parametrize("name", ["Bert", "Roberta", "XLMRoberta", "GPT2", "T5", "Camembert"])
def test_special_tokens_that_no_file_names(tmp_path, name):
    """The first repositories of BERT, RoBERTa and GPT-2 leave them to the classes."""
    transformers = pytest.importorskip("transformers")
    theirs = getattr(transformers, f"{name}Tokenizer")()
    theirs.save_pretrained(tmp_path)
    model_type = {"XLMRoberta": "xlm-roberta"}.get(name, name.lower())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    ours = read_tokenizer(tmp_path)
    names = {"start_id": "cls", "end_id": "sep"} if theirs.cls_token else {}
    names = {"start_id": "bos", "end_id": "eos", "mask_id": "mask", "pad_id": "pad"} | names
    for role, token in names.items():
        expected = getattr(theirs, f"{token}_token_id")
        assert expected is None or getattr(ours, role) == expected


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Bert", {"do_lower_case": False}),
        ("Bert", {"strip_accents": False, "tokenize_chinese_chars": False}),
        ("GPT2", {"add_prefix_space": True}),
    ],
)
def test_options_beside_tokenizer_json(tmp_path, name, options):
    transformers = pytest.importorskip("transformers")
    texts = ["The café", "中文 cats", *PROSE]
    trained = getattr(transformers, f"{name}Tokenizer")().train_new_from_iterator(texts, 400)
    trained.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = {**json.loads(path.read_text()), **options}

    def check(**more):
        path.write_text(json.dumps({**config, **more}), encoding="utf-8")
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
        found = read_tokenizer(tmp_path).encode(texts, dense=False).token_ids.to_list()
        assert found == theirs(texts)["input_ids"]
        return found

    assert check() != check(tokenizer_class="PreTrainedTokenizerFast")  # keeps to tokenizer.json


def test_the_template_chooses_among_special_tokens(tmp_path, bert):
    definition = bert[1].get_config()["definition"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition), encoding="utf-8")
    named = {"bos_token": "the", "cls_token": "[CLS]", "eos_token": "a", "sep_token": "[SEP]"}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(named), encoding="utf-8")
    ours = read_tokenizer(tmp_path)
    vocabulary = definition["model"]["vocab"]
    assert (ours.start_id, ours.end_id) == (vocabulary["[CLS]"], vocabulary["[SEP]"])


@pytest.mark.parametrize(
    ("part", "entry", "message"),
    [
        ("normalizer", {"type": "Nmt"}, "normalizer 'Nmt' is not implemented"),
        ("pre_tokenizer", {"type": "UnicodeScripts"}, "pre-tokenizer 'UnicodeScripts' is not"),
        ("model", {"type": "WordLevel", "vocab": {}}, "model 'WordLevel' is not implemented"),
        ("decoder", {"type": "CTC"}, "decoder 'CTC' is not implemented"),
        ("post_processor", {"type": "Other"}, "post-processor 'Other' is not implemented"),
        (
            "pre_tokenizer",
            {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": False},
            "words of the pattern .*a+.* are not implemented",
        ),
    ],
)
def test_what_is_not_implemented_is_named(tmp_path, bert, part, entry, message):
    definition = {**bert[1].get_config()["definition"], part: entry}
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_tokenizer(tmp_path)


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(ValueError, match="there should be tokenizer.json, vocab.txt"):
        read_tokenizer(tmp_path)


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
