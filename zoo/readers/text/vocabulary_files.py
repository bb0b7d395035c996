"""Definitions of tokenizers, in the form of `tokenizer.json`, made from files of older formats."""

from zoo.readers.text import pretokenizers, special_tokens
from zoo.readers.text.bert import bert_definition
from zoo.readers.text.languages import OF_M2M100, OF_MBART
from zoo.readers.text.pieces import BYTE_ALPHABET
from zoo.readers.text.sentencepiece_files import read_model
from zoo.readers.text.special_tokens import content_of
from zoo.readers.text.tokenizer_files import LARGEST_FILE
from zoo.storage.json_files import read_named_json

_EXTRA_IDS = 100  # of T5
_EXTRA_IDS_OF_BYTES = 125  # of ByT5
_OFFSET = 103  # of the ids of PEGASUS from those of its pieces


def definition_of(folder, kind, config, side):
    """Returns a definition, and a dictionary of the special tokens to use if no file names them.

    Args:
        folder: The folder.
        kind: `"Bert"` for a `BertTokenizer` of transformers; `""` if unknown.
        config: Content of `tokenizer_config.json`.
        side: `"source"` or `"target"`, for Marian, which has two sides.

    Raises:
        ValueError: If the folder has no such files, or they require something that is not
            implemented.
    """
    if kind == "ByT5":
        return _byt5(config.get("extra_ids", _EXTRA_IDS_OF_BYTES))
    files = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if {"source.spm", "target.spm", "vocab.json"} <= files:
        return _marian(folder, side)
    if {"sentencepiece.bpe.model", "vocab.json"} <= files and kind == "M2M100":
        return _m2m_100(folder, config.get("language_codes") or "m2m100")
    if "sentencepiece.bpe.model" in files and kind in OF_MBART:
        return _mbart(folder, OF_MBART[kind])
    if "sentencepiece.bpe.model" in files and kind == "XLMRoberta":
        return _xlm_roberta(folder)
    if {"vocab.json", "merges.txt"} <= files:
        return _byte_pairs(folder, kind, config)
    if "vocab.txt" in files and kind == "Esm":
        return _esm(folder, config)
    if "vocab.txt" in files:
        return _word_piece(folder, kind, config)
    if "spiece.model" in files and kind == "Siglip":
        return _siglip(folder, config)
    if "spiece.model" in files and kind == "Pegasus":
        return _pegasus(folder, config)
    if "spiece.model" in files and kind in ("T5", ""):
        return _t5(folder, config.get("extra_ids", _EXTRA_IDS))
    if "spm.model" in files and kind in ("DebertaV2", ""):
        return _deberta(folder, config)
    if "tokenizer.model" in files and kind in ("Llama", ""):
        return _llama(folder, config)
    reader = f"{kind}Tokenizer" if kind else "a model"
    raise ValueError(
        f"for {reader}, there should be tokenizer.json, vocab.txt, vocab.json with "
        "merges.txt, source.spm with target.spm and vocab.json, spiece.model (T5, PEGASUS, "
        "SigLIP), spm.model (DeBERTa), sentencepiece.bpe.model (XLM-RoBERTa, mBART, with "
        "vocab.json M2M100) or tokenizer.model (Llama). Found: "
        f"{', '.join(sorted(files)) or 'nothing'}. "
        "From files of other names, transformers writes tokenizer.json: "
        "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
    )


def _word_piece(folder, kind, config):
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    vocabulary = {line.rstrip("\r"): number for number, line in enumerate(lines)}
    if kind not in ("Bert", "DistilBert", "Electra", "MPNet", ""):
        raise ValueError(f"vocab.txt of {kind} is not implemented.")
    defaults = special_tokens.MPNET if kind == "MPNet" else special_tokens.BERT
    tokens = {**defaults, **{key: content_of(config[key]) for key in defaults if config.get(key)}}
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


def _esm(folder, config):
    """Each amino acid is a token: byte pairs that are never merged."""
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    vocabulary = {line.strip(): number for number, line in enumerate(lines)}
    named = {key: content_of(config[key]) for key in special_tokens.ESM if config.get(key)}
    tokens = {**special_tokens.ESM, **named}
    marked = [token for token in vocabulary if token.startswith("<") and token.endswith(">")]
    long = [token for token in vocabulary if len(token) > 1 and token not in marked]
    if long:
        raise ValueError(
            f"vocab.txt of ESM with tokens of several characters, such as {long[0]!r}, is not "
            "implemented."
        )
    definition = {
        "model": {
            "type": "BPE",
            "vocab": vocabulary,
            "merges": [],
            "unk_token": tokens["unk_token"],
            "fuse_unk": True,
        },
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}]},
    }
    definition["post_processor"] = _around(tokens["cls_token"], tokens["eos_token"], vocabulary)
    del definition["post_processor"]["pair"][3]  # the start token of the second text
    _mark_special(definition, [*tokens.values(), *marked], vocabulary)
    return definition, tokens


