"""Tokenizers of folders, family by family, against transformers and SentencePiece."""

import json

import pytest
from tokenizers import processors

from tests.readers.text import small_tokenizers
from tests.readers.text.comparison import check_equal, full, in_batches
from tests.readers.text.hostile_texts import PROSE, hostile_texts, long_line
from zoo.readers.text import read_tokenizer


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


def test_a_llama_of_bytes_is_read_as_written(tmp_path):
    """As in transformers, which knows by the file that the class of DeepSeek's cannot be right."""
    transformers = pytest.importorskip("transformers")
    library = small_tokenizers.llama3()
    library.post_processor = processors.ByteLevel(trim_offsets=False)
    library.save(str(tmp_path / "tokenizer.json"))
    config = {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True}
    config |= {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    texts = hostile_texts(50)
    expected = transformers.AutoTokenizer.from_pretrained(tmp_path)(texts)["input_ids"]
    found = read_tokenizer(tmp_path).encode(texts, dense=False).token_ids.to_list()
    check_equal(found, expected, texts)


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
