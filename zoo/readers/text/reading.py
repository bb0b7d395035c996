"""Reads tokenizers from folders that `transformers` wrote."""

import pathlib
import re

from zoo.readers.text.bert import bert_definition
from zoo.readers.text.languages import OF_M2M100
from zoo.readers.text.models import vocabulary_of
from zoo.readers.text.pretokenizers import CLIP, QWEN2
from zoo.readers.text.sentencepiece_files import read_model
from zoo.readers.text.templates import templates_of
from zoo.readers.text.tokenizer import Tokenizer
from zoo.readers.text.tokenizer_files import LARGEST_FILE
from zoo.storage.json_files import read_named_json

# For each role, these tokens are used if a folder names them: the one that the template puts around
# texts, otherwise the first.
_TOKENS = {
    "pad": ("pad_token",),
    "start": ("bos_token", "cls_token"),
    "end": ("eos_token", "sep_token"),
    "mask": ("mask_token",),
    "unknown": ("unk_token",),
}
_BERT = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]"}
_BERT |= {"mask_token": "[MASK]"}
_ROBERTA = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
_ROBERTA |= {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
_GPT2 = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
_CLIP = dict.fromkeys(("eos_token", "pad_token", "unk_token"), "<|endoftext|>")
_CLIP |= {"bos_token": "<|startoftext|>"}
_QWEN2 = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
_MPNET = {**_ROBERTA, "unk_token": "[UNK]"}
_M2M100 = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_LLAMA = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
_T5 = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
_SIGLIP = {"eos_token": "</s>", "pad_token": "</s>", "unk_token": "<unk>"}
_GEMMA = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
_USUAL = {  # of classes of transformers, unless files name others
    "Bert": _BERT,
    "CLIP": _CLIP,
    "Camembert": _ROBERTA,
    "DebertaV2": _BERT,
    "DistilBert": _BERT,
    "Electra": _BERT,
    "GPT2": _GPT2,
    "Gemma": _GEMMA,
    "Llama": _LLAMA,
    "M2M100": _M2M100,
    "MPNet": _MPNET,
    "Nllb": _ROBERTA,
    "Qwen2": _QWEN2,
    "Roberta": _ROBERTA,
    "Siglip": _SIGLIP,
    "Siglip2": _GEMMA,
    "T5": _T5,
    "Whisper": _GPT2,
    "XLMRoberta": _ROBERTA,
}
_LANGUAGE = re.compile("[a-z]{3}_[A-Z][a-z]{3}|__[a-z]+__")  # of NLLB and M2M100
_EXTRA_IDS = 100  # of T5
_OF_BERT = {  # options of the normalizer, by their names in `tokenizer_config.json`
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_NO_LIMIT = 10**9  # where transformers knows no maximum, files say 10**30
_GENERATES = re.compile("(LMHeadModel|ForCausalLM|MTModel|ForConditionalGeneration)$")  # classes
_WITHOUT_OPTIONS = "PreTrainedTokenizerFast", "TokenizersBackend"  # which take the file as it is


def read_tokenizer(folder, side="source", size=None, lowercase=False, **roles):
    """Reads the tokenizer of a folder, whose kind depends on the files.

    `tokenizer.json` comes first, otherwise `vocab.txt` (WordPiece), `vocab.json` with `merges.txt`
    (the BPE of GPT-2, RoBERTa, CLIP and Qwen2), `source.spm` and `target.spm` (Marian),
    `spiece.model` (T5), `spm.model` (DeBERTa), `sentencepiece.bpe.model` with `vocab.json` (M2M100)
    or `tokenizer.model` (Llama). SigLIP's `spiece.model` comes before its `tokenizer.json`, as in
    transformers.
    `tokenizer_config.json`, `special_tokens_map.json` and `generation_config.json` name the special
    tokens; those that no file names are those of the class in transformers. As there, options of
    `tokenizer_config.json` such as `do_lower_case` and `truncation_side` overrule `tokenizer.json`,
    and older folders list further tokens in `added_tokens.json`.

    Marian's language codes, such as `>>fr<<`, are found anywhere in a text.

    Args:
        folder: The folder.
        side: `"source"` or `"target"`, for Marian, which has two sides.
        size: As for `Tokenizer`.
        lowercase: Whether to turn texts into lower case first, whatever the tokenizer does.
        **roles: Tokens in place of those that the files name, as for `Tokenizer`:
            `start="<pad>"`; or their ids. An id without a token becomes one that texts do not hold.

    Returns:
        A `Tokenizer`.

    Raises:
        ValueError: If there is no tokenizer, or it requires something that is not implemented; the
            message says what.
    """
    folder = pathlib.Path(folder)
    config, named = _json(folder / "tokenizer_config.json"), _named(folder)
    try:
        definition, defaults = _definition(folder, config, side)
        _add_tokens(definition, config, named, _json(folder / "added_tokens.json"))
        _hide_times(definition)
        if lowercase:
            normalizers = [{"type": "Lowercase"}, definition.get("normalizer")]
            definition["normalizer"] = {
                "type": "Sequence",
                "normalizers": [*filter(None, normalizers)],
            }
        names = _names(definition)
        defaults = defaults or _usual(_kind(folder, config), names)
        single, _ = templates_of(definition.get("post_processor"))
        around = {names.get(number) for item in single for number in item.token_ids}
        found = _roles({**defaults, **{key: named[key] for key in named if named[key]}}, around)
        found = {**found, **_ends(folder, names)}
        roles = {role: _token_of(token, role, names, definition) for role, token in roles.items()}
        side, longest = _truncation_side(definition, config), _longest_pair(config)
        return Tokenizer(definition, {**found, **roles}, size, side, longest)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{folder} does not hold a tokenizer: {error!r}") from error
    except ValueError as error:
        raise ValueError(f"The tokenizer in {folder} cannot be read: {error}") from error


def language_tokens(folder):
    """Returns the tokens of languages of a model of many, a dictionary from codes to tokens.

    They are such as `eng_Latn` of NLLB, and `__en__` of M2M100, whose code is `en`.

    Args:
        folder: The folder.
    """
    folder = pathlib.Path(folder)
    config = _json(folder / "tokenizer_config.json")
    definition, _ = _definition(folder, config, "source")
    _add_tokens(definition, config, _named(folder), _json(folder / "added_tokens.json"))
    tokens = sorted(token["content"] for token in definition["added_tokens"])
    return {token.strip("_"): token for token in tokens if _LANGUAGE.fullmatch(token)}


def special_tokens_of(folder):
    """Returns a dictionary of the special tokens that the files of a folder name."""
    return {
        name: _content(token)
        for name, token in _named(folder).items()
        if name.endswith("_token") and isinstance(_content(token), str)
    }


def _named(folder):
    """Returns the content of the files that name special tokens."""
    files = "special_tokens_map.json", "tokenizer_config.json"
    return {name: value for file in files for name, value in _json(folder / file).items()}


def _definition(folder, config, side):
    """Returns the definition, and the special tokens to use if no file names them."""
    files = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    kind = _kind(folder, config)
    if "spiece.model" in files and kind == "Siglip":
        return _siglip(folder, config)
    if "tokenizer.json" in files:
        definition = read_named_json(folder / "tokenizer.json", LARGEST_FILE)
        _require_same_template(definition, config, kind)
        _overrule(definition, config)
        return definition, {}
    if {"source.spm", "target.spm", "vocab.json"} <= files:
        return _marian(folder, side)
    if {"sentencepiece.bpe.model", "vocab.json"} <= files and kind == "M2M100":
        return _m2m_100(folder, config.get("language_codes") or "m2m100")
    if {"vocab.json", "merges.txt"} <= files:
        return _byte_pairs(folder, kind, config)
    if "vocab.txt" in files:
        return _word_piece(folder, kind, config)
    if "spiece.model" in files and kind in ("T5", ""):
        return _t5(folder, config.get("extra_ids", _EXTRA_IDS))
    if "spm.model" in files and kind in ("DebertaV2", ""):
        return _deberta(folder, config)
    if "tokenizer.model" in files and kind in ("Llama", ""):
        return _llama(folder, config)
    raise ValueError(
        f"for a {kind or 'model'}, there should be tokenizer.json, vocab.txt, vocab.json with "
        "merges.txt, source.spm with target.spm and vocab.json, spiece.model (T5, SigLIP), "
        "spm.model (DeBERTa), sentencepiece.bpe.model with vocab.json (M2M100) or tokenizer.model "
        "(Llama). Found: "
        f"{', '.join(sorted(files)) or 'nothing'}. "
        "From files of other names, transformers writes tokenizer.json: "
        "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
    )


def _kind(folder, config):
    """Returns `"Bert"` for a `BertTokenizerFast`, or by the model's type; `""` if unknown."""
    name = config.get("tokenizer_class") or ""
    if name and name != "PreTrainedTokenizerFast":
        name = name.removesuffix("Fast").removesuffix("Tokenizer")
        return "Roberta" if name == "Bart" else name
    types = {"bert": "Bert", "roberta": "Roberta", "gpt2": "GPT2", "clip": "CLIP", "t5": "T5"}
    types |= {"qwen2": "Qwen2", "llama": "Llama", "distilbert": "DistilBert", "mpnet": "MPNet"}
    types |= {"electra": "Electra", "marian": "Marian", "mistral": "Llama", "whisper": "Whisper"}
    types |= {
        "bart": "Roberta",
        "blip": "Bert",
        "camembert": "Camembert",
        "deberta-v2": "DebertaV2",
        "m2m_100": "M2M100",
        "qwen3": "Qwen2",
        "siglip": "Siglip",
        "xlm-roberta": "XLMRoberta",
    }
    return types.get(_json(folder / "config.json").get("model_type"), "")


def _word_piece(folder, kind, config):
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    vocabulary = {line.rstrip("\r"): number for number, line in enumerate(lines)}
    if kind not in ("Bert", "DistilBert", "Electra", "MPNet", ""):
        raise ValueError(f"vocab.txt of {kind} is not implemented.")
    defaults = _MPNET if kind == "MPNet" else _BERT
    tokens = {**defaults, **{key: _content(config[key]) for key in defaults if config.get(key)}}
    definition = bert_definition(
        vocabulary,
        tokens["cls_token"],
        tokens["sep_token"],
        tokens["unk_token"],
        lowercase=config.get("do_lower_case", True),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        processor="RobertaProcessing" if kind == "MPNet" else "BertProcessing",
    )
    lstrip = (tokens["mask_token"],) if kind == "MPNet" else ()
    _mark_special(definition, tokens.values(), vocabulary, lstrip)
    return definition, tokens


def _byte_pairs(folder, kind, config):
    vocabulary = read_named_json(folder / "vocab.json", LARGEST_FILE)
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    lines = lines[1:] if lines[0].startswith("#version") else lines
    tokens = {"GPT2": _GPT2, "Roberta": _ROBERTA, "CLIP": _CLIP, "Qwen2": _QWEN2}.get(kind)
    if tokens is None:
        raise ValueError(f"vocab.json with merges.txt of {kind or 'an unknown model'}.")
    named = {key: _content(config[key]) for key in _ROBERTA if config.get(key)}
    tokens = {**tokens, **named}
    model = {
        "type": "BPE",
        "vocab": vocabulary,
        "merges": [line.split(" ") for line in lines if line],
        "unk_token": tokens["unk_token"] if kind == "CLIP" else None,
        "end_of_word_suffix": "</w>" if kind == "CLIP" else "",
    }
    from_pattern = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": config.get("add_prefix_space", False),
        "use_regex": True,
    }
    definition = {"model": model, "pre_tokenizer": byte_level, "decoder": {"type": "ByteLevel"}}
    if kind == "Qwen2":
        definition["normalizer"] = {"type": "NFC"}
        definition["pre_tokenizer"] = _sequence(_split(QWEN2, "Isolated", False), from_pattern)
    if kind == "CLIP":
        white_space = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
        definition["normalizer"] = {
            "type": "Sequence",
            "normalizers": [{"type": "NFC"}, white_space, {"type": "Lowercase"}],
        }
        definition["pre_tokenizer"] = _sequence(_split(CLIP, "Removed", True), byte_level)
    around = {"Roberta": ("cls_token", "sep_token"), "CLIP": ("bos_token", "eos_token")}
    if kind in around:
        start, end = (tokens[key] for key in around[kind])
        definition["post_processor"] = {
            "type": "RobertaProcessing",
            "cls": [start, vocabulary[start]],
            "sep": [end, vocabulary[end]],
        }
    lstrip = (tokens["mask_token"],) if kind == "Roberta" else ()
    _mark_special(definition, tokens.values(), vocabulary, lstrip)
    return definition, tokens


def _marian(folder, side):
    if side not in ("source", "target"):
        raise ValueError(f"side must be 'source' or 'target'. Received: {side!r}.")
    definition, _ = read_model(folder / f"{side}.spm")
    ids = read_named_json(folder / "vocab.json", LARGEST_FILE)
    tokens = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    definition["model"]["ids"] = ids
    definition["added_tokens"] = []
    languages = [piece for piece in ids if piece.startswith(">>") and piece.endswith("<<")]
    _mark_special(definition, [*tokens.values(), *languages], ids)
    definition["post_processor"] = _behind("</s>", ids["</s>"])
    return definition, tokens


def _m2m_100(folder, languages):
    definition, _ = read_model(folder / "sentencepiece.bpe.model")
    ids = read_named_json(folder / "vocab.json", LARGEST_FILE)
    tokens = [f"__{code}__" for code in OF_M2M100[languages]]
    ids |= {token: len(ids) + place for place, token in enumerate(tokens)}
    definition["model"]["ids"] = ids
    definition["added_tokens"] = []
    _mark_special(definition, [*_M2M100.values(), *tokens], ids)
    definition["post_processor"] = _behind("</s>", ids["</s>"])
    return definition, _M2M100


def _t5(folder, extra_ids):
    definition, roles = read_model(folder / "spiece.model")
    size = len(definition["model"]["vocab"])
    tokens = {"eos_token": "</s>", "unk_token": roles["unknown"], "pad_token": "<pad>"}
    ids = {piece: number for number, (piece, *_) in enumerate(definition["model"]["vocab"])}
    extra = {f"<extra_id_{i}>": size + extra_ids - 1 - i for i in range(extra_ids)}
    definition["added_tokens"] = []
    _mark_special(definition, [*tokens.values(), *extra], ids | extra)
    definition["post_processor"] = _behind("</s>", ids["</s>"])
    return definition, tokens


def _siglip(folder, config):
    definition, roles = read_model(folder / "spiece.model")
    rules, spaces = definition["normalizer"]["normalizers"]
    spaces |= {"add_dummy_prefix": False, "remove_extra_whitespaces": True}
    canonical = {"type": "SigLIP", "lowercase": config.get("do_lower_case", True)}
    definition["normalizer"]["normalizers"] = [canonical, rules, spaces]
    # A text begins with a space; what follows a special token in it does not.
    definition["pre_tokenizer"] = {
        "type": "Metaspace",
        "replacement": "▁",
        "prepend_scheme": "first",
        "split": False,
    }
    ids = {piece: number for number, (piece, *_) in enumerate(definition["model"]["vocab"])}
    tokens = {**_SIGLIP, "unk_token": roles["unknown"]}
    definition["added_tokens"] = []
    _mark_special(definition, tokens.values(), ids)
    definition["post_processor"] = _behind("</s>", ids["</s>"])
    return definition, tokens


def _deberta(folder, config):
    for option in ("do_lower_case", "split_by_punct"):
        if config.get(option):
            raise ValueError(f"spm.model with {option}=true is not implemented.")
    definition, _ = read_model(folder / "spm.model")
    ids = {piece: number for number, (piece, *_) in enumerate(definition["model"]["vocab"])}
    ids.setdefault(_BERT["mask_token"], len(ids))
    definition["added_tokens"] = []
    _mark_special(definition, _BERT.values(), ids)
    start, end = _BERT["cls_token"], _BERT["sep_token"]
    definition["post_processor"] = {
        "type": "BertProcessing",
        "cls": [start, ids[start]],
        "sep": [end, ids[end]],
    }
    return definition, _BERT


def _llama(folder, config):
    if not config.get("legacy", True):
        raise ValueError("tokenizer.model with legacy=false is not implemented.")
    definition, roles = read_model(folder / "tokenizer.model")
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": roles["unknown"]}
    ids = {piece: number for number, (piece, *_) in enumerate(definition["model"]["vocab"])}
    definition["added_tokens"] = []
    _mark_special(definition, tokens.values(), ids)
    items = [{"Sequence": {"id": "A", "type_id": 0}}]
    if config.get("add_bos_token", True):
        items.insert(0, {"SpecialToken": {"id": "<s>", "type_id": 0}})
    if config.get("add_eos_token", False):
        items.append({"SpecialToken": {"id": "</s>", "type_id": 0}})
    definition["post_processor"] = {
        "type": "TemplateProcessing",
        "single": items,
        "pair": items + [_for_second_text(item) for item in items],
        "special_tokens": {token: {"ids": [ids[token]]} for token in ("<s>", "</s>")},
    }
    return definition, tokens


def _for_second_text(item):
    """Returns an item of a template of one text as that of the second text of a pair."""
    ((kind, content),) = item.items()
    content = {**content, "type_id": 1}
    return {kind: {**content, "id": "B"} if kind == "Sequence" else content}


def _behind(token, number):
    """Returns the template with a special token after each text, single or in a pair."""
    text, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    end = {"SpecialToken": {"id": token, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [text, end],
        "pair": [text, end, other, end],
        "special_tokens": {token: {"ids": [number]}},
    }


def _split(pattern, behavior, invert):
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": behavior,
        "invert": invert,
    }


def _sequence(*pre_tokenizers):
    return {"type": "Sequence", "pretokenizers": [*pre_tokenizers]}


def _mark_special(definition, tokens, ids, lstrip=()):
    definition["added_tokens"] = [
        {"id": ids[token], "content": token, "special": True, "lstrip": token in lstrip}
        for token in dict.fromkeys(tokens)
        if token in ids
    ]


def _require_same_template(definition, config, kind):
    """Classes of Llama and Gemma rebuild the template from options; the file must agree."""
    if kind not in ("Llama", "CodeLlama", "Gemma", "Siglip2") or "add_bos_token" not in config:
        return
    single = (definition.get("post_processor") or {}).get("single") or []
    special = [entry["SpecialToken"]["id"] for entry in single if "SpecialToken" in entry]
    for option, token in (("add_bos_token", "bos_token"), ("add_eos_token", "eos_token")):
        wanted, token = config.get(option), _content(config.get(token))
        if wanted is not None and bool(wanted) != (token in special):
            raise ValueError(
                f"tokenizer_config.json says {option}={wanted}, and the template in tokenizer.json "
                "says otherwise."
            )


def _overrule(definition, config):
    """Sets the options that classes of transformers take from `tokenizer_config.json`."""
    if config.get("tokenizer_class") in _WITHOUT_OPTIONS:
        return
    normalizer, words = (definition.get(part) or {} for part in ("normalizer", "pre_tokenizer"))
    if normalizer.get("type") == "BertNormalizer":
        named = {ours: config.get(theirs) for theirs, ours in _OF_BERT.items()}
        normalizer.update({name: value for name, value in named.items() if value is not None})
    if words.get("type") == "ByteLevel" and config.get("add_prefix_space") is not None:
        words["add_prefix_space"] = config["add_prefix_space"]


def _add_tokens(definition, config, named, older):
    """Adds the tokens that the definition lacks.

    Args:
        definition: The definition.
        config: Content of `tokenizer_config.json`.
        named: Dictionary of special tokens by the names that files give them.
        older: Content of `added_tokens.json`: a dictionary from tokens to ids.
    """
    roles = [named[name] for name in named if name.endswith("_token")]
    roles += named.get("additional_special_tokens") or []
    special = set(map(_content, roles))
    tokens = {token["content"]: token for token in definition.get("added_tokens", [])}
    for number, token in (config.get("added_tokens_decoder") or {}).items():
        tokens.setdefault(token["content"], {**token, "id": int(number)})
    is_raw = definition["model"].get("type", "").startswith("SentencePiece")
    for token, number in older.items():
        is_special = token in special
        flags = {"special": is_special, "normalized": not (is_special or is_raw)}
        tokens.setdefault(token, {"id": number, "content": token, **flags})
    definition["added_tokens"] = [*tokens.values()]


def _hide_times(definition):
    """Makes Whisper's timestamps, such as `<|0.02|>`, special tokens, so that texts omit them."""
    for token in definition["added_tokens"]:
        if re.fullmatch(r"<\|\d+\.\d+\|>", token["content"]):
            token["special"] = True


def _usual(kind, names):
    """Returns the special tokens of a class of transformers that a vocabulary has."""
    known = set(names.values())
    return {name: token for name, token in _USUAL.get(kind, {}).items() if token in known}


def _roles(tokens, around):
    """Returns the tokens of the roles.

    Args:
        tokens: Dictionary of special tokens by the names that files give them.
        around: The tokens that the template puts around a text.
    """
    roles = {}
    for role, names in _TOKENS.items():
        found = [_content(tokens[name]) for name in names if tokens.get(name)]
        if found:
            roles[role] = next((token for token in found if token in around), found[0])
    return roles


def _truncation_side(definition, config):
    """Returns the side on which texts are truncated."""
    usual = (definition.get("truncation") or {}).get("direction", "right")
    return (config.get("truncation_side") or usual).lower()


def _longest_pair(config):
    """Returns the maximum number of tokens of a pair of texts; `None` if a file says none."""
    longest = config.get("model_max_length") or _NO_LIMIT
    return None if longest >= _NO_LIMIT else longest


def _names(definition):
    """Returns a dictionary from ids to pieces and added tokens."""
    names = {number: piece for piece, number in vocabulary_of(definition["model"]).items()}
    return names | {token["id"]: token["content"] for token in definition["added_tokens"]}


def _ends(folder, names):
    """Returns the tokens that end a text, if the generation settings name them.

    In older folders, these are in the config of the model, where only models that generate texts
    use them.
    """
    settings = _json(folder / "generation_config.json")
    if not (folder / "generation_config.json").is_file():
        settings = _json(folder / "config.json")
        if not any(map(_GENERATES.search, settings.get("architectures") or [])):
            return {}
    numbers = settings.get("eos_token_id")
    if isinstance(numbers, list):
        return {"end": [names[number] for number in numbers]}
    return {"end": names[numbers]} if numbers in names else {}


def _token_of(token, role, names, definition):
    """Returns the token of a role, given it or its id; adds one to the definition if it is new."""
    if isinstance(token, str):
        return token
    if token in names:
        return names[token]
    new = {"id": token, "content": f"<|{role}|>", "special": True, "only_as_id": True}
    definition["added_tokens"].append(new)
    return new["content"]


def _content(token):
    return token["content"] if isinstance(token, dict) else token


def _json(path):
    return read_named_json(path, LARGEST_FILE) if path.is_file() else {}