def _byte_pairs(folder, kind, config):
    vocabulary = read_named_json(folder / "vocab.json", LARGEST_FILE)
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    lines = lines[1:] if lines[0].startswith("#version") else lines
    if kind not in ("CLIP", "GPT2", "Qwen2", "Roberta"):
        raise ValueError(f"vocab.json with merges.txt of {kind or 'an unknown model'}.")
    named = {key: content_of(config[key]) for key in special_tokens.ROBERTA if config.get(key)}
    tokens = {**special_tokens.USUAL[kind], **named}
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
        definition["pre_tokenizer"] = _sequence(
            _split(pretokenizers.QWEN2, "Isolated", False), from_pattern
        )
    if kind == "CLIP":
        white_space = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
        definition["normalizer"] = {
            "type": "Sequence",
            "normalizers": [{"type": "NFC"}, white_space, {"type": "Lowercase"}],
        }
        definition["pre_tokenizer"] = _sequence(
            _split(pretokenizers.CLIP, "Removed", True), byte_level
        )
    around = {"Roberta": ("cls_token", "sep_token"), "CLIP": ("bos_token", "eos_token")}
    if kind in around:
        start, end = (tokens[key] for key in around[kind])
        definition["post_processor"] = {
            "type": "RobertaProcessing",
            "cls": [start, vocabulary[start]],
            "sep": [end, vocabulary[end]],
        }
    if kind == "GPT2" and config.get("add_bos_token"):
        start = tokens["bos_token"]
        definition["post_processor"] = _around(start, None, vocabulary)
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
    _mark_special(definition, [*special_tokens.M2M100.values(), *tokens], ids)
    definition["post_processor"] = _behind("</s>", ids["</s>"])
    return definition, special_tokens.M2M100


def _mbart(folder, languages):
    definition, _ = read_model(folder / "sentencepiece.bpe.model")
    pieces = [piece for piece, *_ in definition["model"]["vocab"][3:]]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces, *languages, "<mask>"]
    ids = {token: number for number, token in enumerate(tokens)}
    definition["model"]["ids"] = ids
    definition["added_tokens"] = []
    special = special_tokens.ROBERTA
    _mark_special(definition, [*special.values(), *languages], ids, ("<mask>",))
    definition["post_processor"] = _behind("</s>", ids["</s>"])
    return definition, special


def _xlm_roberta(folder):
    definition, tokens = _mbart(folder, ())
    ids = definition["model"]["ids"]
    first, last = ([tokens[name], ids[tokens[name]]] for name in ("cls_token", "sep_token"))
    definition["post_processor"] = {"type": "RobertaProcessing", "cls": first, "sep": last}
    return definition, tokens


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


def _byt5(extra_ids):
    """A token for each byte, which needs no file."""
    special = ["<pad>", "</s>", "<unk>"]
    first = len(special)
    vocabulary = {character: first + byte for byte, character in enumerate(BYTE_ALPHABET)}
    ids = {token: special.index(token) for token in special}
    ids |= {f"<extra_id_{place}>": first + 256 + place for place in range(extra_ids)}
    definition = {
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        "decoder": {"type": "ByteLevel"},
        "post_processor": _behind("</s>", ids["</s>"]),
    }
    _mark_special(definition, ids, ids, lstrip=special)
    for token in definition["added_tokens"]:
        token["rstrip"] = token["lstrip"]
    return definition, special_tokens.T5


def _pegasus(folder, config):
    if config.get("offset", _OFFSET) != _OFFSET:
        raise ValueError(f"spiece.model with offset={config['offset']} is not implemented.")
    definition, roles = read_model(folder / "spiece.model")
    special = ["<pad>", "</s>", "<mask_1>", "<mask_2>"]
    special += [f"<unk_{number}>" for number in range(2, _OFFSET)]
    pieces = [piece for piece, *_ in definition["model"]["vocab"]]
    ids = {piece: number + _OFFSET for number, piece in enumerate(pieces)}
    ids |= {token: number for number, token in enumerate(special)}
    definition["model"]["ids"] = ids
    tokens = {**special_tokens.PEGASUS, "unk_token": roles["unknown"]}
    definition["added_tokens"] = []
    _mark_special(definition, [*special, *tokens.values()], ids)
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
    tokens = {**special_tokens.SIGLIP, "unk_token": roles["unknown"]}
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
    ids.setdefault(special_tokens.BERT["mask_token"], len(ids))
    definition["added_tokens"] = []
    _mark_special(definition, special_tokens.BERT.values(), ids)
    start, end = special_tokens.BERT["cls_token"], special_tokens.BERT["sep_token"]
    definition["post_processor"] = {
        "type": "BertProcessing",
        "cls": [start, ids[start]],
        "sep": [end, ids[end]],
    }
    return definition, special_tokens.BERT


def _llama(folder, config):
    if not config.get("legacy", True):
        raise ValueError("tokenizer.model with legacy=false is not implemented.")
    definition, roles = read_model(folder / "tokenizer.model")
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": roles["unknown"]}
    ids = {piece: number for number, (piece, *_) in enumerate(definition["model"]["vocab"])}
    definition["added_tokens"] = []
    _mark_special(definition, tokens.values(), ids)
    start = "<s>" if config.get("add_bos_token", True) else None
    end = "</s>" if config.get("add_eos_token", False) else None
    definition["post_processor"] = _around(start, end, ids)
    return definition, tokens


def _around(start, end, ids):
    """Returns the template with special tokens, or `None`, around each text, also in a pair."""
    items = [{"Sequence": {"id": "A", "type_id": 0}}]
    if start is not None:
        items.insert(0, {"SpecialToken": {"id": start, "type_id": 0}})
    if end is not None:
        items.append({"SpecialToken": {"id": end, "type_id": 0}})
    special = [token for token in (start, end) if token is not None]
    return {
        "type": "TemplateProcessing",
        "single": items,
        "pair": items + [_for_second_text(item) for item in items],
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in special
        },
    }


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
