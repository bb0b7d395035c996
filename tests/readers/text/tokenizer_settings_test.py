"""Special tokens and options in the files of a tokenizer, and what is not implemented."""

import json

import pytest

from tests.readers.text.comparison import full, library_and_ours
from tests.readers.text.hostile_texts import PROSE
from zoo.readers.text import Tokenizer, read_tokenizer


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


@pytest.mark.few(2)
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


@pytest.mark.parametrize("name", full(["Bert", "T5", "GPT2"], ["T5"]))
def test_spaces_in_front_of_punctuation(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    tiny = pytest.importorskip("tests.checkpoints.tiny")
    tiny.tokenizer(f"{name}Tokenizer").save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = {**json.loads(path.read_text()), "clean_up_tokenization_spaces": True}
    path.write_text(json.dumps(config))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = read_tokenizer(tmp_path)
    text = "The cats ' mat . They isn 't ; they 're passing by , don ' t mind !"
    ids = [theirs(text, add_special_tokens=False)["input_ids"]]
    ours.save(tmp_path / "saved.json")
    for each in (ours, Tokenizer.load(tmp_path / "saved.json")):
        assert each.detokenize(ids).numpy()[0].decode() == theirs.decode(ids[0])
    assert ours.to_library().encode(text, add_special_tokens=False).ids == ids[0]


@pytest.mark.parametrize("name", full(["bert_cased", "gpt2", "albert"], ["gpt2"]))
def test_models_of_2020_do_not_name_their_type(tmp_path, name):
    """As in `tokenizer.json` of GPT-2 and RoBERTa."""
    library, ours, _ = library_and_ours(name)
    definition = ours.get_config()["definition"]
    del definition["model"]["type"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition), encoding="utf-8")
    again = read_tokenizer(tmp_path)
    expected = [each.ids for each in library.encode_batch(PROSE, add_special_tokens=False)]
    assert again.tokenize(PROSE).to_list() == expected
    assert again.to_library().encode(PROSE[0], add_special_tokens=False).ids == expected[0]
